# Programs of the machine: copies that run on their own (they may end up in an image),
# and links to build tools (which must not).
self: _:
let
  inherit (self) lib hostDerivation runtimeEnv;

  copied =
    {
      pname,
      apt ? pname,
      programs ? pname,
      extra ? "",
      spdx ? [ ], # its licences
    }:
    hostDerivation (
      runtimeEnv
      // {
        inherit pname apt programs;
        meta = {
          mainProgram = pname;
          license = map (spdxId: { inherit spdxId; }) spdx;
        };
        script = "copy_programs $programs\n${extra}";
      }
    );

  linked =
    {
      pname,
      apt ? pname,
      programs ? pname,
      setupHook ? null,
      extra ? "",
    }:
    hostDerivation {
      inherit pname apt programs;
      meta.mainProgram = pname;
      script =
        "link_programs $programs\n${extra}"
        + lib.optionalString (setupHook != null) ''
          mkdir $out/nix-support
          cp ${setupHook} $out/nix-support/setup-hook
        '';
    };
in
{
  bash = copied {
    pname = "bash";
    extra = "ln -s bash $out/bin/sh";
    spdx = [ "GPL-3.0-or-later" ];
  };
  runtimeShell = "${self.bash}/bin/bash";

  coreutils = copied {
    pname = "coreutils";
    spdx = [ "GPL-3.0-or-later" ];
    programs = ''
      ls [ arch b2sum base32 base64 basename cat chgrp chmod chown cksum comm cp csplit cut date dd
      df dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id
      install join link ln logname md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od
      paste pathchk pinky pr printenv printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum
      sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split stat stdbuf stty sum sync
      tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink users
      vdir wc who whoami yes
    '';
  };
  gnugrep = copied { pname = "grep"; };
  gnused = copied { pname = "sed"; };
  gnutar = copied { pname = "tar"; };
  gzip = copied { pname = "gzip"; };
  findutils = copied {
    pname = "findutils";
    programs = "find xargs";
  };
  gnumake = copied { pname = "make"; };
  dtc = copied {
    pname = "dtc";
    apt = "device-tree-compiler";
    spdx = [
      "GPL-2.0-or-later"
      "BSD-2-Clause"
    ];
  };
  patchelf = copied { pname = "patchelf"; };

  # What every stdenv build finds in PATH beside the copies above.
  buildTools = linked {
    pname = "host-build-tools";
    apt = "mawk diffutils patch file xz-utils bzip2 libc-bin libc-dev-bin";
    programs = "cmp diff patch file xz bzip2 iconv getconf ldd mawk";
    extra = "ln -s /usr/bin/mawk $out/bin/awk\n";
  };

  git = linked { pname = "git"; };
  cmake = linked {
    pname = "cmake";
    programs = "cmake ctest cpack";
    setupHook = ../stdenv/cmake-hook.sh;
  };
  ninja = linked {
    pname = "ninja";
    apt = "ninja-build";
    setupHook = ../stdenv/ninja-hook.sh;
  };
  nix = linked {
    pname = "nix";
    apt = "nix-bin";
    programs = "nix nix-build nix-hash nix-instantiate nix-store";
  };
  # Debian has no package of it: empty on a machine that has not got it otherwise.
  nix-prefetch-git = hostDerivation {
    pname = "nix-prefetch-git";
    script = ''
      mkdir -p $out/bin
      [[ ! -e /usr/bin/nix-prefetch-git ]] || link_programs nix-prefetch-git
    '';
  };
  nixfmt = linked {
    pname = "nixfmt";
    apt = "(no Debian package: run nixfmt from nixpkgs)";
  };
  nlohmann_json = hostDerivation {
    pname = "nlohmann_json";
    apt = "nlohmann-json3-dev";
    script = ''
      need /usr/include/nlohmann/json.hpp
      mkdir -p $out/include
      cp -r /usr/include/nlohmann $out/include/
    '';
  };
}
