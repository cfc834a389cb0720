# The build environment of stdenv.mkDerivation: inputs, hooks, phases. Names and
# semantics are nixpkgs'. Sourced as $stdenv/setup by the builder, nix develop and nix-shell.
set -eE -o pipefail
shopt -s inherit_errexit
# bash 5.2 complains about itself when set -e ends it inside an eval; exit does not.
trap '_status=$?; [[ $- != *e* ]] || exit $_status' ERR

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800} TZ=UTC LC_ALL=${LC_ALL:-C.UTF-8}
export SHELL CONFIG_SHELL=$SHELL

die() { echo "error: $1" >&2; exit 1; }
echoCmd() { printf '%s:' "$1"; shift; printf ' %q' "$@"; echo; }
stripHash() { local base=${1##*/}; [[ $base =~ ^[a-z0-9]{32}- ]] && base=${base:33}; echo "$base"; }

# addToSearchPath VAR DIR: append DIR to a colon-separated variable if DIR exists.
addToSearchPath() {
    [[ ! -d $2 ]] || export "$1=${!1:+${!1}:}$2"
}

# concatTo ARRAY VAR...: append to ARRAY the words of each variable (or its elements).
concatTo() {
    local -
    # Words are split, but a * in a flag is no file name.
    set -o noglob
    local -n target=$1
    shift
    local name
    for name; do
        local -n source=$name
        if [[ $(declare -p "$name" 2>/dev/null) == "declare -a"* ]]; then
            target+=("${source[@]}")
        else
            target+=(${source-})
        fi
        unset -n source
    done
}

# ---- hooks

_runOne() {
    if declare -F "$1" >/dev/null; then "$@"; else eval "$1"; fi
}

# runHook NAME: the function or variable NAME, then what setup hooks put in NAMEs.
runHook() {
    local name=$1 hook
    shift
    local -n hooks="${name%Hook}Hooks"
    if declare -F "$name" >/dev/null; then
        "$name" "$@"
    elif [[ -n ${!name-} ]]; then
        eval "${!name}"
    fi
    for hook in "${hooks[@]}"; do _runOne "$hook" "$@"; done
}

declare -a envHooks=() inputsNative=() inputsTarget=()
# addEnvHooks OFFSET FUNCTION...: call each function with every input. The offset is
# accepted for nixpkgs' sake; there is one class of inputs with search paths here.
addEnvHooks() { shift; envHooks+=("$@"); }

# ---- inputs

# addInput native|target PATH: record an input once, with what it propagates.
addInput() {
    local kind=$1 dep=$2 more
    local -n list=inputs${kind^}
    [[ " ${list[*]} " != *" $dep "* ]] || return 0
    [[ -e $dep ]] || die "input $dep does not exist"
    list+=("$dep")
    local support=$dep/nix-support
    if [[ -e $support/propagated-native-build-inputs ]]; then
        for more in $(<"$support/propagated-native-build-inputs"); do addInput native "$more"; done
    fi
    if [[ -e $support/propagated-build-inputs ]]; then
        for more in $(<"$support/propagated-build-inputs"); do addInput "$kind" "$more"; done
    fi
}

addCompilerFlags() {
    [[ ! -d $1/include ]] || NIX_CFLAGS_COMPILE+=" -isystem $1/include"
    [[ ! -d $1/lib ]] || NIX_LDFLAGS+=" -L$1/lib"
}

activateInputs() {
    local dep hook
    local -a everything searched
    PATH=
    for dep in $initialPath; do addToSearchPath PATH "$dep/bin"; done
    HOST_PATH=$PATH
    for dep in $stdenvCc ${nativeBuildInputs-} ${propagatedNativeBuildInputs-}; do
        addInput native "$dep"
    done
    for dep in ${buildInputs-} ${propagatedBuildInputs-}; do addInput target "$dep"; done

    everything=("${inputsNative[@]}" "${inputsTarget[@]}")
    searched=("${inputsTarget[@]}")
    [[ -n ${strictDeps-} ]] || searched=("${everything[@]}")
    for ((i = ${#inputsTarget[@]} - 1; i >= 0; i--)); do
        dep=${inputsTarget[i]}
        [[ ! -d $dep/bin ]] || HOST_PATH=$dep/bin:$HOST_PATH
        [[ ! -d $dep/bin || -n ${strictDeps-} ]] || PATH=$dep/bin:$PATH
    done
    for ((i = ${#inputsNative[@]} - 1; i >= 0; i--)); do
        dep=${inputsNative[i]}
        [[ ! -d $dep/bin ]] || PATH=$dep/bin:$PATH
    done
    export PATH HOST_PATH
    for dep in "${everything[@]}"; do
        if [[ -f $dep ]]; then source "$dep"; fi
        if [[ -f $dep/nix-support/setup-hook ]]; then source "$dep/nix-support/setup-hook"; fi
    done
    for dep in "${searched[@]}"; do
        addCompilerFlags "$dep"
        for hook in "${envHooks[@]}"; do "$hook" "$dep"; done
    done
}

# ---- text substitution

# substituteStream TEXTVAR WHAT OPTIONS...: apply --replace… and --subst-var… options.
substituteStream() {
    local -n _text=$1
    local what=$2 option pattern replacement
    shift 2
    while (($#)); do
        option=$1
        case $option in
            --replace | --replace-warn | --replace-fail | --replace-quiet)
                pattern=$2 replacement=$3
                shift 3
                if [[ $_text != *"$pattern"* ]]; then
                    local problem="substitute: '$pattern' does not occur in $what"
                    [[ $option != --replace-fail ]] || die "$problem"
                    [[ $option == --replace-quiet ]] || echo "warning: $problem" >&2
                fi
                ;;
            --subst-var) pattern=@$2@ replacement=${!2} && shift 2 ;;
            --subst-var-by) pattern=@$2@ replacement=$3 && shift 3 ;;
            *) die "substitute: unknown option '$option'" ;;
        esac
        _text=${_text//"$pattern"/"$replacement"}
    done
}

substitute() {
    local input=$1 output=$2 content
    shift 2
    [[ -f $input ]] || die "substitute: file '$input' does not exist"
    IFS= read -r -d '' content <"$input" || true
    substituteStream content "file '$input'" "$@"
    printf '%s' "$content" >"$output"
}

substituteInPlace() {
    local -a files=()
    local file
    while (($#)) && [[ $1 != --* ]]; do files+=("$1"); shift; done
    for file in "${files[@]}"; do substitute "$file" "$file" "$@"; done
}

# ---- phases

unpackFile() {
    curSrc=$1
    echo "unpacking source archive $curSrc"
    if [[ -n ${unpackCmd-} ]]; then runHook unpackCmd; return; fi
    if [[ -d $curSrc ]]; then
        cp -r --preserve=timestamps --no-target-directory -- "$curSrc" "$(stripHash "$curSrc")"
        return
    fi
    case $curSrc in
        *.tar | *.tar.* | *.tgz | *.txz | *.tbz2) tar xf "$curSrc" ;;
        *) die "do not know how to unpack source archive $curSrc" ;;
    esac
}

unpackPhase() {
    runHook preUnpack
    local dir before item
    [[ -n ${srcs-}${src-} ]] || die 'variable $src or $srcs should point to the source'
    before=$(printf '%s\n' */)
    for item in ${srcs:-$src}; do unpackFile "$item"; done
    if [[ -n ${setSourceRoot-} ]]; then
        runHook setSourceRoot
    elif [[ -z ${sourceRoot-} ]]; then
        for dir in */; do
            if [[ $'\n'$before$'\n' == *$'\n'$dir$'\n'* || ! -d $dir ]]; then continue; fi
            [[ -z ${sourceRoot-} ]] || die "unpacker produced multiple directories: set sourceRoot"
            sourceRoot=${dir%/}
        done
        [[ -n ${sourceRoot-} ]] || die "unpacker produced no directory"
    fi
    echo "source root is $sourceRoot"
    [[ -n ${dontMakeSourcesWritable-} ]] || chmod -R u+w -- "$sourceRoot"
    runHook postUnpack
}

patchPhase() {
    runHook prePatch
    local patch
    for patch in ${patches-}; do
        echo "applying patch $patch"
        patch ${patchFlags:--p1} <"$patch"
    done
    runHook postPatch
}

configurePhase() {
    runHook preConfigure
    if [[ -z ${configureScript-} && -x ./configure ]]; then configureScript=./configure; fi
    if [[ -n ${configureScript-} ]]; then
        local -a script=($configureScript) flags=()
        [[ -n ${dontAddPrefix-} || -z ${prefix-} ]] || flags+=("${prefixKey:---prefix=}$prefix")
        if [[ -f ${script[0]} ]]; then
            ! grep -q dependency-tracking "${script[0]}" || flags+=(--disable-dependency-tracking)
            [[ -n ${dontDisableStatic-} ]] || ! grep -q enable-static "${script[0]}" \
                || flags+=(--disable-static)
        fi
        concatTo flags configureFlags configureFlagsArray
        echoCmd "configure flags" "${flags[@]}"
        "${script[@]}" "${flags[@]}"
    else
        echo "no configure script, doing nothing"
    fi
    runHook postConfigure
}

_make() {
    local -a flags=(${enableParallelBuilding:+-j$NIX_BUILD_CORES} SHELL="$SHELL")
    [[ -z ${makefile-} ]] || flags+=(-f "$makefile")
    concatTo flags makeFlags makeFlagsArray
    echoCmd "make flags" "${flags[@]}" "$@"
    make "${flags[@]}" "$@"
}

_hasMakefile() { [[ -n ${makefile-} || -e Makefile || -e makefile || -e GNUmakefile ]]; }

buildPhase() {
    runHook preBuild
    if [[ -z ${makeFlags-} ]] && ! _hasMakefile; then
        echo "no Makefile or custom buildPhase, doing nothing"
    else
        local -a flags=()
        concatTo flags buildFlags buildFlagsArray
        _make "${flags[@]}"
    fi
    runHook postBuild
}

checkPhase() {
    runHook preCheck
    local -a flags=()
    concatTo flags checkFlags checkFlagsArray
    if [[ -z ${checkTarget-} ]] && _hasMakefile; then
        if make -n ${makefile:+-f "$makefile"} check >/dev/null 2>&1; then checkTarget=check
        elif make -n ${makefile:+-f "$makefile"} test >/dev/null 2>&1; then checkTarget=test; fi
    fi
    if [[ -n ${checkTarget-} ]]; then
        _make "${flags[@]}" $checkTarget
    else
        echo "no check target, doing nothing"
    fi
    runHook postCheck
}

installPhase() {
    runHook preInstall
    if _hasMakefile; then
        [[ -z ${prefix-} ]] || mkdir -p "$prefix"
        local -a flags=()
        concatTo flags installFlags installFlagsArray
        _make "${flags[@]}" ${installTargets:-install}
    else
        echo "no Makefile or custom installPhase, doing nothing"
    fi
    runHook postInstall
}

installCheckPhase() {
    runHook preInstallCheck
    if [[ -n ${installCheckTarget-} ]]; then _make $installCheckTarget; fi
    runHook postInstallCheck
}

runPhase() {
    local phase=$1
    case $phase in
        unpackPhase | patchPhase | configurePhase | buildPhase | installPhase | fixupPhase)
            local skip=${phase%Phase} && skip=dont${skip^}
            [[ -z ${!skip-} ]] || return 0
            ;;
        checkPhase) [[ -n ${doCheck-} ]] || return 0 ;;
        installCheckPhase) [[ -n ${doInstallCheck-} ]] || return 0 ;;
        distPhase) [[ -n ${doDist-} ]] || return 0 ;;
    esac
    echo "Running phase: $phase"
    # Nix shows the phase where it is told of it: descriptor $NIX_LOG_FD is its own.
    [[ -z ${NIX_LOG_FD-} ]] ||
        echo "@nix { \"action\": \"setPhase\", \"phase\": \"$phase\" }" >&"$NIX_LOG_FD"
    eval "${!phase:-$phase}"
    [[ $phase != unpackPhase ]] || cd -- "${sourceRoot:-.}"
}

exitHandler() {
    local status=$?
    trap - ERR EXIT
    set +e
    if ((status == 0)); then runHook exitHook; else runHook failureHook; fi
    exit "$status"
}

genericBuild() {
    local phase
    trap exitHandler EXIT
    if [[ -n ${buildCommandPath-} ]]; then source "$buildCommandPath"; return; fi
    if [[ -n ${buildCommand-} ]]; then eval "$buildCommand"; return; fi
    : "${phases:=${prePhases-} unpackPhase patchPhase ${preConfigurePhases-} configurePhase \
        ${preBuildPhases-} buildPhase checkPhase ${preInstallPhases-} installPhase \
        ${preFixupPhases-} fixupPhase installCheckPhase ${preDistPhases-} distPhase ${postPhases-}}"
    for phase in $phases; do runPhase "$phase"; done
}

# ---- start

[[ $NIX_BUILD_CORES != 0 ]] || NIX_BUILD_CORES=$(getconf _NPROCESSORS_ONLN)
export NIX_BUILD_CORES
: "${outputs:=out}" "${preHook:=}"
source "$fixupScript"
prefix=${prefix-${out-${!outputBin}}}
# Uniform names inside one output, whatever the build folder: symbols the compiler
# invents are seeded from the output path.
export NIX_CFLAGS_COMPILE="${NIX_CFLAGS_COMPILE-} -frandom-seed=${out:11:10}"
export NIX_LDFLAGS="${NIX_LDFLAGS-}"
[[ -n ${NIX_DONT_SET_RPATH-} ]] || NIX_LDFLAGS="-rpath ${!outputLib}/lib $NIX_LDFLAGS"
activateInputs
eval "$preHook"
runHook postHook
