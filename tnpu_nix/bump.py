"""One bump as one transaction: resolve, prefetch, edit pins.toml, render, write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnpu_nix import coherence, git, pinsfile, project, transaction
from tnpu_nix.commits import Commits, compare_link, if_cheap
from tnpu_nix.errors import TnpuError
from tnpu_nix.images import base
from tnpu_nix.nix import Nix
from tnpu_nix.nix import version as nix_version
from tnpu_nix.pins import PIN_NAMES, REBUILT, Pin, Toolchain
from tnpu_nix.prefetch import prefetch
from tnpu_nix.resolve import resolve
from tnpu_nix.sources import at_hand, unmet_options


@dataclass(frozen=True)
class Request:
    """A pin, or the base image, that is to move, and where to."""

    name: str
    what: str | None = None  # a revision, branch or tag; None: the head of the branch it tracks


@dataclass(frozen=True)
class Move:
    """One pin before and after."""

    name: str
    old: Pin
    new: Pin
    ref: str | None  # the branch or tag that was followed
    options: dict[str, Any]  # build options that the new source asks for: key → value
    source: Path  # the new source on disk
    log: Commits | None  # what lies between, where it is cheap to ask

    def lines(self) -> list[str]:
        """Return what changed, for people."""
        if self.old == self.new and not self.options:
            return [f"{self.name} is at {self.new.rev} already"]
        followed = f" ({self.ref})" if self.ref else ""
        changed = [
            f"{self.name}: {self.new.url}",
            f"  rev   {self.old.rev} -> {self.new.rev}{followed}",
            f"  date  {self.old.date} -> {self.new.date}",
            f"  hash  {self.old.hash} -> {self.new.hash}",
        ]
        changed += [f"  {key} = {value}" for key, value in self.options.items()]
        return [*changed, *self._history()]

    def _history(self) -> list[str]:
        link = compare_link(self.new.url, self.old.rev, self.new.rev)
        lines = [f"  see   {link}"] if link else []
        if self.log is None:
            return lines
        if self.log.count is None:
            return [*lines, f"  log   {self.old.rev[:12]} is no ancestor of the new revision"]
        more = self.log.count - len(self.log.subjects)
        shown = [f"        {subject}" for subject in self.log.subjects]
        shown += [f"        and {more} more"] if more else []
        return [*lines, f"  log   {self.log.count} commits", *shown]


@dataclass(frozen=True)
class Bumped:
    """What a bump did, or would do."""

    moves: list[Move]
    files: list[str]  # that differ, below the project; empty if all was so already
    findings: list[coherence.Finding]  # what the sources say of the pins as they are now
    written: bool  # False: only looked at
    toolchain: Toolchain  # pins.toml with the moves
    base: base.Moved | None = None  # the image that ours is laid upon, if it was to move

    def lines(self) -> list[str]:
        """Return what changed, for people."""
        lines = [line for move in self.moves for line in move.lines()]
        lines += self.base.lines() if self.base else []
        lines += [line for finding in self.findings for line in finding.lines()]
        if not self.files:
            return [*lines, "nothing was written"]
        lines += self._rebuilt()
        names = ", ".join(self.files) if len(self.files) < 9 else f"{len(self.files)} files"
        return [*lines, f"{'wrote' if self.written else 'would write'} {names}"]

    def _rebuilt(self) -> list[str]:
        moved = [move.name for move in self.moves if move.old != move.new or move.options]
        rebuilt = list(dict.fromkeys(one for name in moved for one in REBUILT[name]))
        kept = dict.fromkeys(
            one for parts in REBUILT.values() for one in parts if one not in rebuilt
        )
        image = moved or (self.base is not None and self.base.old != self.base.new)
        lines = [f"rebuilds {', '.join([*rebuilt, 'tnpu-image'])}"] if image else []
        return [*lines, f"keeps    {', '.join(kept)}"] if moved and kept else lines

    def message(self) -> str:
        """Return the message of a git commit of this bump."""
        moved = [move for move in self.moves if move.old != move.new] or self.moves
        if not moved and self.base is not None:
            subject = f"base: {self.base.new.image} at {self.base.new.digest[7:19]}"
        elif len(moved) == 1:
            subject = f"{moved[0].name}: {moved[0].old.rev[:12]} -> {moved[0].new.rev[:12]}"
        else:
            subject = f"Move {', '.join(move.name for move in moved)}"
        return "\n".join([subject, "", *self.lines()[:-1]]) + "\n"


Say = Callable[[str], None]


def bump(
    root: Path,
    requests: Sequence[Request],
    nix: Nix,
    say: Say,
    *,
    follow: bool = False,
    dry_run: bool = False,
    commit: bool = False,
) -> Bumped:
    """Move pins, all or none, and regenerate.

    Args:
        root: the folder that holds pins.toml.
        say: takes a line about what is going on.
        follow: move llvm, too, to the revision that the new triton names.
        dry_run: resolve and prefetch, and write nothing.
        commit: make one git commit of exactly the files that are written.

    Raises:
        TnpuError: at any step; every file is then as it was.
    """
    _check(requests)
    nix_version()  # the prefetch would fail without nix only after the whole download
    with contextlib.nullcontext() if dry_run else transaction.locked(root, say):
        text = pinsfile.read_text(root / pinsfile.FILE_NAME)
        toolchain = pinsfile.parse(text)
        # Now, not after the long part.
        project.refuse_edited(project.differences(root, toolchain), force=False)
        moves, laid = _moves(toolchain, requests, follow, nix, say)
        new_text = _edited(text, moves, laid)
        updated = pinsfile.parse(new_text)
        found = project.differences(root, updated)
        files = [] if new_text == text else [pinsfile.FILE_NAME]
        files += [one.path for one in found]
        said = _findings(updated, moves, nix)
        bumped = Bumped(moves, files, said, not dry_run, updated, laid)
        if commit:
            git.check_clean(root, files or list(project.OWN))
        if not dry_run:
            project.write(root, found, new_text if new_text != text else None)
            _commit(root, bumped if commit else None)
    return bumped


def _commit(root: Path, bumped: Bumped | None) -> None:
    if bumped is not None and bumped.files:
        git.commit(root, bumped.files, bumped.message())


def _edited(text: str, moves: Sequence[Move], laid: base.Moved | None) -> str:
    """Return the text of pins.toml with what moves; all else in it is as it was."""
    for changes in [*map(_changes, moves), *([laid.changes()] if laid else [])]:
        text = pinsfile.edit(text, changes)
    return text


def _moves(
    toolchain: Toolchain, requests: Sequence[Request], follow: bool, nix: Nix, say: Say
) -> tuple[list[Move], base.Moved | None]:
    """Find out where all pins move to, and the base of the image if it is among them."""
    pins = [request for request in requests if request.name != base.NAME]
    moves = [_move(toolchain, request, nix, say) for request in pins]
    if follow:
        moves += _follow(toolchain, moves, nix, say)
    bases = [one for one in requests if one.name == base.NAME]
    return moves, base.move(toolchain, bases[0].what, nix, say) if bases else None


def _findings(updated: Toolchain, moves: Sequence[Move], nix: Nix) -> list[coherence.Finding]:
    moved = {move.name: move.source for move in moves}
    return coherence.findings(updated, lambda name: moved.get(name) or at_hand(updated, name, nix))


def _follow(toolchain: Toolchain, moves: Sequence[Move], nix: Nix, say: Say) -> list[Move]:
    """Return the move of llvm to the revision that the triton among *moves* names."""
    triton = next((move.source for move in moves if move.name == "triton"), None)
    if triton is None or any(move.name == "llvm" for move in moves):
        raise TnpuError("--follow moves llvm along with triton", "bump triton, and not llvm too")
    coupling = coherence.llvm_of(triton)
    if coupling is None:
        raise TnpuError("this triton does not say which LLVM it is built with", "bump llvm by hand")
    return [_move(toolchain, Request("llvm", coupling.rev), nix, say)]


def _check(requests: Sequence[Request]) -> None:
    names = [request.name for request in requests]
    for name in names:
        if name not in (*PIN_NAMES, base.NAME):
            names_ = ", ".join((*PIN_NAMES, base.NAME))
            raise TnpuError(f"there is no pin {name!r}", f"pins are {names_}")
        if names.count(name) > 1:
            raise TnpuError(f"the pin {name} is named twice", "name each pin once")


def _move(toolchain: Toolchain, request: Request, nix: Nix, say: Say) -> Move:
    """Find out where a pin moves to, and put that source into the store."""
    name, old = request.name, toolchain.pins.named(request.name)
    what = request.what if request.what is not None else f"refs/heads/{old.track}"
    say(f"asking {old.url} for {what}")
    resolved = resolve(old.remote, what)
    say(f"fetching {name} at {resolved.rev}")
    source = prefetch(nix, old, resolved.rev)
    new = old.model_copy(update={"rev": source.rev, "hash": source.hash, "date": source.date})
    on_disk = nix.on_disk(source.path)
    options = unmet_options(toolchain.triton, on_disk) if name == "triton" else {}
    log = if_cheap(old.remote, old.rev, new.rev) if old.rev != new.rev else None
    return Move(name, old, new, resolved.ref, options, on_disk, log)


def _changes(move: Move) -> dict[tuple[str, ...], Any]:
    """Return the keys of pins.toml that a move writes, with their values."""
    pin = {("pins", move.name, key): getattr(move.new, key) for key in ("rev", "hash", "date")}
    return pin | {("triton", key): value for key, value in move.options.items()}
