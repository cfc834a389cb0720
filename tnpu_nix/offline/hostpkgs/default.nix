# The package set. `overlays`, `config` and `extend` are nixpkgs', so that both
# `import nixpkgs { overlays = …; }` and `pkgs.extend` work on it.
{
  system ? "x86_64-linux",
  overlays ? [ ],
  config ? { },
}:
let
  lib = import ./lib.nix;
  layers = map import [
    ./host/libraries.nix
    ./host/programs.nix
    ./stdenv
    ./stdenv/cross.nix
    ./builders.nix
    ./python
    ./docker
  ];
  base = self: {
    inherit lib system config;
    pkgs = self;
    callPackage = lib.callPackageWith self;
    hostDerivation = import ./host/derivation.nix { inherit system; };
  };
in
assert lib.assertMsg (
  system == "x86_64-linux"
) "hostpkgs: built for x86_64-linux only, not for ${system}";
lib.makeExtensible (lib.extends (lib.composeManyExtensions (layers ++ overlays)) base)
