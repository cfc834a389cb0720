"""Which pin each variable of the old files belongs to, which one wins, and what has no place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tnpu_nix.migration.naming import Naming, is_harness, read_name, repository_pin
from tnpu_nix.migration.redaction import is_secret
from tnpu_nix.migration.sheet import Gap, Variable
from tnpu_nix.pins import PIN_NAMES
from tnpu_nix.repository import carries_password, same_repository_key, url_fault
from tnpu_nix.values import is_revision

_OWNER_AND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_HOST_AND_PATH = re.compile(r"(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}/[^\s:@]+/[^\s:@]+")
_AT_REVISION = re.compile(
    r"(?P<url>(?:git\+.+?|.+?\.git|[\w-]+/[\w.-]+?))[@#](?P<rev>[A-Za-z0-9][\w./+-]*)"
)
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_USER_INFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?:\$\{[^}]*\}|[^/?#])*@")
_TOKEN_IN_URL = re.compile(
    r"https://(?:(?P<user>[A-Za-z0-9_][\w.-]*):)?"
    r"(?P<source>\$(?:\{(?P<braced>[A-Z_][A-Z0-9_]*)(?::?\?[^}]*)?\}|(?P<plain>[A-Z_][A-Z0-9_]*)))@"
)
_ARCHIVE = re.compile(r"\.(?:tar(?:\.\w+)?|tgz|txz|zip)$|/releases/(?:download|tag)/|/archive/")
_PAGE = re.compile(r"/(?:tree|commit|commits|blob)/")
_RELEASE_NUMBER = re.compile(r"v?\d+(?:\.\d+)+\S*|\d+")
_BLANK = re.compile(r"\s")
# What says how sure a revision is; the first is the surest.
FULL, SHORT, TAG, NAME, VERSION, BRANCH = range(6)
_WORDS = {
    FULL: "a full revision",
    SHORT: "a short revision",
    NAME: "a name of a revision",
    TAG: "a tag",
    VERSION: "a version",
    BRANCH: "a branch",
}
# What nothing takes the place of: role → why it is left out.
_USELESS = {
    "folder": "names a folder of the old set-up; in the store components have paths of their own",
    "asset": "names a tarball, which the Nix store and the binary cache replace",
    "checksum": "is a checksum of a tarball; the hash of a source comes from its prefetch",
}
# Of whom a variable speaks: the pin itself, a release's tarball, or something beside the pin.
ITSELF, RELEASE, BESIDE = range(3)


_HARNESS = (
    "names triton-npu, which is the harness and no pin: its setup/versions.env holds the pins,"
    " so import that file"
)


@dataclass(frozen=True)
class Claim:
    """One variable that says something of one pin."""

    variable: Variable
    pin: str
    role: str  # "url" or "rev"
    text: str  # a URL without credentials, or a revision, branch or tag
    kind: int = FULL  # of a revision
    about: int = ITSELF
    plainness: int = 0  # of the name: fewer is plainer
    words: tuple[str, ...] = ()  # of the name, that make it speak of something beside the pin
    scope: str = ""  # what variables of one thing share
    note: str = ""  # what was made of the value on the way
    token_env: str | None = None  # the variable that the URL takes a token from
    token_user: str | None = None

    @property
    def kind_words(self) -> str:
        """What kind of revision it is, for people."""
        return _WORDS[self.kind]


@dataclass(frozen=True)
class Unplaced:
    """A variable without a place in pins.toml."""

    variable: Variable
    reason: str


@dataclass
class Placed:
    """Where the variables belong."""

    claims: list[Claim] = field(default_factory=list)
    rest: list[Unplaced] = field(default_factory=list)


@dataclass(frozen=True)
class _Read:
    """A variable with what its name says, and where its URL leads, if it has one."""

    variable: Variable
    naming: Naming
    scope: str


def place(variables: Sequence[Variable], urls: Mapping[str, str]) -> Placed:
    """Sort variables by the pin that each says something of.

    Args:
        urls: pin → URL that it has already, by which a URL in a variable is known too.
    """
    placed = Placed()
    read = [_Read(one, name, _scope(one, name)) for one, name in _named(variables)]
    known = {same_repository_key(url): pin for pin, url in urls.items()}
    owners = _owners(read, known)
    # A table of a JSON file that names a release is of that release as a whole.
    released = {one.scope for one in read if one.naming.of_release and "." in one.variable.name}
    for one in read:
        owner = owners.get(one.variable.name) or owners.get(one.scope)
        found = _claims(one, owner, one.scope in released)
        if isinstance(found, str):
            placed.rest.append(Unplaced(one.variable, found))
        else:
            placed.claims += found
    placed.rest = [_told_use(one, placed.claims) for one in placed.rest]
    return placed


def _told_use(rest: Unplaced, claims: Sequence[Claim]) -> Unplaced:
    """Say of a variable that others are made of which those are."""
    variable = rest.variable
    values = {one.variable.name: one.variable.value for one in claims}
    names = [name for name, value in values.items() if variable.value in value]
    if len(variable.value) < 4 or not names or is_secret(variable.name):
        return rest
    if read_name(variable.name).pin is not None:
        return rest
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Unplaced(variable, f"is part of {', '.join(names[:3])}{more}, which have their places")


def _named(variables: Sequence[Variable]) -> list[tuple[Variable, Naming]]:
    return [(one, read_name(one.name)) for one in variables]


def _scope(variable: Variable, naming: Naming) -> str:
    # Tables of a JSON file are things of their own, whatever a shell file calls the same.
    return f"{variable.file}:{naming.stem}" if "." in variable.name else naming.stem


def _owners(read: Sequence[_Read], known: Mapping[str, str]) -> dict[str, str]:
    """Return scope → the pin that its URL names, or a reason in words why there is none.

    A URL that contradicts the plain name of its variable is left out alone, under its own name.
    """
    owners: dict[str, str] = {}
    for one in read:
        url = clean_url(one.variable)[0] if one.naming.role in ("url", "source", "") else None
        if url is None:
            continue
        told = known.get(same_repository_key(url)) or repository_pin(url)
        if told is None and (one.naming.role == "" or _is_folder(one.variable.value, one.naming)):
            continue
        plain = one.naming.pin if not one.naming.qualifiers else None
        last = url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
        # RELEASE_REPO and RELEASE_TAG have nothing in their names that they would share.
        key = one.scope or one.variable.name
        if plain and told and told != plain:
            owners[one.variable.name] = f"its name says {plain}, its URL {told}"
        elif not plain and told:
            owners[key] = told
        elif not plain and is_harness(last):
            owners[key] = _HARNESS
        elif not plain:
            owners[key] = f"names the repository {last}, which is none of the five upstreams"
    return owners


def _claims(one: _Read, owner: str | None, released: bool) -> list[Claim] | str:
    """Return what a variable says of a pin, or why it has no place."""
    variable, naming = one.variable, one.naming
    if is_harness(variable.name):
        return _harness(variable, naming)
    if owner is not None and owner not in PIN_NAMES:
        return owner
    pin = owner or naming.pin
    if useless := _USELESS.get(naming.role) if pin or variable.value else None:
        return useless
    if pin is None or (is_secret(variable.name) and not naming.role):
        return _placeless(variable, naming)
    beside = naming.qualifiers if owner in (None, naming.pin) and naming.pin else ()
    about = BESIDE if beside else RELEASE if released or naming.of_release else ITSELF
    plainness = naming.neutral + (2 if naming.pin != pin else 0)
    claim = Claim(variable, pin, "rev", "", FULL, about, plainness, beside, one.scope)
    return _by_role(claim, naming)


def _placeless(variable: Variable, naming: Naming) -> str:
    """Return why a variable that speaks of no upstream is left out."""
    if is_secret(variable.name):
        return (
            "holds a secret, which belongs into the environment or ~/.netrc, never into pins.toml"
        )
    if naming.of_release:
        return "names a release of tarballs, which the Nix store and the binary cache replace"
    if variable.name == "description":
        return "describes the old file"
    reason = f"names none of the five upstreams ({', '.join(PIN_NAMES)})"
    return f"{reason}; {gap_words(variable.gaps)}" if variable.gaps else reason


def _is_folder(value: str, naming: Naming) -> bool:
    """Tell whether an absolute path is no repository, as far as name and value say."""
    return naming.role != "url" and value.startswith("/") and not value.endswith(".git")


def _harness(variable: Variable, naming: Naming) -> str:
    if naming.of_release:
        return "names a release of tarballs, which the Nix store and the binary cache replace"
    if naming.role in ("rev", "tag", "branch", "url", "version"):
        return _HARNESS
    return "is of the harness, triton-npu, and no pin"


def _by_role(claim: Claim, naming: Naming) -> list[Claim] | str:
    variable, role = claim.variable, naming.role
    if not variable.value and not variable.gaps:
        return "is empty"
    if is_revision(variable.value.lower()) or role in ("rev", "tag", "branch", "version"):
        return _revision_claim(claim, role)
    if role == "" and naming.qualifiers:
        return "its name does not say what it is of a pin"
    if _is_folder(variable.value, naming):
        return "names a folder, and no repository"
    if role == "" and clean_url(variable)[0] is None and not variable.gaps:
        return "its name does not say what it holds"
    return _url_claims(claim)


def _url_claims(claim: Claim) -> list[Claim] | str:
    value = claim.variable.value
    url, note = clean_url(claim.variable)
    if url is None:
        return note
    user, token = _token(claim.variable)
    note = f"asked with a token from the variable {token}" if token else note
    claims = [replace(claim, role="url", text=url, note=note, token_env=token, token_user=user)]
    if pinned := _pinned(value):
        kind = _kind(pinned[1], "rev")
        claims.append(replace(claim, text=pinned[1], kind=kind))
    return claims


def _token(variable: Variable) -> tuple[str | None, str | None]:
    """Return the user and the variable of ``https://USER:${TOKEN}@host/…``, if a URL is so.

    Only where the files do not say what the variable holds: a token comes from outside.
    """
    match = _TOKEN_IN_URL.match(variable.value.strip())
    if match is None or not any(one.source == match["source"] for one in variable.gaps):
        return None, None
    return match["user"], match["braced"] or match["plain"]


def _pinned(value: str) -> tuple[str, str] | None:
    """Split ``URL@revision`` and ``URL#revision``, as pip and npm write them."""
    match = _AT_REVISION.fullmatch(_USER_INFO.sub(r"\g<scheme>", value))
    return (match["url"], match["rev"]) if match else None


def _revision_claim(claim: Claim, role: str) -> list[Claim] | str:
    variable = claim.variable
    if variable.gaps:
        return gap_words(variable.gaps)
    value = variable.value.strip()
    if _BLANK.search(value):
        return "holds a blank, as no revision, branch or tag does"
    if re.fullmatch(r"[0-9a-fA-F]{64}", value) or value.startswith(("sha256-", "sha256:")):
        return "is a checksum (sha256) and no git revision; the prefetch computes the hash"
    if "://" in value or value.startswith(("/", "~", "-")):
        return "holds no revision, branch or tag"
    if value.lower() == "latest":
        return '"latest" names no revision: it is another one tomorrow'
    kind = _kind(value, role)
    text = value.lower() if kind in (FULL, SHORT) else value
    return [replace(claim, text=text, kind=kind)]


def _kind(value: str, role: str) -> int:
    if is_revision(value.lower()):
        return FULL
    if value.startswith(("refs/heads/", "refs/tags/")):
        return TAG if value.startswith("refs/tags/") else BRANCH
    if role in ("tag", "branch"):
        return TAG if role == "tag" else BRANCH
    if role == "version" and (_RELEASE_NUMBER.fullmatch(value) or "." in value):
        return VERSION
    return SHORT if re.fullmatch(r"[0-9a-fA-F]{7,39}", value) else NAME


def gap_words(gaps: Sequence[Gap]) -> str:
    """Return why a value cannot be told."""
    # An array, or a command to be run, may go over several lines.
    said = (" ".join(f"{one.source} {one.reason}".split()) for one in gaps)
    return "; ".join(dict.fromkeys(said))


def clean_url(variable: Variable) -> tuple[str | None, str]:
    """Return a variable's value as the URL of a repository, and what was made of it on the way.

    Credentials are left out; ``owner/name`` is one of GitHub's, as in the files of PyTorchSim.
    The URL is None where it is none, and the words then say why; neither repeats a secret.
    """
    text, notes = variable.value.strip(), []
    text = text.removeprefix("git+") if "://" in text and not text.startswith("git+ssh") else text
    if (
        carries_password(_REFERENCE.sub("x", text))
        and (bare := _USER_INFO.sub(r"\g<scheme>", text)) != text
    ):
        text = bare
        notes.append("the user name or password in it was left out: ~/.netrc is the place for it")
    gaps = [one for one in variable.gaps if not one.source or one.source in text]
    if gaps:
        return None, gap_words(gaps)
    if pinned := _pinned(text):
        text = pinned[0]
    if _ARCHIVE.search(text):
        return None, "names a tarball or a release, and no repository"
    if _PAGE.search(text):
        return None, "names a page of a forge, and no repository"
    if _OWNER_AND_NAME.fullmatch(text):
        text = f"https://github.com/{text.removesuffix('.git')}.git"
        notes.append("owner/name is read as one of github.com")
    elif _HOST_AND_PATH.fullmatch(text):
        text = f"https://{text}"
        notes.append("https:// was put before it")
    if fault := url_fault(text):
        return None, fault
    return text, "; ".join(notes)
