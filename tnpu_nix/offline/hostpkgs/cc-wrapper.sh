#!@shell@
# @name@ with the paths of a derivation's inputs. NIX_CFLAGS_COMPILE comes after the
# arguments, so that it has the last word (-Wno-error beats a package's -Werror).
cflags=NIX_CFLAGS_COMPILE before=NIX_CFLAGS_COMPILE_BEFORE link=NIX_CFLAGS_LINK
if [[ -z '@cross@' && -n ${crossBuild-} ]]; then
    cflags+=_FOR_BUILD before+=_FOR_BUILD link+=_FOR_BUILD
fi
linking= inputs=
for arg; do
    case $arg in
        -c | -S | -E | -M | -MM | -fsyntax-only) linking=no ;;
        -*) ;;
        *) inputs=yes ;;
    esac
done
# Without an input (gcc --version, gcc -print-…) there is nothing to add flags for.
[[ -n $inputs ]] || exec @program@ "$@"
after=(${!cflags})
[[ -n $linking ]] || after+=(${!link})
exec @program@ -B@bin@ @flags@ ${!before} "$@" "${after[@]}"
