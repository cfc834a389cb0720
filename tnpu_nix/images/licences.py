"""The licences of store paths, where the package set that they came from knows them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix import flake, pinsfile, process
from tnpu_nix.images.inspection import Part
from tnpu_nix.nix import Nix, failure
from tnpu_nix.render import nix_strings

# Of a package: its outputs' paths and its licences. What does not evaluate (a package that is
# broken or not free) is as good as not there.
_TELL = """
  tell = one:
    let
      licence = one.meta.license or [ ];
      name = it: it.spdxId or it.fullName or it.shortName or "";
      words = map (it: if builtins.isAttrs it then name it else toString it) (
        if builtins.isList licence then licence else [ licence ]
      );
      found = {
        paths = map (name: one.${name}.outPath) (one.outputs or [ "out" ]);
        licences = builtins.filter (word: word != "") words;
      };
      tried = builtins.tryEval (
        if builtins.isAttrs one && one ? outPath then builtins.deepSeq found [ found ] else [ ]
      );
    in
    if tried.success then tried.value else [ ];
"""
# What a component wraps is in the image as well.
_COMPONENTS = f"""packages:
let
  {_TELL}
  both = one: tell one ++ (if one ? unwrapped then tell one.unwrapped else [ ]);
in
builtins.concatMap both (builtins.attrValues packages)
"""
_PACKAGES = """packages:
let
  names = @names@;
  sets = [ packages ] ++ map (name: packages.${name}.pkgs or { }) [ "python3" @python@ ];
  @tell@
in
builtins.concatMap (
  set: builtins.concatMap (name: if set ? ${name} then tell set.${name} else [ ]) names
) sets
"""


def of_parts(root: Path, parts: Sequence[Part], nix: Nix) -> dict[str, list[str]]:
    """Return store path → licences (SPDX identifiers, or names) of those that Nix knows.

    The flake's own packages are asked, and of the package set those whose attribute has the name
    of a store path. That such a package is the one in the image is known by its store path.

    Raises:
        TnpuError: the flake or the package set does not evaluate.
    """
    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    python = toolchain.python.attribute
    names = sorted(set(_attributes(parts, python)))
    with flake.copied(root) as copy:
        installable = flake.installable(nix, copy, f"packages.{flake.SYSTEM}")
        told = _evaluate(nix, installable, _COMPONENTS)
        text = _PACKAGES.replace("@names@", nix_strings(names, 2))
        text = text.replace("@python@", f'"{python}"').replace("@tell@", _TELL)
        told += _evaluate(nix, [flake.package_set(toolchain, nix)], text)
    found = {path: one.licences for one in told for path in one.paths if one.licences}
    return {part.path: found[part.path] for part in parts if part.path in found}


@dataclass(frozen=True)
class _Told:
    """What Nix told of a package."""

    paths: list[str]  # store paths of its outputs
    licences: list[str]


def _evaluate(nix: Nix, installable: list[str], function: str) -> list[_Told]:
    argv = ["nix", "eval", "--json", *installable, "--apply", function]
    done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure("evaluating licences", done.stderr)
    return [_Told(**one) for one in json.loads(done.stdout)]


def _attributes(parts: Sequence[Part], python: str) -> list[str]:
    """Return the names that packages of these store paths may have in a package set.

    Too many do no harm: a package counts only if it is the store path's own.
    """
    names = [python, "gcc-unwrapped"]
    for part in parts:
        words = re.sub(r"^python3(?:\.\d+)?-", "", part.name).split("-")
        names += ["-".join(words[:count]) for count in range(1, len(words) + 1)]
    return names
