# dockerTools: layered images whose layers are store paths.
self: _:
let
  inherit (self) lib runCommand writeText;

  pack = owner: ''
    find layer -mindepth 1 -printf '%P\0' | sort -z \
      | tar -C layer --null --no-recursion --files-from - --mtime="$mtime" --format=gnu \
        --hard-dereference --numeric-owner ${owner} -cf "$out/layer.tar"
  '';

  # The customisation layer: the contents' files as a tree of links, plus what
  # extraCommands and fakeRootCommands make of it, as a tar.
  customisationLayer =
    {
      baseName,
      contents,
      extraCommands,
      fakeRootCommands,
      mtime,
      uid,
      gid,
    }:
    runCommand "${baseName}-customisation-layer"
      {
        inherit
          extraCommands
          fakeRootCommands
          mtime
          uid
          gid
          ;
        contents = lib.toList contents;
        nativeBuildInputs = [ self.fakeroot ];
        passAsFile = [
          "extraCommands"
          "fakeRootCommands"
        ];
      }
      ''
        mkdir -p layer $out
        for path in $contents; do
          cp -rsT --no-clobber --no-preserve=mode "$path" layer
        done
        rm -rf layer/nix-support
        chmod -R u+w layer
        (cd layer; source "$extraCommandsPath")
        if [[ -s $fakeRootCommandsPath ]]; then
          # A sandbox has one user: asking the kernel for another is an error that
          # fakeroot does not expect.
          export FAKEROOTDONTTRYCHOWN=1 fakeRootCommandsPath mtime out
          fakeroot bash -eu ${self.writeText "pack.sh" ''
            chown -R 0:0 layer
            (cd layer; source "$fakeRootCommandsPath")
            ${pack ""}
          ''}
        else
          ${pack "--owner=$uid --group=$gid"}
        fi
      '';

  streamLayeredImage = lib.makeOverridable (
    {
      name,
      tag ? null,
      fromImage ? null,
      contents ? [ ],
      config ? { },
      architecture ? "amd64",
      created ? "1970-01-01T00:00:01Z",
      mtime ? "1970-01-01T00:00:01Z",
      uid ? 0,
      gid ? 0,
      uname ? "root",
      gname ? "root",
      maxLayers ? 100,
      extraCommands ? "",
      fakeRootCommands ? "",
      enableFakechroot ? false,
      includeStorePaths ? true,
      includeNixDB ? false,
      layeringPipeline ? null,
      debug ? false,
      passthru ? { },
      meta ? { },
    }:
    assert lib.assertMsg (!enableFakechroot) "hostpkgs: dockerTools has no enableFakechroot";
    assert lib.assertMsg (!includeNixDB) "hostpkgs: dockerTools has no includeNixDB";
    assert lib.assertMsg (
      maxLayers > 1
    ) "dockerTools: maxLayers must be at least 2, not ${toString maxLayers}";
    assert lib.assertMsg (
      created != "now" && mtime != "now"
    ) "hostpkgs: dockerTools makes reproducible images only; give created and mtime as a date";
    let
      baseName = baseNameOf name;
      layer = customisationLayer {
        inherit
          baseName
          contents
          extraCommands
          fakeRootCommands
          mtime
          uid
          gid
          ;
      };
      # Paths that the configuration names are part of the image.
      configJson = writeText "${baseName}-config.json" (builtins.toJSON { inherit config; });
      settings = builtins.toJSON {
        inherit
          architecture
          created
          mtime
          uid
          gid
          uname
          gname
          maxLayers
          tag
          ;
        repo = lib.toLower name;
        from_image = if fromImage == null then null else "${fromImage}";
        customisation_layer = "${layer}/layer.tar";
        pipeline = layeringPipeline;
      };
      # Which store paths go into which layer is fixed when the image is built; the
      # layers themselves are made while it is streamed.
      conf = derivation {
        name = "${baseName}-conf.json";
        inherit (self) system;
        __structuredAttrs = true;
        inherit includeStorePaths settings;
        config = "${configJson}";
        exportReferencesGraph.closure = [
          "${configJson}"
          "${layer}"
        ];
        PATH = "/usr/bin:/bin";
        builder = "/bin/bash";
        args = [
          "-euc"
          ". .attrs.sh; /usr/bin/python3 ${./image_layers.py} .attrs.json \"\${outputs[out]}\"; :"
        ];
      };
      # The first 32 characters of a store path's name are its hash.
      confName = baseNameOf (builtins.unsafeDiscardStringContext conf.outPath);
      imageTag = if tag != null then tag else lib.substring 0 32 confName;
    in
    runCommand "stream-${baseName}"
      {
        inherit conf;
        stream = ./stream_image.py;
        meta = { mainProgram = "stream-${baseName}"; } // meta;
        passthru = {
          inherit imageTag conf;
          imageName = lib.toLower name;
          isExe = true;
          layers = [ layer ];
        } // passthru;
      }
      ''
        # /bin/sh and /usr/bin/python3 are the machine's: the script is not part of an
        # image. A store that is not at /nix/store is found by where the script lies.
        {
          echo '#!/bin/sh'
          echo 'self=$(readlink -f "$0")'
          echo "root=\''${self%$out}"
          echo "exec /usr/bin/python3 \"\$root$stream\" \"\$root$conf\" --root \"\$root\" \"\$@\""
        } >$out
        chmod +x $out
      ''
  );
in
{
  dockerTools = {
    inherit streamLayeredImage;

    buildLayeredImage = lib.makeOverridable (
      args@{
        name,
        compressor ? "gz",
        ...
      }:
      let
        stream = streamLayeredImage (removeAttrs args [ "compressor" ]);
        commands = {
          gz = "gzip -n";
          none = "cat";
        };
        suffix = lib.optionalString (compressor != "none") ".gz";
      in
      assert lib.assertMsg (
        commands ? ${compressor}
      ) "hostpkgs: compressor '${compressor}' is neither gz nor none";
      runCommand "${baseNameOf name}.tar${suffix}" {
        inherit (stream) imageName;
        passthru = {
          inherit (stream) imageTag;
          inherit stream;
        };
        meta = args.meta or { };
      } "${stream} | ${commands.${compressor}} >$out"
    );

    # User database, for images that run programs which look their user up.
    fakeNss = self.fakeNss;
    binSh = runCommand "bin-sh" { } ''
      mkdir -p $out/bin
      ln -s ${self.bash}/bin/bash $out/bin/sh
    '';
    usrBinEnv = runCommand "usr-bin-env" { } ''
      mkdir -p $out/usr/bin
      ln -s ${self.coreutils}/bin/env $out/usr/bin/env
    '';
    caCertificates = runCommand "ca-certificates" { } ''
      mkdir -p $out/etc/ssl/certs
      for name in ca-bundle.crt ca-certificates.crt; do
        ln -s ${self.cacert}/etc/ssl/certs/ca-bundle.crt $out/etc/ssl/certs/$name
      done
    '';
  };

  fakeNss = self.symlinkJoin {
    name = "fake-nss";
    paths = [
      (self.writeTextDir "etc/passwd" ''
        root:x:0:0:root user:/var/empty:/bin/sh
        nobody:x:65534:65534:nobody:/var/empty:/bin/sh
      '')
      (self.writeTextDir "etc/group" ''
        root:x:0:
        nobody:x:65534:
      '')
      (self.writeTextDir "etc/nsswitch.conf" "hosts: files dns\n")
    ];
  };
}
