"""Which of several variables that speak of one pin says what it is, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tnpu_nix.migration.placing import BESIDE, BRANCH, ITSELF, RELEASE, Claim
from tnpu_nix.repository import same_repository_key


@dataclass(frozen=True)
class Choice:
    """What the files say of one pin."""

    pin: str
    claims: tuple[Claim, ...]  # all that speak of it, in the order of the files
    url: Claim | None = None
    rev: Claim | None = None
    track: Claim | None = None  # a branch beside a revision
    why: str = ""  # why this revision
    fault: str = ""  # why nothing could be chosen


def choose(pin: str, claims: Sequence[Claim]) -> Choice:
    """Choose a pin's repository and revision.

    A variable of the pin itself comes before one of a release's tarball; one whose name says
    more (``TRITON_SHARED_PREBUILT_SHA``) is never taken. Of those that are left a full revision
    comes before a short one, a tag, another name, a version and a branch, and then the plainer
    name before the longer. A release counts as a whole: its tag is one of its own repository.
    """
    every = tuple(claims)
    revs = sorted(_able(claims, "rev"), key=_rank)
    fault = _rivals([one for one in revs if _rank(one) == _rank(revs[0])], "")
    rev = revs[0] if revs else None
    urls = [one for one in _able(claims, "url") if rev is None or _fits(one, rev)]
    urls.sort(key=_rank)
    same = [one for one in urls if _rank(one) == _rank(urls[0])]
    fault = fault or _rivals(same, "repository")
    if fault:
        return Choice(pin, every, fault=fault)
    branches = [one for one in revs if one.kind == BRANCH and one.about == ITSELF]
    track = branches[0] if branches and branches[0] is not rev else None
    return Choice(pin, every, urls[0] if urls else None, rev, track, _why(revs))


def _able(claims: Sequence[Claim], role: str) -> list[Claim]:
    return [one for one in claims if one.role == role and one.about != BESIDE]


def _rank(claim: Claim) -> tuple[int, int, int]:
    return (claim.about, claim.kind, claim.plainness)


def _fits(url: Claim, rev: Claim) -> bool:
    """Tell whether a URL may be the one of a revision."""
    if RELEASE in (url.about, rev.about):
        return url.scope == rev.scope
    return True


def _rivals(same: Sequence[Claim], what: str) -> str:
    """Return what is said of equally good claims that disagree."""
    texts = {same_repository_key(one.text) if what else one.text for one in same}
    if len(texts) < 2:
        return ""
    names = " and ".join(dict.fromkeys(one.variable.name for one in same))
    return f"{names} are equally plain and name different {'repositories' if what else 'revisions'}"


def _why(revs: Sequence[Claim]) -> str:
    """Return why the first of *revs*, which are ranked, was chosen."""
    if not revs:
        return ""
    first, *others = revs
    if first.about == RELEASE:
        return f"{first.kind_words} of a release, and nothing else names the pin"
    rivals = [one for one in others if one.kind != BRANCH or first.kind == BRANCH]
    if any(one.about == first.about and one.kind == first.kind for one in rivals):
        return f"{first.kind_words} under the plainest name"
    if any(one.about == first.about for one in rivals):
        return f"{first.kind_words}, which says most"
    return f"{first.kind_words} under the pin's own name"


def not_taken(claim: Claim) -> str:
    """Return why a revision was not chosen where another was."""
    if claim.about == BESIDE:
        say = "say" if len(claim.words) > 1 else "says"
        words = " and ".join(claim.words)
        return f"{words} in its name {say} that it is of something beside the pin"
    if claim.about == RELEASE:
        return "it names a release's tarball"
    return f"it is {claim.kind_words}"
