# Setup hook of cmake: a configurePhase that configures out of tree, with the paths
# of all outputs given as absolute ones (exported targets then survive being moved).

addCMakeParams() {
    addToSearchPath CMAKE_PREFIX_PATH "$1"
}
addEnvHooks 0 addCMakeParams

cmakeConfigurePhase() {
    runHook preConfigure

    : "${cmakeBuildDir:=build}"
    : "${cmakeDir:=..}"
    if [[ -z ${dontUseCmakeBuildDir-} ]]; then
        mkdir -p "$cmakeBuildDir"
        cd "$cmakeBuildDir"
    fi

    local -a flags=()
    [[ -n ${dontAddPrefix-} ]] || flags+=("-DCMAKE_INSTALL_PREFIX=$prefix")
    flags+=(
        "-DCMAKE_C_COMPILER=$CC"
        "-DCMAKE_CXX_COMPILER=$CXX"
        "-DCMAKE_AR=$(command -v "$AR")"
        "-DCMAKE_RANLIB=$(command -v "$RANLIB")"
        "-DCMAKE_STRIP=$(command -v "$STRIP")"
        "-DCMAKE_INSTALL_BINDIR=${!outputBin}/bin"
        "-DCMAKE_INSTALL_SBINDIR=${!outputBin}/sbin"
        "-DCMAKE_INSTALL_INCLUDEDIR=${!outputInclude}/include"
        "-DCMAKE_INSTALL_LIBDIR=${!outputLib}/lib"
        "-DCMAKE_INSTALL_LIBEXECDIR=${!outputLib}/libexec"
        "-DCMAKE_BUILD_TYPE=${cmakeBuildType:-Release}"
        "-DCMAKE_SKIP_BUILD_RPATH=${cmakeSkipBuildRpath:-ON}"
        "-DCMAKE_POLICY_DEFAULT_CMP0025=NEW"
        "-DCMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON"
        "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF"
        "-DCMAKE_FIND_USE_SYSTEM_PACKAGE_REGISTRY=OFF"
        # The machine's /usr is not an input of the derivation.
        "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF"
        "-DBUILD_TESTING=$([[ -n ${doCheck-} ]] && echo ON || echo OFF)"
    )
    concatTo flags cmakeFlags cmakeFlagsArray
    echoCmd "cmake flags" "${flags[@]}"
    cmake "$cmakeDir" "${flags[@]}"

    # cmake's own dependency tracking is sound, so parallel is the default.
    : "${enableParallelBuilding=1}" "${enableParallelChecking=1}"

    runHook postConfigure
}

if [[ -z ${dontUseCmakeConfigure-} && -z ${configurePhase-} ]]; then
    setOutputFlags=
    configurePhase=cmakeConfigurePhase
fi
