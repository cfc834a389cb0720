"""A pin as old files have it: what they say, what they leave to an existing pins.toml, and what
the repository itself says about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tnpu_nix import git
from tnpu_nix.errors import TnpuError
from tnpu_nix.migration.choosing import Choice, choose, not_taken
from tnpu_nix.migration.importreport import PinReport, Row
from tnpu_nix.migration.placing import BRANCH, FULL, SHORT, TAG, VERSION, Claim
from tnpu_nix.migration.redaction import Redactor
from tnpu_nix.pins import Pin
from tnpu_nix.remote import Remote
from tnpu_nix.repository import same_repository_key
from tnpu_nix.resolve import resolve

# The model's own; a pin without a word of another branch tracks it.
_TRACK = "main"


@dataclass
class Draft:
    """One pin on its way into pins.toml."""

    choice: Choice
    base: Pin | None  # the pin as an existing pins.toml has it
    origin: str  # the name of that pins.toml
    url: str | None = None
    what: str | None = None  # a revision, branch or tag, as it is to be asked for
    rev: str | None = None
    ref: str | None = None
    track: str | None = None
    missing: list[str] = field(default_factory=list)
    verdicts: dict[int, tuple[str, str]] = field(default_factory=dict)  # claim → verdict, why

    @property
    def name(self) -> str:
        """The pin's name."""
        return self.choice.pin

    @property
    def same_repository(self) -> Pin | None:
        """The pin of an existing pins.toml, if it is one of the same repository."""
        if self.base is None or self.url is None:
            return None
        same = same_repository_key(self.base.url) == same_repository_key(self.url)
        return self.base if same else None

    @property
    def unchanged(self) -> Pin | None:
        """The pin of an existing pins.toml, if its hash holds: of the same URL and revision."""
        base = self.same_repository
        return base if base and (base.url, base.rev) == (self.url, self.rev) else None

    def as_pin(self) -> Pin:
        """Return what is known of the pin in the form in which its repository is asked."""
        claim, base = self.choice.url, self.same_repository
        kept = base or Pin.model_construct(submodules=False, lfs=False)
        update = {"url": self.url, "rev": self.rev or self.what}
        if claim is not None and claim.token_env:
            update |= {"token_env": claim.token_env}
            update |= {"token_user": claim.token_user} if claim.token_user else {}
        return kept.model_copy(update=update)

    @property
    def remote(self) -> Remote:
        """The repository, and how it is asked."""
        return self.as_pin().remote


def start(name: str, claims: list[Claim], base: Pin | None, origin: str) -> Draft:
    """Return what the files say of a pin, filled up from an existing pins.toml."""
    choice = choose(name, claims)
    draft = Draft(choice, base, origin)
    if choice.fault:
        draft.missing.append(
            f"{choice.fault}; `unset` one of them in a file of yours, named after these"
        )
        return draft
    draft.url = choice.url.text if choice.url else base.url if base else None
    draft.what = choice.rev.text if choice.rev else None
    draft.rev = draft.what if choice.rev and choice.rev.kind == FULL else None
    draft.track = _branch(choice.track) if choice.track else None
    if draft.what is None and (kept := draft.same_repository):
        draft.what = draft.rev = kept.rev
    prefix = name.upper()
    if draft.url is None:
        draft.missing.append(f"no file names its repository ({prefix}_URL=…)")
    if draft.what is None:
        draft.missing.append(f"no file names its revision ({prefix}_SHA=…)")
    return draft


def ask(draft: Draft, say: Callable[[str], None]) -> Draft:
    """Find out which commit a draft means, and which branch it tracks.

    A version is taken for a revision only where the repository has a branch or tag of just that
    name; otherwise the next best variable counts.

    Raises:
        TnpuError: the repository cannot be asked, or has no such revision.
    """
    if draft.url is None or draft.what is None or draft.unchanged:
        return draft
    say(f"asking {draft.url} for {draft.what}")
    rev = draft.choice.rev
    try:
        found = resolve(draft.remote, _full_name(draft, rev))
    except TnpuError:
        if rev is None or rev.kind != VERSION:
            raise
        return ask(_without(draft, rev), say)
    draft.rev, draft.ref = found.rev, found.ref
    draft.track = _tracked(draft)
    return draft


def _full_name(draft: Draft, claim: Claim | None) -> str:
    """Return what is asked for: a tag as a tag, where a branch has the same name."""
    text = draft.what or ""
    if claim is None or claim.kind in (FULL, SHORT) or text.startswith("refs/"):
        return text
    refs = git.list_refs(draft.remote)
    if f"refs/heads/{text}" not in refs and f"refs/tags/{text}" not in refs:
        text = text.removeprefix("origin/")
    kind = {TAG: "refs/tags", BRANCH: "refs/heads"}.get(claim.kind, "")
    return f"{kind}/{text}" if f"{kind}/{text}" in refs else text


def _without(draft: Draft, claim: Claim) -> Draft:
    """Return the draft as it is without one claim, which stays among those that are shown."""
    others = [one for one in draft.choice.claims if one is not claim]
    again = start(draft.name, others, draft.base, draft.origin)
    again.choice = replace(again.choice, claims=draft.choice.claims)
    again.verdicts[id(claim)] = ("not taken", "the repository has no branch or tag of that name")
    return again


def _tracked(draft: Draft) -> str | None:
    """Return the branch that a pin tracks; None: the model's default, or as it was."""
    if (branch := draft.choice.track) is not None:
        if f"refs/heads/{_branch(branch)}" in git.list_refs(draft.remote):
            return _branch(branch)
        draft.verdicts[id(branch)] = ("not taken", "the repository has no branch of that name")
    if draft.ref and draft.ref.startswith("refs/heads/"):
        return draft.ref.removeprefix("refs/heads/")
    if draft.same_repository:
        return None
    refs = git.list_refs(draft.remote)
    if f"refs/heads/{_TRACK}" in refs:
        return None
    heads = [name for name, rev in refs.items() if rev == refs.get("HEAD")]
    branches = [
        name.removeprefix("refs/heads/") for name in heads if name.startswith("refs/heads/")
    ]
    return "master" if "master" in branches else branches[0] if len(branches) == 1 else None


def _branch(claim: Claim) -> str:
    return claim.text.removeprefix("refs/heads/").removeprefix("origin/")


def report(draft: Draft, redactor: Redactor, *, asked: bool) -> PinReport:
    """Return a draft for people, with each variable that speaks of it.

    Args:
        asked: whether its repository was asked, and may be again.
    """
    choice = draft.choice
    shown = PinReport(draft.name, url=draft.url, rev=draft.rev or draft.what, ref=draft.ref)
    shown.track, shown.missing = draft.track, list(draft.missing)
    shown.url_from = _source(choice.url) if choice.url else draft.origin if draft.url else ""
    shown.rev_from = _source(choice.rev) if choice.rev else draft.origin if draft.what else ""
    refs: dict[str, dict[str, str] | None] = {}
    for claim in choice.claims:
        verdict, why = draft.verdicts.get(id(claim)) or _verdict(draft, claim, refs, asked)
        why = "; ".join(one for one in (why, claim.note) if one)
        earlier = redactor.earlier(claim.variable)
        shown.rows.append(
            Row(
                claim.variable.name,
                f"{claim.variable.file}:{claim.variable.line}",
                claim.role,
                redactor.text(claim.text),
                verdict,
                why,
                earlier,
            )
        )
    return shown


def _source(claim: Claim) -> str:
    return f"{claim.variable.name}, {claim.variable.file}:{claim.variable.line}"


def _verdict(
    draft: Draft, claim: Claim, refs: dict[str, dict[str, str] | None], asked: bool
) -> tuple[str, str]:
    choice = draft.choice
    if claim is choice.rev:
        return "wins", choice.why
    if claim is choice.url:
        return "wins", ""
    if claim is choice.track:
        return "tracked", "a branch: what the pin follows, and no revision"
    if draft.url is None or (claim.role == "rev" and draft.what is None):
        return "not taken", "" if choice.fault else not_taken(claim)
    if claim.role == "url":
        same = same_repository_key(claim.text) == same_repository_key(draft.url)
        return ("agrees", "") if same else ("disagrees", f"not taken: {not_taken(claim)}")
    if claim.kind == BRANCH:
        return "not taken", not_taken(claim)
    reason = f"not taken: {not_taken(claim)}"
    if claim.kind not in (FULL, SHORT) and not asked:
        return "not asked", reason
    means = _means(draft, claim, refs)
    if means is None:
        return "not known", f"{reason}; its repository cannot be asked"
    if not means:
        return "not known", f"{reason}; the repository has no branch or tag of that name"
    agrees = (draft.rev or draft.what or "").startswith(means)
    return ("agrees" if agrees else "disagrees"), reason


def _means(draft: Draft, claim: Claim, refs: dict[str, dict[str, str] | None]) -> str | None:
    """Return the revision, or its beginning, that a claim which was not taken names.

    Empty: its repository has no such branch or tag. None: it cannot be asked.
    """
    if claim.kind in (FULL, SHORT):
        return claim.text
    own = [one for one in draft.choice.claims if one.role == "url" and one.scope == claim.scope]
    remote = Remote(own[0].text) if own and own[0] is not draft.choice.url else draft.remote
    if remote.url not in refs:
        try:
            refs[remote.url] = git.list_refs(remote)
        except TnpuError:
            refs[remote.url] = None
    found = refs[remote.url]
    if found is None:
        return None
    for name in (claim.text, f"refs/tags/{claim.text}", f"refs/heads/{claim.text}"):
        if name in found:
            return found.get(f"{name}^{{}}", found[name])
    return ""
