"""What is said of a narinfo is what Nix makes of it: neither more nor less is refused."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cache.conftest import Lab, nix
from tnpu_nix.cache import narinfo

# What becomes of the text.
Change = Callable[[str], str]
ZEROS = "0" * 32
KEYS = ("StorePath", "URL", "Compression", "FileHash", "FileSize", "NarHash", "NarSize")
BASE64 = base64.b64encode(bytes(range(32))).decode()


def put(key: str, value: str) -> Change:
    """Another value of a key, or a further key."""

    def change(text: str) -> str:
        line = f"{key}: {value}\n"
        changed, count = re.subn(rf"^{key}: .*\n", lambda _: line, text, flags=re.M)
        return changed if count else text + line

    return change


def add(more: str) -> Change:
    return lambda text: text + more


def before(key: str, more: str) -> Change:
    return lambda text: text.replace(f"{key}: ", f"{more}{key}: ", 1)


def cut(key: str, more: int) -> Change:
    """What is left of an upload that stopped at a number of characters behind a key's begin."""
    return lambda text: text[: text.index(f"{key}: ") + more]


def without(key: str) -> Change:
    return lambda text: re.sub(rf"^{key}: .*\n", "", text, flags=re.M)


CHANGES: dict[str, Change] = {
    "nothing": lambda text: text,
    "empty": lambda text: "",
    "no last line end": lambda text: text[:-1],
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "a NUL": add("\0\n"),
    "a NUL before a key": before("URL", "\0"),
    "a line without colon": add("hello\n"),
    "a line without colon before URL": before("URL", "hello\n"),
    "a line without colon before Sig": before("Sig", "hello\n"),
    "a blank line": add("\n"),
    "a blank line before Sig": before("Sig", "\n"),
    "an unknown key": add("Foo: bar\n"),
    "an unknown key without a blank": add("Foo:bar\n"),
    "any character for the blank": lambda text: text.replace("URL: ", "URL:x"),
    **{f"cut {number} behind Sig": cut("Sig", number) for number in (0, 3, 4, 5, 30)},
    "cut in References": cut("References", 20),
    "References twice": lambda text: text + re.findall(r"References: .*\n", text)[0],
    "References twice, the first empty": before("References", "References: \n"),
    "References twice, the second empty": add("References: \n"),
    "References between blanks": lambda text: text.replace("References: ", "References:    "),
    "no references": put("References", ""),
    **{
        f"References: {name}": put("References", name)
        for name in (f"{ZEROS}-{'x' * 211}", f"{ZEROS}-{'x' * 212}", f"{'e' * 32}-x", "../x")
    },
    "NarHash twice": lambda text: text + re.findall(r"NarHash: .*\n", text)[0],
    **{
        f"FileHash: {value}": put("FileHash", value)
        for value in ("", "sha256:zzz", f"sha256:{BASE64}", f"sha256-{BASE64}", f"foo:{'0' * 32}")
    },
    **{
        f"{key}: {value}": put(key, str(value))
        for key in ("FileSize", "NarSize")
        for value in ("", 0, -1, "+268", "00268", "268 ", "0x1", 2**64 - 1, 2**64)
    },
    "FileHash of another kind": put("FileHash", f"md5:{'0' * 32}"),
    "another Compression": put("Compression", "lzip9"),
    "Compression: ": put("Compression", ""),
    "URL: ": put("URL", ""),
    "Deriver: ": put("Deriver", ""),
    "Deriver: unknown-deriver": put("Deriver", "unknown-deriver"),
    "Deriver: no store path": put("Deriver", "x y"),
    "CA: ": put("CA", ""),
    "CA: twice": add("CA: \nCA: \n"),
    "CA: no address": put("CA", "what"),
    "Sig: no signature": put("Sig", "nocolon"),
    "StorePath: ./": lambda text: text.replace(
        "StorePath: /nix/store/", "StorePath: /nix/store/./"
    ),
    "StorePath: below it": lambda text: re.sub("(StorePath: .*)", r"\1/bin", text),
    **{f"without {key}": without(key) for key in (*KEYS, "References", "Deriver", "Sig")},
}


def test_what_nix_reads_is_read_and_what_it_does_not_is_refused(lab: Lab, tmp_path: Path) -> None:
    path, text = lab.path("spike"), lab.narinfo("spike").read_text()

    def differs(item: tuple[int, str]) -> str | None:
        number, name = item
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "nix-cache-info").write_text(f"StoreDir: {narinfo.STORE}\n")
        changed = CHANGES[name](text)
        (folder / lab.narinfo("spike").name).write_bytes(changed.encode())
        argv = ("nix", "path-info", "--json", "--store", f"file://{folder}", path)
        asked = nix(None, *argv, XDG_CACHE_HOME=str(tmp_path / f"memory{number}"))
        fault = narinfo.parse(path, changed).fault
        if (asked.returncode == 0) == (fault is None):
            return None
        return f"{name}: nix {asked.returncode} {asked.stderr}, here {fault}"

    with ThreadPoolExecutor(2) as pool:
        assert [one for one in pool.map(differs, enumerate(CHANGES)) if one] == []


# What Nix reads, and then cannot make use of.
UNUSABLE: dict[str, Change] = {
    "a NAR that is not unpacked": put("Compression", "none"),
    "a NAR that is unpacked as what it is not": put("Compression", "br"),
    "a NAR that lies elsewhere": put("URL", "nar/../../x"),
}


def test_what_nobody_can_make_use_of_is_shown_and_put_there_anew(lab: Lab) -> None:
    names = ("no last line end", "a NUL", "a blank line", "URL: ")
    kinds = {name: CHANGES[name] for name in names} | UNUSABLE
    original = lab.narinfo("pk").read_text()
    for name, change in kinds.items():
        lab.narinfo("pk").write_text(change(original))
        assert narinfo.parse(lab.path("pk"), change(original)).fault, name
    for name in ("no last line end", "a NAR that is not unpacked"):
        lab.narinfo("pk").write_text(kinds[name](original))
        shown = json.loads(lab.cache("status", "pk", "--json", "--cache", lab.url).out)
        assert shown["outputs"][0]["damaged"] == [lab.url], name
        pushed = lab.push("pk", "--json", to=f"{lab.url}?compression=zstd")
        assert json.loads(pushed.out)["mended"] == [lab.path("pk")], (name, pushed.err)
        assert lab.narinfo("pk").read_text() == original


def test_what_a_narinfo_that_cannot_be_read_names_stays_in_a_prune(lab: Lab) -> None:
    from tnpu_nix.cache.prune import Limits, prune

    for record in (lab.folder / "tnpu").glob("*.json"):
        content = json.loads(record.read_text())
        kept = {**content, "outputs": {"spike": [lab.path("spike")]}, "closure": []}
        record.write_text(json.dumps(kept))
    named = {lab.path("spike"), *narinfo.guess(lab.narinfo("spike").read_text()).references}
    assert len(named) > 1
    lab.narinfo("spike").write_text(lab.narinfo("spike").read_text()[:-1])
    gone = prune(lab.folder, Limits(1, None, 0.0, True), False, print)
    assert gone.paths and named.isdisjoint(gone.paths)
    assert lab.nar("spike").is_file()
