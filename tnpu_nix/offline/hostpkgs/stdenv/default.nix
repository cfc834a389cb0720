# stdenv and its mkDerivation; cross.nix makes a second one with another compiler.
self: _:
let
  inherit (self) lib;

  buildPlatform = {
    inherit (self) system;
    config = "x86_64-unknown-linux-gnu";
    isLinux = true;
    isx86_64 = true;
    isRiscV64 = false;
    is64bit = true;
  };

  # Arguments of mkDerivation that are lists of dependencies: their dev outputs are used.
  dependencyLists = [
    "nativeBuildInputs"
    "buildInputs"
    "propagatedNativeBuildInputs"
    "propagatedBuildInputs"
  ];
  # Arguments that say something about the derivation and are not part of it. What a check needs
  # is an input only if the check is run.
  notInDerivation = [
    "checkInputs"
    "configurePlatforms"
    "env"
    "hardeningDisable"
    "hardeningEnable"
    "installCheckInputs"
    "meta"
    "nativeCheckInputs"
    "nativeInstallCheckInputs"
    "passthru"
    "pos"
  ];

  # overrideAttrs takes a set, a function of the old attributes, or one of the final and the old.
  toExtension =
    change: final: prev:
    let
      changed = lib.toFunction change prev;
    in
    if lib.isFunction changed then change final prev else changed;

  dependenciesOf =
    attrs: doCheck:
    let
      ofChecks = {
        nativeBuildInputs =
          lib.optionals doCheck (attrs.nativeCheckInputs or [ ])
          ++ lib.optionals (attrs.doInstallCheck or false) (attrs.nativeInstallCheckInputs or [ ]);
        buildInputs =
          lib.optionals doCheck (attrs.checkInputs or [ ])
          ++ lib.optionals (attrs.doInstallCheck or false) (attrs.installCheckInputs or [ ]);
      };
      given = name: lib.remove null (lib.flatten (attrs.${name} or [ ] ++ ofChecks.${name} or [ ]));
    in
    lib.filterAttrs (_: list: list != [ ]) (
      lib.genAttrs dependencyLists (name: map lib.getDev (given name))
    );

  makeStdenv =
    {
      cc,
      hostPlatform ? buildPlatform,
    }:
    let
      cross = hostPlatform.config != buildPlatform.config;

      # What the builder gets to see.
      derivationArgs =
        attrs:
        let
          doCheck = attrs.doCheck or false && !cross;
          suffix = lib.optionalString (cross && !(attrs ? outputHash)) "-${hostPlatform.config}";
        in
        assert lib.assertMsg (!(attrs.__structuredAttrs or false))
          "hostpkgs: no support for __structuredAttrs (${attrs.name or attrs.pname})";
        removeAttrs attrs notInDerivation
        // dependenciesOf attrs doCheck
        // lib.optionalAttrs (cross && attrs.configurePlatforms or null != [ ]) {
          configureFlags = lib.toList (attrs.configureFlags or [ ]) ++ [
            "--build=${buildPlatform.config}"
            "--host=${hostPlatform.config}"
          ];
        }
        // attrs.env or { }
        // {
          name =
            if attrs ? name then
              attrs.name + suffix
            else
              attrs.pname + suffix + lib.optionalString (attrs ? version) "-${attrs.version}";
          inherit (self) system;
          inherit doCheck stdenv;
          outputs = attrs.outputs or [ "out" ];
          builder = "${self.bash}/bin/bash";
          args = [
            "-c"
            ". $stdenv/setup; genericBuild"
          ];
        };

      # attrsOf: final attributes → attributes, as mkDerivation's `finalAttrs:` has it.
      make =
        attrsOf:
        let
          attrs = attrsOf (attrs // { finalPackage = package; });
          drv = derivation (derivationArgs attrs);
          common =
            drv
            // {
              meta = {
                inherit (drv) name;
                available = true;
                outputsToInstall = [
                  (if lib.elem "bin" drv.outputs then "bin" else lib.head drv.outputs)
                ];
              }
              // attrs.meta or { };
              passthru = attrs.passthru or { };
              overrideAttrs = change: make (lib.extends (toExtension change) attrsOf);
            }
            // attrs.passthru or { }
            // outputs;
          outputs = lib.genAttrs drv.outputs (
            outputName:
            common
            // {
              inherit outputName;
              inherit (drv.${outputName}) outPath;
              outputSpecified = true;
            }
          );
          package = common // {
            inherit (drv) outputName;
            all = map (name: outputs.${name}) drv.outputs;
          };
        in
        package;

      setup = self.hostDerivation {
        pname = "stdenv";
        SHELL = self.runtimeShell;
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
        stdenvCc = cc;
        crossBuild = cross;
        fixupScript = ./fixup.sh;
        script = ''
          mkdir $out
          for name in SHELL initialPath stdenvCc crossBuild fixupScript; do
            printf '%s=%q\n' "$name" "''${!name}" >>$out/setup
          done
          cat ${./setup.sh} >>$out/setup
        '';
      };
      stdenv = setup // {
        inherit cc buildPlatform hostPlatform;
        targetPlatform = hostPlatform;
        mkDerivation = attrs: make (lib.toFunction attrs);
      };
    in
    stdenv;
in
{
  inherit makeStdenv;
  makeCc = import ./cc.nix {
    inherit (self)
      bash
      gcc-lib
      glibc
      hostDerivation
      ;
  };
  stdenv = self.makeStdenv { cc = self.makeCc { apt = "gcc g++ binutils"; }; };
}
