"""How nix is run: in which environment, in which version, and what its failures mean."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix import process
from tnpu_nix.errors import TnpuError
from tnpu_nix.terminal import uncoloured

# Flakes with --override-input, as the offline profile uses them, were seen working from here on.
OLDEST_NIX = (2, 8)
# What nixpkgs at the locked revision asks for.
OLDEST_FOR_NIXPKGS = (2, 18)

# Commands of `tnpu-nix cache` that take --cache and --public-key.
_READING = ("pull", "status", "verify")
_SANDBOX_PATHS = ("/bin", "/usr", "/lib", "/lib64")


@dataclass(frozen=True)
class Nix:
    """How nix is run: which store, and whether with the offline profile.

    Attributes:
        store: folder of a store of its own (paths lie in ``<store>/nix/store``); None for the
            machine's own.
        offline_profile: build with hostpkgs in nixpkgs' place and without substituters.
        config: more lines of nix.conf, which go before all others.
        caches: options by which the user named caches and keys to read with, for hints to repeat.
        netrc: the netrc file that the user named, for hints to repeat.
    """

    store: Path | None = None
    offline_profile: bool = False
    config: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    netrc: Path | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment in which nix is run."""
        return {**os.environ, **self.variables()}

    def variables(self) -> dict[str, str]:
        """Return what nix, or a program that calls nix, needs beside the user's environment."""
        lines = [
            os.environ.get("NIX_CONFIG", ""),
            "extra-experimental-features = nix-command flakes",
        ]
        if self.offline_profile:
            lines += [
                "substituters =",
                "sandbox = true",
                "sandbox-fallback = false",
                # The machine's own compilers are what hostpkgs is made of.
                "sandbox-paths = " + " ".join(path for path in _SANDBOX_PATHS if _exists(path)),
            ]
        if self.store is not None or self.offline_profile:
            lines += _build_users(self.store)
        lines += self.config
        variables = {"NIX_CONFIG": "\n".join(lines), "LC_ALL": "C.UTF-8"}
        if self.store is not None:
            variables["NIX_REMOTE"] = str(self.store)
        return variables

    def words(self, *words: str) -> str:
        """Return a command of tnpu-nix that runs Nix as this one does, to be put into a hint.

        Args:
            words: the command, its arguments and options; quoted for a shell where they must be.
        """
        named = self.caches if words[:1] == ("cache",) and words[1] in _READING else ()
        netrc = ["--netrc", str(self.netrc)] if self.netrc and words[:1] == ("cache",) else []
        profile = ["--offline-profile"] if self.offline_profile else []
        store = ["--store", str(self.store)] if self.store else []
        return f"`{shlex.join(['tnpu-nix', *words, *named, *netrc, *profile, *store])}`"

    def on_disk(self, path: str) -> Path:
        """Return where a store path really lies."""
        return Path(path) if self.store is None else Path(f"{self.store}{path}")


def _exists(path: str) -> bool:
    return Path(path).exists()


def _build_users(store: Path | None) -> list[str]:
    """Root builds as users of the group nixbld; without that group it builds as itself."""
    if os.geteuid() != 0:
        return []
    groups = Path("/etc/group").read_text(errors="replace")
    return [] if store is None and re.search(r"^nixbld:", groups, re.M) else ["build-users-group ="]


def version() -> tuple[int, ...]:
    """Return the version of the nix on PATH, as far as it is numbers.

    Raises:
        TnpuError: there is no nix.
    """
    try:
        said = process.run(["nix", "--version"]).stdout
    except TnpuError as error:
        raise TnpuError(
            error.what, "install Nix 2.8 or newer (`apt install nix-bin`, or nixos.org/download)"
        ) from error
    match = re.search(r"(\d+(?:\.\d+)+)", said)
    if match is None:
        raise TnpuError(f"`nix --version` says {said.strip()!r}", "put a working nix on PATH")
    return tuple(int(part) for part in match.group(1).split("."))


def check_version(nix: Nix) -> None:
    """Raise if nix is absent or too old for what is asked of it."""
    oldest = OLDEST_NIX if nix.offline_profile else OLDEST_FOR_NIXPKGS
    found = version()
    if found < oldest:
        raise TnpuError(
            f"Nix {'.'.join(map(str, found))} is too old: {'.'.join(map(str, oldest))} is needed"
            + ("" if nix.offline_profile else " by nixpkgs at the locked revision"),
            "install a newer Nix, or try --offline-profile for a build with miniatures"
            if found >= OLDEST_NIX
            else "install a newer Nix",
        )


def is_valid(nix: Nix, path: str) -> bool:
    """Tell whether the store holds *path*."""
    return path in held(nix, [path])


def held(nix: Nix, paths: Iterable[str]) -> set[str]:
    """Return those of *paths* that the store holds, by one question to Nix."""
    there = [path for path in paths if nix.on_disk(path).exists()]
    if not there:
        return set()  # asking could make a store of its own
    argv = ["nix-store", "--check-validity", "--print-invalid", *there]
    done = process.run(argv, env=nix.environment())
    return set(there) - set(done.stdout.split()) if done.status == 0 else set()


_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|database or disk is full",
        "the disk of the Nix store is full",
        "make room (`nix-collect-garbage` frees what nothing uses), then run the command again",
    ),
    (
        r"Read-only file system",
        "the Nix store lies on a read-only file system",
        "mount it writable, or use a store elsewhere with --store DIR",
    ),
    (
        r"unable to start build process|unable to (?:start|set up).*(?:sandbox|namespace)"
        r"|setting up a private mount namespace"
        r"|(?:clone|unshare)[^\n]*(?:Operation not permitted|Invalid argument|No space)"
        r"|sandboxing builds|does not support the kernel namespaces|setuid\(\) failed"
        r"|cannot (?:bind mount|pivot|change ownership|set host name)[^\n]*",
        "the sandbox that the build needs cannot be had on this machine",
        "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)",
    ),
    (
        r"[Cc]ould not resolve host|Couldn't resolve host|[Cc]ould not connect|unable to download",
        "a server could not be reached",
        "check the network and the proxy; --offline-profile builds miniatures without it",
    ),
    (
        r"with features \{[^}]*big-parallel|required \([^)]*big-parallel",
        "no machine that Nix may build on offers the feature big-parallel",
        "add big-parallel to system-features in nix.conf",
    ),
    (
        r"'[^']*/[0-9a-z]{32}-source/(?!nix/)([^']+)'(?:: No such file| does not exist)"
        r"|access to (?:absolute )?path '([^']+)' is forbidden",
        "{} is read, which a build does not see",
        "put it below nix/: of a project, only that, flake.nix and flake.lock are seen",
    ),
    (
        r"opening file '[^']*\.drv': No such file",
        "a derivation is gone from the disk although Nix has it in its books",
        "`tnpu-nix build` brings it back",
    ),
    (
        r"Permission denied",
        "the Nix store cannot be written by this user",
        "start the nix daemon, run as its owner, or use a store of your own with --store DIR",
    ),
)


def failure(what: str, stderr: str, details: tuple[str, ...] = ()) -> TnpuError:
    """Turn what nix said into one error; known causes come with what to do about them."""
    stderr = uncoloured(stderr)
    errors = _errors(stderr)
    text = "\n".join(errors)
    for pattern, cause, hint in _CAUSES:
        if found := re.search(pattern, text):
            cause = cause.format(found[found.lastindex or 0])
            return TnpuError(f"{what} failed: {cause}", hint, details or tuple(errors[-1:]), stderr)
    return TnpuError(
        f"{what} failed: {errors[-1] if errors else 'nix gave no reason'}",
        "the lines above are nix's own"
        if details
        else "`tnpu-nix --debug` shows all that nix said",
        details,
        stderr,
    )


def _errors(stderr: str) -> list[str]:
    """Return the messages that nix marks as errors, one line each, the outermost first."""
    # A message goes on in lines that are indented as far as its own text; "> " begins what a
    # builder said, which is not nix's.
    found = re.findall(r"^ *error: *(.+(?:\n {7,}[^\s>].*)*)", stderr, re.M)
    messages = [" ".join(one.split())[:400] for one in found]
    return messages or [line.strip() for line in stderr.splitlines() if line.strip()][-1:]


def own_store_works(nix: Nix) -> bool:
    """Tell whether this machine lets *nix* build in a store of its own: one trivial derivation.

    Nix mounts such a store at /nix/store for the builder, for which it needs a namespace.
    """
    expression = (
        'derivation { name = "probe"; system = builtins.currentSystem; builder = "/bin/sh";'
        ' args = [ "-c" "echo works >$out" ]; }'
    )
    argv = ["nix-build", "--no-out-link", "--expr", expression]
    return process.run(argv, env=nix.environment(), timeout=120.0).status == 0
