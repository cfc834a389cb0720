# Two copies of the interpreter: `runtime` without headers, which environments and
# programs refer to, and one with headers, which packages are built with.
{
  lib,
  hostDerivation,
  runtimeEnv,
  # "3.11", or null for whichever the machine has.
  version,
}:
let
  libPrefix = if version == null then "python3" else "python${version}";
  # Of an interpreter that nobody has asked the version of, this much is known.
  pythonVersion = if version == null then "3.11" else version;
  name = if version == null then "host" else version;
  runtime = hostDerivation (
    runtimeEnv
    // {
      pname = "python3";
      version = name;
      inherit libPrefix;
      apt = "python3 libpython3-stdlib";
      script = ". ${./python-copy.sh}; copy_runtime";
      meta.mainProgram = "python3";
    }
  );
in
hostDerivation (
  runtimeEnv
  // {
    pname = "python3";
    version = "${name}-with-headers";
    inherit libPrefix runtime;
    apt = "libpython3-dev";
    setupHook = ./python-hook.sh;
    script = ". ${./python-copy.sh}; copy_with_headers";
    meta.mainProgram = "python3";
    passthru = {
      inherit runtime pythonVersion libPrefix;
      version = name;
      executable = libPrefix;
      sitePackages = "lib/${libPrefix}/site-packages";
      interpreter = "${runtime}/bin/${libPrefix}";
      implementation = "cpython";
      isPy3 = true;
      isPy3k = true;
      pythonAtLeast = lib.versionAtLeast pythonVersion;
      pythonOlder = lib.versionOlder pythonVersion;
    };
  }
)
