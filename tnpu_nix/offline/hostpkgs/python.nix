# Python: the machine's interpreter, and packages for it. Evaluation cannot look at /usr to
# learn the version. So there is an attribute per version, and all but the machine's own fail
# when they are built, saying so; and `python3` is whichever there is, laid out so that no path
# needs the version (lib/python3).
self: prev:
let
  # The names of this layer must not depend on the finished set.
  inherit (prev) lib;
  inherit (self) hostDerivation stdenv;
  versions = lib.genAttrs [ "3.9" "3.10" "3.11" "3.12" "3.13" "3.14" ] makePython;

  makePython =
    version:
    lib.makeOverridable (
      {
        packageOverrides ? (_: _: { }),
      }:
      let
        base = import ./python-interpreter.nix {
          inherit lib hostDerivation version;
          inherit (self) runtimeEnv;
        };
        packages = lib.makeExtensible (
          lib.extends (lib.composeManyExtensions (
            [ (import ./python-packages.nix { inherit self; }) ]
            ++ (self.pythonPackagesExtensions or [ ])
            ++ [ packageOverrides ]
          )) (_: { inherit python; })
        );
        withPackages = choose: buildEnv { extraLibs = choose packages; };
        buildEnv =
          {
            extraLibs ? [ ],
            ...
          }:
          stdenv.mkDerivation {
            name = "python3-${base.version}-env";
            paths = packages.requiredPythonModules extraLibs;
            runtime = base.runtime;
            shell = self.runtimeShell;
            inherit (base) libPrefix;
            buildCommand = ". ${./python-env.sh}";
            meta.mainProgram = "python3";
            passthru = {
              inherit (base) pythonVersion sitePackages;
            };
          };
        python = base // {
          inherit withPackages;
          pkgs = packages;
          buildEnv = {
            inherit (base) outPath;
            override = buildEnv;
          };
        };
      in
      python
    );
  attrName = v: "python${lib.replaceStrings [ "." ] [ "" ] v}";
in
lib.mapAttrs' (v: make: lib.nameValuePair (attrName v) (make { })) versions
// lib.mapAttrs' (v: _: lib.nameValuePair "${attrName v}Packages" self.${attrName v}.pkgs) versions
// {
  python3 = makePython null { };
  python3Packages = self.python3.pkgs;
  pythonPackagesExtensions = [ ];
}
