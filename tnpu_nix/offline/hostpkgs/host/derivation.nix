# A derivation that runs on the machine's own shell and tools, before there is a stdenv: it copies
# or links what the machine has into the store.
{ system }:
{
  pname,
  version ? "host",
  # Debian packages to name when something is missing.
  apt ? "",
  script,
  passthru ? { },
  meta ? { },
  ...
}@args:
let
  drv = derivation (
    removeAttrs args [
      "script"
      "passthru"
      "meta"
      "version"
    ]
    // {
      # A source carries a name of its own: it is part of its store path.
      name = args.name or "${pname}-${version}";
      inherit system apt;
      builder = "/bin/bash";
      args = [
        "-euo"
        "pipefail"
        "-c"
        # The last word is the shell's: it would exec a last external command, and
        # Nix kills a builder that closes its standard error before it exits, as cp does.
        ". ${./tools.sh}\n${script}\n:"
      ];
      PATH = "/usr/bin:/bin";
      LC_ALL = "C.UTF-8";
    }
  );
in
drv // { inherit pname version meta; } // passthru
