# Fetchers: fixed-output derivations whose paths are those that `nix-store --add-fixed`
# and nix-prefetch-git give, so what is in the store already is not fetched again.
self: _:
let
  inherit (self) lib;
  proxies = [
    "http_proxy"
    "https_proxy"
    "HTTP_PROXY"
    "HTTPS_PROXY"
    "ALL_PROXY"
    "all_proxy"
    "no_proxy"
    "NO_PROXY"
    "GIT_SSL_CAINFO"
  ];
in
{
  fetchgit = lib.makeOverridable (
    {
      url,
      rev ? "HEAD",
      hash ? "",
      sha256 ? "",
      name ? null,
      fetchSubmodules ? true,
      fetchLFS ? false,
      deepClone ? false,
      leaveDotGit ? false,
      passthru ? { },
      meta ? { },
      ...
    }:
    let
      repo = lib.removeSuffix ".git" (baseNameOf (lib.removeSuffix "/" url));
      given = if hash != "" then hash else sha256;
      realName = if name != null then name else "${repo}-${lib.substring 0 7 rev}";
    in
    (self.hostDerivation {
      pname = realName;
      apt = "git";
      name = realName;
      inherit url rev fetchSubmodules fetchLFS deepClone leaveDotGit;
      outputHashMode = "recursive";
      outputHashAlgo = "sha256";
      outputHash = if given == "" then lib.fakeHash else given;
      impureEnvVars = proxies;
      cacert = "${self.cacert}/etc/ssl/certs/ca-bundle.crt";
      preferLocalBuild = true;
      script = ". ${./fetch-git.sh}";
      passthru = { gitRepoUrl = url; } // passthru;
      inherit meta;
    })
    // {
      name = realName;
      inherit url rev;
    }
  );

  fetchurl =
    {
      url ? lib.head urls,
      urls ? [ ],
      hash ? "",
      sha256 ? "",
      name ? baseNameOf url,
      executable ? false,
      ...
    }:
    derivation {
      inherit name url executable;
      system = "builtin";
      builder = "builtin:fetchurl";
      outputHashAlgo = "sha256";
      outputHashMode = if executable then "recursive" else "flat";
      outputHash = if hash != "" then hash else sha256;
      unpack = false;
      impureEnvVars = proxies;
      preferLocalBuild = true;
    };
}
