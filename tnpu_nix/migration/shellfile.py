"""What the variables of a shell file of assignments are, found by reading and never by running.

Only what the file itself says counts: nothing is taken from this process's environment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tnpu_nix.migration.sheet import Assignment, Gap, Remark, Sheet, Value, Variable, shaped
from tnpu_nix.migration.shelleffects import (
    ATTRIBUTES,
    arithmetic_names,
    names_of,
    names_set,
    passed_over,
)
from tnpu_nix.migration.shellwords import (
    SUMS,
    Literal,
    Opaque,
    Parameter,
    Part,
    Token,
    assigned,
    has_braces,
    tokens,
)

_ASSIGNMENT = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<index>\[[^]]*\])?(?P<plus>\+?)=", re.S
)
_DECLARING = ("export", "readonly", "declare", "typeset", "local")
_OPENING = ("if", "for", "while", "until", "case", "select", "{")
_CLOSING = ("fi", "done", "esac", "}")
_BETWEEN = ("then", "else", "elif", "do", "!", "time", "in")
_REDIRECTIONS = ("<", ">", ">>", "<<", "<<-", "<<<", "<&", ">&", "<>", ">|", "&>", "&>>")
# What joins a command to the next one, across the ends of lines and comments too.
_JOINING = ("&&", "||", "|", "|&")
# Commands of a shell that give no variable a value that could be told from the file.
_HARMLESS = (":", "set", "shopt", "true", "umask", "trap")
# What is for a shell or an editor, and means nothing in another file.
_FOR_SHELLS = re.compile(r"#!|#\s*(?:shellcheck\b|vim?:|-\*-)")


@dataclass
class _Command:
    """A simple command, and where it stands."""

    words: list[Token] = field(default_factory=list)
    doubt: str = ""  # why it may not be run at all
    after: str = ""  # the operator that ends it


def read(text: str, name: str, sheet: Sheet) -> None:
    """Add what a shell file says to *sheet*; a later file sees the variables of an earlier one.

    Raises:
        TnpuError: a quote or bracket is never closed.
    """
    _Reader(name, sheet).read(text)


class _Reader:
    def __init__(self, name: str, sheet: Sheet) -> None:
        self._name = name
        self._sheet = sheet
        self._blocks: list[tuple[str, int]] = []  # words that opened a block, and their lines
        self._command = _Command()
        self._chain = ""  # why what follows && or || may not be run
        self._operator = ""  # the last token, if it is one: a line that ends in || goes on
        self._ended = ""  # a return or exit that ends the file
        self._redirected = False
        self._naming = False  # the name of a function follows
        self._readonly: dict[str, int] = {}  # variables, and the lines that made them so
        self._references: dict[str, str] = {}  # declare -n: names, and what they refer to
        self._above: list[str] = []  # comments that wait for a variable
        self._seen_statement = False
        self._on_line: list[str] = []  # variables assigned on this line

    def read(self, text: str) -> None:
        empty = True
        for token in tokens(text, self._name):
            if token.kind == "comment":
                self._comment(token)
                empty = False
            elif token.kind == "open":
                self._open_here_document(token)
            elif token.kind == "newline":
                if self._command.words or self._operator not in _JOINING:
                    self._finish(token.text)
                if empty:
                    self._blank_line()
                empty = True
                self._on_line = []
            else:
                empty = False
                self._operator = token.text if token.kind == "operator" else ""
                self._token(token)
        self._sheet.loose += self._above

    def _comment(self, token: Token) -> None:
        if _FOR_SHELLS.match(token.text):
            return
        if token.alone:
            self._above.append(token.text)
            return
        if self._command.words:
            self._finish("\n")
        for name in self._on_line[-1:]:
            variable = self._sheet.variables[name]
            behind = (*variable.comments, token.text)
            self._sheet.variables[name] = replace(variable, comments=behind)
        if not self._on_line:
            self._sheet.loose.append(token.text)

    def _open_here_document(self, token: Token) -> None:
        where = f"the here-document from line {token.line} to the end of the file"
        reason = f"is where {where} should end, and no such line comes: nothing in it is assigned"
        self._sheet.remarks.append(Remark(self._name, token.line, token.text, reason))
        self._ended = f"stands in {where}: the line {token.text} that should end it never comes"

    def _blank_line(self) -> None:
        if not self._seen_statement:
            self._sheet.head += self._above
            self._above = []

    def _token(self, token: Token) -> None:
        self._seen_statement = True
        if token.kind == "word":
            if self._redirected or self._naming:
                self._redirected = self._naming = False
            elif not self._reserved(token):
                self._command.words.append(token)
        elif token.text in _REDIRECTIONS:
            self._redirected = True
        elif token.text == "(":
            if len(self._command.words) == 1:
                self._command = _Command()  # the name of a function
            self._finish(token.text)
            self._blocks.append(("(", token.line))
        elif token.text == ")":
            if self._blocks and self._blocks[-1][0] == "case":
                self._command = _Command()  # a pattern
            self._finish(token.text)
            if self._blocks and self._blocks[-1][0] == "(":
                self._blocks.pop()
        else:
            self._finish(token.text)

    def _reserved(self, token: Token) -> bool:
        """Take note of a word that opens or closes a block; False for any other word."""
        if self._command.words or any(
            isinstance(one, Literal) and one.quoted for one in token.parts
        ):
            return False
        if token.text == "function":
            self._naming = True
            return True
        if token.text in _OPENING:
            self._blocks.append((token.text, token.line))
            # What follows is a name or a list of words, and no command.
            return token.text not in ("for", "select", "case")
        if token.text in _CLOSING:
            if self._blocks:
                self._blocks.pop()
            return True
        return token.text in _BETWEEN

    def _finish(self, operator: str) -> None:
        """Carry out what a command says, now that it is whole."""
        command, self._command = self._command, _Command()
        command.after = operator
        doubt = self._ended or self._chain
        if self._blocks:
            word, line = self._blocks[-1]
            doubt = f"is assigned inside `{word}` (line {line}), which is not run"
        if operator in ("|", "|&", "&"):
            doubt = doubt or "is assigned in a process of its own"
        command.doubt = doubt
        pure = self._carry_out(command) if command.words else True
        if operator == "&&":
            self._chain = self._chain or ("" if pure else "is assigned only if a command succeeds")
        elif operator == "||":
            self._chain = "is assigned only if a command fails"
        elif operator in ("|", "|&"):
            self._chain = "is assigned in a process of its own"
        else:
            self._chain = ""

    def _carry_out(self, command: _Command) -> bool:
        """Do a command's assignments; True if it is made of nothing else."""
        count = 0
        while count < len(command.words) and _ASSIGNMENT.match(command.words[count].text):
            count += 1
        assignments, rest = command.words[:count], command.words[count:]
        if not rest:
            self._assign_each(assignments, command.doubt)
            return not any(isinstance(part, Opaque) for word in assignments for part in word.parts)
        verb = rest[0].text
        if assignments:
            alone = f"is set for the command `{verb}` alone: quote a value that holds blanks"
            self._assign_each(assignments, command.doubt or alone)
        if verb in _DECLARING:
            self._declare(verb, rest[1:], command.doubt)
            return True
        for word in rest:
            self._value(word.parts, word.line, command.doubt)  # ${X:=default} assigns
        for name in names_set(rest):
            self._unsure(name, rest[0].line, f"is set by `{verb}`")
        if verb == "unset":
            self._unset(rest[1:], command.doubt)
        elif verb in ("return", "exit") and not command.doubt:
            self._ended = f"stands behind the `{verb}` of line {rest[0].line}"
        elif verb not in _HARMLESS and not assignments:
            self._remark(command)
        elif not self._sheet.variables:
            self._sheet.head += self._above
            self._above = []
        return False

    def _unset(self, words: Sequence[Token], doubt: str) -> None:
        letters = ""
        for word in words:
            value = self._value(word.parts, word.line, doubt)
            if value.text.startswith("-"):
                letters += value.text[1:]
            elif "f" in letters or self._ended:
                pass
            elif value.gaps:
                reason = "unsets a variable whose name is not known: any may be gone"
                self._sheet.remarks.append(
                    Remark(self._name, word.line, f"unset {word.text}", reason)
                )
            else:
                for name in names_of(word, value.text):
                    self._unset_one(name, word.line, doubt, "n" in letters)

    def _unset_one(self, name: str, line: int, doubt: str, reference: bool) -> None:
        whole = name.partition("[")[0]
        if whole in self._readonly:
            reason = f"is refused by a shell: {name} is readonly since line {self._readonly[whole]}"
            self._sheet.remarks.append(Remark(self._name, line, f"unset {name}", reason))
        elif doubt:
            self._unsure(whole, line, f"is unset by what {doubt.replace('assigned', 'run')}")
        elif whole != name:
            self._unsure(whole, line, "is unset in part")
        elif name in self._references and not reference:
            self._unsure(self._references[name], line, f"is unset through {name}")
        else:
            self._references.pop(name, None)
            self._sheet.variables.pop(name, None)

    def _unsure(self, name: str, line: int, why: str) -> None:
        """Take note that a variable may have another value from here on."""
        if name in self._readonly or self._ended or not name:
            return
        gap = Gap("", f"{why} (line {line}), which is not run")
        held = self._sheet.variables.get(name) or Variable(name, self._name, line)
        self._sheet.variables[name] = replace(held, gaps=(*held.gaps, gap))

    def _refer(self, word: Token, target: Assignment | None) -> None:
        """Take note of ``declare -n``: what is assigned to a reference goes elsewhere."""
        name = word.text.partition("=")[0]
        self._references[name] = target.value.text if target is not None else ""
        if target is not None and not target.value.gaps:
            self._unsure(target.value.text, word.line, f"may be set through {name}")
        elif target is not None:
            reason = "refers to a variable whose name is not known: any may be set through it"
            self._sheet.remarks.append(Remark(self._name, word.line, word.text, reason))

    def _assign_each(self, words: Sequence[Token], doubt: str) -> None:
        for word in words:  # each one sees those before it
            if (made := self._made(word, doubt)) is not None:
                self._assign(made, word.line, doubt)

    def _remark(self, command: _Command) -> None:
        words = [word.text for word in command.words]
        if command.after == "|" and self._blocks and self._blocks[-1][0] == "case":
            return  # one of several patterns
        if (reason := passed_over(words)) is None:
            return  # what stands inside is told of by itself
        text = " ".join(" ".join(words).split())
        self._sheet.remarks.append(Remark(self._name, command.words[0].line, text, reason))

    def _declare(self, verb: str, words: Sequence[Token], doubt: str) -> None:
        letters = "r" if verb == "readonly" else ""
        made = []
        for word in words:
            if word.text[:1] in "-+" and len(word.text) > 1:
                letters += word.text[1:] if word.text.startswith("-") else ""
                continue
            kinds = "" if verb == "export" else letters
            because = doubt or next((why for one, why in ATTRIBUTES.items() if one in kinds), "")
            because = because or ("is a brace expansion" if has_braces(word.parts) else "")
            made.append((word, self._made(word, because), because))
        # Every word is expanded before the first of them is assigned.
        for word, one, because in made:
            if one is not None:
                self._assign(one, word.line, because, letters)
            if "n" in letters and verb not in ("export", "readonly"):
                self._refer(word, one)
            if "r" in letters:
                self._readonly[word.text.split("=")[0].rstrip("+")] = word.line

    def _made(self, word: Token, doubt: str) -> Assignment | None:
        """Return what a word assigns; ``export "NAME=value"`` has quotes around all of it."""
        match = _ASSIGNMENT.match(word.text)
        if match is not None:
            value = self._value(assigned(word.parts, match.end()), word.line, doubt)
        else:
            whole = self._value(word.parts, word.line, doubt)
            match = _ASSIGNMENT.match(whole.text)
            if match is None:
                return None
            value = Value(whole.text[match.end() :], whole.gaps)
        if match["index"]:
            value = Value(value.text, (*value.gaps, Gap("", "is an array")))
        return Assignment(match["name"], value, bool(match["plus"]))

    def _assign(self, one: Assignment, line: int, doubt: str, letters: str = "") -> None:
        value = self._appended(one.name, one.value) if one.appends else one.value
        if "l" in letters or "u" in letters:
            text = value.text.lower() if "l" in letters else value.text.upper()
            value = replace(value, text=text)
        self._put(one.name, line, value, doubt, one.appends)

    def _appended(self, name: str, value: Value) -> Value:
        before = self._sheet.variables.get(name)
        if before is None:
            return value
        return Value(before.value + value.text, (*before.gaps, *value.gaps))

    def _put(self, name: str, line: int, value: Value, doubt: str, appended: bool = False) -> None:
        if name in self._readonly:
            reason = f"is refused by a shell: {name} is readonly since line {self._readonly[name]}"
            self._sheet.remarks.append(Remark(self._name, line, f"{name}={value.text}", reason))
            return
        if name in self._references:
            self._references[name] = self._references[name] or value.text
            self._unsure(self._references[name], line, f"is set through {name}")
            value = Value(value.text, (*value.gaps, Gap("", ATTRIBUTES["n"])))
        before = self._sheet.variables.get(name)
        gaps = (*value.gaps, Gap("", doubt)) if doubt else value.gaps
        earlier: tuple[str, ...] = ()
        comments = tuple(self._above)
        if before is not None:
            comments = (*before.comments, *comments)
            earlier = before.earlier
            if (before.value, before.gaps) != (value.text, gaps) and (doubt or not appended):
                place = f"line {before.line}"
                place += f" of {before.file}" if before.file != self._name else ""
                earlier = (*earlier, f"{before.value} ({place})")
        self._above = []
        self._on_line.append(name)
        self._sheet.variables[name] = Variable(
            name, self._name, line, value.text, gaps, comments, earlier
        )

    def _value(self, parts: Sequence[Part], line: int, doubt: str) -> Value:
        """Return what a word stands for; ``${NAME:=word}`` assigns on the way."""
        text = ""
        gaps: list[Gap] = []
        for part in parts:
            if isinstance(part, Literal):
                text += part.text
                continue
            if isinstance(part, Opaque):
                for name in arithmetic_names(part.source) if part.reason == SUMS else ():
                    self._unsure(name, line, f"is set by {part.source}")
                value = Value(part.source, (Gap(part.source, part.reason),))
            else:
                value = self._parameter(part, line, doubt)
            text += value.text
            gaps += value.gaps
        return Value(text, tuple(dict.fromkeys(gaps)))

    def _parameter(self, part: Parameter, line: int, doubt: str) -> Value:
        held = self._sheet.variables.get(part.name)
        kind = part.operator.lstrip(":") if part.word or part.operator[-1:] in "-=?+" else ""
        if held is not None and held.gaps and kind:
            # Whether it is set and not empty is not known either.
            return Value(
                part.source, (Gap(part.source, f"rests on {part.name}, which is not known"),)
            )
        present = held is not None and not (part.operator.startswith(":") and held.value == "")
        if kind == "+":
            return self._value(part.word, line, doubt) if present else Value("")
        if kind in ("-", "=") and not present:
            value = self._value(part.word, line, doubt)
            if kind == "=":
                self._put(part.name, line, value, doubt)
            return value
        if held is None or (kind == "?" and not present):
            reason = f"is a reference to {part.name}, which the files do not define"
            return Value(part.source, (Gap(part.source, reason),))
        return shaped(held, "" if kind else part.operator, part.source)
