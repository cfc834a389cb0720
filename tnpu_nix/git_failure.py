"""What git's error messages mean, and what to do about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from tnpu_nix import process
from tnpu_nix.errors import TnpuError
from tnpu_nix.remote import Remote


@dataclass(frozen=True)
class _Cause:
    pattern: str  # in what git says
    what: str
    hint: str
    token_hint: str = ""  # instead, where the pin names a token


_CAUSES = (
    _Cause(
        r"smudge filter lfs failed|external filter '?git-lfs",
        "{url} does not hand out the Git LFS content of {rev}",
        "check that the server keeps it (`git lfs fetch` in a clone), or set lfs = false",
    ),
    _Cause(
        r"not our ref|couldn't find remote ref|remote ref does not exist"
        r"|bad object|Unable to checkout|unable to read tree|reference is not a tree",
        "{url} has no revision {rev}",
        "check the revision; a force-push may have removed it",
    ),
    _Cause(
        r"Host key verification failed",
        "{url}: the server's host key is not the one this user knows, or not known yet",
        "compare the server's key, then ssh to it once by hand, or add it to known_hosts",
    ),
    _Cause(
        r"Permission denied \(|Too many authentication failures",
        "{url} refuses every ssh key that it was offered",
        "`ssh-add -l` lists the keys of the agent; one of them needs read access there",
    ),
    _Cause(
        r"error: 403|HTTP 403|Access denied",
        "{url} asks for a password, or refuses the one it was given: no right to read (403)",
        "the user in the netrc file needs read access to that repository",
        "the token in {variable} needs the right to read the contents of that repository",
    ),
    _Cause(
        r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled"
        r"|error: 401|HTTP 401|Permission denied",
        "{url} asks for a password, or refuses the one it was given",
        "put credentials for the host into ~/.netrc, name a variable with a token in pins.toml"
        " (token-env), or use an ssh URL with a key in the agent",
        "the token in {variable} is not valid there: expired, revoked, or of another host",
    ),
    _Cause(
        r"[Cc]ould not resolve host|Name or service not known|Temporary failure in name"
        r"|[Ff]ailed to connect|Connection refused|Network is unreachable|No route to host"
        r"|Connection timed out|Couldn't connect",
        "{url} cannot be reached",
        "check the host's name, the network and https_proxy (git's own settings are not read)",
    ),
    _Cause(
        r"No space left on device",
        "the disk is full; the source of {url} could not be stored",
        "make room in the temporary folder and the Nix store, then run the command again",
    ),
    _Cause(
        r"does not appear to be a git repository|[Rr]epository (?:'[^']*' )?not found"
        r"|[Rr]epository '[^']*' does not exist|not a git repository",
        "{url} is no git repository, or one that this user cannot see",
        "check the URL; a private repository also needs credentials: ~/.netrc or token-env",
        "check the URL; else the token in {variable} may not see that repository",
    ),
    _Cause(
        r"Operation too slow|early EOF|unexpected disconnect|RPC failed|hung up|reset by peer"
        r"|Empty reply|transfer closed|Recv failure",
        "{url} broke off or stalled in the middle of the transfer",
        "run the command again",
    ),
)
# What git and its helpers say themselves, and not what a script or a banner happens to.
_OWN = re.compile(
    r"(?:fatal|remote|error|ssh|warning)?:|Unable to checkout|.*: Permission denied|Host key"
)


def _other_host(remote: Remote, stderr: str) -> str | None:
    """Return the host that a redirect or a submodule led to, if it is not the remote's own."""
    named = re.search(r"(?:Authentication failed for|unable to access) '(https?://[^']+)'", stderr)
    host = urlsplit(named.group(1)).netloc if named else ""
    return host if host and host != urlsplit(remote.url).netloc else None


def failure(remote: Remote, stderr: str, rev: str = "") -> TnpuError:
    """Turn what git said of a repository into one error with what to do about it.

    Args:
        rev: the revision that was asked for, if one was.
    """
    submodule = re.search(r"clone of '([^']+)' into submodule path", stderr)
    url = f"the submodule {submodule.group(1)} of {remote.url}" if submodule else remote.url
    shown = process.mask(url)
    text = "\n".join(line for line in stderr.splitlines() if _OWN.match(line.strip()))
    for cause in _CAUSES:
        if re.search(cause.pattern, text):
            hint = cause.token_hint if remote.token_env and cause.token_hint else cause.hint
            if remote.token_env and (host := _other_host(remote, stderr)):
                hint = f"{host} is another host, which is not sent the token; use a netrc for both"
            what = cause.what.format(url=shown, rev=rev or "of that name")
            return TnpuError(what, hint.format(variable=remote.token_env), said=stderr)
    said = [line for line in stderr.splitlines() if line.strip()]
    # The first fatal line is the cause; what follows it is git's advice.
    telling = [line for line in said if line.startswith("fatal: ")] or said[-1:]
    reason = telling[0].removeprefix("fatal: ") if telling else "no reason given"
    what = f"git failed on {shown}: {reason}"
    return TnpuError(what, "check the URL and the server", said=stderr)
