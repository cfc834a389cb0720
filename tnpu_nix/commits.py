"""What lies between two revisions of a repository, and how a forge shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tnpu_nix import git, process
from tnpu_nix.errors import TnpuError
from tnpu_nix.git_failure import failure
from tnpu_nix.remote import Remote

SCREENFUL = 20
# Forges that show what lies between two revisions at an address of their own: host, path.
_COMPARE = (
    (re.compile(r"(?:.*\.)?github\.[a-z.]+"), "compare/{old}...{new}"),
    (re.compile(r"(?:.*\.)?gitlab\.[a-z.]+"), "-/compare/{old}...{new}"),
    (re.compile(r"codeberg\.org|(?:.*\.)?gitea\.[a-z.]+"), "compare/{old}...{new}"),
)
_HOST_AND_PATH = re.compile(
    r"^(?:[a-z+]+://)?(?:[^@/]+@)?(?P<host>[^:/]+)(?::\d+)?[:/]+(?P<path>.+?)(?:\.git)?/?$"
)


@dataclass(frozen=True)
class Commits:
    """The commits that lead from one revision to another."""

    count: int | None  # None: the second is no descendant of the first
    subjects: list[str]  # the newest first, a screenful: short revision and subject
    date: str  # of the second revision's commit, ISO 8601


def between(remote: Remote, old: str, new: str, timeout: float) -> Commits:
    """Return what lies between two revisions.

    All commits are fetched, without files where the server can leave them out.

    Raises:
        TnpuError: the repository cannot be asked.
        TimedOutError: its history is too long to be had in *timeout* seconds.
    """
    with git.isolated(remote) as env, git.temporary_folder() as folder:
        where = ["git", "-C", str(folder)]
        done = git.fetch_bare(folder, env, remote, "--no-tags", new, timeout=timeout)
        if done.status != 0:
            raise failure(remote, done.stderr, new)
        log = [*where, "log", "--no-show-signature"]
        date = process.run([*log, "-1", "--format=%cI", new], env=env).stdout.strip()
        # merge-base fails where the old revision is no ancestor, or is not there at all.
        held = process.run([*where, "merge-base", "--is-ancestor", old, new], env=env)
        if held.status != 0:
            return Commits(None, [], date)
        span = f"{old}..{new}"
        count = process.run([*where, "rev-list", "--count", span], env=env).stdout
        argv = [*log, f"--max-count={SCREENFUL}", "--abbrev=12", "--format=%h %s", span]
        subjects = process.run(argv, env=env).stdout.splitlines()
    return Commits(int(count), subjects, date)


def if_cheap(remote: Remote, old: str, new: str) -> Commits | None:
    """Return what lies between two revisions, None where that takes long or cannot be asked."""
    try:
        return between(remote, old, new, timeout=30.0)
    except TnpuError:
        return None


def compare_link(url: str, old: str, new: str) -> str | None:
    """Return the address at which a forge shows what lies between two revisions, if it has one."""
    match = _HOST_AND_PATH.match(url)
    if match is None or git.is_local(url):
        return None
    for host, path in _COMPARE:
        if host.fullmatch(match["host"].lower()):
            return f"https://{match['host']}/{match['path']}/" + path.format(old=old, new=new)
    return None
