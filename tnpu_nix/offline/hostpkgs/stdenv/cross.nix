# pkgsCross: the same set, with a stdenv that compiles for bare-metal RISC-V. Everything but what
# the derivation itself compiles is the machine's own, so there is no splicing.
self: _:
let
  triple = "riscv64-unknown-elf";
in
{
  pkgsCross.riscv64-embedded = self // {
    stdenv = self.makeStdenv {
      cc = self.makeCc {
        targetPrefix = "${triple}-";
        apt = "gcc-${triple} binutils-${triple} picolibc-${triple}";
        includeIfThere = "/usr/lib/picolibc/${triple}/include";
      };
      hostPlatform = self.stdenv.buildPlatform // {
        system = "riscv64-none";
        config = triple;
        isLinux = false;
        isx86_64 = false;
        isRiscV64 = true;
      };
    };
    callPackage = self.lib.callPackageWith self.pkgsCross.riscv64-embedded;
  };
}
