"""What a name means in a repository: which commit, and which branch or tag led there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tnpu_nix import git, process
from tnpu_nix.errors import TnpuError
from tnpu_nix.git_failure import failure
from tnpu_nix.remote import Remote
from tnpu_nix.values import is_revision

_SHORT = re.compile(r"[0-9a-f]{7,39}")
# Seconds for the commits of a whole history, without files: some hundred megabytes for LLVM.
_HISTORY_TIMEOUT = 900.0


@dataclass(frozen=True)
class Resolved:
    """What a name means in a repository: the commit, and the ref that was followed."""

    rev: str
    ref: str | None  # None: the revision was given in full


def resolve(remote: Remote, name: str) -> Resolved:
    """Return the commit that a full or short revision, a branch, a tag or a full ref names.

    A branch or tag comes before a short revision of the same spelling, and a tag of a tag is
    followed to its commit. A branch and a tag of one name are told apart by their full refs
    (``refs/heads/…``, ``refs/tags/…``).

    Raises:
        TnpuError: unknown or ambiguous name, or the server cannot be asked.
    """
    if is_revision(name.lower()):
        return Resolved(commit_of(remote, name.lower()), None)
    refs = git.list_refs(remote)
    full = name.startswith("refs/") or name == "HEAD"
    wanted = [name] if full else [f"refs/heads/{name}", f"refs/tags/{name}"]
    found = [ref for ref in wanted if ref in refs]
    if len(found) > 1:
        raise TnpuError(
            f"{name} is both a branch and a tag of {remote.url}",
            f"say which: {' or '.join(found)}",
        )
    if not found and _SHORT.fullmatch(name.lower()):
        return Resolved(_lengthen(remote, name.lower()), None)
    if not found:
        raise TnpuError(f"{remote.url} has no branch or tag {name!r}", _suggest(name, refs))
    # ls-remote lists what an annotated tag points to under the tag's name and "^{}".
    peeled = refs.get(f"{found[0]}^{{}}")
    rev = peeled or refs[found[0]]
    if not is_revision(rev):
        raise TnpuError(
            f"{remote.url} has revisions of {len(rev)} digits: its objects are named by sha256",
            "Nix fetches repositories with revisions of 40 digits only",
        )
    # A branch is a commit; a light tag, or a ref of some forge, may be anything.
    sure = found[0].startswith("refs/heads/") or found[0] == "HEAD"
    return Resolved(rev if sure else commit_of(remote, rev), found[0])


def _suggest(name: str, refs: dict[str, str]) -> str:
    if re.fullmatch(r"[0-9a-f]{4,6}", name):
        return "a short revision has 7 hexadecimal digits or more"
    shown = [
        re.sub(r"^refs/(?:heads|tags)/", "", ref)
        for ref in refs
        if ref != "HEAD" and not ref.endswith("^{}")
    ]
    near = [one for one in shown if name.lower() in one.lower() or one.lower() in name.lower()]
    text = ", ".join(dict.fromkeys((near or shown)[:6]))
    return f"it has {text}" if text else "the repository is empty"


def _lengthen(remote: Remote, short: str) -> str:
    """Return the one commit whose revision begins with *short*.

    Every commit is fetched to look, without its files where the server can leave them out.

    Raises:
        TnpuError: no commit begins so, or several do; the hint lists them.
    """
    with git.isolated(remote) as env, git.temporary_folder() as folder:
        where = ["git", "-C", str(folder)]
        done = git.fetch_bare(folder, env, remote, "+refs/*:refs/*", timeout=_HISTORY_TIMEOUT)
        if done.status != 0:
            raise failure(remote, done.stderr, short)
        listed = process.run([*where, "rev-parse", f"--disambiguate={short}"], env=env)
        # Of all objects that begin so, those that are commits; a tag counts as what it points to.
        argv = [*where, "rev-list", "--no-walk", "--ignore-missing", "--format=%H %cs %s"]
        found = process.run([*argv, "--stdin"], env=env, stdin=listed.stdout)
    commits = [line for line in found.stdout.splitlines() if not line.startswith("commit ")]
    if not commits:
        raise TnpuError(f"{remote.url} has no revision {short}", "check it; all 40 digits are sure")
    if len(commits) > 1:
        candidates = "; ".join(f"{line[:12]}{line[40:90]}" for line in commits[:6])
        raise TnpuError(
            f"{short} is the beginning of {len(commits)} revisions of {remote.url}",
            f"give more digits: {candidates}",
        )
    return commits[0][:40]


def commit_of(remote: Remote, rev: str) -> str:
    """Return the commit that a full object name stands for: itself, or what a tag points to.

    No file is fetched where the server can leave them out.

    Asked before a prefetch, which in search of a revision that is not there goes on to fetch
    every branch: gigabytes of LLVM. A server says at once that it has no such object; one that
    sends it with all its files, or will not send it by itself, is left to the prefetch.
    """
    with git.isolated(remote) as env, git.temporary_folder() as folder:
        where = ["git", "-C", str(folder)]
        try:
            done = git.fetch_bare(
                folder, env, remote, "--depth=1", rev, timeout=git.answer_timeout()
            )
        except process.TimedOutError:
            return rev
        if done.status != 0:
            if "unadvertised object" in done.stderr:
                return rev
            raise failure(remote, done.stderr, rev)
        peeled = process.run([*where, "rev-parse", "--verify", f"{rev}^{{commit}}"], env=env)
    if peeled.status != 0:
        raise TnpuError(
            f"{rev} of {remote.url} is a tree or a file, not a commit",
            "name a commit, branch or tag",
        )
    return peeled.stdout.strip()
