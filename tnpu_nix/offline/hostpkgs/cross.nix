# pkgsCross: the same set, with a stdenv that compiles for bare-metal RISC-V. Everything
# but what the derivation itself compiles is the machine's own, so there is no splicing.
self: _:
let
  inherit (self) lib;
  triple = "riscv64-unknown-elf";
  stdenv = self.makeStdenv {
    cc = import ./cc-wrapper.nix {
      inherit (self)
        lib
        hostDerivation
        bash
        glibc
        gcc-lib
        ;
    } {
      targetPrefix = "${triple}-";
      apt = "gcc-riscv64-unknown-elf binutils-riscv64-unknown-elf picolibc-riscv64-unknown-elf";
      includeIfThere = "/usr/lib/picolibc/${triple}/include";
    };
    hostPlatform = self.stdenv.buildPlatform // {
      system = "riscv64-none";
      config = triple;
      isLinux = false;
      isGnu = false;
      isx86 = false;
      isx86_64 = false;
      isRiscV = true;
      isRiscV64 = true;
      parsed.cpu.name = "riscv64";
      canExecute = other: other.isRiscV64;
    };
  };
in
{
  pkgsCross.riscv64-embedded =
    self
    // {
      inherit stdenv;
      stdenvNoCC = stdenv;
      buildPackages = self;
      pkgsBuildBuild = self;
      pkgs = self.pkgsCross.riscv64-embedded;
      newScope = extra: lib.callPackageWith (self.pkgsCross.riscv64-embedded // extra);
      callPackage = lib.callPackageWith self.pkgsCross.riscv64-embedded;
    };
}
