"""What a single value of pins.toml may be: the types of its model, and what is said of others."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from tnpu_nix.errors import TnpuError
from tnpu_nix.registry import reference
from tnpu_nix.repository import carries_password, url_fault

# What `[image] links` may lead to: the components that have a place in the image.
LINKABLE = ("llvm-tools", "pk", "python-env", "spike", "triton")
# triton links these code generators through its in-tree back ends; kernels become RISC-V.
REQUIRED_TARGETS = ("X86", "NVPTX", "AMDGPU", "RISCV")

_REVISION = re.compile(r"[0-9a-f]{40}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FLAKE_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
_PYTHON_VERSION = re.compile(r"3\.[0-9]{1,2}")
# What image.nix fills, and what a container runtime mounts or writes.
_IMAGE_FOLDERS = ("bin", "dev", "etc", "nix", "proc", "root", "sys", "tmp")
_ENV_PROGRAM = ["usr", "bin", "env"]
_IMAGE_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_{1,2}|-+|/)[a-z0-9]+)*")


def _printable(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("holds a control character")
    return value


def _non_empty(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


def is_revision(value: str) -> bool:
    """Tell whether *value* is a full git revision: 40 lower-case hexadecimal digits."""
    return _REVISION.fullmatch(value) is not None


def _revision(value: str) -> str:
    if not is_revision(value):
        raise ValueError(f"{value!r} is not a full revision (40 hexadecimal digits in lower case)")
    return value


def is_sri_sha256(value: str) -> bool:
    """Tell whether *value* is an SRI hash: ``sha256-`` and 32 bytes in base64."""
    algorithm, _, digest = value.partition("-")
    try:
        raw = base64.b64decode(digest, validate=True)
    except (binascii.Error, ValueError):
        return False
    return algorithm == "sha256" and len(raw) == 32 and base64.b64encode(raw).decode() == digest


def _sri(value: str) -> str:
    if not is_sri_sha256(value):
        raise ValueError(f"{value!r} is not an SRI hash (sha256- and 44 characters of base64)")
    return value


def _url(value: str) -> str:
    if fault := url_fault(value):
        raise ValueError(fault)
    return value


def _no_expression(value: str) -> str:
    if "${{" in value:
        raise ValueError("holds ${{, which GitHub would take for an expression of its own")
    return value


def _no_password(value: str) -> str:
    if carries_password(value):
        raise ValueError("holds a user name or password; keep credentials in a netrc file")
    return value


def _image_name(value: str) -> str:
    if not _IMAGE_NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not an image name (lower-case letters and digits, parted by . _ - /)"
        )
    return value


def _registry(value: str) -> str:
    try:
        reference.parse(f"{value.rstrip('/')}/image")
    except TnpuError:
        raise ValueError(
            f"{value!r} is no registry: host[:port] and, if it wants one, a /path in lower case"
        ) from None
    return value


def _repository(value: str) -> str:
    try:
        named = reference.parse(value)
    except TnpuError as error:
        raise ValueError(error.what) from None
    if named.repository != value:
        raise ValueError(f"{value!r} is not host[:port]/name: {named.repository}")
    return value


def _tag(value: str) -> str:
    if not reference.is_tag(value):
        raise ValueError(f"{value!r} is no tag of an image")
    return value


def _digest(value: str) -> str:
    if not reference.is_digest(value):
        raise ValueError(f"{value!r} is no digest (sha256: and 64 hexadecimal digits)")
    return value


def _flake_word(value: str) -> str:
    if not _FLAKE_WORD.fullmatch(value):
        raise ValueError(f"{value!r} is no name of letters, digits and . _ -")
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError(
            "must be the name of an environment variable in capitals, and not a token itself"
        )
    return value


def _user(value: str) -> str:
    if not _FLAKE_WORD.fullmatch(value):
        raise ValueError("must be a user name of letters, digits and . _ -")
    return value


def _python_version(value: str) -> str:
    if not _PYTHON_VERSION.fullmatch(value):
        raise ValueError(f"must look like 3.11, not {value!r}")
    return value


def _link(value: str) -> str:
    # normpath leaves two slashes at the start, which POSIX gives a meaning of their own.
    if posixpath.normpath(value) != value or not re.match(r"/[^/]", value):
        raise ValueError(
            f"{value!r} is not an absolute path in the image, without . and .. and needless slashes"
        )
    if "\n" in value:
        raise ValueError("holds a line break")
    parts = value.split("/")[1:]
    # A link at or above usr/bin/env would take its place, one below would lie in a program.
    if parts[0] in _IMAGE_FOLDERS or parts[:3] == _ENV_PROGRAM[: len(parts)]:
        raise ValueError(f"{value!r} lies where the image's own folders are")
    if any(part.startswith(".wh.") or len(part.encode()) > 255 for part in parts):
        raise ValueError(f"{value!r} has a name that no layer of an image can hold")
    return value


def _date(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a date as ISO 8601 writes it") from None
    return value


def _linkable(value: str) -> str:
    if value not in LINKABLE:
        raise ValueError(f"{value!r} is no component of the image ({', '.join(LINKABLE)})")
    return value


def _targets(value: list[str]) -> list[str]:
    missing = [target for target in REQUIRED_TARGETS if target not in value]
    if missing:
        raise ValueError(
            f"lacks {', '.join(missing)}: triton links X86, NVPTX and AMDGPU, kernels are RISCV"
        )
    return value


Text = Annotated[str, AfterValidator(_printable), AfterValidator(_non_empty)]
# The patterns are for editors; the validators say in words what is wrong.
Revision = Annotated[
    str, AfterValidator(_revision), Field(json_schema_extra={"pattern": "^[0-9a-f]{40}$"})
]
Sri = Annotated[
    str, AfterValidator(_sri), Field(json_schema_extra={"pattern": "^sha256-[A-Za-z0-9+/]{43}=$"})
]
Url = Annotated[Text, AfterValidator(_url)]
Component = Annotated[str, AfterValidator(_linkable)]
Plain = Annotated[Text, AfterValidator(_no_expression)]
PublicUrl = Annotated[Text, AfterValidator(_no_password)]
Variable = Annotated[str, AfterValidator(_variable)]
User = Annotated[str, AfterValidator(_user)]
Registry = Annotated[PublicUrl, AfterValidator(_registry)]
Word = Annotated[str, AfterValidator(_flake_word)]
ImagePath = Annotated[Text, AfterValidator(_link)]
Date = Annotated[str, AfterValidator(_date)]
ImageName = Annotated[str, AfterValidator(_image_name)]
PythonVersion = Annotated[str, AfterValidator(_python_version)]
Targets = Annotated[list[Text], AfterValidator(_targets)]
Repository = Annotated[Text, AfterValidator(_repository)]
Tag = Annotated[str, AfterValidator(_tag)]
Digest = Annotated[str, AfterValidator(_digest)]
