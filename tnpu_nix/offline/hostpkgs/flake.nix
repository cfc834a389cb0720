{
  description = "A small nixpkgs-compatible package set made of this machine's own toolchain";

  outputs =
    { self }:
    {
      lib = import ./lib.nix;
      legacyPackages.x86_64-linux = import ./. { system = "x86_64-linux"; };
    };
}
