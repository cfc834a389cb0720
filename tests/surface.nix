# A package set that is neither nixpkgs nor hostpkgs: the names that nix/ may use of one, each a
# derivation that is never built. What is not here, the generated files must not need.
let
  fix = f: let x = f x; in x;
  derivationOf =
    name: extra:
    derivation {
      inherit name;
      system = "x86_64-linux";
      builder = "/none";
      args = [ (builtins.toJSON (builtins.attrNames extra)) ];
    }
    // {
      inherit name;
      version = extra.version or "0";
      dev = derivationOf "${name}-dev" { };
    }
    // (extra.passthru or { });
  withArguments =
    make: attrs:
    let
      given = if builtins.isFunction attrs then fix attrs else attrs;
    in
    # Everything that reaches a derivation has to evaluate.
    builtins.deepSeq (builtins.mapAttrs (_: toString') (removeAttrs given [ "meta" "passthru" ])) (
      make given
    );
  toString' =
    value:
    if builtins.isList value then
      map toString' value
    else if builtins.isAttrs value && !(value ? outPath) then
      builtins.mapAttrs (_: toString') value
    else if builtins.isBool value || value == null then
      ""
    else
      "${toString value}";
  mkDerivation = withArguments (
    given: derivationOf (given.name or "${given.pname}-${given.version}") given
  );
  lib = rec {
    inherit fix;
    extends = overlay: f: final: let prev = f final; in prev // overlay final prev;
    callPackageWith =
      scope: file: overrides:
      let
        function = if builtins.isFunction file then file else import file;
      in
      function (builtins.intersectAttrs (builtins.functionArgs function) scope // overrides);
    inherit (builtins) functionArgs;
    isDerivation = value: value.type or null == "derivation";
    hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
    optional = condition: value: if condition then [ value ] else [ ];
    optionalAttrs = condition: value: if condition then value else { };
    inherit (builtins) concatStringsSep foldl';
    concatMapStringsSep = separator: f: list: concatStringsSep separator (map f list);
    mapAttrsToList = f: set: map (name: f name set.${name}) (builtins.attrNames set);
    escapeShellArg = text: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] (toString text)}'";
    escapeShellArgs = list: concatMapStringsSep " " escapeShellArg list;
    makeBinPath = list: concatMapStringsSep ":" (one: "${one}/bin") list;
    platforms.linux = [ "x86_64-linux" ];
  };
  named = names: builtins.listToAttrs (map (name: { inherit name; value = derivationOf name { }; }) names);
  python = derivationOf "python3" { } // {
    sitePackages = "lib/python3/site-packages";
    withPackages = f: derivationOf "python3-env" { inherits = toString' (f python.pkgs); };
    pkgs = named [ "click" "drawsvg" "jinja2" "nanobind" "pybind11" "pydantic" "rich" "setuptools" "tomlkit" "wheel" ] // {
      buildPythonPackage = mkDerivation;
      buildPythonApplication = mkDerivation;
    };
  };
  stdenv = {
    inherit mkDerivation;
    cc = derivationOf "cc-wrapper" { };
  };
in
named [
  "bash"
  "cmake"
  "coreutils"
  "dtc"
  "git"
  "ninja"
  "nix"
  "nix-prefetch-git"
  "nixfmt"
  "nlohmann_json"
  "removeReferencesTo"
]
// {
  inherit lib stdenv;
  callPackage = lib.callPackageWith (import ./surface.nix);
  python3 = python;
  python311 = python;
  python313 = python;
  pkgsCross.riscv64-embedded = {
    stdenv = stdenv // { cc = derivationOf "cross-cc" { }; };
  };
  fetchgit = given: derivationOf given.name { } // { arguments = given; };
  symlinkJoin = withArguments (given: derivationOf given.name given);
  closureInfo = withArguments (_: derivationOf "closure-info" { });
  runCommand = name: given: text: builtins.seq "${text}" (withArguments (derivationOf name) given);
  dockerTools = rec {
    buildLayeredImage = withArguments (given: derivationOf given.name { } // { arguments = given; });
    streamLayeredImage = buildLayeredImage;
    pullImage = given: derivationOf "docker-image.tar" { } // { arguments = given; };
  };
}
