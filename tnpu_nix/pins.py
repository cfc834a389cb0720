"""The model of pins.toml: what each key means and what it may hold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tnpu_nix.remote import TOKEN_USER, Remote, token_fault
from tnpu_nix.repository import is_ssh
from tnpu_nix.values import (
    REQUIRED_TARGETS,
    Component,
    Date,
    Digest,
    ImageName,
    ImagePath,
    Plain,
    PublicUrl,
    PythonVersion,
    Registry,
    Repository,
    Revision,
    Sri,
    Tag,
    Targets,
    Text,
    Url,
    User,
    Variable,
    Word,
)

# Of the format of pins.toml. A file of a newer one is refused.
VERSION = 1
PIN_NAMES = ("llvm", "triton", "triton_shared", "spike", "pk")
# What is built anew when a pin moves, in the order of the builds; the image is, whatever moves.
REBUILT = {
    "llvm": ("llvm", "mlir", "lld", "llvm-toolchain", "llvm-tools", "triton", "python-env"),
    "triton": ("triton", "python-env"),
    "triton_shared": ("triton", "python-env"),
    "spike": ("spike",),
    "pk": ("pk", "spike"),  # spike's check runs under pk; the simulator itself is not compiled
}
# One for each component, and some for what they need.
_LEAST_LAYERS = 16


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
    date: Date  # of the commit, ISO 8601
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
    def needs_credentials(self) -> bool:
        """Whether only this user can fetch it, with a token or a key, and no sandboxed build."""
        return self.token_env is not None or is_ssh(self.url)

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

    image: Repository  # host[:port]/name
    tag: Tag = "latest"  # what `bump base` follows
    digest: Digest  # of the manifest for linux/amd64
    hash: Sri  # of the docker archive that skopeo makes of it, a flat file
    layers: int = Field(ge=1)  # how many layers of ours are its

    @property
    def archive_name(self) -> str:
        """The name of the archive in the store, as pullImage of nixpkgs' dockerTools has it."""
        return f"docker-image-{self.image}-{self.tag}.tar".replace("/", "-").replace(":", "-")


class Image(_Table):
    """The OCI image: its name, where it is pushed to, and links to components in it."""

    name: ImageName = "tnpu-toolchain"
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

    targets: Targets = list(REQUIRED_TARGETS)
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

    version: PythonVersion = "3.11"
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
