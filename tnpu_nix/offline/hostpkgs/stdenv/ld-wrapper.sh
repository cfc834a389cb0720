#!@shell@
# The linker with the store's loader, and a run path for every store folder that it
# links from. Folders of inputs come before the machine's own.
args=()
for arg; do
    # gcc hands long command lines over in a file, quoted as for a shell.
    if [[ $arg == @* && -f ${arg#@} ]]; then
        mapfile -t -O ${#args[@]} args < <(/usr/bin/xargs printf '%s\n' <"${arg#@}")
    else
        args+=("$arg")
    fi
done
mode=dynamic
for arg in "${args[@]}"; do
    case $arg in
        -r | -i | --relocatable) exec @program@ "$@" ;;
        -static | --no-dynamic-linker | --version | -v | -V) mode=static ;;
    esac
done

first=() last=($NIX_LDFLAGS) previous=
for arg in "${last[@]}"; do [[ $arg != -L/* ]] || first+=("$arg"); done
add_rpath() {
    [[ $1 == "$NIX_STORE"/* && " ${last[*]} " != *" -rpath $1 "* ]] || return 0
    compgen -G "$1/*.so*" >/dev/null && last+=(-rpath "$1")
}
if [[ $mode == dynamic ]]; then
    [[ -n ${NIX_DONT_SET_RPATH-} ]] || for arg in "${args[@]}" "${last[@]}"; do
        case $arg in
            -L/*) add_rpath "${arg#-L}" ;;
            /*.so | /*.so.*) add_rpath "${arg%/*}" ;;
        esac
        [[ $previous != -L ]] || add_rpath "$arg"
        previous=$arg
    done
    last+=(-dynamic-linker @loader@ -rpath @glibc@/lib -rpath @gcclib@/lib)
fi
exec @program@ "${first[@]}" "$@" "${last[@]}"
