# fixupPhase: multiple outputs, stripping, shebangs, run paths. Sourced by setup.sh.

# _assignFirst VAR NAME...: set VAR to the first NAME that is an output, unless set.
_assignFirst() {
    local var=$1 name
    shift
    [[ -z ${!var-} ]] || return 0
    for name; do
        if [[ -n ${!name-} && " $outputs " == *" $name "* || $name == REMOVE ]]; then
            declare -g "$var=$name"
            return
        fi
    done
}

REMOVE=REMOVE
_assignFirst outputDev dev out
_assignFirst outputBin bin out
_assignFirst outputLib lib out
_assignFirst outputDoc doc out
for _output in outputDev outputBin outputLib outputDoc; do
    _assignFirst "$_output" "${outputs%% *}"
done
_assignFirst outputMan man "$outputBin"
_assignFirst outputInfo info "$outputBin"
_assignFirst outputInclude "$outputDev"

_multipleOutputs() { [[ $outputs == *" "* ]]; }

_outputConfigureFlags() {
    _multipleOutputs && [[ -n ${setOutputFlags-1} && -z ${dontAddPrefix-} ]] || return 0
    configureFlags="\
        --bindir=${!outputBin}/bin --sbindir=${!outputBin}/sbin \
        --includedir=${!outputInclude}/include --mandir=${!outputMan}/share/man \
        --infodir=${!outputInfo}/share/info --docdir=${!outputDoc}/share/doc/${pname-$name} \
        --libdir=${!outputLib}/lib --libexecdir=${!outputLib}/libexec \
        --localedir=${!outputLib}/share/locale ${configureFlags-}"
    installFlags="pkgconfigdir=${!outputDev}/lib/pkgconfig \
        aclocaldir=${!outputDev}/share/aclocal ${installFlags-}"
}
preConfigureHooks+=(_outputConfigureFlags)

# moveToOutput PATTERN DIR: move matching files of all outputs into DIR, the path of an
# output, or remove them if DIR is REMOVE.
moveToOutput() {
    local pattern=$1 target=$2 output path name
    for output in $(getAllOutputNames); do
        [[ ${!output} != "$target" ]] || continue
        for path in "${!output}"/$pattern; do
            [[ -e $path || -L $path ]] || continue
            name=${path#"${!output}"/}
            if [[ $target == REMOVE ]]; then
                echo "Removing $path"
                rm -rf "$path"
            else
                echo "Moving $path to $target/$name"
                mkdir -p "$(dirname "$target/$name")"
                if [[ -d $path && -d $target/$name ]]; then
                    cp -a "$path/." "$target/$name/"
                    rm -rf "$path"
                else
                    mv "$path" "$target/$name"
                fi
            fi
            rmdir --ignore-fail-on-non-empty -p "$(dirname "$path")" 2>/dev/null || true
        done
    done
}

getAllOutputNames() { echo "$outputs"; }

_moveOutputs() {
    _multipleOutputs || return 0
    local file
    moveToOutput share/info "${!outputInfo}"
    moveToOutput share/doc "${!outputDoc}"
    moveToOutput share/man "${!outputMan}"
    [[ -n ${moveToDev-1} ]] || return 0
    moveToOutput include "${!outputInclude}"
    for file in lib/pkgconfig share/pkgconfig lib/cmake share/aclocal; do
        moveToOutput "$file" "${!outputDev}"
    done
    for file in "${!outputDev}"/{lib,share}/pkgconfig/*.pc; do
        [[ ! -f $file ]] || sed -i "/^includedir=/s,=.*/include,=${!outputInclude}/include," "$file"
    done
}
preFixupHooks+=(_moveOutputs)

# The dev output brings the others along, so that depending on it is enough.
_propagateDev() {
    _multipleOutputs || return 0
    local output
    for output in ${propagatedBuildOutputs-$outputBin $outputInclude $outputLib}; do
        [[ $output == "$outputDev" || " ${propagatedBuildInputs-} " == *" ${!output} "* ]] \
            || propagatedBuildInputs="${propagatedBuildInputs-} ${!output}"
    done
}

_recordPropagated() {
    local support=${!outputDev}/nix-support
    _propagateDev
    if [[ -n ${propagatedBuildInputs// /} ]]; then
        mkdir -p "$support"
        echo $propagatedBuildInputs >"$support/propagated-build-inputs"
    fi
    if [[ -n ${propagatedNativeBuildInputs// /} ]]; then
        mkdir -p "$support"
        echo $propagatedNativeBuildInputs >"$support/propagated-native-build-inputs"
    fi
    if [[ -n ${setupHook-} ]]; then
        mkdir -p "$support"
        substitute "$setupHook" "$support/setup-hook" --subst-var-by out "$out"
    fi
}

_startsWith() {
    local head
    IFS= LC_ALL=C read -r -n ${#2} head <"$1" || true
    [[ $head == "$2" ]]
}
isELF() { _startsWith "$1" $'\177ELF'; }

# _stripIn FLAGS DIRS: strip the ELF files and archives below DIRS of $prefix.
_stripIn() {
    local flags=$1 dirs=$2 dir file
    for dir in $dirs; do
        [[ -e $prefix/$dir ]] || continue
        while IFS= read -r -d '' file; do
            if isELF "$file" || _startsWith "$file" '!<arch>'; then
                "${STRIP:-strip}" $flags "$file" 2>/dev/null || echo "could not strip $file"
            fi
        done < <(find "$prefix/$dir" -type f -print0 2>/dev/null)
    done
}

_strip() {
    [[ -z ${dontStrip-} ]] || return 0
    _stripIn "${stripDebugFlags:--S -p}" "${stripDebugList-lib lib32 lib64 libexec bin sbin}"
    _stripIn "${stripAllFlags:--s -p}" "${stripAllList-}"
}

_patchShebangsAuto() {
    [[ -n ${dontPatchShebangs-} || ! -e $prefix ]] || patchShebangs --host "$prefix"
}

# Drop run paths that no needed library is found in: they would be references.
_shrinkRpaths() {
    [[ -z ${dontPatchELF-} && -z ${crossBuild-} && -e $prefix ]] || return 0
    local file
    while IFS= read -r -d '' file; do
        if isELF "$file" && patchelf --print-rpath "$file" >/dev/null 2>&1; then
            patchelf --shrink-rpath --allowed-rpath-prefixes "$NIX_STORE" "$file"
            _checkNeeded "$file"
        fi
    done < <(find "$prefix" -type f \( -perm -0100 -o -name '*.so' -o -name '*.so.*' \) -print0)
}

# A loader or a library that only the machine has would be missing in an image: say so now.
_checkNeeded() {
    local file=$1 lib dir found
    local -a dirs
    found=$(patchelf --print-interpreter "$file" 2>/dev/null) || found=$NIX_STORE/
    [[ $found == "$NIX_STORE"/* ]] || die "$file is started by the machine's own $found: \
link it with \$CC, or set its interpreter with patchelf"
    IFS=: read -r -a dirs < <(patchelf --print-rpath "$file") || true
    for lib in $(patchelf --print-needed "$file"); do
        [[ $lib != ld-linux* && $lib != /* ]] || continue
        found=
        for dir in "${dirs[@]}"; do
            [[ ! -e ${dir//'$ORIGIN'/$(dirname "$file")}/$lib ]] || found=1
        done
        [[ -n $found ]] || die "$file needs $lib, which no input provides: \
add one to buildInputs, or build without it"
    done
}
fixupOutputHooks+=(_strip _patchShebangsAuto _shrinkRpaths)

# patchShebangs [--build|--host] PATH...: make #! lines of executables point at the store.
patchShebangs() {
    local search=$PATH file line interpreter found args time
    case $1 in
        --host) search=$HOST_PATH:$PATH && shift ;;
        --build) shift ;;
    esac
    while IFS= read -r -d '' file; do
        IFS= LC_ALL=C read -r -n 256 line <"$file" || true
        [[ $line == '#!'* && $line != "#!$NIX_STORE"* && $line != "#! $NIX_STORE"* ]] || continue
        read -r interpreter args <<<"${line:2}"
        if [[ $interpreter == */env ]]; then
            read -r interpreter args <<<"${args#-S }"
        fi
        found=$(_runTimeProgram "$(PATH=$search type -P "${interpreter##*/}")") || found=
        [[ -n $found ]] || continue
        echo "$file: interpreter directive changed from \"$line\" to \"#!$found${args:+ $args}\""
        # A configure that is newer than before would make make run autoconf.
        time=$(stat --format=%y "$file")
        sed -i -e "1s|.*|#!$found${args:+ $args}|" "$file"
        touch --date="$time" "$file"
    done < <(find "$@" -type f -perm -0100 -print0)
}

# _runTimeProgram PATH: the program itself, or the copy without build-time parts that its
# package names; nothing for a link to one of the machine's programs.
_runTimeProgram() {
    local program=$1 prefix=${1%/bin/*}
    [[ -n $program && $(readlink -f "$program") == "$NIX_STORE"/* ]] || return 1
    if [[ -f $prefix/nix-support/run-time ]]; then prefix=$(<"$prefix/nix-support/run-time"); fi
    echo "$prefix/bin/${program##*/}"
}

fixupPhase() {
    local output
    for output in $(getAllOutputNames); do
        [[ ! -e ${!output} ]] || chmod -R u+w,u-s,g-s "${!output}"
    done
    runHook preFixup
    for output in $(getAllOutputNames); do
        prefix=${!output} runHook fixupOutput
    done
    _recordPropagated
    runHook postFixup
}
