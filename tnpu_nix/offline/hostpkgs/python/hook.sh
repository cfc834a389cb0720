# Setup hook of Python: modules of all inputs are importable, output is reproducible.
addPythonPath() {
    addToSearchPath PYTHONPATH "$1/lib/@lib@/site-packages"
}
addEnvHooks 0 addPythonPath
# Python.h's macros would leave the path of the headers in every extension module.
NIX_CFLAGS_COMPILE+=" -fmacro-prefix-map=@out@/=/python/"
export DETERMINISTIC_BUILD=1 PYTHONHASHSEED=0 PYTHONNOUSERSITE=1
