# The part of nixpkgs' `lib` that package expressions use, under its names and with
# its semantics.
let
  inherit (builtins)
    attrNames
    elem
    elemAt
    filter
    foldl'
    functionArgs
    hasAttr
    head
    intersectAttrs
    isAttrs
    isFunction
    isList
    isString
    length
    listToAttrs
    match
    replaceStrings
    stringLength
    substring
    tail
    ;
in
rec {
  inherit (builtins)
    attrNames
    attrValues
    all
    any
    compareVersions
    concatLists
    concatMap
    concatStringsSep
    elem
    elemAt
    filter
    foldl'
    fromJSON
    genList
    getAttr
    hasAttr
    head
    intersectAttrs
    isAttrs
    isBool
    isInt
    isList
    isPath
    isString
    length
    listToAttrs
    mapAttrs
    readFile
    replaceStrings
    sort
    splitVersion
    stringLength
    substring
    tail
    toJSON
    tryEval
    ;

  # Functions and fixed points
  id = x: x;
  const = x: _: x;
  flip =
    f: a: b:
    f b a;
  pipe = foldl' (x: f: f x);
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
      appendOverlays = overlays: makeExtensible (extends (composeManyExtensions overlays) f);
    };
  isFunction = f: builtins.isFunction f || (f ? __functor && builtins.isFunction (f.__functor f));
  functionArgs =
    f:
    if f ? __functor then
      f.__functionArgs or (functionArgs (f.__functor f))
    else
      builtins.functionArgs f;
  setFunctionArgs = f: args: {
    __functor = _: f;
    __functionArgs = args;
  };
  toFunction = v: if isFunction v then v else _: v;
  makeOverridable = f: setFunctionArgs (overridable f) (functionArgs f);
  overridable =
    f: args:
    let
      result = f args;
      override = new: overridable f (args // (if isFunction new then new args else new));
      again = g: overridable (a: g (f a)) args;
    in
    if isAttrs result then
      result
      // {
        inherit override;
      }
      // optionalAttrs (result ? overrideAttrs) {
        overrideAttrs = changes: again (r: r.overrideAttrs changes);
      }
    else
      result;
  callPackageWith =
    autoArgs: fn: args:
    let
      f = if isFunction fn then fn else import fn;
      wanted = functionArgs f;
      missing = filter (name: !wanted.${name} && !(autoArgs ? ${name}) && !(args ? ${name})) (
        attrNames wanted
      );
    in
    if missing != [ ] then
      throw "callPackage: hostpkgs has no '${head missing}', which the package asks for"
    else
      overridable f (intersectAttrs wanted autoArgs // args);
  warn = msg: builtins.trace "warning: ${msg}";
  warnIf = cond: msg: if cond then warn msg else id;
  throwIf = cond: msg: if cond then throw msg else id;
  throwIfNot = cond: throwIf (!cond);
  assertMsg = cond: msg: cond || throw msg;

  # Lists
  optional = cond: x: if cond then [ x ] else [ ];
  optionals = cond: xs: if cond then xs else [ ];
  singleton = x: [ x ];
  toList = x: if isList x then x else [ x ];
  flatten = x: if isList x then builtins.concatMap flatten x else [ x ];
  unique = foldl' (acc: x: if elem x acc then acc else acc ++ [ x ]) [ ];
  subtractLists = without: filter (x: !(elem x without));
  last = xs: elemAt xs (length xs - 1);
  init = xs: builtins.genList (elemAt xs) (length xs - 1);
  take = n: xs: builtins.genList (elemAt xs) (if n < length xs then n else length xs);
  foldr =
    f: nul: xs:
    if xs == [ ] then nul else f (head xs) (foldr f nul (tail xs));
  imap0 = f: xs: builtins.genList (i: f i (elemAt xs i)) (length xs);
  remove = x: filter (y: y != x);
  partition = builtins.partition;
  range =
    first: last: builtins.genList (i: first + i) (if last < first then 0 else last - first + 1);

  # Attribute sets
  nameValuePair = name: value: { inherit name value; };
  optionalAttrs = cond: attrs: if cond then attrs else { };
  genAttrs = names: f: listToAttrs (map (n: nameValuePair n (f n)) names);
  mapAttrsToList = f: attrs: map (n: f n attrs.${n}) (attrNames attrs);
  mapAttrs' = f: attrs: listToAttrs (mapAttrsToList f attrs);
  filterAttrs =
    pred: attrs: removeAttrs attrs (filter (n: !(pred n attrs.${n})) (attrNames attrs));
  attrByPath =
    path: default: attrs:
    if path == [ ] then
      attrs
    else if isAttrs attrs && attrs ? ${head path} then
      attrByPath (tail path) default attrs.${head path}
    else
      default;
  hasAttrByPath =
    path: attrs:
    path == [ ]
    || (isAttrs attrs && attrs ? ${head path} && hasAttrByPath (tail path) attrs.${head path});
  mergeAttrsList = foldl' (a: b: a // b) { };
  recursiveUpdate =
    a: b:
    a
    // builtins.mapAttrs (
      n: v: if isAttrs v && isAttrs (a.${n} or null) then recursiveUpdate a.${n} v else v
    ) b;
  isDerivation = x: (x.type or null) == "derivation";
  recurseIntoAttrs = attrs: attrs // { recurseForDerivations = true; };

  # Strings
  optionalString = cond: s: if cond then s else "";
  concatStrings = builtins.concatStringsSep "";
  concatMapStrings = f: xs: concatStrings (map f xs);
  concatMapStringsSep =
    sep: f: xs:
    builtins.concatStringsSep sep (map f xs);
  concatLines = concatMapStrings (s: s + "\n");
  hasPrefix = p: s: substring 0 (stringLength p) s == p;
  hasSuffix =
    p: s:
    let
      n = stringLength s - stringLength p;
    in
    n >= 0 && substring n (-1) s == p;
  hasInfix = infix: s: replaceStrings [ infix ] [ "" ] s != s;
  removePrefix = p: s: if hasPrefix p s then substring (stringLength p) (-1) s else s;
  removeSuffix = p: s: if hasSuffix p s then substring 0 (stringLength s - stringLength p) s else s;
  splitString = sep: s: filter isString (builtins.split (escapeRegex sep) s);
  escape = chars: replaceStrings chars (map (c: "\\${c}") chars);
  escapeRegex = escape [ "\\" "." "*" "+" "?" "^" "$" "(" ")" "[" "]" "{" "}" "|" ];
  escapeShellArg =
    arg:
    let
      s = toString arg;
    in
    if match "[[:alnum:],._+:@%/-]+" s != null then
      s
    else
      "'${replaceStrings [ "'" ] [ "'\\''" ] s}'";
  escapeShellArgs = concatMapStringsSep " " escapeShellArg;
  toLower = replaceStrings upperChars lowerChars;
  toUpper = replaceStrings lowerChars upperChars;
  lowerChars = splitChars "abcdefghijklmnopqrstuvwxyz";
  upperChars = splitChars "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  splitChars = s: builtins.genList (i: substring i 1 s) (stringLength s);
  boolToString = b: if b then "true" else "false";
  trim = s: head (match "[[:space:]]*(.*[^[:space:]]|)[[:space:]]*" s);
  fileContents = file: removeSuffix "\n" (builtins.readFile file);
  makeSearchPath = sub: paths: concatMapStringsSep ":" (p: "${p}/${sub}") (remove null paths);
  makeSearchPathOutput = output: sub: paths: makeSearchPath sub (map (getOutput output) paths);
  makeBinPath = makeSearchPathOutput "bin" "bin";
  makeLibraryPath = makeSearchPathOutput "lib" "lib";
  cmakeOptionType = type: name: value: "-D${name}:${type}=${value}";
  cmakeBool = name: cond: cmakeOptionType "BOOL" name (if cond then "TRUE" else "FALSE");
  cmakeFeature = cmakeOptionType "STRING";
  enableFeature = cond: name: "--${if cond then "enable" else "disable"}-${name}";
  withFeature = cond: name: "--${if cond then "with" else "without"}-${name}";
  withFeatureAs = cond: name: value: withFeature cond name + optionalString cond "=${value}";

  # Versions and names
  versionOlder = a: b: builtins.compareVersions b a == 1;
  versionAtLeast = a: b: !versionOlder a b;
  versions = {
    major = v: elemAt (builtins.splitVersion v) 0;
    minor = v: elemAt (builtins.splitVersion v) 1;
    majorMinor = v: builtins.concatStringsSep "." (take 2 (builtins.splitVersion v));
  };
  getVersion =
    x: if isString x then (builtins.parseDrvName x).version else x.version or (getVersion x.name);
  getName = x: if isString x then (builtins.parseDrvName x).name else x.pname or (getName x.name);

  # Derivations
  getOutput =
    output: pkg:
    if pkg.outputSpecified or false then pkg else pkg.${output} or pkg.out or pkg;
  getBin = getOutput "bin";
  getLib = getOutput "lib";
  getDev = getOutput "dev";
  getMan = getOutput "man";
  chooseDevOutputs = map (x: if isAttrs x then getDev x else x);
  getExe = pkg: getExe' pkg (pkg.meta.mainProgram or (getName pkg));
  getExe' = pkg: program: "${getBin pkg}/bin/${program}";
  cleanSourceFilter =
    name: type:
    let
      base = baseNameOf (toString name);
    in
    !(
      elem base [ ".git" ".svn" ".hg" "CVS" ]
      || hasSuffix "~" base
      || match ".*\\.sw[a-z]" base != null
      || match ".*\\.(o|so)" base != null
      || (type == "symlink" && hasPrefix "result" base)
    );
  cleanSource = src: cleanSourceWith { inherit src; };
  cleanSourceWith =
    {
      src,
      filter ? cleanSourceFilter,
      name ? "source",
    }:
    builtins.path { inherit name filter; path = src; };

  licenses = builtins.mapAttrs (shortName: spdxId: { inherit shortName spdxId; free = true; }) {
    asl20 = "Apache-2.0";
    bsd2 = "BSD-2-Clause";
    bsd3 = "BSD-3-Clause";
    gpl2Plus = "GPL-2.0-or-later";
    gpl3Plus = "GPL-3.0-or-later";
    lgpl21Plus = "LGPL-2.1-or-later";
    llvm-exception = "LLVM-exception";
    mit = "MIT";
    ncsa = "NCSA";
    psfl = "Python-2.0";
  };
  platforms = {
    linux = [ "x86_64-linux" "aarch64-linux" "riscv64-linux" ];
    x86_64 = [ "x86_64-linux" ];
    unix = platforms.linux;
    all = platforms.linux ++ platforms.riscv64;
    riscv64 = [ "riscv64-linux" "riscv64-none" ];
    none = [ ];
  };
  maintainers = { };
  teams = { };
  fakeHash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
  fakeSha256 = "0000000000000000000000000000000000000000000000000000000000000000";
}
