# makeWrapper PROGRAM WRAPPER OPTIONS… and wrapProgram PROGRAM OPTIONS…: nixpkgs' options
# --set, --set-default, --unset, --prefix, --suffix, --add-flags.
makeWrapper() {
    local program=$1 wrapper=$2 flags=
    shift 2
    mkdir -p "$(dirname "$wrapper")"
    {
        echo "#!$SHELL -e"
        while (($#)); do
            case $1 in
                --set) printf 'export %s=%q\n' "$2" "$3" && shift 3 ;;
                --set-default) printf 'export %s=${%s-%q}\n' "$2" "$2" "$3" && shift 3 ;;
                --unset) echo "unset $2" && shift 2 ;;
                --prefix) printf 'export %s=%q${%s:+%q$%s}\n' "$2" "$4" "$2" "$3" "$2" && shift 4 ;;
                --suffix) printf 'export %s=${%s:+$%s%q}%q\n' "$2" "$2" "$2" "$3" "$4" && shift 4 ;;
                --add-flags) flags+=" $2" && shift 2 ;;
                *) die "makeWrapper: unknown option '$1'" ;;
            esac
        done
        printf 'exec %q%s "$@"\n' "$program" "$flags"
    } >"$wrapper"
    chmod +x "$wrapper"
}

wrapProgram() {
    local program=$1 hidden
    hidden=$(dirname "$1")/.$(basename "$1")-wrapped
    shift
    mv "$program" "$hidden"
    makeWrapper "$hidden" "$program" "$@"
}
