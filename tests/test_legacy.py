"""Reading the files that held the pins before pins.toml: never run, and read as a shell would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tnpu_nix.errors import TnpuError
from tnpu_nix.migration import legacy
from tnpu_nix.migration.sheet import Sheet
from tnpu_nix.migration.shellfile import read


def sheet(text: str) -> Sheet:
    made = Sheet()
    read(text, "versions.env", made)
    return made


def values(text: str) -> dict[str, str]:
    """Every variable whose value is known for sure."""
    return {name: one.value for name, one in sheet(text).variables.items() if not one.gaps}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1", {"A": "1"}),
        ("A=1 B=2; C=3", {"A": "1", "B": "2", "C": "3"}),
        ("export A=1 B='2 3'\nreadonly C=4\ndeclare -rx D=5\ntypeset E=6", {
            "A": "1", "B": "2 3", "C": "4", "D": "5", "E": "6"
        }),
        ('A="a"\'b\'c', {"A": "abc"}),
        ("A='it'\\''s'", {"A": "it's"}),
        ('A="a # b" # c', {"A": "a # b"}),
        ("A=a#b # c", {"A": "a#b"}),
        ("A=", {"A": ""}),
        ("A=x\nB=$A-y\nC=${A}z\nD='$A'", {"A": "x", "B": "x-y", "C": "xz", "D": "$A"}),
        ('A="${B:-d}" C=${D-e} E=${F:+g} H="${I:-"j k"}"', {
            "A": "d", "C": "e", "E": "", "H": "j k"
        }),
        (': "${A:=x}" ; B=${C:=y}', {"A": "x", "B": "y", "C": "y"}),
        ("A=${A:-x}", {"A": "x"}),
        ("A=0123456789\nB=${A:0:7} C=${A:8}", {"A": "0123456789", "B": "0123456", "C": "89"}),
        ("A=aB\nB=${A^^} C=${A,,}", {"A": "aB", "B": "AB", "C": "ab"}),
        ("A=a\\\nb \\\n  B=c", {"A": "ab", "B": "c"}),
        ("A=a\nA=b\nA+=c", {"A": "bc"}),
        ("A=$'a\\tb\\x41\\'' B=$\"c\"", {"A": "a\tbA'", "B": "c"}),
        ("x || y\nA=1\nx || >f\nB=2", {"A": "1", "B": "2"}),
        ("A=1 &&\n# why\nB=2", {"A": "1", "B": "2"}),
        ("A=1 && export B=2 && C=3", {"A": "1", "B": "2", "C": "3"}),
        ("set -a\nset -euo pipefail; A=1\nset +a", {"A": "1"}),
        ('export "A=1 2"', {"A": "1 2"}),
        ("A=1\nunset A\nB=2", {"B": "2"}),
        ("A=1 B=2 C=3 D=4\nunset \"A\" 'B'; unset -v C", {"D": "4"}),
        ("A=1\nunset -f A", {"A": "1"}),
        ("A=1 V=A\nunset $V", {"V": "A"}),
        ("readonly A=1\nunset A", {"A": "1"}),
        ("cat <<EOF >/dev/null\nA=1\nEOF\nB=2", {"B": "2"}),
        ("cat <<-'END'\n\tA=1\n\tEND\nB=2", {"B": "2"}),
        ("A=1\nreturn 0\nB=2", {"A": "1"}),
        ("(( X = 1 << 2 ))\nA=1\n((X<<=1)); B=$[1<<2]\nC=2", {"A": "1", "C": "2"}),
        ("for ((i = 1; i << 3; i++)); do D=1; done\nA=1", {"A": "1"}),
        ("((D=1); cat <<E)\nA=1\nE\nB=2", {"B": "2"}),
        ("readonly A=1\nA=2", {"A": "1"}),
        ("a_1=x; _b=y", {"a_1": "x", "_b": "y"}),
        ("A=a=b==c", {"A": "a=b==c"}),
        ("A=x{a,b} B=git@h:~me/x C='~'", {"A": "x{a,b}", "B": "git@h:~me/x", "C": "~"}),
        ("   A=1\t\t# x\n\tB=2", {"A": "1", "B": "2"}),
    ],
)  # fmt: skip
def test_assignments_are_read_as_a_shell_reads_them(text: str, expected: dict[str, str]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("A=$(git rev-parse HEAD)", "A", "$(git rev-parse HEAD) would have to be run"),
        ("A=`date +%s`", "A", "`date +%s` would have to be run"),
        ("A=x$((1 + 2))", "A", "is arithmetic"),
        ("A=$NOPE", "A", "$NOPE is a reference to NOPE, which the files do not define"),
        ("A=${NOPE:?not set}", "A", "is a reference to NOPE"),
        ("B=$(x)\nA=${B:-y}", "A", "rests on B"),
        ("A=${B%.git}", "A", "is an expansion that is not done here"),
        ("A=(one two\n three)", "A", "is an array"),
        ("A[0]=x", "A", "is an array"),
        ("declare -i A=1+1", "A", "is arithmetic"),
        ("A=~/llvm", "A", "is the home folder"),
        ("A=x:~/llvm", "A", "is the home folder"),
        ("export A=x{a,b}", "A", "is a brace expansion"),
        ("A=$1", "A", "is known only to a running shell"),
        ("if true; then A=1; fi", "A", "is assigned inside `if` (line 1), which is not run"),
        ("A=0\nif x\nthen\n A=1\nelse\n A=2\nfi", "A", "is assigned inside `if` (line 2)"),
        ("f() {\n A=1\n}", "A", "is assigned inside `{`"),
        ("function f() { A=1; }", "A", "is assigned inside `{`"),
        ('case "$X" in a) A=1 ;; b|c) A=2 ;; esac', "A", "is assigned inside `case`"),
        ("[ -n x ] && A=1", "A", "only if a command succeeds"),
        ("x || A=1", "A", "only if a command fails"),
        ("x | A=1", "A", "in a process of its own"),
        ("A=1\n[ -n x ] && unset A", "A", "is unset by what is run only if a command succeeds"),
        ("A=1\nfor A in 2; do :; done", "A", "is set by `for` (line 2)"),
        ("A=1\n: $((A=5))", "A", "is set by $((A=5)) (line 2)"),
        ("A=1\n((A += 5))", "A", "is set by ((A += 5)) (line 2)"),
        ("A=1\n((B == A)); let A++", "A", "is set by `let`"),
        ("A=1\nread -r A <f", "A", "is set by `read`"),
        ("A=1\nprintf -v A x", "A", "is set by `printf`"),
        ("A=1\ndeclare -n R=A\nR=2", "A", "is set through R (line 3)"),
        ("declare -n R=A\nA=1\nR=2", "A", "is set through R (line 3)"),
        ("x ||\n A=1", "A", "only if a command fails"),
        ("x || # why\n\n# more\nA=1", "A", "only if a command fails"),
        ("x &&\n\\\n\nA=1", "A", "only if a command succeeds"),
        ("x |\nA=1", "A", "in a process of its own"),
        ("A=foo bar", "A", "is set for the command `bar` alone: quote a value that holds blanks"),
        ("A=1\nreturn\nA=2", "A", "stands behind the `return` of line 2"),
    ],
)
def test_what_only_a_running_shell_could_tell_is_told_with_its_reason(
    text: str, name: str, words: str
) -> None:
    variable = sheet(text).variables[name]
    said = "; ".join(f"{gap.source} {gap.reason}".strip() for gap in variable.gaps)
    assert words in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A = 1", "no blanks around ="),
        ("llvm-sha=abc", "a name is made of letters, digits and _"),
        ("source other.env", "reads another file"),
        (". ./other.env", "reads another file"),
        ("unset $NOPE", "any may be gone"),
        ("unset $(x)", "any may be gone"),
        ("declare -n R=$NOPE", "any may be set through it"),
        ("echo hello", "is a command, and none is run"),
        ("readonly A=1\nA=2", "readonly since line 1"),
    ],
)
def test_a_statement_that_is_no_assignment_is_listed(text: str, words: str) -> None:
    (remark,) = sheet(text).remarks
    assert words in remark.reason and remark.line == text.count("\n") + 1


def test_a_here_document_without_an_end_is_told_and_what_it_swallows_too() -> None:
    found = sheet("A=1\ncat <<EOF\nB=2\n# it's\nC=it's\n")
    (remark,) = found.remarks[1:]
    assert (remark.line, remark.text) == (3, "EOF")
    assert "from line 3 to the end of the file" in remark.reason
    assert values("A=1\ncat <<EOF\nB=2\n") == {"A": "1"}
    assert "stands in the here-document" in found.variables["B"].gaps[0].reason


@pytest.mark.parametrize(
    "text",
    [
        "V_A=old; export V_A=new V_B=$V_A/x",
        "V_A=old; readonly V_A=new V_B=$V_A/x",
        "V_A=old; declare V_A=new V_B=$V_A/x V_C=$V_B",
        'V_A=old; typeset V_A=new "V_B=$V_A/x"',
        "V_A=old; export V_A=new V_A+=er V_B=$V_A",
        "V_A=old; V_A=new V_B=$V_A/x; export V_B",
        "V_A=1; export V_B=${V_A:=2} V_C=${V_D:=3} V_D=4",
    ],
)
def test_the_words_of_a_declaration_are_expanded_before_any_is_assigned(
    text: str, tmp_path: Path
) -> None:
    made = sheet(text).variables
    assert {name: one.value for name, one in made.items() if not one.gaps} == {
        name: value
        for name, value in shell_values(text, tmp_path / "f").items()
        if not made[name].gaps
    }
    assert made["V_B"].value == shell_values(text, tmp_path / "f")["V_B"]


def test_what_follows_a_block_is_sure_again() -> None:
    text = """
        if [ -z "$A" ]; then A=1; else A=2; fi; B=1
        for x in 1 2; do C=1; done
        f() { D=1; }; function g { E=1; }; function h() { F=1; }
        (G=1); { H=1; }
        while read -r x; do I=1; done < file
        Z=1
    """
    assert values(text) == {"B": "1", "Z": "1"}


def test_the_last_of_several_assignments_counts_and_the_others_are_told() -> None:
    variable = sheet("A=1\n\nA=2\nA=3").variables["A"]
    assert (variable.value, variable.line) == ("3", 4)
    assert variable.earlier == ("1 (line 1)", "2 (line 3)")
    assert sheet("A=1\nA=1").variables["A"].earlier == ()


def test_comments_stay_with_their_variables() -> None:
    found = sheet(
        "#!/bin/sh\n# shellcheck shell=bash\n# the head\n# of the file\n\n# above\n# too\n"
        "A=1 # behind\n\n# apart\n\nB=2\nset -a # loose\n# at the end\n"
    )
    assert found.head == ["# the head", "# of the file"]
    assert found.variables["A"].comments == ("# above", "# too", "# behind")
    assert found.variables["B"].comments == ("# apart",)
    assert found.loose == ["# loose", "# at the end"]


def test_nothing_is_run_and_nothing_of_the_environment_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTSIDE", "leaked")
    monkeypatch.setenv("LLVM_SHA", "leaked")
    mark = tmp_path / "ran"
    file = tmp_path / "versions.env"
    file.write_text(
        f'A=$(touch {mark})\nB=`touch {mark}`\ntouch {mark}\nC="$(touch {mark})"\n'
        f"source <(touch {mark})\neval 'touch {mark}'\n: ${{D:=$(touch {mark})}}\n"
        f"E=$OUTSIDE F=${{LLVM_SHA}} G=${{OUTSIDE:-inside}}\nH=<(touch {mark})\n"
    )
    found = legacy.read([file])
    assert not mark.exists()
    assert "leaked" not in repr(found)
    assert next(one.value for one in found.variables if one.name == "G") == "inside"


@pytest.mark.parametrize("text", ["A='x", 'A="x\n', "A=$(x", "A=${B", "A=`x", "A=${B:-c", "A=(x"])
def test_what_is_never_closed_is_said_with_its_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(f"B=1\n{text}")
    with pytest.raises(TnpuError, match=r"f:2: .* is opened and never closed"):
        legacy.read([tmp_path / "f"])


@pytest.mark.parametrize(
    "data",
    [
        b"A=1\r\nB='2'\r\n",
        b"\xef\xbb\xbfA=1\nB=2",
        "A=1\nB=2\n".encode("utf-16"),
        b"# \xb0\xa1 in another encoding\nA=1\nB=2",
        b"A=1\rB=2\r",
    ],
    ids=["crlf", "byte order mark", "utf-16", "not utf-8", "cr"],
)
def test_files_from_any_system_are_read(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    found = legacy.read([tmp_path / "f"])
    assert [(one.name, one.value) for one in found.variables] == [("A", "1"), ("B", "2")]


def test_files_see_the_ones_before_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("BASE=https://h\nA=1\n")
    (tmp_path / "b").write_text("URL=$BASE/x\nA=2\n")
    found = {one.name: one for one in legacy.read([tmp_path / "a", tmp_path / "b"]).variables}
    assert found["URL"].value == "https://h/x"
    assert found["A"].value == "2" and "line 2 of" in found["A"].earlier[0]


def test_json_is_told_by_its_text_and_each_value_has_its_line(tmp_path: Path) -> None:
    text = '{\n "x": "y",\n "spike": {\n  "repository": "a/b",\n  "n": 1\n },\n "pk": {\n'
    (tmp_path / "f.env").write_text(text + '  "repository": "c/d"}}')
    found = legacy.read([tmp_path / "f.env"]).variables
    assert [(one.name, one.value, one.line) for one in found] == [
        ("x", "y", 2),
        ("spike.repository", "a/b", 4),
        ("spike.n", "1", 5),
        ("pk.repository", "c/d", 8),
    ]
    (tmp_path / "f.env").write_text('{\n "x": \n}')
    with pytest.raises(TnpuError, match=r"f\.env:3: begins as JSON does"):
        legacy.read([tmp_path / "f.env"])


def test_every_value_of_a_name_is_kept_with_its_line() -> None:
    found = sheet("A=0\nif x; then\nA=1\nelse\nA=2\nfi\ncase x in\ny) A=3;;\n*) A+=4;;\nesac")
    variable = found.variables["A"]
    assert variable.earlier == ("0 (line 1)", "1 (line 3)", "2 (line 5)", "3 (line 8)")
    assert (variable.value, variable.line) == ("34", 9) and variable.gaps


def test_a_pipe_or_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(TnpuError, match="it is no regular file"):
            legacy.read([path])


@pytest.mark.parametrize("data", [b"A=1\0", b"A=" + b"x" * 300_000])
def test_what_is_no_file_of_pins_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(TnpuError, match="no file of pins"):
        legacy.read([tmp_path / "f"])


# Assignments that do no harm to a shell: names, words and statements, put together at random.
_NAMES = st.sampled_from(["V_A", "V_B", "V_C", "v_d"])
_PLAIN = st.text("abcXYZ019_./:@%+,-^={}~!]*?", min_size=1, max_size=6).map(lambda text: "x" + text)
_SINGLE = st.text('ab $`"\\#;&|(){}é\t', max_size=6).map(lambda text: f"'{text}'")
_ANSI = st.text("ab $#", max_size=4).map(lambda text: f"$'{text}\\t\\x41\\101\\''")
_ESCAPED = st.sampled_from(["\\ ", "\\$", "\\\\", "\\'", '\\"', "\\#", "\\\n", "\\a"])
_SIMPLE_REFERENCE = st.builds(lambda name: f"${{{name}}}", _NAMES)


def _reference(word: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from([":-", "-", ":=", "=", ":+", "+"])
    with_word = st.builds(lambda n, o, w: f"${{{n}{o}{w}}}", _NAMES, operators, word)
    cut = st.builds(
        lambda n, a, b: f"${{{n}:{a}:{b}}}", _NAMES, st.integers(0, 3), st.integers(0, 4)
    )
    case = st.builds(lambda n, o: f"${{{n}{o}}}", _NAMES, st.sampled_from(["^^", ",,"]))
    return st.one_of(_SIMPLE_REFERENCE, with_word, cut, case)


_DOUBLE = st.lists(
    st.one_of(
        st.text("ab '#;&|()%", max_size=5),
        st.sampled_from(["\\$", "\\`", '\\"', "\\\\", "\\n", "\\\n", "$ "]),
        _reference(st.text("ab 9", max_size=4)),
    ),
    max_size=4,
).map(lambda parts: f'"{"".join(parts)}"')
_WORD = st.lists(
    st.one_of(_PLAIN, _SINGLE, _DOUBLE, _ANSI, _ESCAPED, _reference(_PLAIN)), max_size=4
).map("".join)
_ASSIGN = st.builds(
    lambda n, o, w: f"{n}{o}{w}", _NAMES, st.sampled_from(["=", "=", "=", "+="]), _WORD
)
_STATEMENT = st.one_of(
    st.lists(_ASSIGN, min_size=1, max_size=2).map(" ".join),
    _ASSIGN.map(lambda one: f"export {one}"),
    _ASSIGN.map(lambda one: f"declare -x {one}"),
    _NAMES.map(lambda name: f"unset {name}"),
    _DOUBLE.map(lambda word: f": {word}"),
    st.text("ab'\"$(`{ #", max_size=8).map(lambda text: f"# {text}"),
)
_END = st.sampled_from(["\n", "\n", " # it's\n", ";\n", "\n\n", " \\\n\n"])
_FILE = st.lists(st.builds(lambda one, end: f"{one}{end}", _STATEMENT, _END), max_size=8).map(
    "".join
)


def shell_values(text: str, file: Path) -> dict[str, str]:
    """What bash makes of a file, in an environment of nothing."""
    file.write_bytes(text.encode())
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", 'set -a; . "$1"; env -0', "bash", str(file)],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    pairs = (one.split("=", 1) for one in done.stdout.decode().split("\0") if "=" in one)
    return {name: value for name, value in pairs if name.lower().startswith("v_")}


@settings(max_examples=250, deadline=None)
@given(_FILE)
def test_bash_itself_gives_the_variables_the_same_values(tmp_path_factory, text: str) -> None:  # type: ignore[no-untyped-def]
    found = sheet(text).variables
    real = shell_values(text, tmp_path_factory.getbasetemp() / "generated.env")
    assert set(found) == set(real)
    for name, variable in found.items():
        if not variable.gaps:
            assert variable.value == real[name], (name, text)
        else:
            assert all(known_gap(gap.reason) for gap in variable.gaps), (name, text)


def known_gap(reason: str) -> bool:
    """Why a value may not be known: a variable that is not set, or what is said to be left."""
    words = (
        "which the files do not define",
        "which is not known",
        "brace expansion",
        "home folder",
    )
    return any(one in reason for one in words)
