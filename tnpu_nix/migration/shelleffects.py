"""What a command does that is not run: which variables it sets, and why it is passed over.

Source: Bash's manual, "Shell Arithmetic", "Looping Constructs" and "Bash Builtins".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tnpu_nix.migration.shellwords import Literal, Parameter, Token

# Options of declare that make something else of a value than its text.
ATTRIBUTES = {
    "a": "is an array",
    "A": "is an array",
    "i": "is arithmetic, which is not done here",
    "n": "is a reference to another variable",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNED = re.compile(
    r"(?P<before>\+\+|--)?\s*\b(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:\[[^]]*\])?\s*"
    r"(?P<after>\+\+|--|(?:[-+*/%&^|]|<<|>>)?=(?!=))?"
)


def arithmetic_names(source: str) -> list[str]:
    """Return the variables that ``((A = 5))`` and its kin assign."""
    return [one["name"] for one in _ASSIGNED.finditer(source) if one["before"] or one["after"]]


def names_set(words: Sequence[Token]) -> list[str]:
    """Return the variables that a command sets by its nature: ``for``, ``read`` and others."""
    verb, rest = words[0].text, [word.text.strip("'\"") for word in words[1:]]
    if verb in ("for", "select"):
        named = rest[:1]
    elif verb in ("read", "mapfile", "readarray"):
        named = rest
    elif verb == "getopts":
        named = rest[1:2]
    elif verb == "printf" and "-v" in rest[:-1]:
        named = [rest[rest.index("-v") + 1]]
    elif verb == "let":
        return arithmetic_names(" ".join(rest))
    else:
        return []
    return [one for one in named if _NAME.fullmatch(one)]


def names_of(word: Token, text: str) -> list[str]:
    """Return the words that a shell makes of one whose value is *text*."""
    quoted = any(isinstance(part, Literal) and part.quoted for part in word.parts)
    splits = any(isinstance(part, Parameter) for part in word.parts) and not quoted
    return text.split() if splits else [text]


def passed_over(words: Sequence[str]) -> str | None:
    """Return why a command says nothing of a variable; None: it only opens a block."""
    if words[0] in (".", "source"):
        return "reads another file: import that one too, before this one"
    if len(words) > 1 and words[1].startswith("="):
        return "is no assignment to a shell: no blanks around ="
    if "=" in words[0] and not words[0].startswith(("[", "=", "((")):
        return "is no assignment to a shell: a name is made of letters, digits and _"
    if words[0] in ("for", "select", "case", "[", "[[", "test"):
        return None
    return "is a command, and none is run"
