"""Whether an image holds what the pins say, and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tnpu_nix.errors import TnpuError
from tnpu_nix.images import compare
from tnpu_nix.images.below import Below, below
from tnpu_nix.images.contents import STORE, Contents, scan
from tnpu_nix.images.expected import Expected, Say
from tnpu_nix.images.tar import Entry
from tnpu_nix.storepath import DIGITS, root_of

# Lines of one kind that are printed; JSON has all of them.
_SHOWN = 12
# A tag as dockerTools gives it: the hash of a store path.
_TAG = f"[{DIGITS}]{{32}}"


@dataclass(frozen=True)
class Finding:
    """Something about an image that is not as the pins say, or that nobody can tell."""

    kind: str  # pin, name, manifest, layer, configuration, store path, file; or unproven
    what: str  # one line

    @property
    def is_unproven(self) -> bool:
        """Whether it may be right, and neither store nor cache knows."""
        return self.kind == "unproven"


@dataclass(frozen=True)
class Verdict:
    """What became of an image that was held against the pins."""

    image: str
    digest: str | None  # of its manifest
    against: str  # store path of the image that the pins give
    proven: dict[str, str]  # store path → who knows its NAR hash, of those that are as they should
    files: int  # of all layers, in and outside the store
    findings: list[Finding] = field(default_factory=list)
    name: str = ""  # what the image calls itself, and `docker load` would call it; "" if nothing
    name_of_pins: str = ""  # what the image of the pins is called

    @property
    def differences(self) -> list[Finding]:
        """The findings that are not as the pins say."""
        return [one for one in self.findings if not one.is_unproven]

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        lines = []
        for kind, count in Counter(one.kind for one in self.findings).items():
            mine = [one.what for one in self.findings if one.kind == kind]
            word = "unproven" if kind == "unproven" else "DIFFERS"
            lines += [f"{word}  {kind}: {what}" for what in mine[:_SHOWN]]
            if count > _SHOWN:
                lines.append(f"{word}  {kind}: and {count - _SHOWN} more (--json has all)")
        for by, count in Counter(self.proven.values()).items():
            lines.append(f"proven   {count} store paths have the NAR hash that {by} has")
        if not self.findings:
            lines.append(f"proven   {self.files} files, the layers and the configuration")
            ok = f"ok       {self._image()} is what the pins say: {self.against}"
            lines.append(f"{ok}{self._named()}")
        return lines

    def _image(self) -> str:
        """The image, and the manifest that was read: a tag may lead elsewhere tomorrow."""
        if self.digest is None or self.digest in self.image:
            return self.image
        return f"{self.image} ({self.digest})"

    def _named(self) -> str:
        """The name that comes with the image, where it is not the user who gave it."""
        if not self.name or self.name in self.image:
            return ""
        other = "" if self.name == self.name_of_pins else f", not {self.name_of_pins}"
        return f", named {self.name}{other}"

    def error(self) -> TnpuError | None:
        """Return what the command fails with; None if the image is what the pins say."""
        different = self.differences
        if different:
            count = f" ({len(different)} differences)" if len(different) > 1 else ""
            return TnpuError(
                f"{self.image} is not what the pins say: {different[0].what}{count}",
                "see above what differs; `tnpu-nix build` makes the image of these pins",
            )
        if self.findings:
            return TnpuError(
                f"not all of {self.image} could be proven: {self.findings[0].what}",
                "`tnpu-nix build` makes the image to compare with, or name a cache with --from",
            )
        return None


def verify(contents: Contents, expected: Expected, say: Say) -> Verdict:
    """Hold what an image holds against what the pins say.

    Raises:
        TnpuError: the image that was built from the pins cannot be read.
    """
    findings = [Finding("pin", what) for what in _pins(contents, expected)]
    findings += [Finding("manifest", what) for what in contents.image.oddities]
    findings += [Finding("name", what) for what in _name(contents, expected)]
    built = _built(contents, expected, say)
    lower = below(contents, expected) if built is None else None
    findings += _faults(contents, built, lower)
    findings += _configuration(contents, expected)
    wanted = _vouched(expected, built)
    findings += _store_paths(contents, expected, wanted, built, lower)
    findings += _files(contents, expected, built, lower)
    findings += [Finding("layer", what) for what in _layers(contents, expected, lower)]
    refused = {one.what.partition(" ")[0] for one in findings if one.kind == "store path"}
    proven = {
        path: wanted[path][1]
        for path, nar in contents.nars.items()
        if path in wanted and wanted[path][0] == nar.hash and path not in refused
    }
    image, size = contents.image, len(contents.entries)
    names = image.tag, expected.tag
    return Verdict(image.where, image.digest, expected.image_path, proven, size, findings, *names)


def _pins(contents: Contents, expected: Expected) -> Iterator[str]:
    """Compare what the image says of its pins with pins.toml."""
    labels = contents.image.labels
    pins = contents.manifest.get("pins")
    pins = pins if isinstance(pins, dict) else {}
    for name, wanted in expected.manifest_pins().items():
        found = pins.get(name)
        for key, value in wanted.items():
            said = found.get(key) if isinstance(found, dict) else None
            if said != value:
                where = "manifest.json of the image"
                yield f"{name}: {where} has {key} {said or 'none'}, pins.toml has {value}"
    for label, value in expected.labels().items():
        if labels.get(label) != value:
            yield f"the label {label} is {labels.get(label) or 'absent'}, pins.toml has {value}"
    for label in sorted(labels.keys() - expected.labels().keys()):
        if label.startswith("tnpu.pin."):
            yield f"the label {label} names a pin that pins.toml does not have"


def _name(contents: Contents, expected: Expected) -> Iterator[str]:
    """Hold the image's own name against that of the pins: under a tag of theirs lies no other."""
    tag = contents.image.tag.rpartition(":")[2]
    wanted = expected.tag.rpartition(":")[2]
    if re.fullmatch(_TAG, tag) and tag != wanted:
        yield f"it is named {contents.image.tag}, a tag of other pins; these have {wanted}"


def _faults(contents: Contents, built: Contents | None, lower: Below | None) -> Iterator[Finding]:
    """Yield what no layer of dockerTools has; a base may have it, and the built image with it."""
    yield from (Finding("layer", what) for what in contents.mislabelled)
    same = {layer.diff_id for layer in built.image.layers} if built is not None else set()
    for number, layer in enumerate(contents.layers, 1):
        of_base = lower is not None and number <= lower.layers
        if layer.diff_id in same or (of_base and lower is not None and lower.proven):
            continue
        kind = "unproven" if of_base and lower is not None and lower.unknown else "layer"
        yield from (Finding(kind, f"layer {number}: {fault}") for fault in layer.faults)
    for path, what in contents.unhashed.items():
        if built is not None and path in built.unhashed:
            continue
        if lower is None or not _of_base(path, lower):
            yield Finding("layer", what)


def _of_base(path: str, lower: Below | None) -> bool:
    """Tell whether a store path is the base's, or may be."""
    return lower is not None and (lower.proven or lower.unknown) and path in lower.roots


def _configuration(contents: Contents, expected: Expected) -> list[Finding]:
    found = contents.image.config
    if expected.built is not None:
        lines = list(compare.config_differences(found, expected.built.config))
        return [Finding("configuration", line) for line in lines]
    lines = list(compare.form_faults(found, bool(expected.base_layers)))
    unproven = []
    if expected.settings is None:
        unproven = ["the image's configuration: the flake does not tell what it should be"]
    else:
        more, unproven = _settings(contents.image.settings, expected, expected.settings)
        lines += more
    return [
        *(Finding("configuration", line) for line in lines),
        *(Finding("unproven", line) for line in unproven),
    ]


def _settings(
    mine: dict[str, Any], expected: Expected, own: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Compare what a container starts with: the differences, and what nobody can tell.

    Of a base dockerTools takes the variables, and nothing else.
    """
    found, theirs = dict(mine), dict(own)
    lines, unproven = [], []
    if expected.base is not None:
        below = expected.base.settings.get("Env") or []
        theirs["Env"] = compare.merged_variables(below, own.get("Env") or [])
    elif expected.base_layers:
        variables, wanted = (one.pop("Env", None) or [] for one in (found, theirs))
        lines = list(compare.variable_differences(variables, wanted))
        names = {one.partition("=")[0] for one in wanted}
        others = [one for one in variables if one.partition("=")[0] not in names]
        if others:
            said = "may be the base's, which the store does not have"
            unproven = [f"the variables {', '.join(others)}: they {said}"]
    return [*compare.config_differences({"config": found}, {"config": theirs}), *lines], unproven


def _layers(contents: Contents, expected: Expected, lower: Below | None) -> Iterator[str]:
    """Compare the layers themselves with those of the image built from the pins, or its base."""
    if expected.built is None:
        yield from lower.differences if lower is not None else ()
        return
    mine = [layer.diff_id for layer in contents.layers]
    theirs = [layer.diff_id for layer in expected.built.layers]
    if mine == theirs:
        return
    if sorted(mine) == sorted(theirs):
        yield "the layers are those of the pins in another order"
        return
    new = [number for number, one in enumerate(mine, 1) if one not in theirs]
    gone = sum(one not in mine for one in theirs)
    if new or gone:
        named = ", ".join(map(str, new)) or "none"
        yield f"of {len(mine)} layers, not as built from the pins: {named}; {gone} are missing"
    else:
        yield f"there are {len(mine)} layers instead of {len(theirs)}"


def _built(contents: Contents, expected: Expected, say: Say) -> Contents | None:
    """Return what the image that was built from the pins holds.

    Equal layers hold equal files: that image's own are then not read.
    """
    if expected.built is None:
        return None
    mine = [layer.diff_id for layer in contents.layers]
    if mine == [layer.diff_id for layer in expected.built.layers]:
        return contents
    return scan(expected.built, say)


Wanted = dict[str, tuple[str, str]]  # store path → NAR hash, who says so


def _vouched(expected: Expected, built: Contents | None) -> Wanted:
    """Return the NAR hashes that store paths should have.

    What the store or a cache says comes first; the rest is as in the image built from the pins.
    """
    wanted = {}
    if built is not None:
        by = f"the image {expected.image_path}"
        wanted = {path: (nar.hash, by) for path, nar in built.nars.items()}
    return wanted | {path: (one.nar_hash, one.by) for path, one in expected.vouched.items()}


def _store_paths(
    contents: Contents,
    expected: Expected,
    wanted: Wanted,
    built: Contents | None,
    lower: Below | None,
) -> Iterator[Finding]:
    present = set(contents.store_paths())
    closure = frozenset(built.store_paths()) if built is not None else expected.closure
    for path in sorted((closure or present) - present):
        yield Finding("store path", f"{path} is missing")
    if closure is None:
        what = "neither the store nor a cache knows which store paths belong into the image"
        yield Finding("unproven", what)
    for path in sorted(present):
        if closure is not None and path not in closure:
            yield from _stranger(path, lower)
            continue
        if built is not None and path in built.unhashed:
            continue  # its files are compared
        nar = contents.nars.get(path)
        if path not in wanted:
            yield Finding("unproven", f"{path}: neither the store nor a cache knows its NAR hash")
        elif nar is not None and nar.hash != wanted[path][0]:
            said, by = wanted[path]
            yield Finding("store path", f"{path} has the NAR hash {nar.hash}, {by} has {said}")


def _stranger(path: str, lower: Below | None) -> Iterator[Finding]:
    """Judge a store path that the pins do not put into an image."""
    if lower is None or not _of_base(path, lower):
        yield Finding("store path", f"{path} does not belong there")
    elif lower.unknown:
        yield Finding("unproven", f"{path} may be the base's, which the store does not have")


def _files(
    contents: Contents, expected: Expected, built: Contents | None, lower: Below | None
) -> Iterator[Finding]:
    if built is not None:
        if built is not contents:
            lines = compare.differences(contents.entries, built.entries)
            yield from (Finding("file", line) for line in lines)
        return
    outside = 0
    for path, entry in sorted(contents.entries.items()):
        if root := root_of(path):
            belongs = f"/{root}" in (expected.closure or ())
            if belongs or not (lower and lower.may_hold(entry)):
                lines_here = compare.attribute_faults(path, entry)
                yield from (Finding("file", line) for line in lines_here)
        elif path.startswith(f"{STORE}/") and not (lower and lower.may_hold(entry)):
            yield Finding("file", f"/{path} does not belong there: a {entry.kind}")
        else:
            outside += 1
    yield from _altered(contents, expected)
    yield Finding(
        "unproven",
        f"{outside} files outside the store paths: neither the store nor a cache has"
        f" {expected.image_path} to compare them with",
    )


def _altered(contents: Contents, expected: Expected) -> Iterator[Finding]:
    """Name the files in store paths of another NAR hash, where the store has the path itself."""
    for path, nar in contents.nars.items():
        vouched = expected.vouched.get(path)
        where = expected.nix.on_disk(path)
        if vouched is None or vouched.nar_hash == nar.hash or not _readable(where):
            continue
        prefix = path.lstrip("/")
        mine: dict[str, Entry] = {
            "/".join([prefix, *parts]): entry for parts, entry in contents.of(path).items()
        }
        lines = compare.differences(mine, compare.on_disk(path, where))
        yield from (Finding("file", line) for line in lines)


def _readable(path: Path) -> bool:
    return path.is_symlink() or path.exists()
