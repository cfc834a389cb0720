# Python: the machine's interpreter, and packages for it. Evaluation cannot look at /usr to learn
# the version. So there is an attribute per version, and all but the machine's own fail when they
# are built, saying so; and `python3` is whichever there is, laid out so that no path needs the
# version (lib/python3).
self: prev:
let
  # The names of this layer must not depend on the finished set.
  inherit (prev) lib;
  inherit (self) hostDerivation runtimeEnv stdenv;

  # version: "3.11", or null for whichever the machine has.
  makePython =
    version:
    let
      libPrefix = "python${if version == null then "3" else version}";
      # Of an interpreter that nobody has asked the version of, this much is known.
      pythonVersion = if version == null then "3.11" else version;
      copy =
        action: args:
        hostDerivation (
          runtimeEnv
          // {
            pname = "python3";
            inherit libPrefix;
            script = ". ${./copy.sh}; ${action}";
            meta.mainProgram = "python3";
          }
          // args
        );
      # Two copies: this one, which environments and programs refer to, has no headers.
      runtime = copy "copy_runtime" {
        version = if version == null then "host" else version;
        apt = "python3 libpython3-stdlib";
      };
      # Packages are built with the other one.
      python = copy "copy_with_headers" {
        version = "${runtime.version}-with-headers";
        inherit runtime;
        apt = "libpython3-dev";
        setupHook = ./hook.sh;
        passthru = {
          inherit
            libPrefix
            pythonVersion
            runtime
            withPackages
            ;
          inherit (runtime) version;
          sitePackages = "lib/${libPrefix}/site-packages";
          interpreter = "${runtime}/bin/${libPrefix}";
          pkgs = packages;
        };
      };
      packages = lib.fix (import ./packages.nix { inherit self python; });
      withPackages =
        choose:
        stdenv.mkDerivation {
          name = "python3-${runtime.version}-env";
          paths = packages.requiredPythonModules (choose packages);
          inherit libPrefix runtime;
          shell = self.runtimeShell;
          buildCommand = ". ${./env.sh}";
          meta.mainProgram = "python3";
          passthru = { inherit (python) pythonVersion sitePackages; };
        };
    in
    python;

  interpreters = lib.genAttrs [
    "3.11"
    "3.12"
    "3.13"
    "3.14"
  ] makePython;
  attribute = version: "python${builtins.replaceStrings [ "." ] [ "" ] version}";
in
lib.mapAttrs' (version: lib.nameValuePair (attribute version)) interpreters
// {
  python3 = makePython null;
}
