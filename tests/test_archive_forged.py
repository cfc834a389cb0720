"""`tnpu-nix image verify`: archives that programs read otherwise than we do, or each other."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.altered import Parts, file, info, packed
from tests.forged import Docker, Forgery
from tests.verifying import Bench


@pytest.fixture(scope="module")
def bench(built_image: Bench, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return built_image.apart(tmp_path_factory.mktemp("archives"))


def named_twice(it: Docker) -> Docker:
    return it.named(it.evil_entry()).named(it.entry)


def named_twice_the_other_way(it: Docker) -> Docker:
    return it.named(it.entry).named(it.evil_entry())


def named_otherwise(it: Docker) -> Docker:
    return it.named(it.evil_entry(), name="./manifest.json").named(it.entry)


def named_from_the_root(it: Docker) -> Docker:
    return it.named(it.entry).named(it.evil_entry(), name="/x/..//manifest.json")


def two_images(it: Docker) -> Docker:
    return it.named(it.entry, {**it.evil_entry(), "RepoTags": ["localhost/other:1"]})


def keys_of_other_case(it: Docker) -> Docker:
    return it.named({**it.entry, "config": it.evil_entry()["Config"]})


def a_layer_twice(it: Docker) -> Docker:
    it.members.insert(0, (it.entry["Layers"][-1], packed([file("bin/evil")])))
    return it.named(it.entry)


def another_image_of_oci(it: Docker) -> Docker:
    forgery = Forgery(it.parts)
    it.members += forgery.members(forgery.index(forgery.entry(forgery.evil_manifest())))
    return it.named(it.entry)


def a_file_that_is_a_folder(it: Docker) -> Docker:
    it.members.append((f"{it.entry['Config']}/x", b""))
    return it.named(it.entry)


@pytest.mark.parametrize(
    ("forge", "word"),
    [
        (named_twice, "holds manifest.json twice"),
        (named_twice_the_other_way, "holds manifest.json twice"),
        (named_otherwise, "holds manifest.json twice"),
        (named_from_the_root, "leads out of it"),
        (two_images, "it holds 2 images"),
        (keys_of_other_case, "both 'Config' and 'config'"),
        (a_layer_twice, "layer.tar twice"),
        (another_image_of_oci, "name different images"),
        (a_file_that_is_a_folder, "is a folder and is none"),
    ],
)
def test_an_archive_that_is_read_in_two_ways_is_refused(
    bench: Bench, forge: Callable[[Docker], Docker], word: str
) -> None:
    bench.verify(forge(Docker(bench.parts)).write(bench.folder / "forged.tar")).failed_with(word)


def test_links_of_an_archive_lead_nowhere_else(bench: Bench) -> None:
    docker = Docker(bench.parts)
    docker.named(docker.entry)
    layer = docker.entry["Layers"][0]
    folder = info(layer.split("/")[0], type=tarfile.SYMTYPE, linkname="elsewhere")
    path = docker.write(bench.folder / "forged.tar", folder)
    bench.verify(path).failed_with("is a folder and is none")
    hard = info("manifest.json", type=tarfile.LNKTYPE, linkname=layer)
    bench.verify(docker.write(path, hard)).failed_with("neither a file nor a folder")


def test_what_follows_the_end_of_an_archive_is_seen(bench: Bench) -> None:
    """Go reads on in a gzip of several parts, and `tar -i` beyond the end."""
    docker, more = Docker(bench.parts), Docker(bench.parts, members=[])
    good = docker.named(docker.entry).write(bench.folder / "good.tar").read_bytes()
    more.members = []
    evil = more.named(more.evil_entry()).write(bench.folder / "evil.tar").read_bytes()
    joined = bench.folder / "forged.tar"
    joined.write_bytes(good + evil)
    bench.verify(joined).failed_with("something follows its end")
    open_end = good.rstrip(b"\0")
    open_end += bytes(-len(open_end) % 512)
    joined.write_bytes(gzip.compress(open_end, 1) + gzip.compress(evil, 1))
    bench.verify(joined).failed_with("holds manifest.json twice")


@pytest.mark.parametrize("name", ["manifest.json", "index.json", "oci-layout"])
def test_what_programs_look_for_is_no_link(bench: Bench, name: str) -> None:
    docker = Docker(bench.parts)
    if name == "manifest.json":
        forgery = Forgery(bench.parts)
        docker.members = forgery.members(forgery.index(forgery.entry(forgery.manifest())))
        docker.members.append(("evil.json", json.dumps([docker.evil_entry()]).encode()))
    else:
        docker.named(docker.entry)
    link = info(name, type=tarfile.SYMTYPE, linkname="evil.json")
    docker.members = [one for one in docker.members if one[0] != name]
    bench.verify(docker.write(bench.folder / "forged.tar", link)).failed_with(f"{name} is a link")


def test_other_names_that_an_archive_gives_its_image_are_named(bench: Bench) -> None:
    docker = Docker(bench.parts)
    docker.named({**docker.entry, "RepoTags": [bench.parts.tag, "debian:latest"]})
    found = bench.found(docker.write(bench.folder / "forged.tar"))
    assert found.lines("manifest") == [
        f"manifest.json gives it 2 names: {bench.parts.tag}, debian:latest"
    ]


# --- headers of tars -------------------------------------------------------------------------


def pax(kind: bytes = b"x", **said: str) -> bytes:
    """A header that says something of the next member, or of all that follow."""
    lines = b""
    for key, value in said.items():
        text = f" {key.replace('__', '.')}={value}\n".encode()
        size = len(text) + 2
        lines += str(size + (size > 99)).encode() + text
    return member("pax", lines, type=kind)


def member(name: str, data: bytes, **fields: Any) -> bytes:
    made = info(name, size=len(data), **fields)
    return made.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


def patched(header: bytes, at: int, new: bytes) -> bytes:
    """A header with other bytes in it, and the check sum that goes with them."""
    block = bytearray(header[:512])
    block[at : at + len(new)] = new
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block) + header[512:]


# Each renames "zzz" for one reader, or hides it from one, or gives it another size.
TRICKS: dict[str, Callable[[bytes], bytes]] = {
    "a global header": lambda plain: pax(b"g", path="manifest.json") + plain,
    "a name of a sparse file": lambda plain: pax(GNU__sparse__name="manifest.json") + plain,
    "two headers": lambda plain: pax(path="manifest.json") + pax(path="other") + plain,
    "one key twice": lambda plain: pax(path="a") + pax(path="manifest.json") + plain,
    "a long name of GNU": lambda plain: member("x", b"manifest.json\0", type=b"L") + plain,
    "a header of Solaris": lambda plain: pax(b"X", path="manifest.json") + plain,
    "a size after a zero": lambda plain: patched(plain, 124, b"\0" + b"0000000007" + b"\0"),
    "a negative size": lambda plain: patched(plain, 124, b"\xff" * 12),
    "a prefix": lambda plain: patched(plain, 345, b"folder"),
    "no magic": lambda plain: patched(plain, 257, bytes(8)),
    "a sum that is wrong": lambda plain: plain[:148] + b"0000000\0" + plain[156:],
    "a sparse file": lambda plain: patched(plain, 156, b"S"),
    "a huge header": lambda plain: pax(path="x" * 100_000) + plain,
    "a folder with content": lambda plain: patched(plain, 156, b"5"),
    "a header and no member": lambda _plain: pax(path="manifest.json"),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_headers_that_readers_take_differently_are_refused(bench: Bench, trick: str) -> None:
    docker = Docker(Parts(bench.parts.config, bench.parts.tag, bench.parts.layers[-1:]))
    docker.named(docker.entry)
    good = b"".join(member(name, data) for name, data in docker.members)
    evil = TRICKS[trick](member("zzz", b"[]" + b" " * 100))
    done = bench.verify(written(bench, good + evil + bytes(1024)))
    done.failed_with("no image archive that can be read")


def test_a_header_of_a_large_file_is_understood(bench: Bench) -> None:
    """Sizes that octal digits have no room for; what they are of need not be that large."""
    docker = Docker(bench.parts)
    docker.named(docker.entry)
    good = b"".join(member(name, data) for name, data in docker.members)
    plain = member("zzz", b"1234567")
    binary = patched(plain, 124, b"\x80" + (7).to_bytes(11, "big"))
    for more in (pax(size="7", mtime="1.5", path="é") + plain, binary):
        assert bench.verify(written(bench, good + more + bytes(1024))).status == 0


def written(bench: Bench, data: bytes) -> Path:
    path = bench.folder / "headers.tar"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress])
def test_what_follows_in_a_compressed_archive_is_read_or_refused(
    bench: Bench, compress: Callable[[bytes], bytes]
) -> None:
    parts = Parts(bench.parts.config, bench.parts.tag, bench.parts.layers[-1:])
    docker, evil = Docker(parts), Docker(parts, members=[])
    docker.named(docker.entry)
    evil.members = []
    evil.named(evil.evil_entry())
    good = b"".join(member(name, data) for name, data in docker.members)
    more = b"".join(member(name, data) for name, data in evil.members) + bytes(1024)
    whole = compress(good) + compress(bytes(1024))
    bench.found(written(bench, whole))  # it is read; layers of the pins are not in it
    bench.verify(written(bench, compress(good) + compress(more))).failed_with("twice")
    padded = compress(good) + bytes(4) + compress(more)
    bench.verify(written(bench, padded)).failed_with("no image archive")
    bench.verify(written(bench, whole + b"junk")).failed_with("no image archive")


def test_layers_that_containerd_has_compressed_are_taken(bench: Bench) -> None:
    """As its exporter writes an archive of both kinds."""
    forgery = Forgery(bench.parts)
    forgery.blobs.clear()
    kind = "application/vnd.oci.image.layer.v1.tar+gzip"
    forgery.layers = [
        forgery.blob(gzip.compress(layer, 1, mtime=0), kind) for layer in bench.parts.layers
    ]
    manifest = forgery.manifest()
    both = Docker(bench.parts, members=[])
    both.members = forgery.members(forgery.index(forgery.entry(manifest)))
    names = [f"blobs/{one['digest'].replace(':', '/')}" for one in forgery.layers]
    config = f"blobs/{manifest['config']['digest'].replace(':', '/')}"
    both.named({"Config": config, "RepoTags": ["x:1"], "Layers": names})
    done = bench.verify(both.write(bench.folder / "both.tar"))
    assert done.status == 0, done
