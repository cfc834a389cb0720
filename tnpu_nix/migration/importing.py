"""One import as one transaction: read old files, place, resolve, prefetch, write pins.toml."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnpu_nix import coherence, pinsfile, place, project, transaction
from tnpu_nix.errors import TnpuError
from tnpu_nix.migration import comments, drafting, legacy
from tnpu_nix.migration.buildoptions import Option, options
from tnpu_nix.migration.drafting import Draft
from tnpu_nix.migration.importreport import OptionRow, Report, RestRow
from tnpu_nix.migration.placing import Unplaced
from tnpu_nix.migration.placing import place as placed_of
from tnpu_nix.migration.redaction import Redactor
from tnpu_nix.nix import Nix
from tnpu_nix.nix import version as nix_version
from tnpu_nix.pins import PIN_NAMES, VERSION, Toolchain
from tnpu_nix.prefetch import prefetch
from tnpu_nix.sources import at_hand, unmet_options

Say = Callable[[str], None]
_NIXPKGS = Path(__file__).with_name("nixpkgs.toml")
# Stands for a hash until the source is there; what holds it is never written.
_NO_HASH = "sha256-" + "A" * 43 + "="
_NO_DATE = "1970-01-01"


@dataclass(frozen=True)
class _Start:
    """The pins.toml that an import works on."""

    text: str
    toolchain: Toolchain | None  # None: there is none, and a new one is written
    origin: str  # what it is called in messages
    is_projects: bool  # whether it is the project's own, and no file to start from


@dataclass(frozen=True)
class _Found:
    """What the files said, sorted."""

    legacy: legacy.Legacy
    options: list[Option]
    unplaced: list[Unplaced]
    drafts: list[Draft]
    redactor: Redactor


def root_for(named: Path | None) -> Path:
    """Return the project: *named*, the nearest folder with a pins.toml, or else this folder."""
    if named is not None:
        if not named.is_dir():
            raise TnpuError(f"{named} is no folder", "make it, or name another with --project")
        return named.resolve()
    try:
        return place.find(Path.cwd())
    except TnpuError:
        here = Path.cwd()
        if os.path.lexists(here / pinsfile.FILE_NAME):
            raise
        return here


def import_files(
    root: Path,
    paths: Sequence[Path],
    nix: Nix,
    say: Say,
    show: Callable[[Report], None],
    *,
    base: Path | None = None,
    dry_run: bool = False,
) -> None:
    """Write what old files say into pins.toml, all or nothing, and regenerate.

    Args:
        root: the folder that holds pins.toml, or is to hold it.
        say: takes a line about what is going on.
        show: takes the report, once, whether the import succeeds or not.
        base: a pins.toml that supplies what the files leave out, for a project without one.
        dry_run: resolve and prefetch, and write nothing.

    Raises:
        TnpuError: at any step; every file is then as it was.
    """
    files = legacy.read(paths)
    report = Report()
    known = os.path.lexists(root / pinsfile.FILE_NAME)
    say(f"importing into {root / pinsfile.FILE_NAME}{'' if known else ', which is new'}")
    try:
        with contextlib.nullcontext() if dry_run else transaction.locked(root, say):
            start = _start(root, base)
            found = _sort(files, start)
            _describe(report, found, start)
            _import(root, start, found, nix, say, report, dry_run)
    finally:
        show(report)


def _import(
    root: Path, start: _Start, found: _Found, nix: Nix, say: Say, report: Report, dry_run: bool
) -> None:
    _check_first(root, start, found)
    _ask(found, say, report)
    nix_version()  # the prefetch would fail without nix only after the whole download
    moved: dict[str, Path] = {}
    changes = {("pins", one.name): _source(one, nix, say, moved) for one in found.drafts}
    _tell_sources(report, changes)
    text = _text(start, found, changes)
    if "triton" in moved:
        wanted = unmet_options(pinsfile.parse(text).triton, moved["triton"])
        text = pinsfile.edit(text, {("triton", key): value for key, value in wanted.items()})
        report.kept += [f"triton.{key} = {value}: its source" for key, value in wanted.items()]
    updated = pinsfile.parse(text)
    differing = project.differences(root, updated)
    project.refuse_edited(differing, force=False)
    changed = text != start.text or not start.is_projects
    said = coherence.findings(updated, lambda name: moved.get(name) or at_hand(updated, name, nix))
    report.findings = [line for one in said for line in one.lines()]
    if not dry_run:
        project.write(root, differing, text if changed else None)
        report.written = True
    report.files = ([pinsfile.FILE_NAME] if changed else []) + [one.path for one in differing]


def _start(root: Path, base: Path | None) -> _Start:
    path = root / pinsfile.FILE_NAME
    if os.path.lexists(path):
        if base is not None:
            raise TnpuError(
                f"{path} is there, and is what the files are imported into",
                "leave out --base, which is for a project without a pins.toml",
            )
        text = pinsfile.read_text(path)
        return _Start(text, pinsfile.parse(text), pinsfile.FILE_NAME, True)
    if base is not None:
        text = pinsfile.read_text(base)
        return _Start(text, pinsfile.parse(text, str(base)), str(base), False)
    return _Start("", None, "", False)


def _sort(files: legacy.Legacy, start: _Start) -> _Found:
    pins = dict(start.toolchain.pins.items()) if start.toolchain else {}
    wanted, refused, others = options(files.variables)
    placed = placed_of(others, {name: pin.url for name, pin in pins.items()})
    drafts = [
        drafting.start(
            name,
            [one for one in placed.claims if one.pin == name],
            pins.get(name),
            start.origin,
        )
        for name in PIN_NAMES
    ]
    return _Found(files, wanted, [*refused, *placed.rest], drafts, Redactor(files.variables))


def _describe(report: Report, found: _Found, start: _Start) -> None:
    """Put into the report what is known before any repository is asked."""
    redactor = found.redactor
    report.pins = [drafting.report(one, redactor, asked=False) for one in found.drafts]
    report.options = [
        OptionRow(
            ".".join(one.key),
            one.value,
            one.variable.name,
            f"{one.variable.file}:{one.variable.line}",
            one.note,
        )
        for one in found.options
    ]
    for rest in found.unplaced:
        one = rest.variable
        report.not_placed.append(
            RestRow(
                one.name,
                f"{one.file}:{one.line}",
                redactor.value(one),
                redactor.text(rest.reason),
                tuple(redactor.text(comment) for comment in comments.worth(one.comments)),
                redactor.earlier(one),
            )
        )
    for remark in found.legacy.remarks:
        place_of = f"{remark.file}:{remark.line}"
        report.not_placed.append(
            RestRow(redactor.text(remark.text), place_of, "", redactor.text(remark.reason))
        )
    report.comments = [redactor.text(one) for one in comments.worth(found.legacy.loose)]
    report.kept = _kept(start, found)


def _kept(start: _Start, found: _Found) -> list[str]:
    """Name what pins.toml has, or gets, that none of the files says."""
    if start.toolchain is None:
        return [f"nixpkgs: the one that tnpu-nix is tested with, {_nixpkgs()['rev'][:12]}"]
    lines = []
    for one in found.drafts:
        has = (("url", one.choice.url), ("rev, hash and date", one.choice.rev))
        parts = [name for name, claim in has if claim is None]
        if parts and not one.choice.fault:
            lines.append(f"{one.name}: {' and '.join(parts)} as in {start.origin}")
    return [*lines, f"every other table: as in {start.origin}"]


def _check_first(root: Path, start: _Start, found: _Found) -> None:
    """Raise before the long part for what would stop the write at the end."""
    whole = all(one.url and one.what for one in found.drafts)
    old = start.toolchain
    if whole:
        dummies = {("pins", one.name): _values(one, _NO_HASH, _NO_DATE) for one in found.drafts}
        planned = pinsfile.parse(_text(start, found, dummies), "pins.toml, as it would be")
        old = old if start.is_projects else planned
    if old is not None:
        project.refuse_edited(project.differences(root, old), force=False)


def _ask(found: _Found, say: Say, report: Report) -> None:
    """Ask every repository what the revisions mean; one that fails does not hide the others.

    Raises:
        TnpuError: something is not known of a pin; the report then has what is.
    """
    failed: list[tuple[str, TnpuError]] = []
    for number, one in enumerate(found.drafts):
        try:
            found.drafts[number] = drafting.ask(one, say)
        except TnpuError as error:
            failed.append((one.name, error))
        unasked = bool(failed) and failed[-1][0] == one.name
        report.pins[number] = drafting.report(
            found.drafts[number], found.redactor, asked=not unasked
        )
    short = [one for one in found.drafts if one.missing]
    if not failed and not short:
        return
    report.toml = _fragment(found)
    details = [f"{one.name}: {reason}" for one in short for reason in one.missing]
    details += [f"{name}: {error.what}" for name, error in failed]
    if short:
        raise TnpuError(
            f"the files do not say all of {', '.join(one.name for one in short)};"
            " nothing was written",
            "add what is left out above in a file of yours and name it too, or fill up from"
            " another pins.toml with --base FILE",
            tuple(details),
        )
    raise TnpuError(
        f"no revision for {', '.join(name for name, _ in failed)}; nothing was written",
        failed[0][1].hint,
        tuple(details),
        "\n".join(error.said for _, error in failed),
    )


def _source(draft: Draft, nix: Nix, say: Say, moved: dict[str, Path]) -> dict[str, Any]:
    """Return the keys of a pin, its source prefetched where its hash is not known."""
    if kept := draft.unchanged:
        return _values(draft, kept.hash, kept.date)
    say(f"fetching {draft.name} at {draft.rev}")
    source = prefetch(nix, draft.as_pin(), draft.rev or "")
    moved[draft.name] = nix.on_disk(source.path)
    return _values(draft, source.hash, source.date)


def _values(draft: Draft, sri: str, date: str) -> dict[str, Any]:
    """Return the keys that an import writes for a pin."""
    values = {"url": draft.url, "rev": draft.rev or "0" * 40, "hash": sri, "date": date}
    if draft.track is not None:
        values["track"] = draft.track
    return values | _token_keys(draft)


def _token_keys(draft: Draft) -> dict[str, str]:
    """Return the keys that say which variable holds a token, where a URL takes one from there."""
    claim = draft.choice.url
    if claim is None or claim.token_env is None:
        return {}
    user = {"token-user": claim.token_user} if claim.token_user else {}
    return {"token-env": claim.token_env, **user}


def _tell_sources(report: Report, changes: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    for one in report.pins:
        values = changes["pins", one.name]
        one.hash, one.date = values["hash"], values["date"]


def _text(start: _Start, found: _Found, pins: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Return pins.toml with everything that the files say, comments included."""
    text = start.text
    if start.toolchain is None:
        text = comments.table(("version",), {"version": VERSION})
        text += "".join(comments.table(path, values) for path, values in pins.items())
        text += comments.table(("nixpkgs",), _nixpkgs())
    else:
        text = _forget_other_repositories(text, found)
        changes: dict[tuple[str, ...], Any] = {}
        changes = {(*path, key): one for path, keys in pins.items() for key, one in keys.items()}
        text = pinsfile.edit(text, changes)
    text = pinsfile.edit(text, {one.key: one.value for one in found.options})
    for path, lines in _comments(start, found).items():
        text = comments.above(text, path, lines)
    return comments.at_head(text, [found.redactor.text(one) for one in found.legacy.head])


def _comments(start: _Start, found: _Found) -> dict[tuple[str, ...], list[str]]:
    """Return the comments of the variables that found a place, by the key that they go above."""
    carried: dict[tuple[str, ...], list[str]] = {}
    for draft in found.drafts:
        taken = (draft.choice.url, draft.choice.rev, draft.choice.track)
        lines: list[str] = []
        for variable in dict.fromkeys(one.variable for one in draft.choice.claims):
            own = comments.worth(variable.comments)
            if own and not any(one and one.variable == variable for one in taken):
                own = [f"# {variable.name}: {own[0].lstrip('# ')}", *own[1:]]
            lines += own
        carried["pins", draft.name] = lines
    for option in found.options:
        carried[option.key] = comments.worth(option.variable.comments)
    if start.toolchain is None:
        carried["nixpkgs",] = ["# Not from the imported files: what tnpu-nix is tested with."]
    return {path: [found.redactor.text(one) for one in lines] for path, lines in carried.items()}


def _forget_other_repositories(text: str, found: _Found) -> str:
    """Drop what a pin says of the repository that it had before: its branch, its mismatch."""
    stale = [
        ("pins", one.name, key)
        for one in found.drafts
        if one.base is not None and one.same_repository is None
        for key in ("track", "mismatch", "token-env", "token-user", "submodules", "lfs")
    ]
    return comments.without(text, stale)


def _fragment(found: _Found) -> str:
    """Return what was found as TOML, for whoever completes it by hand."""
    tables = []
    for draft in found.drafts:
        known = {"url": draft.url, "rev": draft.rev, "track": draft.track}
        values = {key: one for key, one in known.items() if one is not None}
        values |= _token_keys(draft)
        if draft.choice.claims and values:
            tables.append(comments.table(("pins", draft.name), values).lstrip("\n"))
    return "\n".join(tables)


def _nixpkgs() -> dict[str, Any]:
    return tomllib.loads(_NIXPKGS.read_text())
