"""Running git: in an environment that no configuration can change, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from tnpu_nix import process
from tnpu_nix.errors import TnpuError

# Seconds: for a question that needs no objects, and for a transfer that has gone silent.
ANSWER_TIMEOUT = 60.0

_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15"

# What would have git look at another repository than the one in its folder.
_ELSEWHERE = re.compile(r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|PREFIX|NAMESPACE)$")

# All that git sees of configuration. A repository on this machine may belong to somebody else.
_CONFIGURATION = """\
[core]
    attributesFile = /dev/null
    autocrlf = false
[safe]
    directory = *
[advice]
    detachedHead = false
[init]
    defaultBranch = main
"""
# What would tell git, or nix-prefetch-git, to do something else than it is asked to.
_INHERITED = re.compile(
    r"GIT_(?!SSL_|SSH|TRACE|HTTP_USER_AGENT|CURL)|NIX_PREFETCH_GIT_|NIX_HASH_ALGO$|PRINT_PATH$"
)


@contextlib.contextmanager
def isolated(url: str) -> Iterator[dict[str, str]]:
    """Yield an environment in which git sees only our own configuration and never prompts.

    User, system and environment configuration are shut out, since attributes, filters or line
    endings from there would change the checkout and its hash. A netrc file and an ssh agent stay:
    they say who asks, not what is answered. The configuration is a throw-away file, since
    nix-prefetch-git writes to what it takes for the user's.
    """
    clean = {name: value for name, value in os.environ.items() if not _INHERITED.match(name)}
    clean |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TEMPLATE_DIR": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        # Less than a kilobyte a second for half a minute is a server that has stalled.
        "GIT_HTTP_LOW_SPEED_LIMIT": "1000",
        "GIT_HTTP_LOW_SPEED_TIME": "30",
        "LC_ALL": "C.UTF-8",
        # Python falls back to another folder where TMPDIR names none; mktemp does not.
        "TMPDIR": gettempdir(),
    }
    if "GIT_SSH" not in clean:
        clean.setdefault("GIT_SSH_COMMAND", _SSH)
    if is_local(url):
        # Submodules of a repository on this machine may lie on this machine too.
        clean |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "protocol.file.allow",
            "GIT_CONFIG_VALUE_0": "always",
        }
    with temporary_folder() as folder:
        configuration = folder / "gitconfig"
        configuration.write_text(_CONFIGURATION)
        yield {**clean, "GIT_CONFIG_GLOBAL": str(configuration)}


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is gone afterwards.

    Raises:
        TnpuError: it cannot be made or filled (full disk, rights).
    """
    try:
        with TemporaryDirectory(prefix="tnpu-nix-") as folder:
            yield Path(folder)
    except OSError as error:
        raise TnpuError(
            f"the temporary folder cannot be used: {error.strerror}",
            "make room in it, or name another one with TMPDIR",
        ) from error


def is_local(url: str) -> bool:
    """Tell whether a URL names a repository on this machine's own disk."""
    return url.startswith(("file://", "/"))


def fetch_bare(
    folder: Path, env: Mapping[str, str], url: str, *arguments: str, timeout: float
) -> process.Completed:
    """Fetch into a new bare repository in *folder*, without files where the server can.

    The URL goes in as a remote's: git takes one on the command line for the remote's name, and
    that must not be a path when files are left out.
    """
    where = ["git", "-C", str(folder)]
    process.run([*where, "init", "--quiet", "--bare"], env=env)
    process.run([*where, "remote", "add", "origin", url], env=env)
    argv = [*where, "fetch", "--quiet", "--filter=tree:0", "origin", *arguments]
    return process.run(argv, env=env, timeout=timeout)


def list_refs(url: str) -> dict[str, str]:
    """Return every ref of a repository → the object it names, as `git ls-remote` lists them.

    Raises:
        TnpuError: the repository cannot be asked.
    """
    argv = ["git", "ls-remote", "--", url]
    with isolated(url) as env:
        done = process.run(argv, env=env, timeout=ANSWER_TIMEOUT)
    if done.status != 0:
        raise failure(url, done.stderr)
    pairs = (line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    return {ref: rev for rev, ref in pairs}


_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"not our ref|couldn't find remote ref|remote ref does not exist"
        r"|bad object|Unable to checkout|unable to read tree|reference is not a tree",
        "{url} has no revision {rev}",
        "check the revision; a force-push may have removed it",
    ),
    (
        r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled"
        r"|Permission denied \(|error: 40[13]|HTTP 40[13]|Access denied",
        "{url} asks for a password, or refuses the one it was given",
        "put credentials for the host into ~/.netrc, or use an ssh URL with a key in the agent",
    ),
    (
        r"[Cc]ould not resolve host|Name or service not known|Temporary failure in name"
        r"|[Ff]ailed to connect|Connection refused|Network is unreachable|No route to host"
        r"|Connection timed out|Couldn't connect",
        "{url} cannot be reached",
        "check the host's name, the network and https_proxy (git's own settings are not read)",
    ),
    (
        r"No space left on device",
        "the disk is full; the source of {url} could not be stored",
        "make room in the temporary folder and the Nix store, then run the command again",
    ),
    (
        r"does not appear to be a git repository|[Rr]epository (?:'[^']*' )?not found"
        r"|[Rr]epository '[^']*' does not exist|not a git repository",
        "{url} is no git repository, or one that this user cannot see",
        "check the URL; a private repository also needs credentials in ~/.netrc",
    ),
    (
        r"Operation too slow|early EOF|unexpected disconnect|RPC failed|hung up|reset by peer",
        "{url} broke off or stalled in the middle of the transfer",
        "run the command again",
    ),
)


def failure(url: str, stderr: str, rev: str = "") -> TnpuError:
    """Turn what git said into one error with what to do about it."""
    submodule = re.search(r"clone of '([^']+)' into submodule path", stderr)
    shown = process.mask(f"the submodule {submodule.group(1)} of {url}" if submodule else url)
    # What git and its helpers say themselves, and not what a script or a banner happens to.
    own = re.compile(
        r"(?:fatal|remote|error|ssh|warning)?:|Unable to checkout|.*: Permission denied"
    )
    text = "\n".join(line for line in stderr.splitlines() if own.match(line.strip()))
    for pattern, cause, hint in _CAUSES:
        if re.search(pattern, text):
            return TnpuError(cause.format(url=shown, rev=rev or "of that name"), hint, said=stderr)
    said = [line for line in stderr.splitlines() if line.strip()]
    # The first fatal line is the cause; what follows it is git's advice.
    telling = [line for line in said if line.startswith("fatal: ")] or said[-1:]
    reason = telling[0].removeprefix("fatal: ") if telling else "no reason given"
    what = f"git failed on {shown}: {reason}"
    return TnpuError(what, "check the URL and the server", said=stderr)


def untracked(folder: Path, names: list[str]) -> list[str]:
    """Return the files among *names*, and in those that are folders, that git does not track.

    Outside a repository, and for files that git is told to ignore, there are none.
    """
    argv: list[str | Path] = ["git", "-C", folder, "-c", "core.fsmonitor=false", "ls-files", "-z"]
    argv += ["--others", "--exclude-standard", "--", *names]
    try:
        return process.run(argv, env=_own_environment(), timeout=10.0).stdout.split("\0")[:-1]
    except TnpuError:
        return []  # no git, or one that hangs: a hint is not worth an error


def check_clean(folder: Path, files: Sequence[str]) -> None:
    """Raise if a git commit of *files* could hold more than what is about to be written.

    Raises:
        TnpuError: the folder is in no git repository, or files have changes of somebody's own.
    """
    argv: list[str | Path] = ["git", "-C", folder, "status", "--porcelain", "-z", "--", *files]
    done = process.run(argv, env=_own_environment())
    if done.status != 0:
        raise TnpuError(f"{folder} lies in no git repository", "git init, or bump without --commit")
    changed = [entry[3:] for entry in done.stdout.split("\0") if entry]
    if files and changed:
        raise TnpuError(
            f"changed since the last git commit: {', '.join(changed)}; nothing was written",
            "commit or stash these changes first",
        )


def commit(folder: Path, files: Sequence[str], message: str) -> None:
    """Make one git commit of exactly *files*, as the user and with the user's hooks.

    Raises:
        TnpuError: git refuses; the files stay as they are.
    """
    for arguments in (["add", "--", *files], ["commit", "--quiet", "--file=-", "--", *files]):
        argv: list[str | Path] = ["git", "-C", folder, *arguments]
        done = process.run(argv, env=_own_environment(), stdin=message, timeout=None)
        if done.status != 0:
            said = " ".join(done.stderr.split())[:300]
            raise TnpuError(f"git made no commit: {said}", "the files are written; commit them")


def _own_environment() -> dict[str, str]:
    """The user's environment, without what would have git look at another repository."""
    return {name: text for name, text in os.environ.items() if not _ELSEWHERE.match(name)}


def file_at(folder: Path, rev: str, name: str) -> str:
    """Return the text that a file of a folder has in a git revision.

    Args:
        rev: whatever names a commit to git; a branch, a tag, ``HEAD~3``.

    Raises:
        TnpuError: git knows no such revision, or the file is not in it.
    """
    argv: list[str | Path] = ["git", "-C", folder, "rev-parse", "--verify", "--quiet"]
    found = process.run([*argv, "--end-of-options", f"{rev}^{{commit}}"], env=_own_environment())
    commit = found.stdout.strip()
    if found.status != 0 or not commit:
        raise TnpuError(f"git knows no revision {rev!r} in {folder}", "see `git log` there")
    argv = ["git", "-C", folder, "show", f"{commit}:./{name}"]
    shown = process.run(argv, env=_own_environment())
    if shown.status != 0:
        raise TnpuError(f"the revision {rev} has no {name}", "name a later revision")
    return shown.stdout
