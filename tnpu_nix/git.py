"""Running git, in an environment that no configuration can change."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from tnpu_nix import process
from tnpu_nix.errors import TnpuError
from tnpu_nix.git_failure import failure
from tnpu_nix.remote import Remote

# Seconds that a server may be silent, unless the environment says otherwise.
_SILENCE, _SILENCE_VARIABLE = 30, "TNPU_NIX_TIMEOUT"

_SSH = "ssh -o BatchMode=yes -o ConnectTimeout={silence} -o ServerAliveInterval={silence}"

# What would have git look at another repository than the one in its folder.
_ELSEWHERE = re.compile(r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|PREFIX|NAMESPACE)$")

# All that git sees of configuration. A repository on this machine may belong to somebody else, and
# is served by a git that sees this too: it can leave files out.
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
[uploadpack]
    allowFilter = true
"""
# Submodules of a repository on this machine may lie on this machine too.
_LOCAL = """\
[protocol "file"]
    allow = always
"""
# What would tell git, or nix-prefetch-git, to do something else than it is asked to.
_INHERITED = re.compile(
    r"GIT_(?!SSL_|SSH|TRACE(?!2_ENV)|HTTP_USER_AGENT|CURL)|NIX_PREFETCH_GIT_|NIX_HASH_ALGO$|PRINT_PATH$"
)


def silence() -> int:
    """Return for how many seconds a server may be silent before it counts as stalled.

    Raises:
        TnpuError: the variable TNPU_NIX_TIMEOUT holds no number of seconds.
    """
    text = os.environ.get(_SILENCE_VARIABLE) or str(_SILENCE)
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise TnpuError(
            f"{_SILENCE_VARIABLE} is {text!r}, which is no number of seconds",
            f"set it to whole seconds, or unset it for {_SILENCE}",
        )
    return int(text)


def answer_timeout() -> float:
    """Return the seconds that a question may take for which no objects are transferred."""
    return 2.0 * silence()


@contextlib.contextmanager
def isolated(remote: Remote) -> Iterator[dict[str, str]]:
    """Yield an environment in which git sees only our own configuration and never prompts.

    User, system and environment configuration are shut out, since attributes, filters or line
    endings from there would change the checkout and its hash. A netrc file (``NETRC``, or
    ``~/.netrc``) and an ssh agent stay: they say who asks, not what is answered. The
    configuration is a throw-away file, since nix-prefetch-git writes to what it takes for the
    user's.

    Raises:
        TnpuError: the token that the remote needs is not there, or no netrc where NETRC says.
    """
    clean = {name: value for name, value in os.environ.items() if not _INHERITED.match(name)}
    clean |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TEMPLATE_DIR": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        # Less than a kilobyte a second for so long is a server that has stalled.
        "GIT_HTTP_LOW_SPEED_LIMIT": "1000",
        "GIT_HTTP_LOW_SPEED_TIME": str(silence()),
        "GIT_TRACE_REDACT": "1",  # whatever is traced, no credentials
        "LC_ALL": "C.UTF-8",
        # Python falls back to another folder where TMPDIR names none; mktemp does not.
        "TMPDIR": gettempdir(),
    }
    if "GIT_SSH" not in clean:
        clean.setdefault("GIT_SSH_COMMAND", _SSH.format(silence=silence()))
    with temporary_folder() as folder:
        configuration = folder / "gitconfig"
        more = _LOCAL if is_local(remote.url) else ""
        configuration.write_text(_CONFIGURATION + more + _credentials(remote, clean, folder))
        yield {**clean, "GIT_CONFIG_GLOBAL": str(configuration)}


def _credentials(remote: Remote, env: dict[str, str], folder: Path) -> str:
    """Have *env* say who asks, and return the lines of configuration for it.

    git's library for HTTP reads the .netrc in HOME; nix-prefetch-git puts there what NETRC names.
    """
    netrc = env.get("NETRC")
    if (token := remote.token()) is not None and remote.token_env is not None:
        env[remote.token_env] = token
        # A netrc would be tried first, and its user may be one who sees less than the token.
        env |= {"NETRC": os.devnull, "HOME": str(folder)}
        return remote.credential_helper()
    if netrc:
        if not os.access(netrc, os.R_OK):
            raise TnpuError(f"NETRC names {netrc}, which cannot be read", "mend or unset NETRC")
        (folder / ".netrc").symlink_to(Path(netrc).absolute())
        env |= {"NETRC": str(Path(netrc).absolute()), "HOME": str(folder)}
    return ""


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
        raise temporary_fault(error) from error


def temporary_fault(error: OSError) -> TnpuError:
    """Return what is said of a folder for temporary files that cannot be made or filled."""
    try:
        folder = gettempdir()
    except FileNotFoundError:
        folder = os.environ.get("TMPDIR", "/tmp")
    return TnpuError(
        f"the folder for temporary files, {folder}, cannot be used: {error.strerror or error}",
        "make room in it, or name another one with TMPDIR",
    )


def is_local(url: str) -> bool:
    """Tell whether a URL names a repository on this machine's own disk."""
    return url.startswith(("file://", "/"))


def fetch_bare(
    folder: Path, env: Mapping[str, str], remote: Remote, *arguments: str, timeout: float
) -> process.Completed:
    """Fetch into a new bare repository in *folder*, without files where the server can.

    The URL goes in as a remote's: git takes one on the command line for the remote's name, and
    that must not be a path when files are left out.
    """
    where = ["git", "-C", str(folder)]
    process.run([*where, "init", "--quiet", "--bare"], env=env)
    process.run([*where, "remote", "add", "origin", remote.url], env=env)
    for objects in ("tree:0", "blob:none"):
        argv = [*where, "fetch", "--quiet", f"--filter={objects}", "origin", *arguments]
        done = process.run(argv, env=env, timeout=timeout)
        # Where a tag names a tree, git takes the trees that it left out itself for lost.
        lost = re.search("did not send all necessary|bad revision", done.stderr)
        if done.status == 0 or lost is None:
            break
    return done


def list_refs(remote: Remote) -> dict[str, str]:
    """Return every ref of a repository → the object it names, as `git ls-remote` lists them.

    Raises:
        TnpuError: the repository cannot be asked.
    """
    argv = ["git", "ls-remote", "--", remote.url]
    with isolated(remote) as env:
        done = process.run(argv, env=env, timeout=answer_timeout())
    if done.status != 0:
        raise failure(remote, done.stderr)
    pairs = (line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    return {ref: rev for rev, ref in pairs}


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
            said = " ".join(f"{done.stderr} {done.stdout}".split())[:300]
            reason = said or "a hook of yours refused it without a word"
            raise TnpuError(f"git made no commit: {reason}", "the files are written; commit them")


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
