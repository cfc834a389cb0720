# Programs of the machine: copies that run on their own (they may end up in an image),
# and links to build tools (which must not).
self: _:
let
  inherit (self) lib hostDerivation runtimeEnv;
  words = text: lib.filter (w: lib.isString w && w != "") (builtins.split "[[:space:]]+" text);

  copied =
    {
      pname,
      apt,
      programs ? [ pname ],
      extra ? "",
      meta ? { },
      passthru ? { },
    }:
    hostDerivation (
      runtimeEnv
      // {
        inherit
          pname
          apt
          programs
          passthru
          ;
        meta = { mainProgram = lib.head programs; } // meta;
        script = "copy_programs $programs\n${extra}";
      }
    );

  linked =
    {
      pname,
      apt,
      programs ? [ pname ],
      setupHook ? null,
      extra ? "",
    }:
    hostDerivation {
      inherit pname apt programs;
      meta.mainProgram = lib.head programs;
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
    apt = "bash";
    extra = "ln -s bash $out/bin/sh";
    passthru.shellPath = "/bin/bash";
  };
  bashInteractive = self.bash;
  runtimeShell = "${self.bash}/bin/bash";

  coreutils = copied {
    pname = "coreutils";
    apt = "coreutils";
    programs = words ''
      ls [ arch b2sum base32 base64 basename cat chgrp chmod chown cksum comm cp csplit cut date dd
      df dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id
      install join link ln logname md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od
      paste pathchk pinky pr printenv printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum
      sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split stat stdbuf stty sum sync
      tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink users
      vdir wc who whoami yes
    '';
  };
  gnugrep = copied {
    pname = "grep";
    apt = "grep";
  };
  gnused = copied {
    pname = "sed";
    apt = "sed";
  };
  gnutar = copied {
    pname = "tar";
    apt = "tar";
  };
  gzip = copied {
    pname = "gzip";
    apt = "gzip";
  };
  findutils = copied {
    pname = "findutils";
    apt = "findutils";
    programs = [
      "find"
      "xargs"
    ];
  };
  gnumake = copied {
    pname = "make";
    apt = "make";
  };
  dtc = copied {
    pname = "dtc";
    apt = "device-tree-compiler";
  };
  patchelf = copied {
    pname = "patchelf";
    apt = "patchelf";
  };

  # What every stdenv build finds in PATH beside the copies above.
  buildTools = linked {
    pname = "host-build-tools";
    apt = "mawk diffutils patch file xz-utils bzip2";
    programs = words "cmp diff patch file xz bzip2 gunzip zcat iconv getconf ldd mawk";
    extra = "ln -s /usr/bin/mawk $out/bin/awk\n";
  };

  git = linked {
    pname = "git";
    apt = "git";
  };
  cmake = linked {
    pname = "cmake";
    apt = "cmake";
    programs = [
      "cmake"
      "ctest"
      "cpack"
    ];
    setupHook = ./cmake-hook.sh;
  };
  ninja = linked {
    pname = "ninja";
    apt = "ninja-build";
    setupHook = ./ninja-hook.sh;
  };
  pkg-config = linked {
    pname = "pkg-config";
    apt = "pkg-config";
    setupHook = builtins.toFile "pkg-config-hook.sh" ''
      addPkgConfigPath() {
          addToSearchPath PKG_CONFIG_PATH "$1/lib/pkgconfig"
          addToSearchPath PKG_CONFIG_PATH "$1/share/pkgconfig"
      }
      addEnvHooks 0 addPkgConfigPath
    '';
  };
  nix = linked {
    pname = "nix";
    apt = "nix-bin";
    programs = words "nix nix-build nix-hash nix-instantiate nix-store";
  };
  # Debian has no package of it: empty on a machine that has not got it otherwise.
  nix-prefetch-git = hostDerivation {
    pname = "nix-prefetch-git";
    script = ''
      mkdir -p $out/bin
      [[ ! -e /usr/bin/nix-prefetch-git ]] || link_programs nix-prefetch-git
    '';
  };
  fakeroot = linked {
    pname = "fakeroot";
    apt = "fakeroot";
    programs = [
      "fakeroot-sysv"
      "faked-sysv"
      "getopt"
    ];
    extra = "ln -s fakeroot-sysv $out/bin/fakeroot\n";
  };
  jq = copied {
    pname = "jq";
    apt = "jq";
  };
  nixfmt = linked {
    pname = "nixfmt";
    apt = "(no Debian package: run nixfmt from nixpkgs)";
  };
  nixfmt-rfc-style = self.nixfmt;

  nlohmann_json = hostDerivation {
    pname = "nlohmann_json";
    apt = "nlohmann-json3-dev";
    script = ''
      need /usr/include/nlohmann/json.hpp
      mkdir -p $out/include $out/share/cmake
      cp -r /usr/include/nlohmann $out/include/
      if [[ -d /usr/share/cmake/nlohmann_json ]]; then
        cp -r /usr/share/cmake/nlohmann_json $out/share/cmake/
      fi
    '';
  };

  # Debian's certificates as one file; /etc/ssl is not visible in a sandbox.
  cacert = hostDerivation {
    pname = "cacert";
    apt = "ca-certificates";
    script = ''
      need /usr/share/ca-certificates/mozilla
      mkdir -p $out/etc/ssl/certs
      find /usr/share/ca-certificates /usr/local/share/ca-certificates -name '*.crt' | sort \
        | xargs cat >$out/etc/ssl/certs/ca-bundle.crt
    '';
  };
}
