"""Whether an image holds what the pins say, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tnpu_nix.errors import TnpuError
from tnpu_nix.images import compare
from tnpu_nix.images.contents import Contents, root_of, scan
from tnpu_nix.images.expected import Expected, Say
from tnpu_nix.images.tar import Entry

# Lines of one kind that are printed; JSON has all of them.
_SHOWN = 12


@dataclass(frozen=True)
class Finding:
    """Something about an image that is not as the pins say, or that nobody can tell."""

    kind: str  # pin, manifest, layer, configuration, store path, file; or unproven
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
            lines.append(f"ok       {self._image()} is what the pins say: {self.against}")
        return lines

    def _image(self) -> str:
        """The image, and the manifest that was read: a tag may lead elsewhere tomorrow."""
        if self.digest is None or self.digest in self.image:
            return self.image
        return f"{self.image} ({self.digest})"

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
    findings += [Finding("layer", what) for what in contents.faults]
    findings += _configuration(contents, expected)
    built = _built(contents, expected, say)
    wanted = _vouched(expected, built)
    findings += _store_paths(contents, expected, wanted, built)
    findings += _files(contents, expected, built)
    if built is not None:
        findings += [Finding("layer", what) for what in _layers(contents, expected)]
    refused = {one.what.partition(" ")[0] for one in findings if one.kind == "store path"}
    proven = {
        path: wanted[path][1]
        for path, nar in contents.nars.items()
        if path in wanted and wanted[path][0] == nar.hash and path not in refused
    }
    image = contents.image
    size = len(contents.entries)
    return Verdict(image.where, image.digest, expected.image_path, proven, size, findings)


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


def _configuration(contents: Contents, expected: Expected) -> list[Finding]:
    found = contents.image.config
    if expected.built is not None:
        lines = compare.config_differences(found, expected.built.config)
    elif expected.settings is not None:
        lines = compare.config_differences(
            {"config": contents.image.settings}, {"config": expected.settings}
        )
    else:
        what = "the image's configuration: the flake does not tell what it should be"
        return [Finding("unproven", what)]
    return [Finding("configuration", line) for line in lines]


def _layers(contents: Contents, expected: Expected) -> Iterator[str]:
    """Compare the layers themselves with those of the image that was built from the pins."""
    assert expected.built is not None
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
    contents: Contents, expected: Expected, wanted: Wanted, built: Contents | None
) -> Iterator[Finding]:
    present = set(contents.store_paths())
    closure = set(built.nars) if built is not None else expected.closure
    for path in sorted((closure or present) - present):
        yield Finding("store path", f"{path} is missing")
    if closure is None:
        what = "neither the store nor a cache knows which store paths belong into the image"
        yield Finding("unproven", what)
    for path in sorted(present):
        if closure is not None and path not in closure:
            yield Finding("store path", f"{path} does not belong there")
            continue
        nar = contents.nars.get(path)
        if path not in wanted:
            yield Finding("unproven", f"{path}: neither the store nor a cache knows its NAR hash")
        elif nar is not None and nar.hash != wanted[path][0]:
            said, by = wanted[path]
            yield Finding("store path", f"{path} has the NAR hash {nar.hash}, {by} has {said}")


def _files(contents: Contents, expected: Expected, built: Contents | None) -> Iterator[Finding]:
    if built is not None:
        if built is not contents:
            lines = compare.differences(contents.entries, built.entries)
            yield from (Finding("file", line) for line in lines)
        return
    outside = 0
    for path, entry in sorted(contents.entries.items()):
        if root_of(path):
            lines_here = compare.attribute_faults(path, entry)
            yield from (Finding("file", line) for line in lines_here)
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
