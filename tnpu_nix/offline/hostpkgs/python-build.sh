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

# Each program becomes a launcher that knows where its modules are.
wrapPythonPrograms() {
    local program hidden line path
    for program in "$out"/bin/*; do
        [[ -f $program && ! -L $program ]] || continue
        IFS= LC_ALL=C read -r -n 256 line <"$program" || true
        [[ $line == '#!'*python* ]] || continue
        hidden=$out/bin/.${program##*/}-wrapped
        mv "$program" "$hidden"
        sed -i "1s|.*|#!$pythonRuntime/bin/python3|" "$hidden"
        {
            echo "#!$pythonRuntime/bin/python3"
            echo "import runpy, site, sys"
            for path in "$out" $pythonDependencies; do
                echo "site.addsitedir('$path/$sitePackages')"
            done
            echo "sys.argv[0] = __file__"
            echo "runpy.run_path('$hidden', run_name='__main__')"
        } >"$program"
        chmod +x "$program"
        if [[ -n ${makeWrapperArgs-} ]]; then
            local -a arguments=()
            concatTo arguments makeWrapperArgs
            wrapPythonProgram "$program" "${arguments[@]}"
        fi
    done
}

# The launcher keeps its name and moves aside, as .NAME-wrapped is taken.
wrapPythonProgram() {
    local program=$1 launcher=$out/bin/.${1##*/}-launcher
    shift
    mv "$program" "$launcher"
    makeWrapper "$launcher" "$program" "$@"
}
[[ -n ${dontWrapPythonPrograms-} ]] || postFixupHooks+=(wrapPythonPrograms)
