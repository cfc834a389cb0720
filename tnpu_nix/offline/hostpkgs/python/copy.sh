# Copy the machine's Python into $out, laid out as upstream does (site-packages instead
# of Debian's dist-packages). Run by default.nix.
need /usr/bin/python3
host=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
asked=${libPrefix#python}
[[ $asked == 3 || $asked == "$host" ]] || die \
    "Python $asked is asked for, but /usr/bin/python3 of this machine is $host" \
    "set the Python version to $host (attribute python${host/./}), or use nixpkgs"
program=python$host
stdlib=$out/lib/$program

# _rebase: the build variables name $out instead of /usr.
_rebase() {
    local file
    for file in "$stdlib"/_sysconfigdata_*.py; do
        sed -i --follow-symlinks "/TZPATH/!s|/usr\([/' ]\)|$out\1|g" "$file"
    done
}

copy_runtime() {
    mkdir -p "$out/bin" "$out/lib" "$stdlib/site-packages"
    install -m 755 "/usr/bin/$program" "$out/bin/$program"
    ln -s "$program" "$out/bin/python3"
    ln -s "$program" "$out/bin/python"
    cp -r --no-preserve=mode,ownership "/usr/lib/$program/." "$stdlib/"
    [[ $libPrefix == "$program" ]] || ln -s "$program" "$out/lib/$libPrefix"
    # Tests, demos and what only Debian's layout needs; byte code goes by time stamps,
    # which are all the same in the store.
    (cd "$stdlib" && rm -rf test idlelib turtledemo ensurepip config-* \
        EXTERNALLY-MANAGED sitecustomize.py)
    find "$stdlib" -name __pycache__ -prune -exec rm -rf {} +
    sed -i 's/^    is_virtual_environment = .*/    is_virtual_environment = True/' "$stdlib/site.py"
    # A module until Python 3.12, a package from then on.
    local sysconfig=$stdlib/sysconfig.py
    [[ -e $sysconfig ]] || sysconfig=$stdlib/sysconfig/__init__.py
    sed -i 's/if sys.base_prefix != sys.prefix or hasattr(sys, "real_prefix"):/if True:/' \
        "$sysconfig"
    _rebase
    adopt_elf "$out/bin/$program" "$stdlib"/lib-dynload/*.so
    "$out/bin/$program" -m compileall -q --invalidation-mode unchecked-hash "$stdlib"
}

copy_with_headers() {
    need "/usr/include/$program/Python.h"
    mkdir -p "$out/bin" "$out/lib" "$out/include" "$out/nix-support"
    cp "$runtime/bin/$program" "$out/bin/"
    ln -s "$program" "$out/bin/python3"
    ln -s "$program" "$out/bin/python"
    cp -rsT --no-preserve=mode "$runtime/lib" "$out/lib"
    local file
    for file in "$stdlib"/_sysconfigdata_*.py; do
        cp --remove-destination "/usr/lib/$program/${file##*/}" "$file"
        rm -f "$stdlib/__pycache__/$(basename "$file" .py)".*
    done
    _rebase
    cp -r --no-preserve=mode "/usr/include/$program" "$out/include/"
    # Debian's pyconfig.h only includes the architecture's own.
    cp --remove-destination -t "$out/include/$program" \
        "/usr/include/x86_64-linux-gnu/$program/pyconfig.h"
    echo "$runtime" >"$out/nix-support/run-time"
    sed "s|@lib@|$libPrefix|;s|@out@|$out|" "$setupHook" >"$out/nix-support/setup-hook"
}
