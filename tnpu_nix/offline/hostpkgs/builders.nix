# Builders of one small thing: a command, a file, a tree of links, a source, a closure's paths.
self: _:
let
  inherit (self) lib stdenv;

  # Turns the files of a tree into links to them, without replacing what is there.
  linkInto = "cp -rsT --no-clobber --no-preserve=mode";
in
rec {
  runCommand =
    name: env: buildCommand:
    stdenv.mkDerivation (
      {
        inherit name buildCommand;
      }
      // env
      // {
        # A variable of the environment ends at 128 KiB.
        passAsFile = [ "buildCommand" ] ++ env.passAsFile or [ ];
      }
    );

  writeTextFile =
    {
      name,
      text,
      executable ? false,
      destination ? "",
      meta ? { },
    }:
    runCommand name
      {
        inherit text executable meta;
        passAsFile = [ "text" ];
        preferLocalBuild = true;
        allowSubstitutes = false;
      }
      ''
        target=$out${lib.escapeShellArg destination}
        mkdir -p "$(dirname "$target")"
        cp "$textPath" "$target"
        if [[ -n $executable ]]; then chmod +x "$target"; fi
      '';
  writeText = name: text: writeTextFile { inherit name text; };
  writeShellScriptBin =
    name: text:
    writeTextFile {
      inherit name;
      text = "#!${self.runtimeShell}\n${text}";
      executable = true;
      destination = "/bin/${name}";
      meta.mainProgram = name;
    };

  symlinkJoin =
    args@{
      name ? "${args.pname}-${args.version}",
      paths,
      postBuild ? "",
      ...
    }:
    runCommand name
      (
        removeAttrs args [
          "name"
          "postBuild"
        ]
        // {
          preferLocalBuild = true;
          allowSubstitutes = false;
        }
      )
      ''
        mkdir -p $out
        for path in $paths; do
          ${linkInto} "$path" $out
        done
        ${postBuild}
      '';

  # A source, at the path that `nix-store --add-fixed` and nix-prefetch-git give it. Nothing is
  # fetched here: what a bump or `tnpu-nix build` has put into the store is taken from there.
  fetchgit = lib.makeOverridable (
    {
      url,
      rev,
      hash,
      name ? "${lib.removeSuffix ".git" (baseNameOf url)}-${builtins.substring 0 7 rev}",
      # They are part of what the hash covers, and no more than that.
      fetchSubmodules ? true,
      fetchLFS ? false,
    }:
    self.hostDerivation {
      pname = name;
      inherit name url rev;
      outputHashMode = "recursive";
      outputHashAlgo = "sha256";
      outputHash = hash;
      preferLocalBuild = true;
      script = ''
        die "revision $rev of $url is not in the store, and hostpkgs fetches nothing" \
          "let tnpu-nix build or tnpu-nix bump fetch it, or run: nix-prefetch-git $url $rev"
      '';
    }
  );

  # store-paths: every path the roots need; registration: what nix-store --load-db reads.
  closureInfo =
    { rootPaths }:
    derivation {
      name = "closure-info";
      inherit (self) system;
      __structuredAttrs = true;
      exportReferencesGraph.closure = map (path: "${path}") (lib.toList rootPaths);
      PATH = "/usr/bin:/bin";
      builder = "/bin/bash";
      args = [
        "-euc"
        ". .attrs.sh; /usr/bin/python3 ${./closure_info.py} .attrs.json \"\${outputs[out]}\"; :"
      ];
    };

  removeReferencesTo = writeShellScriptBin "remove-references-to" ''
    # Overwrite the hash of each store path given with -t in the files given after them.
    set -euo pipefail
    targets=()
    while [[ ''${1-} == -t ]]; do targets+=("$2"); shift 2; done
    for target in "''${targets[@]}"; do
      hash=''${target#"$NIX_STORE"/}
      hash=''${hash:0:32}
      for file; do
        if [[ ! -L $file ]] && ${self.gnugrep}/bin/grep -qaF "$hash" "$file"; then
          ${self.gnused}/bin/sed -i "s/$hash/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee/g" "$file"
        fi
      done
    done
  '';

  makeWrapper = writeTextFile {
    name = "make-wrapper";
    text = builtins.readFile ./stdenv/make-wrapper.sh;
    destination = "/nix-support/setup-hook";
  };

  # A derivation for `nix develop`; built, it is the environment written down.
  mkShell =
    {
      packages ? [ ],
      nativeBuildInputs ? [ ],
      ...
    }@args:
    stdenv.mkDerivation (
      { name = "nix-shell"; }
      // removeAttrs args [ "packages" ]
      // {
        nativeBuildInputs = packages ++ nativeBuildInputs;
        phases = [ "buildPhase" ];
        buildPhase = "export >$out";
      }
    );
}
