"""What the sources say about each other's revisions, held against the pins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix.errors import TnpuError
from tnpu_nix.pins import Toolchain
from tnpu_nix.repository import same_repository_key
from tnpu_nix.sources import text_of, unmet_options
from tnpu_nix.values import is_revision

# Where triton says which LLVM it is built with: the second one up to 3.7, the first from then on.
_INFO, _HASH = "cmake/llvm-info.json", "cmake/llvm-hash.txt"
# In forks of triton that build an LLVM of their own; triton's own file names no repository.
_REPOSITORY_KEYS = ("llvm_repository", "llvm_repo", "repository", "url")

Sources = Callable[[str], Path | None]


@dataclass(frozen=True)
class Finding:
    """Something that two pins disagree about."""

    pin: str  # the pin whose source says so
    fault: str  # one line
    hint: str
    is_error: bool  # False: advice that a lab may decide against
    reason: str | None  # why it is wanted, from pins.toml

    def lines(self) -> list[str]:
        """Return the finding for people, with the reason each time that it is wanted."""
        if self.reason is not None:
            return [f"wanted: {self.fault}", f"  because: {self.reason}"]
        return [f"{'error' if self.is_error else 'warning'}: {self.fault}", f"  hint: {self.hint}"]


@dataclass(frozen=True)
class Coupling:
    """The LLVM that triton's source names."""

    rev: str
    repository: str | None  # URL, where the source names one
    file: str


def llvm_of(triton: Path) -> Coupling | None:
    """Return which LLVM a triton source is built with, None if it does not say.

    Raises:
        TnpuError: the file that says so cannot be understood.
    """
    for file, read in ((_INFO, _read_info), (_HASH, _read_hash)):
        if (text := _text(triton, file)) is not None:
            rev, repository = read(text)
            if not is_revision(rev):
                raise TnpuError(
                    f"triton's {file} names no LLVM revision: {text.strip()[:60]!r}",
                    "look into the source; tnpu-nix may not know this form of the file yet",
                )
            return Coupling(rev, repository, file)
    return None


def _text(source: Path, file: str) -> str | None:
    try:
        return text_of(source, file)
    except UnicodeDecodeError:
        return ""  # is there, and names nothing


def _read_info(text: str) -> tuple[str, str | None]:
    try:
        info = json.loads(text)
        named = next((str(info[key]) for key in _REPOSITORY_KEYS if info.get(key)), None)
        return str(info.get("llvm_hash", "")), named
    except (ValueError, AttributeError):
        return "", None


def _read_hash(text: str) -> tuple[str, str | None]:
    return text.strip(), None


def findings(toolchain: Toolchain, source: Sources) -> list[Finding]:
    """Hold what the sources say against the pins.

    Args:
        source: pin → its source on disk, None where it is not at hand; what only that source
            could say is then left out.
    """
    found: list[Finding] = []
    if (triton := source("triton")) is not None:
        found += _llvm(toolchain, triton) + _build_requirements(toolchain, triton)
    if (shared := source("triton_shared")) is not None:
        found += _tested_triton(toolchain, shared)
    return found


def _llvm(toolchain: Toolchain, triton: Path) -> list[Finding]:
    coupling = llvm_of(triton)
    if coupling is None:
        return []
    pin, reason = toolchain.pins.llvm, toolchain.pins.triton.mismatch
    found = []
    if coupling.rev != pin.rev:
        fault = f"triton's {coupling.file} names LLVM {coupling.rev}, the llvm pin is {pin.rev}"
        hint = f"`tnpu-nix bump llvm {coupling.rev}`; triton does not compile against another LLVM"
        found.append(Finding("triton", fault, hint, True, reason))
    named = coupling.repository
    if named and same_repository_key(named) != same_repository_key(pin.url):
        fault = f"triton's {coupling.file} takes LLVM from {named}, the llvm pin from {pin.url}"
        hint = "on release branches the revision may be in triton's own fork of LLVM only"
        found.append(Finding("triton", fault, hint, False, reason))
    return found


def _build_requirements(toolchain: Toolchain, triton: Path) -> list[Finding]:
    has = toolchain.triton.model_dump(by_alias=True)
    return [
        Finding(
            "triton",
            f"triton's source asks for {key} = {json.dumps(value)}, pins.toml has"
            f" {json.dumps(has[key])}",
            "`tnpu-nix bump triton REV` writes what the source asks for",
            True,
            toolchain.pins.triton.mismatch,
        )
        for key, value in unmet_options(toolchain.triton, triton).items()
    ]


def _tested_triton(toolchain: Toolchain, shared: Path) -> list[Finding]:
    if (text := _text(shared, "triton-hash.txt")) is None:
        return []
    named = re.sub(r"\s.*", "", text.strip(), flags=re.S)
    pin = toolchain.pins.triton
    if named == pin.rev:
        return []
    fault = f"triton_shared was last tested with triton {named}, the triton pin is {pin.rev}"
    hint = 'if the pair is wanted, say why: mismatch = "…" in [pins.triton_shared]'
    return [Finding("triton_shared", fault, hint, False, toolchain.pins.triton_shared.mismatch)]
