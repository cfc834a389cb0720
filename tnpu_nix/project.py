"""A project: the folder that holds pins.toml, and what the generator owns in it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix import ci, pinsfile, render, transaction
from tnpu_nix.errors import TnpuError
from tnpu_nix.pins import Toolchain


@dataclass(frozen=True)
class Difference:
    """A generated file that is not on disk as it should be."""

    path: str  # below the project, with "/"
    on_disk: str | None  # None: the file is not there
    wanted: str | None  # None: the file is one of an earlier generator and goes
    edited: bool  # someone changed it by hand since it was generated
    foreign: bool  # the generator did not write it

    def unified(self) -> str:
        """Return the difference as `diff -u` would print it."""
        lines = difflib.unified_diff(
            _lines(self.on_disk),
            _lines(self.wanted),
            f"a/{self.path}" if self.on_disk is not None else "/dev/null",
            f"b/{self.path}" if self.wanted is not None else "/dev/null",
        )
        text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
        return text.encode(errors="surrogateescape").decode(errors="replace")


def _lines(text: str | None) -> list[str]:
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")] if text else []


# All that a bump may write, below the project.
OWN = (pinsfile.FILE_NAME, render.FLAKE, render.LOCK, "nix", ci.WORKFLOW)


def _read(path: Path) -> str | None:
    """Return a file's text, bytes that are no UTF-8 as surrogates; None if there is no file."""
    try:
        if path.exists() and not path.is_file():
            raise TnpuError(f"{path} is no regular file", "move it away, then run again")
        return path.read_bytes().decode(errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise TnpuError(f"{path} cannot be read: {error.strerror}", "check its rights") from error


def differences(root: Path, toolchain: Toolchain) -> list[Difference]:
    """Return what `generate` would change in the project, sorted by path."""
    wanted: dict[str, str | None] = dict(render.render(toolchain))
    wanted |= dict.fromkeys(path for path in _owned(root) if path not in wanted)
    if render.is_generated(ci.WORKFLOW, _first_line(root / ci.WORKFLOW)):
        wanted[ci.WORKFLOW] = ci.workflow(toolchain)
    return _compared(root, wanted)


def workflow_differences(root: Path, toolchain: Toolchain) -> list[Difference]:
    """Return what `init-ci` would change in the project."""
    return _compared(root, {ci.WORKFLOW: ci.workflow(toolchain)})


def _compared(root: Path, wanted: Mapping[str, str | None]) -> list[Difference]:
    flake = _read(root / render.FLAKE)
    found = []
    for path, text in sorted(wanted.items()):
        on_disk = _read(root / path)
        if on_disk == text:
            continue
        if path == render.LOCK:
            # JSON has no comments: flake.nix beside it says which lock it was generated with.
            note = render.lock_note((on_disk or "").replace("\r\n", "\n"))
            edited = on_disk is not None and not (flake and note in flake)
            foreign = edited and not (flake and render.is_generated(render.FLAKE, flake))
        else:
            foreign = on_disk is not None and not render.is_generated(path, on_disk)
            edited = on_disk is not None and not render.is_untouched(on_disk)
        found.append(Difference(path, on_disk, text, edited, foreign))
    return found


def _owned(root: Path) -> list[str]:
    """Return the files below nix/ whose header says that the generator wrote them there."""
    folder = root / "nix"
    files = [path for path in folder.rglob("*") if path.is_file()]
    named = [(path.relative_to(root).as_posix(), path) for path in files]
    return [name for name, path in named if render.is_generated(name, _first_line(path))]


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.readline(300).decode(errors="surrogateescape")
    except OSError:
        return ""


def way_out(found: list[Difference]) -> str:
    """Return what to do about files that are not as pins.toml says."""
    edited = [one.path for one in found if one.edited]
    if not edited:
        return "run `tnpu-nix generate`"
    return (
        f"edited by hand: {', '.join(edited)}; `tnpu-nix generate --force` drops that;"
        f" {_place_of(edited)}"
    )


def _place_of(edited: list[str]) -> str:
    """Return where what was edited by hand would stay."""
    if edited == [render.LOCK]:
        return "[nixpkgs] in pins.toml is the place for another rev, hash and last-modified"
    if edited == [ci.WORKFLOW]:
        return "without its first line the file is yours, and tnpu-nix leaves it alone"
    return "nix/overrides.nix is the place to keep them"


def refuse_edited(found: list[Difference], force: bool) -> None:
    """Raise if a write would lose what someone wrote by hand.

    With *force* hand edits of generated files are given up; a file that the generator never wrote
    is left alone even then.

    Raises:
        TnpuError: names every such file; nothing has been written.
    """
    foreign = [one.path for one in found if one.foreign]
    edited = [one.path for one in found if one.edited and not one.foreign]
    if foreign:
        raise TnpuError(
            f"not written by tnpu-nix, and so not overwritten: {', '.join(foreign)}",
            "move these files away, then run `tnpu-nix generate` again",
        )
    if edited and not force:
        raise TnpuError(
            f"edited by hand since they were generated: {', '.join(edited)}; nothing was written",
            "`tnpu-nix generate --check` shows the edits, `tnpu-nix generate --force` drops them;"
            f" {_place_of(edited)}",
        )


def write(root: Path, found: list[Difference], pins_text: str | None = None) -> None:
    """Write the generated files, and pins.toml where its text is given, as one transaction."""
    contents: dict[str, bytes | None] = {
        one.path: None if one.wanted is None else one.wanted.encode() for one in found
    }
    if pins_text is not None:
        contents[pinsfile.FILE_NAME] = pins_text.encode()
    transaction.write(root, contents)
