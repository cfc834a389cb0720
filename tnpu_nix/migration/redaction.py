"""Keeping secrets that stand in somebody's file out of what is printed and written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tnpu_nix.migration.naming import words_of
from tnpu_nix.migration.sheet import Variable
from tnpu_nix.process import mask

_SECRET_WORDS = {
    *("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PW", "CREDENTIAL", "CREDENTIALS"),
    *("AUTH", "AUTHORIZATION", "KEY", "APIKEY", "PAT", "NETRC", "COOKIE"),
}
# Tokens of GitHub, GitLab, Slack and AWS, and what is called a secret in running text.
_KNOWN = re.compile(
    r"\b(?:gh[opsur]_|github_pat_|glpat-|xox[abprs]-|AKIA)[A-Za-z0-9_-]{6,}"
    r"|(?<=[Bb]earer )\S+|(?i:(?<=token=)|(?<=password=)|(?<=passwd=)|(?<=secret=)"
    r"|(?<=token: )|(?<=password: )|(?<=passwd: )|(?<=secret: ))[^\s&]+"
)
_SCP_PASSWORD = re.compile(r"(?<![\w/])[^\s:@/]+:[^\s@/]+@")
_BEHIND_URL = re.compile(r"(?P<url>\b[a-z][a-z0-9+.-]*://[^\s?#]+|[^\s@]+@[^\s:]+:[^\s?#]+)[?#]\S+")


class Redactor:
    """Knows the secrets of some files, and takes them out of any text."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        secret = [one for one in variables if is_secret(one.name)]
        values = {one.value for one in secret if len(one.value) >= 4}
        self._values = sorted(values, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return *text* with ``***`` in the place of every secret that can be told."""
        for value in self._values:
            text = text.replace(value, "***")
        text = _SCP_PASSWORD.sub("***@", mask(text))
        return _KNOWN.sub("***", _BEHIND_URL.sub(r"\g<url>?***", text))

    def value(self, variable: Variable) -> str:
        """Return what may be shown of a variable's value: one line, of a length to be read."""
        if is_secret(variable.name):
            return "***"
        shown = " ".join(self.text(variable.value).split())
        shown = shown if shown.isprintable() else repr(shown)
        return shown if len(shown) <= 100 else f"{shown[:97]}..."


def is_secret(name: str) -> bool:
    """Tell whether a variable of this name holds a secret."""
    return not _SECRET_WORDS.isdisjoint(words_of(name))
