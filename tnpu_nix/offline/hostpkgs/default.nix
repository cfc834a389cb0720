# The package set. `overlays`, `config` and `extend` are nixpkgs', so that both
# `import nixpkgs { overlays = …; }` and `pkgs.extend` work on it.
{
  system ? "x86_64-linux",
  overlays ? [ ],
  config ? { },
}:
let
  lib = import ./lib.nix;
  layers = [
    (import ./runtime.nix)
    (import ./tools.nix)
    (import ./stdenv.nix)
    (import ./trivial.nix)
    (import ./fetch.nix)
    (import ./python.nix)
    (import ./docker.nix)
    (import ./cross.nix)
  ];
  base = self: {
    inherit lib system config;
    pkgs = self;
    callPackage = self.newScope { };
    newScope = extra: lib.callPackageWith (self // extra);
    buildPackages = self;
    hostDerivation = import ./host-derivation.nix { inherit lib system; };
  };
in
assert lib.assertMsg (system == "x86_64-linux")
  "hostpkgs: built for x86_64-linux only, not for ${system}";
lib.makeExtensible (lib.extends (lib.composeManyExtensions (layers ++ overlays)) base)
