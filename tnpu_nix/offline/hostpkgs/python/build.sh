# Phases of buildPythonPackage: a wheel through PEP 517, installed without a network.

pypaBuildPhase() {
    runHook preBuild
    local -a flags=()
    concatTo flags pypaBuildFlags pypaBuildFlagsArray
    echoCmd "build flags" "${flags[@]}"
    python3 -m build --no-isolation --wheel --outdir dist "${flags[@]}"
    runHook postBuild
}

pypaInstallPhase() {
    runHook preInstall
    python3 -m installer --no-compile-bytecode --prefix "$out" dist/*.whl
    # It goes by the version, which sitePackages need not name.
    [[ -d $out/$sitePackages ]] || mv "$out"/lib/python3.* "$out/${sitePackages%/*}"
    python3 -m compileall -q --invalidation-mode unchecked-hash "$out/$sitePackages"
    runHook postInstall
}

pythonImportsCheckPhase() {
    local module
    for module in $pythonImportsCheck; do
        echo "importing $module"
        (cd "$out" && PYTHONPATH=$out/$sitePackages:$PYTHONPATH \
            "$pythonRuntime/bin/python3" -c "import importlib; importlib.import_module('$module')")
    done
}

# Each program finds its modules, whoever starts it.
wrapPythonPrograms() {
    local program line path paths=
    local -a arguments=()
    concatTo arguments makeWrapperArgs
    for path in "$out" $pythonDependencies; do paths+="'$path/$sitePackages', "; done
    for program in "$out"/bin/*; do
        [[ -f $program && ! -L $program ]] || continue
        IFS= LC_ALL=C read -r -n 256 line <"$program" || true
        [[ $line == '#!'*python* ]] || continue
        sed -i -e "1s|.*|#!$pythonRuntime/bin/python3|" \
            -e "1a import site, sys; sys.argv[0] = '$program'" \
            -e "1a [site.addsitedir(path) for path in ($paths)]" "$program"
        ((${#arguments[@]} == 0)) || wrapProgram "$program" "${arguments[@]}"
    done
}
[[ -n ${dontWrapPythonPrograms-} ]] || postFixupHooks+=(wrapPythonPrograms)
