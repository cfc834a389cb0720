# Copy modules of Debian's Python packages into $out/$sitePackages. Run by
# packages.nix with $modules, $optional and $dist (the name of the metadata folder).
from=/usr/lib/python3/dist-packages
to=$out/$sitePackages
mkdir -p "$to"
for module in $modules; do
    need "$from/$module"
    cp -rL "$from/$module" "$to/"
done
for module in $optional; do
    [[ ! -e $from/$module ]] || cp -rL "$from/$module" "$to/"
done
shopt -s nullglob
for one in $dist $optional; do
    # Debian spells a distribution's name with capitals in some versions and not in others.
    for info in "$from"/*.dist-info "$from"/*.egg-info; do
        name=${info##*/}
        name=${name%%-*}
        if [[ ${name,,} == "${one,,}" ]]; then cp -rL "$info" "$to/"; fi
    done
done
find "$to" -name __pycache__ -prune -exec rm -rf {} +
"$interpreter" -m compileall -q --invalidation-mode unchecked-hash "$to"
if [[ -n $propagated ]]; then
    mkdir -p "$out/nix-support"
    echo "$propagated" >"$out/nix-support/propagated-build-inputs"
fi
