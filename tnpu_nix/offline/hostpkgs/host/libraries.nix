# Copies of the machine's C and C++ run-time libraries. Everything else in the set
# points at these two, so that a closure holds all it needs to run, and nothing more.
self: _:
let
  inherit (self) hostDerivation;
in
{
  glibc = hostDerivation {
    pname = "host-glibc";
    apt = "libc6 libgcc-s1 patchelf";
    script = ''
      mkdir -p $out/lib
      need $multiarch/ld-linux-x86-64.so.2 /usr/bin/patchelf
      install -m 755 $multiarch/ld-linux-x86-64.so.2 $out/lib/
      # nsswitch's modules and libgcc_s are loaded by name at run time, without a
      # NEEDED entry that ldd would show.
      for lib in libc.so.6 libm.so.6 libmvec.so.1 libpthread.so.0 libdl.so.2 librt.so.1 \
        libutil.so.1 libanl.so.1 libresolv.so.2 libgcc_s.so.1 libnss_files.so.2 \
        libnss_dns.so.2 libnss_compat.so.2; do
        need $multiarch/$lib
        install -m 755 $multiarch/$lib $out/lib/
        patchelf --set-rpath $out/lib $out/lib/$lib
      done
    '';
    passthru.loader = "${self.glibc}/lib/ld-linux-x86-64.so.2";
  };

  gcc-lib = hostDerivation {
    pname = "host-gcc-lib";
    apt = "libstdc++6 libgcc-s1 libgomp1 libatomic1";
    runtimeLibs = [ "${self.glibc}/lib" ];
    inherit (self.glibc) loader;
    script = ''
      mkdir -p $out/lib
      for lib in libgcc_s.so.1 libstdc++.so.6 libgomp.so.1 libatomic.so.1; do
        need $multiarch/$lib
        install -m 755 $multiarch/$lib $out/lib/
        patchelf --set-rpath $out/lib:$runtimeLibs $out/lib/$lib
      done
    '';
  };

  # What tools.sh needs to make a copied program independent of the machine.
  runtimeEnv = {
    runtimeLibs = [
      "${self.glibc}/lib"
      "${self.gcc-lib}/lib"
    ];
    inherit (self.glibc) loader;
  };
}
