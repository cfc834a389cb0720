"""Faults of pins.toml: all at once, each with file, line and key."""

from __future__ import annotations

import os
import re
import time
import tomllib
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import REPOSITORY, Project
from tnpu_nix import pinsfile
from tnpu_nix.errors import TnpuError
from tnpu_nix.repository import same_repository_key

GOOD = (REPOSITORY / "pins.toml").read_text()


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(TnpuError) as caught:
        pinsfile.parse(text)
    return caught.value.details


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if line.startswith(part))


def with_spike_and_pk(spike: str, pk: str) -> str:
    return pinsfile.edit(GOOD, {("pins", "spike", "url"): spike, ("pins", "pk", "url"): pk})


def test_the_projects_own_pins_are_the_known_good_ones() -> None:
    toolchain = pinsfile.parse(GOOD)
    assert [name for name, _ in toolchain.pins.items()] == [
        *("llvm", "triton", "triton_shared", "spike", "pk")
    ]
    assert toolchain.pins.pk.rev == "4f3debe4d04f56d31089c1c716a27e2d5245e9a1"


def test_every_fault_is_reported_at_once_with_line_and_key() -> None:
    text = (
        GOOD.replace("ac5dc54d509169d387fcfd495d71853d81c46484", "ac5dc54")
        .replace("sha256-UnWZ", "sha256-U nWZ")
        .replace('[python]\nversion = "3.11"', '[python]\nversion = "3.11"\ncolour = "blue"')
        .replace("riscv-software-src/riscv-pk.git", "psal-postech/RISCV-ISA-SIM")
        .replace('targets = ["X86",', "targets = [")
    )
    found = faults(text)
    places = {tuple(fault.split(": ", 2)[:2]) for fault in found}
    expected = [
        ('rev = "ac5dc54"', "pins.llvm.rev"),
        ('hash = "sha256-U ', "pins.triton.hash"),
        ('url = "https://github.com/psal-', "pins.pk.url"),
        ("targets", "llvm.targets"),
        ("colour", "python.colour"),
    ]
    assert places == {(f"pins.toml:{line_of(text, start)}", key) for start, key in expected}
    assert any("spike and pk are pins of one repository" in fault for fault in found)


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (("[pins.pk]", "[pins.pkk]"), "pins.pk", "missing pin"),
        (("[pins.pk]", "[pins.pkk]"), "pins.pkk", "unknown key"),
        (('rev = "4f3debe4', 'rev = "4F3DEBE4'), "pins.pk.rev", "40 hexadecimal digits"),
        (('hash = "sha256-xfFZ', 'hash = "sha512-xfFZ'), "pins.pk.hash", "SRI hash"),
        (('date = "2024-05-22', 'date = "yesterday'), "pins.pk.date", "ISO 8601"),
        (('url = "https://github.com/riscv', 'url = "https://u:pw@g/r'), "pins.pk.url", "password"),
        (('name = "tnpu-toolchain"', 'name = "Upper Case"'), "image.name", "image name"),
        (('"python-env"', '"llvm"'), "image.links./workspace/mlir-env", "no component"),
        (('"/workspace/mlir-env"', '"/nix/x"'), "image.links./nix/x", "own folders"),
        (('version = "3.11"', "version = 3.11"), "python.version", "string"),
        (('arch = "rv64gc', 'arch = "\\u0000rv64gc'), "pk.arch", "control character"),
    ],
)
def test_each_kind_of_fault_names_its_key(change: tuple[str, str], place: str, words: str) -> None:
    text = GOOD.replace(*change)
    assert text != GOOD
    assert any(f": {place}: " in fault and words in fault for fault in faults(text)), faults(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://github.com/Lab/spike-sim.git", "https://GitHub.com/lab/Spike-Sim/"),
        ("https://github.com/lab/spike-sim", "git@github.com:lab/spike-sim.git"),
        ("ssh://git@github.com/lab/spike-sim", "ssh://git@github.com:22/lab/spike-sim.git"),
        ("git+ssh://git@github.com/lab//spike-sim.git", "git://github.com/lab/spike-sim"),
        ("http://github.com/lab/spike-sim", "https://www.github.com:443/lab/spike%2Dsim.git"),
        # GitLab in a lab listens for ssh on a port of its own.
        ("ssh://git@git.lab.org:2222/npu/spike.git", "https://git.lab.org/npu/spike.git"),
        ("git@git.lab.org:npu/spike", "git+ssh://git.lab.org:2222/npu/spike"),
        ("[git@git.lab.org:2222]:npu/spike", "https://git.lab.org/npu/spike"),
        ("https://git.lab.org./npu/spike", "https://git.lab.org/npu/spike"),
        ("https://git.lab.org/npu/./spike", "https://git.lab.org/x/..//npu/spike/"),
        ("file://localhost/srv/my%20spike", "file:///srv/my%20spike.git"),
        ("file:///srv/spike", "/srv//./spike/.git"),
    ],
)
def test_one_repository_is_found_however_its_url_is_spelled(one: str, other: str) -> None:
    text = with_spike_and_pk(one, other)
    line = line_of(text, f'url = "{other}"')
    fault = f"pins.toml:{line}: pins.pk.url: spike and pk are pins of one repository"
    assert faults(text) == (fault,)


def test_other_repositories_are_not_taken_for_the_same() -> None:
    urls = [
        *("https://h/a/b", "https://h/a/c", "https://h:8080/a/b", "https://i/a/b", "h:a/b.d"),
        *("/h/a/b", "./h/a/b", "../h/a/b", "/h/A/b", "file:///h/a/c"),
    ]
    assert len({same_repository_key(url) for url in urls}) == len(urls)


@pytest.mark.parametrize(
    "url",
    [
        *("https://SECRET@h/a", "https://u:SECRET@h/a", "git+https://SECRET@h/a"),
        *("ftp://SECRET@h/a", "git://SECRET@h/a", "file://SECRET@h/a", "HTTPS://SECRET@h/a"),
        *("ssh://git:SECRET@h/a", "git:SECRET@h/a", "git:SECRET@h:a/b", "https://u:SECRET@[::1/a"),
        *("https://h/a.git?private_token=SECRET", "https://h/a#SECRET", "git@h:a/b?token=SECRET"),
        *("https://u:SECRET#x@h/a", "https://u:SECRET/x@h/a", "https://h:SECRET/a"),
    ],
)
def test_no_url_holds_a_secret_and_no_message_repeats_it(url: str) -> None:
    with pytest.raises(TnpuError, match="has 3 faults") as caught:
        pinsfile.parse(with_spike_and_pk(url, url))
    debug = traceback.format_exception(caught.value)
    assert "SECRET" not in "".join([caught.value.render(), *debug])


def test_a_binary_caches_url_holds_no_password_either() -> None:
    text = pinsfile.edit(GOOD, {("cache", "substituters"): ["https://h?priority=10"]})
    assert pinsfile.parse(text).cache.substituters == ["https://h?priority=10"]
    (fault,) = faults(text.replace("//h", "//u:SECRET@h"))
    assert "cache.substituters.0: holds a user name or password" in fault


@pytest.mark.parametrize(
    "url",
    [
        *("https://h/a b", "/srv/a b", "git@h:a\tb", "https://h:xx/a", "https://h:99999/a"),
        *("https://[::1/x.git", "https://h\u2100/x", "https://h", "https:///a", "htps://h/a"),
        *("github.com/a/b", "TODO", "ext::sh"),
        *("http::https://h/a", "-uh:x", "git@h:", "fd::17", ".", "./a", "../a", "/", "///"),
    ],
)
def test_what_is_no_git_url_is_a_fault(url: str) -> None:
    (fault,) = faults(with_spike_and_pk(url, "https://h/pk"))
    words = "holds a blank; write %20" if re.search(r"\s", url) else "is not a git URL"
    assert f"pins.spike.url: {words}" in fault


def test_every_kind_of_git_url_is_taken() -> None:
    for url in (
        *("https://h/a", "http://127.0.0.1:80/a.git", "ssh://git@h:22/a", "ssh://[::1]:22/~me/a"),
        *("git@h:a/b", "h:a", "me@[::1]:a", "git://h/a", "git+ssh://git@h/a", "file:///a%23b"),
        *("/srv/a@b:c#d", "https://h/a@b:c"),
    ):
        assert pinsfile.parse(with_spike_and_pk(url, "https://h/pk")).pins.spike.url == url


@pytest.mark.parametrize(
    "link",
    [
        *("/a/", "//a", "/./a", "/a/../b", "/a//b", "/", "", "a", "./a", "/a/.", "/.."),
        *("/bin", "/bin/spike", "/dev/x", "/etc", "/etc/tnpu/manifest.json", "/nix/store", "/root"),
        *("/proc", "/sys/x", "/tmp", "/usr", "/usr/bin", "/usr/bin/env", "/usr/bin/env/x"),
        *("/a\nb", "/a\0b", "/opt/.wh.a", "/opt/" + "x" * 256),
    ],
)
def test_a_link_that_no_image_can_have_is_a_fault(link: str) -> None:
    (fault,) = faults(pinsfile.edit(GOOD, {("image", "links", link): "pk"}))
    line = line_of(GOOD, '"/workspace') + 1
    assert fault.startswith(f"pins.toml:{line}: image.links.")


def test_links_anywhere_else_are_taken() -> None:
    links = dict.fromkeys(["/usr/local/bin", "/usr/bin/spike", "/binary", "/opt/a..b", "/u"], "pk")
    assert pinsfile.parse(pinsfile.edit(GOOD, {("image", "links"): links})).image.links == links


def test_no_link_lies_below_another() -> None:
    links = '"/a/b/c" = "pk"\n"/a" = "spike"\n"/ab" = "pk"\n'
    text = GOOD.replace("[image.links]\n", f"[image.links]\n{links}")
    (fault,) = faults(text)
    line = line_of(text, '"/a/b/c"')
    assert fault == f"pins.toml:{line}: image.links./a/b/c: lies below another link, /a"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[image]\nname = "a\n', 2),
        ("[image]\n\nname = = 3\n", 3),
        ("[image]\nname = 'a'\nname = 'b'\n", 3),
        ("[pins\n", 1),
        ("[pk]\r\n[pk]\r\n", 2),
        ("pk.abi = 'a'\npk.abi = 'b'\n", 2),
        ("pk = {}\n\n[pk]\n", 3),
        ("# \u2028 \x85\na = [\n1,\n\n\n", 3),
        ("x = 1\ny = " + "[" * 5000 + "\nz = 1\n", 2),
        ("x = 1\n\ny = " + "9" * 5000 + "\nz = 1\n", 3),
        ("\ufeff[image]\n", 1),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_not_toml_is_said_with_its_line(text: str, line: int, project: Project) -> None:
    project.pins.write_text(text)
    project.run("generate").failed_with(f"pins.toml:{line}: not TOML")


def test_what_is_not_utf8_is_said_with_its_line(project: Project) -> None:
    project.pins.write_bytes(b'[image]\nname = "\xff"\n')
    project.run("generate").failed_with("pins.toml:2: not UTF-8")


def test_lines_are_found_in_any_way_of_writing_toml() -> None:
    text = (
        'pins = { llvm = { url = "a b" } }\n\n# comment\nimage.links."/a b" = """\nx\n[llvm]\n"""\n'
    )
    placed = {fault.split(": ")[1]: fault.split(":")[1] for fault in faults(text)}
    assert placed["pins.llvm.url"] == "1"
    assert placed["image.links./a b"] == "4"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("odd", ["", "\u2028", "\u2029", "\x85"])
def test_lines_are_those_of_toml_whatever_else_looks_like_a_line_break(
    newline: str, odd: str
) -> None:
    text = GOOD.replace("# triton 3.6.0", f"# triton {odd} 3.6.0").replace('"lp64d"', "3")
    expected = f"pins.toml:{line_of(text, 'abi')}: pk.abi: must be a string"
    assert faults(text.replace("\n", newline)) == (expected,)


def test_a_missing_key_is_said_at_the_table_that_lacks_it() -> None:
    text = (
        GOOD.replace("[pins.pk]", "[pins.pkk]")
        .replace("[nixpkgs]", "[other]")
        .replace('hash = "sha256-Dup', '# hash = "sha256-Dup')
    )
    missing = [fault for fault in faults(text) if "missing" in fault]
    assert missing == [
        "pins.toml:1: nixpkgs: missing table",
        "pins.toml:1: pins.pk: missing pin",
        f"pins.toml:{line_of(text, '[pins.spike]')}: pins.spike.hash: missing key",
    ]
    assert "pins.toml:2: pins.pk: missing pin" in faults("\n[pins]\nllvm.rev = 'a'\n")


def test_a_fault_in_a_list_is_said_at_its_own_line() -> None:
    targets = """targets = ["X86", 1,
      # 3, ]
      \"""
      a\""", 4, # ]
      [
        5,
      ], 6,
      "NVPTX", "AMDGPU", "RISCV"
    ]"""
    text = GOOD.replace('targets = ["X86", "NVPTX", "AMDGPU", "RISCV"]', targets)
    first = line_of(text, "targets")
    assert [tuple(fault.split(": ")[:2]) for fault in faults(text)] == [
        (f"pins.toml:{first}", "llvm.targets.1"),
        (f"pins.toml:{first + 2}", "llvm.targets.3"),
        (f"pins.toml:{first + 4}", "llvm.targets.4"),
        (f"pins.toml:{first + 4}", "llvm.targets.5"),
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("nixpkgs = []", "nixpkgs: must be a table"),
        ("image.links = 'x'", "image.links: must be a table"),
        ("pins.pk = 'x'", "pins.pk: must be a table"),
        ("python.packages = 'x'", "python.packages: must be a list"),
        ("llvm.assertions = 1", "llvm.assertions: must be true or false"),
        ("image.max-layers = 64.5", "image.max-layers: must be a whole number"),
        ("image.max-layers = 1", "image.max-layers: must be at least 16"),
        ("image.max-layers = 0x" + "f" * 5000, "image.max-layers: must be at most 120"),
        ("slurm.cpus = 0", "slurm.cpus: must be more than 0"),
        ("python.version = '3'", "python.version: must look like 3.11, not '3'"),
        ("nixpkgs.repo = 'a b'", "nixpkgs.repo: 'a b' is no name of letters, digits and . _ -"),
    ],
    ids=lambda text: text[:30],
)
def test_faults_are_told_in_words_of_toml(text: str, fault: str) -> None:
    assert f"pins.toml:2: {fault}" in faults(f"\n{text}\n")


@pytest.mark.parametrize("key", ["a\nb", "\x1b[31mred", "", "\u202e", "a\rb"])
def test_no_key_breaks_the_line_or_reaches_the_terminal_raw(key: str) -> None:
    (fault,) = faults(pinsfile.edit(GOOD, {("pk", key): 1}))
    assert fault.endswith(f": pk.{key!r}: unknown key") and fault.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"k{number} = 1" for number in range(3000)),
        "\n".join(f"[k{number}]" for number in range(3000)),
        "llvm.targets = [\n" + "1,\n" * 3000 + "]",
        "llvm.targets = [\n" + "[1],\n" * 3000 + "]",
        "[image.links]\n" + "\n".join(f'"/nix/{number}" = "pk"' for number in range(3000)),
        "".join(f"[pins.x{number}]\nurl = 'https://h/a'\n" for number in range(3000)),
    ],
    ids=["keys", "tables", "elements", "lists", "links", "pins"],
)
def test_thousands_of_faults_are_all_reported_within_seconds(text: str) -> None:
    begun = time.monotonic()
    found = faults(text)
    assert time.monotonic() - begun < 5
    assert len(found) >= 3000
    assert len({fault.split(":")[1] for fault in found}) >= 3000


def test_what_is_no_file_is_said_and_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name, target in [("dangling", "nowhere"), ("loop", "loop"), ("piped", "fifo")]:
        (tmp_path / name).symlink_to(target)
    for name, words in {
        "folder": "folder is a folder",
        "fifo": "fifo is not a regular file",
        "piped": "piped is not a regular file",
        "dangling": "dangling is a link to nowhere, which does not exist",
        "loop": "loop cannot be read",
        "missing": "missing does not exist",
    }.items():
        with pytest.raises(TnpuError, match=words):
            pinsfile.load(tmp_path / name)
    (tmp_path / "nowhere").write_text(GOOD)
    assert pinsfile.load(tmp_path / "dangling") == pinsfile.parse(GOOD)


def test_an_edit_keeps_comments_order_blank_lines_and_line_endings() -> None:
    new = "f" * 40
    edited = pinsfile.edit(GOOD, {("pins", "pk", "rev"): new})
    assert edited == GOOD.replace("4f3debe4d04f56d31089c1c716a27e2d5245e9a1", new)
    windows = GOOD.replace("\n", "\r\n")
    assert pinsfile.edit(windows, {("pins", "pk", "rev"): new}) == edited.replace("\n", "\r\n")


def test_an_edit_to_what_is_there_already_changes_nothing() -> None:
    spelled = GOOD.replace('"main"', "'main'")
    assert pinsfile.edit(spelled, {("pins", "llvm", "track"): "main"}) == spelled


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "text",
    [
        "pins.pk.rev = 'OLD' # why\n\n[image]\nname = 'a'\n",
        "pins.llvm.rev = 'x'\npins.pk.url = 'u'\npins.'pk'.\"rev\"='OLD'",
        "[pins]\n  pk = { url='u' , rev =  'OLD'} # why\nllvm = {rev = 'x'}",
        "pins = { llvm = {rev='x'}, pk = {rev='OLD', url = 'u' } }\n",
        "[pins]\nllvm.rev = 'x'\n\npk.rev = 'OLD'\nspike.rev = 'y'\n",
        "[pins.pk]\nrev = 'OLD'",
        "[pins.llvm]\nrev = 'x'\n[image]\n# why\n[pins.pk]\nrev = 'OLD'\n[pins.spike]\nrev = 'y'\n",
        "# \u2028\n[pins.pk] # \x85\n\trev = 'OLD' #\n\n\n",
    ],
)
def test_an_edit_changes_the_value_alone_however_it_is_written(text: str, newline: str) -> None:
    text = text.replace("\n", newline)
    assert pinsfile.edit(text, {("pins", "pk", "rev"): "f"}) == text.replace("'OLD'", '"f"')


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[triton]\na = 1\n\n# of pk\n[pk]\n", "[triton]\na = 1\nx = true\n\n# of pk\n[pk]\n"),
        ("[triton]\n# of pk\n[pk]\n", "[triton]\nx = true\n# of pk\n[pk]\n"),
        ("[triton]\na = 1", "[triton]\na = 1\nx = true\n"),
        ("triton.a = 1\n[pk]\n", "triton.a = 1\ntriton.x = true\n[pk]\n"),
        ("[pk]\n", "[pk]\n\n[triton]\nx = true\n"),
    ],
)
def test_an_edit_adds_a_key_to_its_table(before: str, after: str, newline: str) -> None:
    edited = pinsfile.edit(before.replace("\n", newline), {("triton", "x"): True})
    # A single line has no line ending to take after.
    assert edited == (after.replace("\n", newline) if "\n" in before else after)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_an_edit_writes_any_text_so_that_it_is_read_back(value: str) -> None:
    edited = pinsfile.edit(GOOD, {("pins", "pk", "track"): value, ("cache", "x"): [value]})
    data = tomllib.loads(edited)
    assert data["pins"]["pk"]["track"] == value
    assert data["cache"]["x"] == [value]
