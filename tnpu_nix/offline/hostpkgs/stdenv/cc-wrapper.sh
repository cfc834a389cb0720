#!@shell@
# @name@ with the paths of a derivation's inputs. NIX_CFLAGS_COMPILE comes after the
# arguments, so that it has the last word (-Wno-error beats a package's -Werror).
linking=$NIX_CFLAGS_LINK inputs=
for arg; do
    case $arg in
        -c | -S | -E | -M | -MM | -fsyntax-only) linking= ;;
        -?*) ;;
        *) inputs=yes ;;
    esac
done
# Without an input (gcc --version, gcc -print-…) there is nothing to add flags for.
[[ -n $inputs ]] || exec @program@ "$@"
exec @program@ -B@bin@ @flags@ "$@" $NIX_CFLAGS_COMPILE $linking
