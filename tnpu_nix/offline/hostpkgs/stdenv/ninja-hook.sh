# Setup hook of ninja: build, check and install phases, used where a build.ninja is.

ninjaRun() {
    local -a flags=("-j$NIX_BUILD_CORES")
    # Unset means parallel: ninja knows every dependency. Set and empty means serial.
    [[ -n ${enableParallelBuilding-1} ]] || flags=(-j1)
    concatTo flags ninjaFlags ninjaFlagsArray
    echoCmd "ninja" "${flags[@]}" "$@"
    TERM=dumb ninja "${flags[@]}" "$@"
}

ninjaBuildPhase() {
    runHook preBuild
    local -a targets=()
    concatTo targets buildFlags buildFlagsArray
    ninjaRun "${targets[@]}"
    runHook postBuild
}

ninjaCheckPhase() {
    runHook preCheck
    local -a targets=()
    concatTo targets checkFlags checkFlagsArray
    ninjaRun "${targets[@]}" "${checkTarget:-test}"
    runHook postCheck
}

ninjaInstallPhase() {
    runHook preInstall
    local -a targets=(${installTargets:-install})
    concatTo targets installFlags installFlagsArray
    ninjaRun "${targets[@]}"
    runHook postInstall
}

[[ -n ${dontUseNinjaBuild-} || -n ${buildPhase-} ]] || buildPhase=ninjaBuildPhase
[[ -n ${dontUseNinjaCheck-} || -n ${checkPhase-} ]] || checkPhase=ninjaCheckPhase
[[ -n ${dontUseNinjaInstall-} || -n ${installPhase-} ]] || installPhase=ninjaInstallPhase
# cmake generates for ninja as soon as ninja is an input, as in nixpkgs.
export CMAKE_GENERATOR=Ninja
