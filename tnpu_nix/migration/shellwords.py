"""The text of a shell file as words and operators, so far as assignments need it; nothing is run.

Source of the rules: POSIX.1-2017, Shell Command Language, sections 2.2 (quoting), 2.3 (tokens),
2.6 (expansions) and 2.7.4 (here-documents), and Bash's manual for ``$'…'`` and ``+=``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tnpu_nix.errors import TnpuError

_OPERATORS = re.compile(r"<<<|<<-|<<|>>|<&|>&|<>|>\||&>>|&>|;;&|;;|;&|&&|\|\||\|&|[;&|()<>]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARRAY_HEAD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
# ${NAME}, ${NAME:-word} and its kin, ${NAME:2:5}, ${NAME^^} and ${NAME,,}.
_BRACED = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<rest>:?[-=?+]|:\s*\d+(?::\s*\d+)?(?=\})|\^\^|,,|)"
)
_ESCAPES = {
    **{"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r"},
    **{"t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?"},
}
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
SUMS = "is arithmetic, which is not done here"
_NUMERIC_ESCAPE = re.compile(
    r"(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u>[0-9A-Fa-f]{1,4})"
    r"|U(?P<U>[0-9A-Fa-f]{1,8})"
)


@dataclass(frozen=True)
class Literal:
    """Text that stands for itself."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class Parameter:
    """A reference to a variable: ``$NAME`` or ``${NAME…}``."""

    name: str
    operator: str  # "", ":-" and its kin, ":2:5", "^^" or ",,"
    word: tuple[Part, ...]  # what follows an operator such as ":-"
    source: str  # as it is written


@dataclass(frozen=True)
class Opaque:
    """What only a shell that runs could tell the value of."""

    source: str
    reason: str


Part = Literal | Parameter | Opaque


@dataclass(frozen=True)
class Token:
    """A word, an operator, a comment or the end of a line."""

    kind: str  # "word", "operator", "comment", "newline" or "open": a here-document without end
    text: str  # as it is written; of a comment, from the "#" on
    line: int  # from 1, where it begins
    parts: tuple[Part, ...] = ()
    alone: bool = False  # a comment that has its line for itself


def tokens(text: str, name: str) -> Iterator[Token]:
    """Yield the tokens of a shell file; the bodies of here-documents are left out.

    Args:
        text: with ``\\n`` at the ends of lines.
        name: of the file, for errors.

    Raises:
        TnpuError: a quote, ``${``, ``$(`` or a backtick is never closed.
    """
    yield from _Scanner(text, name).tokens()


def assigned(parts: Sequence[Part], count: int) -> list[Part]:
    """Return the value's parts of an assignment whose name and ``=`` are *count* characters.

    A ``~`` at the start or behind a colon is a home folder, which no file names.
    """
    left = list(parts)
    while count > 0 and left and isinstance(left[0], Literal):
        count -= len(left[0].text)
        left.pop(0)
    tilde, colon, slash = (Literal(one, quoted=False) for one in "~:/")
    for at, part in enumerate(left):
        ends = at + 1 == len(left) or left[at + 1] == slash
        if part == tilde and (at == 0 or (left[at - 1] == colon and ends)):
            left[at] = Opaque("~", "is the home folder of whoever runs it")
    return left


def has_braces(parts: Sequence[Part]) -> bool:
    """Tell whether a word is one that braces make several of, where a shell expands them."""
    plain = "".join(
        one.text if isinstance(one, Literal) and not one.quoted else "x" for one in parts
    )
    return _BRACES.search(plain) is not None


class _Scanner:
    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._at = 0
        self._here: list[tuple[str, bool]] = []  # delimiters whose bodies follow the line
        self._unended = False  # a here-document has no end

    def tokens(self) -> Iterator[Token]:
        try:
            yield from self._tokens()
        except TnpuError:
            # A shell would take what follows for the text of the here-document, quotes and all.
            if not self._unended:
                raise
        yield Token("newline", "\n", self._line())

    def _tokens(self) -> Iterator[Token]:
        fresh = True  # nothing but blanks so far on this line
        while self._skip_blanks():
            at, line, character = self._at, self._line(), self._text[self._at]
            if character == "\n":
                self._at += 1
                fresh = True
                yield Token("newline", "\n", line)
                if (delimiter := self._skip_here_documents()) is not None:
                    yield Token("open", delimiter, self._line())
                continue
            if character == "#":
                end = self._text.find("\n", at)
                self._at = len(self._text) if end < 0 else end
                yield Token("comment", self._text[at : self._at].rstrip(), line, alone=fresh)
            elif end := self._end_of_arithmetic():
                yield Token("word", self._text[at:end], line, (self._skipped(end, SUMS),))
            elif operator := self._operator():
                if operator in ("<<", "<<-"):
                    self._remember_here_document(operator)
                yield Token("operator", operator, line)
            else:
                parts = tuple(self._word())
                yield Token("word", self._text[at : self._at], line, parts)
            fresh = False

    def _line(self, at: int | None = None) -> int:
        return self._text.count("\n", 0, self._at if at is None else at) + 1

    def _skip_blanks(self) -> bool:
        """Go to the next token; False at the end of the text."""
        while self._at < len(self._text):
            if self._text.startswith("\\\n", self._at):
                self._at += 2
            elif self._text[self._at] in " \t":
                self._at += 1
            else:
                return True
        return False

    def _operator(self) -> str:
        match = _OPERATORS.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _remember_here_document(self, operator: str) -> None:
        at = self._at
        if self._skip_blanks():
            delimiter = "".join(
                part.text if isinstance(part, Literal) else part.source for part in self._word()
            )
            self._here.append((delimiter, operator == "<<-"))
        self._at = at  # the delimiter is a word like any other

    def _end_of_arithmetic(self) -> int:
        """Return where the ``((…))`` that begins here ends; 0: none does, as in ``((a); b)``."""
        if not self._text.startswith("((", self._at):
            return 0
        end, inner = self._closed("(", ")"), self._at + 1
        outer, self._at = self._at, inner
        whole = self._closed("(", ")") == end - 1
        self._at = outer
        return end if whole else 0

    def _skip_here_documents(self) -> str | None:
        """Go behind the bodies that begin here; to none and back the delimiter that never comes."""
        start = self._at
        for delimiter, tabs in self._here:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = min(end + 1, len(self._text))
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    start = self._at
                    break
            else:
                self._here.clear()
                self._at, self._unended = start, True
                return delimiter
        self._here.clear()
        return None

    def _word(self, closing: str = "", quoted: bool = False) -> Iterator[Part]:
        """Yield the parts of a word; with *closing*, up to that character, which stays.

        *quoted* says that a ``${…}`` inside double quotes is read: single quotes mean nothing.
        """
        start = self._at
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == closing:
                return
            if not closing and (character in " \t\n;&|<>)" or character == "("):
                if character != "(" or not _ARRAY_HEAD.fullmatch(self._text[start : self._at]):
                    return
                yield self._skipped(self._closed("(", ")"), "is an array")
            else:
                yield from self._part(character, quoted)
        if closing:
            raise self._never_closed("${", start)

    def _part(self, character: str, quoted: bool) -> Iterator[Part]:
        follows = self._text[self._at + 1 : self._at + 2]
        if character == "\\":
            self._at += 2
            if quoted and follows not in tuple('$`"\\\n}'):
                yield Literal(character + follows, quoted=True)
            elif follows != "\n":
                yield Literal(follows, quoted=True)
        elif character == "'" and not quoted:
            yield Literal(self._single_quoted(), quoted=True)
        elif character == '"' or (character == "$" and follows == '"' and not quoted):
            self._at += 1 if character == '"' else 2
            yield from self._double_quoted()
        elif character == "$" and follows == "'" and not quoted:
            yield self._ansi_quoted()
        elif character in "$`":
            yield self._expansion()
        else:
            self._at += 1
            yield Literal(character, quoted=False)

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise self._never_closed("'", self._at)
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double_quoted(self) -> Iterator[Part]:
        start = self._at
        yield Literal("", quoted=True)
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return
            if character == "\\":
                follows = self._text[self._at + 1 : self._at + 2]
                self._at += 2
                if follows in tuple('$`"\\'):
                    yield Literal(follows, quoted=True)
                elif follows != "\n":
                    yield Literal(character + follows, quoted=True)
            elif character in "$`":
                part = self._expansion(quoted=True)
                yield replace(part, quoted=True) if isinstance(part, Literal) else part
            else:
                self._at += 1
                yield Literal(character, quoted=True)
        raise self._never_closed('"', start - 1)

    def _ansi_quoted(self) -> Part:
        """Read ``$'…'``, with C's escapes."""
        start = self._at
        self._at += 2
        text = ""
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character == "'":
                return Literal(text, quoted=True)
            if character != "\\":
                text += character
                continue
            follows = self._text[self._at : self._at + 1]
            if number := _NUMERIC_ESCAPE.match(self._text, self._at):
                self._at = number.end()
                octal = number["octal"]
                digits = octal or number["hex"] or number["u"] or number["U"]
                code = int(digits, 8 if octal else 16)
                text += chr(code) if 0 < code < 0x110000 else "\ufffd"
            else:
                self._at += 1
                text += _ESCAPES.get(follows, "\\" + follows)
        raise self._never_closed("$'", start)

    def _expansion(self, quoted: bool = False) -> Part:
        """Read what begins with ``$`` or a backtick."""
        start = self._at
        if self._text[start] == "`":
            return self._skipped(self._backtick(), "would have to be run")
        following = self._text[start + 1 : start + 2]
        if following == "(":
            self._at += 1
            end = self._closed("(", ")")
            sums = self._text.startswith("$((", start)
            return self._skipped(end, SUMS if sums else "would have to be run", 1)
        if following == "[":
            self._at += 1
            return self._skipped(self._closed("[", "]"), SUMS, 1)
        if following == "{":
            return self._braced(quoted)
        if match := _NAME.match(self._text, start + 1):
            self._at = match.end()
            return Parameter(match.group(), "", (), self._text[start : self._at])
        if following and following in "0123456789@*#?$!-":
            self._at += 2
            return Opaque(self._text[start : self._at], "is known only to a running shell")
        self._at += 1
        return Literal("$", quoted=False)

    def _braced(self, quoted: bool) -> Part:
        start = self._at
        match = _BRACED.match(self._text, start + 2)
        if match is not None:
            self._at = match.end()
            operator = re.sub(r"\s", "", match["rest"])
            takes_word = operator.lstrip(":") in ("-", "=", "?", "+")
            word = tuple(self._word("}", quoted)) if takes_word else ()
            if self._text.startswith("}", self._at):
                self._at += 1
                return Parameter(match["name"], operator, word, self._text[start : self._at])
        self._at = start + 1
        return self._skipped(self._closed("{", "}"), "is an expansion that is not done here", 1)

    def _skipped(self, end: int, reason: str, back: int = 0) -> Opaque:
        source = self._text[self._at - back : end]
        self._at = end
        return Opaque(source, reason)

    def _backtick(self) -> int:
        at = self._at + 1
        while at < len(self._text) and self._text[at] != "`":
            at += 2 if self._text[at] == "\\" else 1
        if at >= len(self._text):
            raise self._never_closed("`", self._at)
        return at + 1

    def _closed(self, opening: str, closing: str) -> int:
        """Return where the bracket that opens here has been closed, quotes and comments heeded."""
        at, depth = self._at, 0
        while at < len(self._text):
            character = self._text[at]
            if character == "\\":
                at += 1
            elif character in "'\"`":
                end = self._end_of_quote(at)
                if end < 0:
                    raise self._never_closed(character, at)
                at = end
            elif character == "#" and opening == "(" and self._text[at - 1] in " \t\n(":
                end = self._text.find("\n", at)
                at = len(self._text) if end < 0 else end
            elif character in (opening, closing):
                depth += 1 if character == opening else -1
                if depth == 0:
                    return at + 1
            at += 1
        raise self._never_closed(opening, self._at)

    def _end_of_quote(self, at: int) -> int:
        quote = self._text[at]
        end = at + 1
        while end < len(self._text) and self._text[end] != quote:
            end += 2 if self._text[end] == "\\" and quote != "'" else 1
        return end if end < len(self._text) else -1

    def _never_closed(self, what: str, at: int) -> TnpuError:
        return TnpuError(
            f"{self._name}:{self._line(at)}: {what} is opened and never closed",
            "a shell could not read the file either; close it, then run the command again",
        )
