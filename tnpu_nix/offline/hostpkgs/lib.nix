# The part of nixpkgs' `lib` that package expressions use, under its names and with its semantics.
let
  inherit (builtins)
    attrNames
    concatStringsSep
    elem
    filter
    genList
    head
    isAttrs
    isList
    replaceStrings
    stringLength
    substring
    ;
in
rec {
  inherit (builtins)
    concatMap
    concatStringsSep
    elem
    filter
    foldl'
    head
    ;

  # Functions and fixed points
  fix =
    f:
    let
      x = f x;
    in
    x;
  extends =
    overlay: f: final:
    let
      prev = f final;
    in
    prev // overlay final prev;
  composeExtensions =
    f: g: final: prev:
    let
      applied = f final prev;
    in
    applied // g final (prev // applied);
  composeManyExtensions = foldl' composeExtensions (_: _: { });
  makeExtensible =
    f:
    let
      self = f self;
    in
    self
    // {
      extend = overlay: makeExtensible (extends overlay f);
    };
  isFunction = f: builtins.isFunction f || (f ? __functor && isFunction (f.__functor f));
  functionArgs =
    f:
    if f ? __functor then
      f.__functionArgs or (functionArgs (f.__functor f))
    else
      builtins.functionArgs f;
  toFunction = v: if isFunction v then v else _: v;
  # f with the result's `override`; what f takes stays visible to functionArgs.
  makeOverridable = f: {
    __functor = _: overridable f;
    __functionArgs = functionArgs f;
  };
  overridable =
    f: args:
    let
      result = f args;
      again = change: overridable (a: change (f a)) args;
    in
    if !isAttrs result then
      result
    else
      result
      // {
        override = new: overridable f (args // toFunction new args);
      }
      // optionalAttrs (result ? overrideAttrs) {
        overrideAttrs = changes: again (r: r.overrideAttrs changes);
      };
  callPackageWith =
    scope: file: args:
    let
      f = if isFunction file then file else import file;
      wanted = functionArgs f;
      given = builtins.intersectAttrs wanted scope // args;
      missing = filter (name: !wanted.${name} && !(given ? ${name})) (attrNames wanted);
    in
    if missing != [ ] then
      throw "callPackage: hostpkgs has no '${head missing}', which the package asks for"
    else
      overridable f given;
  assertMsg = cond: msg: cond || throw msg;

  # Lists
  optional = cond: x: optionals cond [ x ];
  optionals = cond: xs: if cond then xs else [ ];
  toList = x: if isList x then x else [ x ];
  flatten = x: if isList x then builtins.concatMap flatten x else [ x ];
  unique = foldl' (acc: x: if elem x acc then acc else acc ++ [ x ]) [ ];
  remove = x: filter (y: y != x);

  # Attribute sets
  nameValuePair = name: value: { inherit name value; };
  optionalAttrs = cond: attrs: if cond then attrs else { };
  genAttrs = names: f: builtins.listToAttrs (map (n: nameValuePair n (f n)) names);
  mapAttrsToList = f: attrs: map (n: f n attrs.${n}) (attrNames attrs);
  mapAttrs' = f: attrs: builtins.listToAttrs (mapAttrsToList f attrs);
  filterAttrs =
    pred: attrs: removeAttrs attrs (filter (n: !(pred n attrs.${n})) (attrNames attrs));
  isDerivation = x: (x.type or null) == "derivation";

  # Strings
  optionalString = cond: s: if cond then s else "";
  concatMapStrings = concatMapStringsSep "";
  concatMapStringsSep =
    sep: f: xs:
    concatStringsSep sep (map f xs);
  hasPrefix = p: s: substring 0 (stringLength p) s == p;
  removeSuffix =
    p: s:
    let
      rest = stringLength s - stringLength p;
    in
    if rest >= 0 && substring rest (-1) s == p then substring 0 rest s else s;
  escapeShellArg =
    arg:
    if builtins.match "[[:alnum:],._+:@%/-]+" (toString arg) != null then
      toString arg
    else
      "'${replaceStrings [ "'" ] [ "'\\''" ] (toString arg)}'";
  escapeShellArgs = concatMapStringsSep " " escapeShellArg;
  toLower =
    let
      chars = s: genList (i: substring i 1 s) (stringLength s);
    in
    replaceStrings (chars "ABCDEFGHIJKLMNOPQRSTUVWXYZ") (chars "abcdefghijklmnopqrstuvwxyz");
  makeSearchPathOutput =
    output: folder: concatMapStringsSep ":" (pkg: "${getOutput output pkg}/${folder}");
  makeBinPath = makeSearchPathOutput "bin" "bin";
  makeLibraryPath = makeSearchPathOutput "lib" "lib";
  cmakeBool = name: cond: "-D${name}:BOOL=${if cond then "TRUE" else "FALSE"}";
  cmakeFeature = name: value: "-D${name}:STRING=${value}";
  versionOlder = a: b: builtins.compareVersions b a == 1;
  versionAtLeast = a: b: !versionOlder a b;

  # Derivations
  getOutput =
    output: pkg: if pkg.outputSpecified or false then pkg else pkg.${output} or pkg.out or pkg;
  getBin = getOutput "bin";
  getLib = getOutput "lib";
  getDev = getOutput "dev";
  platforms.linux = [ "x86_64-linux" ];
  licenses = {
    bsd3 = {
      spdxId = "BSD-3-Clause";
      fullName = "BSD licence with three clauses";
    };
    mit = {
      spdxId = "MIT";
      fullName = "MIT licence";
    };
  };
}
