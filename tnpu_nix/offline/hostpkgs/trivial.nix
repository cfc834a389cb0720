# Builders of one small thing: a command, a file, a tree of links, a closure's paths.
self: _:
let
  inherit (self) lib stdenv;

  runCommandWith =
    stdenv: name: env: buildCommand:
    stdenv.mkDerivation (
      {
        inherit name buildCommand;
        enableParallelBuilding = true;
      }
      // env
    );
  local = {
    preferLocalBuild = true;
    allowSubstitutes = false;
  };
  linkInto = "cp -rsT --no-clobber --no-preserve=mode";
in
rec {
  runCommand = runCommandWith stdenv;
  runCommandCC = runCommand;
  runCommandNoCC = runCommand;
  runCommandLocal = name: env: runCommand name (env // local);

  writeTextFile =
    {
      name,
      text,
      executable ? false,
      destination ? "",
      checkPhase ? "",
      meta ? { },
      ...
    }:
    runCommandLocal name
      {
        inherit text executable checkPhase meta;
        passAsFile = [ "text" ];
      }
      ''
        target=$out${lib.escapeShellArg destination}
        mkdir -p "$(dirname "$target")"
        cp "$textPath" "$target"
        if [[ -n $executable ]]; then chmod +x "$target"; fi
        eval "$checkPhase"
      '';
  writeText = name: text: writeTextFile { inherit name text; };
  writeTextDir = path: text: writeTextFile {
    name = baseNameOf path;
    inherit text;
    destination = "/${path}";
  };
  writeScript = name: text: writeTextFile {
    inherit name text;
    executable = true;
  };
  writeScriptBin = name: text: writeTextFile {
    inherit name text;
    executable = true;
    destination = "/bin/${name}";
    meta.mainProgram = name;
  };
  writeShellScript = name: text: writeScript name "#!${self.runtimeShell}\n${text}";
  writeShellScriptBin = name: text: writeScriptBin name "#!${self.runtimeShell}\n${text}";
  writeShellApplication =
    {
      name,
      text,
      runtimeInputs ? [ ],
      ...
    }:
    writeShellScriptBin name ''
      set -o errexit -o nounset -o pipefail
      export PATH="${lib.makeBinPath runtimeInputs}:$PATH"
      ${text}
    '';

  buildEnv =
    {
      name,
      paths,
      pathsToLink ? [ "/" ],
      extraPrefix ? "",
      ignoreCollisions ? false,
      extraOutputsToInstall ? [ ],
      postBuild ? "",
      passthru ? { },
      meta ? { },
      ...
    }:
    runCommandLocal name
      {
        inherit pathsToLink passthru meta;
        paths =
          let
            more = path: lib.filter (output: path ? ${output}) extraOutputsToInstall;
            outputs = path: [ (lib.getBin path) ] ++ map (output: path.${output}) (more path);
          in
          lib.concatMap (path: lib.unique (outputs path)) paths;
      }
      ''
        mkdir -p "$out${extraPrefix}"
        # A later path does not replace what an earlier one has put there.
        for path in $paths; do
          for part in $pathsToLink; do
            [[ -e $path$part ]] || continue
            mkdir -p "$out${extraPrefix}$part"
            ${linkInto} "$path$part" "$out${extraPrefix}$part"
          done
        done
        rm -rf "$out${extraPrefix}/nix-support"
        ${postBuild}
      '';
  symlinkJoin =
    args@{
      name ? "${args.pname}-${args.version}",
      paths,
      postBuild ? "",
      passthru ? { },
      meta ? { },
      ...
    }:
    runCommandLocal name (removeAttrs args [ "name" "postBuild" ]) ''
      mkdir -p $out
      for path in $paths; do
        ${linkInto} "$path" $out
      done
      ${postBuild}
    '';
  linkFarm =
    name: entries:
    let
      named = lib.mapAttrsToList (name: path: { inherit name path; });
      list = if lib.isAttrs entries then named entries else entries;
    in
    runCommandLocal name { } (
      "mkdir -p $out\n"
      + lib.concatMapStrings (e: ''
        mkdir -p "$(dirname $out/${lib.escapeShellArg e.name})"
        ln -s ${lib.escapeShellArg "${e.path}"} $out/${lib.escapeShellArg e.name}
      '') list
    );

  # store-paths: every path the roots need; registration: what nix-store --load-db reads.
  closureInfo =
    { rootPaths }:
    derivation {
      name = "closure-info";
      inherit (self) system;
      __structuredAttrs = true;
      exportReferencesGraph.closure = map (p: "${p}") (lib.toList rootPaths);
      PATH = "/usr/bin:/bin";
      builder = "/bin/bash";
      args = [
        "-euc"
        ". .attrs.sh; /usr/bin/python3 ${./closure_info.py} .attrs.json \"\${outputs[out]}\"; :"
      ];
    };
  writeClosure =
    paths:
    runCommandLocal "closure-paths" { } ''
      cp ${closureInfo { rootPaths = paths; }}/store-paths $out
    '';

  removeReferencesTo = writeScriptBin "remove-references-to" ''
    #!${self.runtimeShell}
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

  makeWrapper = self.writeTextDir "nix-support/setup-hook" (lib.readFile ./make-wrapper.sh);
  makeBinaryWrapper = makeWrapper;

  mkShell =
    {
      name ? "nix-shell",
      packages ? [ ],
      inputsFrom ? [ ],
      nativeBuildInputs ? [ ],
      buildInputs ? [ ],
      shellHook ? "",
      ...
    }@args:
    let
      from = attr: lib.concatMap (p: p.drvAttrs.${attr} or [ ]) inputsFrom;
    in
    stdenv.mkDerivation (
      removeAttrs args [ "packages" "inputsFrom" ]
      // {
        inherit name shellHook;
        nativeBuildInputs = packages ++ nativeBuildInputs ++ from "nativeBuildInputs";
        buildInputs = buildInputs ++ from "buildInputs";
        phases = [ "buildPhase" ];
        buildPhase = "export >$out";
      }
    );
  mkShellNoCC = mkShell;

}
