"""The model of pins.toml: what each key means and what it may hold."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from datetime import datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tnpu_nix import reference
from tnpu_nix.errors import TnpuError
from tnpu_nix.remote import TOKEN_USER, Remote, token_fault
from tnpu_nix.repository import carries_password, url_fault

# Of the format of pins.toml. A file of a newer one is refused.
VERSION = 1
PIN_NAMES = ("llvm", "triton", "triton_shared", "spike", "pk")
# What `[image] links` may lead to: the components that have a place in the image.
LINKABLE = ("llvm-tools", "pk", "python-env", "spike", "triton")
# What is built anew when a pin moves, in the order of the builds; the image is, whatever moves.
REBUILT = {
    "llvm": ("llvm", "mlir", "lld", "llvm-toolchain", "llvm-tools", "triton", "python-env"),
    "triton": ("triton", "python-env"),
    "triton_shared": ("triton", "python-env"),
    "spike": ("spike",),
    "pk": ("pk", "spike"),  # spike's check runs under pk; the simulator itself is not compiled
}
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
# One for each component, and some for what they need.
_LEAST_LAYERS = 16
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
        raise ValueError("must be the name of an environment variable, and not a token itself")
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


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Table(BaseModel):
    """A table of pins.toml: unknown keys are faults, keys are spelled with hyphens."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, strict=True)


class Pin(_Table):
    """One upstream repository at one revision."""

    url: Url
    rev: Revision
    hash: Sri  # of the NAR of a plain checkout, as nix-prefetch-git prints it
    date: Annotated[str, AfterValidator(_date)]  # of the commit, ISO 8601
    track: Text = "main"  # the branch that the pin follows
    submodules: bool = False
    lfs: bool = False
    mismatch: Text | None = None  # why this source may disagree with other pins; printed each time
    token_env: Variable | None = None  # the environment variable that holds a token for the url
    token_user: User = TOKEN_USER

    @field_validator("token_env")
    @classmethod
    def _token_is_safe(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and (fault := token_fault(info.data.get("url", "https:"))):
            raise ValueError(fault)
        return value

    @property
    def remote(self) -> Remote:
        """The repository, and how it is asked."""
        return Remote(self.url, self.token_env, self.token_user)


class Nixpkgs(_Table):
    """The package set that everything is built from, locked in flake.lock."""

    owner: Word = "NixOS"
    repo: Word = "nixpkgs"
    ref: Word = "nixos-unstable"
    rev: Revision
    hash: Sri  # of the NAR of the unpacked tree: narHash in flake.lock
    last_modified: int = Field(gt=0, lt=2**63)  # seconds since 1970, as Nix counts them


class Base(_Table):
    """An image in a registry that ours is laid upon; `bump base` writes all but image and tag."""

    image: Annotated[Text, AfterValidator(_repository)]  # host[:port]/name
    tag: Annotated[str, AfterValidator(_tag)] = "latest"  # what `bump base` follows
    digest: Annotated[str, AfterValidator(_digest)]  # of the manifest for linux/amd64
    hash: Sri  # of the docker archive that skopeo makes of it, a flat file
    layers: int = Field(ge=1)  # how many layers of ours are its

    @property
    def archive_name(self) -> str:
        """The name of the archive in the store, as pullImage of nixpkgs' dockerTools has it."""
        return f"docker-image-{self.image}-{self.tag}.tar".replace("/", "-").replace(":", "-")


class Image(_Table):
    """The OCI image: its name, where it is pushed to, and links to components in it."""

    name: Annotated[str, AfterValidator(_image_name)] = "tnpu-toolchain"
    registry: Registry | None = None  # host[:port][/path]
    links: dict[ImagePath, Component] = Field(default_factory=dict)
    packages: list[Text] = []  # more programs on PATH, names in nixpkgs
    max_layers: int = Field(default=64, ge=_LEAST_LAYERS, le=120)
    base: Base | None = None

    @model_validator(mode="after")
    def _leaves_layers(self) -> Image:
        if self.base is not None and self.max_layers - self.base.layers < _LEAST_LAYERS:
            raise ValueError(
                f"max-layers is {self.max_layers}, of which the base has {self.base.layers}:"
                f" at least {_LEAST_LAYERS} have to be left"
            )
        return self


class Llvm(_Table):
    """Build options of LLVM, MLIR and lld."""

    targets: Annotated[list[Text], AfterValidator(_targets)] = list(REQUIRED_TARGETS)
    assertions: bool = False
    cmake_flags: list[Text] = []


class Triton(_Table):
    """Build options of triton; `bump triton` keeps build-requires in step with the source."""

    build_requires: list[Text] = ["pybind11"]  # names in nixpkgs' Python set
    nlohmann_json: bool = False  # whether setup.py demands JSON_SYSPATH even without Proton
    cmake_flags: list[Text] = []


class Pk(_Table):
    """Build options of the proxy kernel."""

    arch: Text = "rv64gc_zicsr_zifencei"
    abi: Text = "lp64d"


class Python(_Table):
    """The interpreter that triton is built for, and what stands beside triton."""

    version: Annotated[str, AfterValidator(_python_version)] = "3.11"
    packages: list[Text] = []  # names in nixpkgs' Python set

    @property
    def attribute(self) -> str:
        """The interpreter's name in nixpkgs: ``python311`` for 3.11."""
        return "python" + self.version.replace(".", "")


class Cache(_Table):
    """Where built outputs can be had."""

    substituters: list[PublicUrl] = []
    public_keys: list[Text] = []
    advertise: bool = False  # whether the flake's nixConfig carries them
    push: PublicUrl | None = None  # where `cache push` uploads to
    keep: int = Field(default=3, ge=1)  # sets of pins whose outputs are kept


class Slurm(_Table):
    """The partition that builds run on."""

    partition: Plain | None = None
    cpus: int | None = Field(default=None, gt=0)
    time: Plain | None = None  # walltime, HH:MM:SS
    memory: Plain | None = None  # as sbatch takes it: 64G


class Ci(_Table):
    """The GitHub workflow that `init-ci` writes."""

    branch: Plain = "main"  # whose pushes it runs on
    runs_on: list[Plain] = ["self-hosted", "linux", "x64"]  # labels of the runner
    smoke: Plain | None = None  # a shell line that runs the lab's own kernels in the image


class Pins(_Table):
    """The five upstreams, known by name."""

    model_config = ConfigDict(alias_generator=None)

    llvm: Pin
    triton: Pin
    triton_shared: Pin
    spike: Pin
    pk: Pin

    def named(self, name: str) -> Pin:
        """Return one pin by its name, one of PIN_NAMES."""
        pin: Pin = getattr(self, name)
        return pin

    def items(self) -> list[tuple[str, Pin]]:
        """Return (name, pin) for each upstream, in the order of PIN_NAMES."""
        return [(name, self.named(name)) for name in PIN_NAMES]


class Toolchain(_Table):
    """All of pins.toml."""

    version: int = Field(default=VERSION, ge=1, le=VERSION)  # of the file's format
    nixpkgs: Nixpkgs
    pins: Pins
    image: Image = Image()
    llvm: Llvm = Llvm()
    triton: Triton = Triton()
    pk: Pk = Pk()
    python: Python = Python()
    cache: Cache = Cache()
    slurm: Slurm = Slurm()
    ci: Ci = Ci()
