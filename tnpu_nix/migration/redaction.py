"""Keeping secrets that stand in somebody's file out of what is printed and written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tnpu_nix.migration.naming import words_of
from tnpu_nix.migration.sheet import Variable
from tnpu_nix.process import mask

_SECRET_WORDS = {
    *("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PW", "CREDENTIAL", "CREDENTIALS"),
    *("AUTH", "AUTHORIZATION", "KEY", "APIKEY", "PAT", "NETRC", "COOKIE", "CRED", "CREDS", "LOGIN"),
    *("PASS", "PWD", "PRIVATE", "SIGNING"),
}
# A shell's own folders, which it calls as some call a password.
_FOLDERS = ("PWD", "OLDPWD")
_FUSED = ("TOKEN", "SECRET", "PASSWORD", "PASSWD")  # MYTOKEN, GHTOKEN
# LLVM_PRIVATE_URL names a repository that is private, and is no secret.
_MILD = {"PRIVATE", "SIGNING", "PASS"}
_OPEN = {
    *("URL", "URI", "REPO", "REPOSITORY", "REMOTE", "ORIGIN", "SHA", "SHA1", "REV", "REVISION"),
    *("COMMIT", "TAG", "BRANCH"),
}
# Tokens of GitHub, GitLab, Slack and AWS, and what is called a secret in running text.
_KNOWN = re.compile(
    r"\b(?:gh[opsur]_|github_pat_|glpat-|xox[abprs]-|AKIA)[A-Za-z0-9_-]{6,}"
    r"|(?<=[Bb]earer )\S+"
)
# A user's name and password as curl and others take them, and the password of a login.
_OPTION = re.compile(
    r"(?P<head>(?<!\S)(?:-u|--user|--proxy-user)[ =]*[\"']?[^\s:\"']+:)[^\s\"']+"
    r"|(?P<login>\blogin\b.*?\s-p[ =]*|--(?:password|passwd|token|secret)[ =]+)[^\s-]\S*"
)
# What running text calls a secret. A URL behind such a word is none, nor a
# revision behind "key"; behind "is", which often says something else, only what ends the phrase
# or looks like no word.
_CALLED = re.compile(
    r"(?P<head>(?i:\bpat|token|pass(?:word|wd|phrase)|secret|(?P<key>key)|credentials?|\bpwd)[\"']?"
    r"(?:\s*[=:]\s*|\s+(?i:is|was)\s*:?\s+(?=\S*[^a-z\s.,;)]|\S+\s*(?:[.,;)]|$))))"
    r"(?(key)(?![\"']?[0-9a-fA-F]{40}\b))(?![\"']?(?:[a-z][a-z0-9+.-]*://|\$|\*\*\*))[^\s&)]+"
)
_SET = re.compile(r"((?<![\w?&])(?P<name>[A-Za-z_]\w*_\w+) ?= ?)(?!\$)\S+")
_SCP_PASSWORD = re.compile(r"(?<![\w/])[^\s:@/]+:[^\s@/]+@")
_BEHIND_URL = re.compile(r"(?P<url>\b[a-z][a-z0-9+.-]*://[^\s?#]+|[^\s@]+@[^\s:]+:[^\s?#]+)[?#]\S+")


class Redactor:
    """Knows the secrets of some files, and takes them out of any text."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        secret = [one for one in variables if is_secret(one.name)]
        held = [one.value for one in secret]
        held += [value.rpartition(" (line ")[0] for one in secret for value in one.earlier]
        values = {value for value in held if len(value) >= 4}
        self._values = sorted(values, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return *text* with ``***`` in the place of every secret that can be told."""
        for value in self._values:
            text = text.replace(value, "***")
        text = _SCP_PASSWORD.sub("***@", mask(text))
        text = _KNOWN.sub("***", _BEHIND_URL.sub(r"\g<url>?***", text))
        text = _OPTION.sub(lambda one: f"{one['head'] or one['login']}***", text)
        text = _SET.sub(lambda one: f"{one[1]}***" if is_secret(one["name"]) else one[0], text)
        return _CALLED.sub(r"\g<head>***", text)

    def value(self, variable: Variable) -> str:
        """Return what may be shown of a variable's value: one line, of a length to be read."""
        if is_secret(variable.name):
            return "***"
        return _short(self.text(variable.value))

    def earlier(self, variable: Variable) -> tuple[str, ...]:
        """Return what may be shown of the values before, each as ``value (line 3)``."""
        shown = []
        for one in variable.earlier:
            value, _, line = one.rpartition(" (line ")
            value = "***" if is_secret(variable.name) else _short(self.text(value))
            shown.append(f"{value} (line {line}")
        return tuple(shown)


def _short(text: str) -> str:
    shown = " ".join(text.split())
    shown = shown if shown.isprintable() else repr(shown)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."


def is_secret(name: str) -> bool:
    """Tell whether a variable of this name holds a secret."""
    words = words_of(name)
    found = _SECRET_WORDS.intersection(words)
    if name in _FOLDERS or (found and found <= _MILD and words[-1] in _OPEN):
        return False
    return bool(found) or any(word.endswith(_FUSED) for word in words)
