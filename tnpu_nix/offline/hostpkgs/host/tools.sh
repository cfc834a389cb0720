# Shell functions for derivations that copy from the machine. $apt names the Debian
# packages to install when a file is missing; $runtimeLibs lists the store's own
# library folders, whose libraries are referenced and not copied again.

multiarch=/usr/lib/x86_64-linux-gnu

die() {
    echo "hostpkgs: $1" >&2
    echo "hostpkgs: $2" >&2
    exit 1
}

# need FILE...: fail with the Debian package to install unless every file is there.
need() {
    local file
    for file; do
        [[ -e $file ]] || die "$file is not on this machine" \
            "install it with: apt-get install ${apt:-(see debian-packages.txt)}"
    done
}

# adopt_elf FILE...: make ELF files in $out independent of the machine: their shared
# libraries are copied to $out/lib, and loader and run path point into the store.
adopt_elf() {
    local file lib
    local -a copied=()
    for file; do
        for lib in $(ldd "$file" 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\).*/\1/p'); do
            if in_runtime "${lib##*/}" || [[ -e $out/lib/${lib##*/} ]]; then continue; fi
            mkdir -p "$out/lib"
            install -m 755 "$lib" "$out/lib/"
            copied+=("$out/lib/${lib##*/}")
        done
    done
    # Only now are all libraries in place: a run path is cut down to where some are found.
    for file in "${copied[@]}" "$@"; do patch_elf "$file"; done
}

in_runtime() {
    local dir
    for dir in $runtimeLibs; do
        [[ ! -e $dir/$1 ]] || return 0
    done
    return 1
}

patch_elf() {
    local file=$1 dirs=${runtimeLibs// /:}
    chmod u+w "$file"
    patchelf --set-rpath "$out/lib:$dirs" "$file"
    patchelf --shrink-rpath "$file"
    # The loader comes last: patchelf 0.18 breaks a program that is not position independent,
    # as Debian's Python is, when it makes room for a run path after it.
    if patchelf --print-interpreter "$file" >/dev/null 2>&1; then
        patchelf --set-interpreter "$loader" "$file"
    fi
}

# copy_programs NAME...: copies of programs in /usr/bin that run with the store alone.
copy_programs() {
    local name
    mkdir -p "$out/bin"
    for name; do
        need "/usr/bin/$name"
        install -m 755 "/usr/bin/$name" "$out/bin/$name"
    done
    adopt_elf "${@/#/$out/bin/}"
}

# link_programs NAME...: links to the machine's programs, for build time only. Names
# that go through /etc/alternatives do not resolve in a sandbox: give the real ones.
link_programs() {
    local name
    mkdir -p "$out/bin"
    for name; do
        need "/usr/bin/$name"
        ln -s "$(readlink -f "/usr/bin/$name")" "$out/bin/$name"
    done
}
