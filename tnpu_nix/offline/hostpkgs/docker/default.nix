# dockerTools: layered images whose layers are store paths.
self: _:
let
  inherit (self) lib runCommand;

  # The files outside the store as a tar: links to what contents hold, and what extraCommands make.
  customisationLayer =
    {
      baseName,
      contents,
      extraCommands,
      mtime,
    }:
    runCommand "${baseName}-customisation-layer"
      {
        inherit extraCommands mtime;
        contents = lib.toList contents;
        passAsFile = [ "extraCommands" ];
      }
      ''
        mkdir -p layer $out
        for path in $contents; do
          cp -rsT --no-clobber --no-preserve=mode "$path" layer
        done
        rm -rf layer/nix-support
        chmod -R u+w layer
        (cd layer; source "$extraCommandsPath")
        find layer -mindepth 1 -printf '%P\0' | sort -z \
          | tar -C layer --null --no-recursion --files-from - --mtime="$mtime" --format=gnu \
            --hard-dereference --numeric-owner --owner=0 --group=0 -cf "$out/layer.tar"
      '';

  # Which store paths go into which layer is fixed when the image is built; the layers themselves
  # are made while it is streamed.
  layerPlan =
    {
      baseName,
      config,
      layer,
      settings,
    }:
    let
      # Paths that the configuration names are part of the image.
      configJson = self.writeText "${baseName}-config.json" (builtins.toJSON { inherit config; });
    in
    derivation {
      name = "${baseName}-conf.json";
      inherit (self) system;
      __structuredAttrs = true;
      settings = builtins.toJSON (settings // { customisation_layer = "${layer}/layer.tar"; });
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

  # An image of a registry as a docker-archive. It has to be in the store already.
  pullImage =
    {
      imageName,
      imageDigest,
      hash,
      finalImageName ? imageName,
      finalImageTag ? "latest",
    }:
    self.hostDerivation rec {
      pname = name;
      name =
        builtins.replaceStrings [ "/" ":" ] [ "-" "-" ]
          "docker-image-${finalImageName}-${finalImageTag}.tar";
      inherit imageName imageDigest;
      outputHashMode = "flat";
      outputHashAlgo = "sha256";
      outputHash = hash;
      preferLocalBuild = true;
      script = ''
        die "the image $imageName@$imageDigest is not in the store, and hostpkgs fetches nothing" \
          "let tnpu-nix build or tnpu-nix bump fetch it"
      '';
    };

  # A program that writes the image to its standard output.
  streamLayeredImage = lib.makeOverridable (
    {
      name,
      tag ? null,
      # A docker-archive, compressed or not, whose layers come first.
      fromImage ? null,
      contents ? [ ],
      config ? { },
      created ? "1970-01-01T00:00:01Z",
      mtime ? "1970-01-01T00:00:01Z",
      maxLayers ? 100,
      extraCommands ? "",
      layeringPipeline ? null,
    }:
    assert lib.assertMsg (
      created != "now" && mtime != "now"
    ) "hostpkgs: dockerTools makes reproducible images only; give created and mtime as a date";
    let
      baseName = baseNameOf name;
      conf = layerPlan {
        inherit baseName config;
        layer = customisationLayer {
          inherit
            baseName
            contents
            extraCommands
            mtime
            ;
        };
        settings = {
          inherit
            created
            maxLayers
            mtime
            tag
            ;
          repo = lib.toLower name;
          from_image = if fromImage == null then null else "${fromImage}";
          pipeline = layeringPipeline;
        };
      };
    in
    runCommand "stream-${baseName}"
      {
        inherit conf;
        stream = ./stream_image.py;
        meta.mainProgram = "stream-${baseName}";
        passthru.imageTag =
          if tag != null then
            tag
          else
            builtins.substring 0 32 (baseNameOf (builtins.unsafeDiscardStringContext conf.outPath));
      }
      ''
        # /bin/sh and /usr/bin/python3 are the machine's: the script is not part of an
        # image. A store that is not at /nix/store is found by where the script lies.
        {
          echo '#!/bin/sh'
          echo 'self=$(readlink -f "$0")'
          echo "root=\''${self%$out}"
          echo "exec /usr/bin/python3 \"\$root$stream\" \"\$root$conf\" --root \"\$root\""
        } >$out
        chmod +x $out
      ''
  );
in
{
  dockerTools = {
    inherit pullImage streamLayeredImage;

    buildLayeredImage =
      let
        build =
          args:
          let
            stream = streamLayeredImage args;
          in
          runCommand "${baseNameOf args.name}.tar.gz" { passthru = { inherit (stream) imageTag; }; } ''
            ${stream} | gzip -n >$out
          '';
      in
      # nix/ asks which arguments it takes.
      lib.makeOverridable {
        __functor = _: build;
        __functionArgs = lib.functionArgs streamLayeredImage;
      };
  };
}
