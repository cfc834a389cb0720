# stdenv and its mkDerivation; cross.nix makes a second one with another compiler.
self: _:
let
  inherit (self) lib;

  buildPlatform = {
    system = self.system;
    config = "x86_64-unknown-linux-gnu";
    isLinux = true;
    isx86_64 = true;
    isx86 = true;
    is64bit = true;
    isRiscV = false;
    isRiscV64 = false;
    isAarch64 = false;
    isDarwin = false;
    isStatic = false;
    isMusl = false;
    isGnu = true;
    isLittleEndian = true;
    parsed.cpu.name = "x86_64";
    extensions = {
      sharedLibrary = ".so";
      staticLibrary = ".a";
      executable = "";
    };
    canExecute = other: other.isx86_64;
  };

  # Arguments of mkDerivation that are lists of dependencies: their dev outputs are used.
  dependencyLists = [
    "depsBuildBuild"
    "nativeBuildInputs"
    "buildInputs"
    "propagatedNativeBuildInputs"
    "propagatedBuildInputs"
  ];
  # Arguments that say something about the derivation and are not part of it.
  notInDerivation = [
    "env"
    "meta"
    "passthru"
    "pos"
    "configurePlatforms"
    "hardeningDisable"
    "hardeningEnable"
  ];

  makeStdenv =
    {
      cc,
      hostPlatform ? buildPlatform,
    }:
    let
      cross = hostPlatform.config != buildPlatform.config;

      derivationArgs =
        attrs:
        let
          dependencies = lib.genAttrs (lib.filter (n: attrs ? ${n}) dependencyLists) (
            n: lib.chooseDevOutputs (lib.remove null (lib.flatten attrs.${n}))
          );
          wanted = flag: list: lib.optionals (attrs.${flag} or false) (attrs.${list} or [ ]);
          checkInputs = lib.chooseDevOutputs (
            wanted "doCheck" "nativeCheckInputs"
            ++ wanted "doCheck" "checkInputs"
            ++ wanted "doInstallCheck" "nativeInstallCheckInputs"
          );
          platformFlags = lib.optionals cross [
            "--build=${buildPlatform.config}"
            "--host=${hostPlatform.config}"
          ];
        in
        removeAttrs attrs notInDerivation
        // dependencies
        // lib.optionalAttrs (checkInputs != [ ]) {
          nativeBuildInputs = (dependencies.nativeBuildInputs or [ ]) ++ checkInputs;
        }
        // lib.optionalAttrs (cross && attrs.configurePlatforms or null != [ ]) {
          configureFlags = lib.toList (attrs.configureFlags or [ ]) ++ platformFlags;
        }
        // (attrs.env or { })
        // {
          name =
            attrs.name or (
              "${attrs.pname}${lib.optionalString cross "-${hostPlatform.config}"}"
              + lib.optionalString (attrs ? version) "-${attrs.version}"
            );
          inherit (self) system;
          builder = attrs.realBuilder or "${self.bash}/bin/bash";
          args = attrs.args or [
            "-c"
            ". $stdenv/setup; genericBuild"
          ];
          inherit stdenv;
        };

      make =
        attrsOf:
        let
          attrs = attrsOf final;
          plain = derivationArgs (lib.throwIf (attrs.__structuredAttrs or false)
            "hostpkgs: no support for __structuredAttrs (${attrs.name or attrs.pname})"
            attrs
          );
          drv = derivation plain;
          outputs = attrs.outputs or [ "out" ];
          common =
            lib.optionalAttrs (attrs ? version) { inherit (attrs) version; }
            // lib.optionalAttrs (attrs ? pname) { inherit (attrs) pname; }
            // {
              inherit (plain) name;
              inherit outputs stdenv;
              inherit (drv) drvPath drvAttrs;
              system = self.system;
              type = "derivation";
              all = map (output: final.finalPackage.${output}) outputs;
              meta = {
                inherit (plain) name;
                available = true;
                outputsToInstall = [
                  (if lib.elem "bin" outputs then "bin" else lib.head outputs)
                ];
              }
              // attrs.meta or { };
              passthru = attrs.passthru or { };
              overrideAttrs =
                change:
                let
                  overlay =
                    if !lib.isFunction change then
                      _: _: change
                    else
                      final: prev:
                      let
                        once = change prev;
                      in
                      if lib.isFunction once then change final prev else once;
                in
                make (lib.extends overlay attrsOf);
            }
            # What a package was made from stays visible on it (src, version, …).
            // passthruFirst attrs
            // perOutput;
          passthruFirst = a: { src = a.src or null; } // (a.passthru or { });
          perOutput = lib.genAttrs outputs (
            output:
            common
            // {
              outputName = output;
              outputSpecified = true;
              outPath = drv.${output}.outPath;
            }
          );
          final = attrs // {
            finalPackage =
              removeAttrs perOutput.${lib.head outputs} [ "outputSpecified" ];
          };
        in
        final.finalPackage;

      # Copies first: scripts then refer to programs that may be part of an image.
      initialPath = [
        self.bash
        self.coreutils
        self.findutils
        self.gnugrep
        self.gnused
        self.gnutar
        self.gzip
        self.gnumake
        self.patchelf
        self.buildTools
      ];
      setup = self.hostDerivation {
        pname = "stdenv";
        SHELL = self.runtimeShell;
        inherit initialPath;
        stdenvCc = cc;
        crossBuild = cross;
        fixupScript = ./fixup.sh;
        script = ''
          mkdir $out
          for name in SHELL initialPath stdenvCc crossBuild fixupScript; do
            printf '%s=%q\n' "$name" "''${!name}" >>$out/setup
          done
          # The compiler wrappers ask for it.
          echo "export crossBuild" >>$out/setup
          cat ${./setup.sh} >>$out/setup
        '';
      };
      stdenv = setup // {
        inherit
          cc
          buildPlatform
          hostPlatform
          initialPath
          ;
        inherit (hostPlatform) isLinux system;
        targetPlatform = hostPlatform;
        shell = self.runtimeShell;
        mkDerivation = attrs: make (if lib.isFunction attrs then attrs else _: attrs);
      };
    in
    stdenv;
in
{
  inherit makeStdenv;
  stdenv = makeStdenv {
    cc = import ./cc-wrapper.nix {
      inherit (self)
        lib
        hostDerivation
        bash
        glibc
        gcc-lib
        ;
    } { apt = "gcc g++ binutils"; };
  };
  stdenvNoCC = self.stdenv;
  gcc = self.stdenv.cc;
}
