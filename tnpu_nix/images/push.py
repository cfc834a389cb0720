"""Pushing an image: its tar is streamed out of the store, layer by layer, into a registry."""

from __future__ import annotations

import json
import re
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from tnpu_nix import pathinfo, process
from tnpu_nix.errors import TnpuError
from tnpu_nix.images.model import BROKEN_STREAM, CHUNK, Checked, as_stream, decompressed
from tnpu_nix.nix import Nix
from tnpu_nix.pathinfo import PathInfo
from tnpu_nix.process import ProgramFailedError
from tnpu_nix.registry.client import Repository, digest_of
from tnpu_nix.registry.known_layers import KnownLayers
from tnpu_nix.registry.manifest import OCI_MANIFEST
from tnpu_nix.registry.upload import (
    Blob,
    Compressed,
    is_passing,
    lacks_what_it_has,
    put_manifest,
    upload_blob,
    upload_layer,
)

STREAM = "tnpu-image-stream"  # the flake's output that is the program
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
# dockerTools names a layer by the hash of its bytes.
_LAYER_NAME = re.compile(r"([0-9a-f]{64})/layer\.tar")
_BLOCK = 1 << 20  # bytes of the stream at a time
_MOST_JSON = 16 << 20


class Watcher(Protocol):
    """Is told how a push or pull goes on; sizes are in bytes."""

    def layer(self, diff_id: str, size: int) -> None:
        """A layer of so many uncompressed bytes begins."""

    def moved(self, done: int, wire: int) -> None:
        """So many more bytes of the layer are done; so many more went over the wire."""

    def ended(self, what: str) -> None:
        """The layer is done, or was there."""

    def say(self, line: str) -> None:
        """Something happened that users want to know."""


@dataclass
class Pushed:
    """What a push did."""

    digest: str = ""  # of the manifest
    layers: int = 0
    uploaded: int = 0  # layers that were sent
    bytes_uploaded: int = 0  # of these, compressed
    size: int = 0  # bytes of all layers, compressed


@dataclass
class _Read:
    """What has been read of an image's tar."""

    layers: dict[str, tuple[str, Blob]] = field(default_factory=dict)  # member → diff id, blob
    documents: dict[str, bytes] = field(default_factory=dict)  # member → JSON


def push(
    script: Path, nix: Nix, repository: Repository, tag: str, root: Path, watch: Watcher
) -> Pushed:
    """Push the image that a program of dockerTools streams to its standard output.

    Layers that the repository has are not uploaded. The tag is written last: it never leads to
    an image of which something is missing, or whose store paths are not what Nix's database says.

    Args:
        script: the output tnpu-image-stream, as it lies on the disk.
        root: the project, for a note of which layers have been pushed.

    Raises:
        TnpuError: the image cannot be streamed, or the registry does not take it.
    """
    known, result = KnownLayers(repository, root), Pushed()
    tries = _Tries(repository, known, watch)
    while True:
        try:
            tries.begin()
            with pathinfo.being_hashed(nix, _closure(script, nix)) as hashed:
                read = _streamed(script, nix, repository, known, result, watch)
                _refuse_altered(hashed(), nix)
            return _finish(read, repository, tag, result)
        except ProgramFailedError as error:
            raise _cannot_stream(error, nix) from error
        except _FalseGuessError:
            watch.say("an image in the registry names a layer that is another; it is sent anew")
        except TnpuError as error:
            tries.after(error)
        finally:
            known.keep()


@dataclass
class _Tries:
    """How often a push has failed, and whether it goes on."""

    repository: Repository
    known: KnownLayers
    watch: Watcher
    failures: int = 0  # since the last progress
    most: int = 0  # layers that were there at a failure

    def begin(self) -> None:
        if self.failures:  # making the image again is for a registry that is there again
            self.repository.transport.log_in()
            self.known.doubt()

    def after(self, error: TnpuError) -> None:
        """Wait for the next try, or raise the error if another would not help."""
        if not self.repository.distrusted and lacks_what_it_has(error):
            self.repository.distrusted = True
            self.known.doubt()
            self.watch.say("the registry lacks what it says it has; sending all of the image")
            return
        if not is_passing(error):
            raise error
        # A layer that is sent again and again is no progress.
        self.failures = self.failures + 1 if self.known.count <= self.most else 1
        self.most = max(self.most, self.known.count)
        if self.failures > self.repository.transport.patience.retries:
            raise error
        wait = 2.0 ** (self.failures - 1)
        self.watch.say(f"{error.what}; going on in {wait:g} s where it stopped")
        time.sleep(wait)


def _closure(script: Path, nix: Nix) -> dict[str, PathInfo]:
    inside = str(script) if nix.store is None else f"/{script.relative_to(nix.store)}"
    return pathinfo.path_infos(nix, [inside], recursive=True)


def _refuse_altered(paths: list[str], nix: Nix) -> None:
    if paths:
        raise TnpuError(
            f"altered on the disk since it was built: {', '.join(paths)}; nothing was tagged",
            f"{nix.words('cache', 'pull', '--repair', STREAM)} fetches it anew from a cache, or"
            " says what else brings it back; then push again",
        )


def _streamed(
    script: Path,
    nix: Nix,
    repository: Repository,
    known: KnownLayers,
    result: Pushed,
    watch: Watcher,
) -> _Read:
    with process.stream_stdout(command_for(script, nix), env=nix.environment()) as stream:
        return _read(stream, repository, known, result, watch)


def command_for(script: Path, nix: Nix) -> list[str | Path]:
    """Return the command that streams the image.

    In a store of its own the program's interpreter is not where it says; `nix shell` makes a
    world in which it is. hostpkgs' program needs none.
    """
    if not script.exists():
        raise _gone(str(script), nix)
    if nix.store is None or nix.offline_profile:
        return [script]
    inside = "/" + str(script.relative_to(nix.store))
    return ["nix", "shell", inside, "--command", inside]


def _cannot_stream(error: ProgramFailedError, nix: Nix) -> TnpuError:
    said = "\n".join((*error.details, error.what))
    missing = re.search(r"No such file or directory: '([^']*/nix/store/[^']+)'", said)
    if missing:
        return _gone(missing[1], nix)
    return TnpuError(
        f"the image cannot be made: {error.what}",
        "`nix-store --verify --check-contents` tells whether the store is whole",
        error.details,
    )


def _gone(path: str, nix: Nix) -> TnpuError:
    """Return the error of a path that Nix believes in its store and that is not there."""
    found = re.search(r"/nix/store/[^/]+", path)
    name = found[0] if found else path
    return TnpuError(
        f"the image cannot be made: {name} is gone although Nix believes it in the store",
        f"{nix.words('build', STREAM)} brings it back; then run this again",
    )


def _read(
    stream: IO[bytes], repository: Repository, known: KnownLayers, result: Pushed, watch: Watcher
) -> _Read:
    """Read the image's tar to its end, and upload the layers that the repository lacks."""
    read = _Read()
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is None:
                    continue
                if member.name.endswith(".json") and member.size <= _MOST_JSON:
                    read.documents[member.name] = content.read()
                elif member.name.endswith(".tar"):
                    read.layers[member.name] = _layer(
                        member, content, repository, known, result, watch
                    )
        while stream.read(_BLOCK):  # past the tar's end, so that the program can end
            pass
    except tarfile.TarError as error:
        # Cut short. Why, the program knows; it is asked when the block is left.
        read.documents.clear()
        if not _ended_early(stream):
            raise TnpuError(f"the image's stream is no tar: {error}", "build it again") from error
    return read


def _ended_early(stream: IO[bytes]) -> bool:
    return not stream.read(1)


def _layer(
    member: tarfile.TarInfo,
    content: IO[bytes],
    repository: Repository,
    known: KnownLayers,
    result: Pushed,
    watch: Watcher,
) -> tuple[str, Blob]:
    """Upload a layer unless it is there; return its diff id and its blob."""
    named = _LAYER_NAME.fullmatch(member.name)
    diff_id = f"sha256:{named[1]}" if named else ""
    watch.layer(diff_id, member.size)
    if named and (blob := known.find(diff_id)):
        watch.moved(member.size, 0)
        watch.ended("there")
        return diff_id, blob
    layer = Compressed(content, lambda count: watch.moved(count, 0))
    if named and (guess := known.guess(diff_id)):
        if not _is_the_same(layer, guess, diff_id, repository):
            known.distrust()
            raise _FalseGuessError
        watch.ended("there")
        return diff_id, known.add(diff_id, guess)
    blob, went = upload_layer(repository, layer, lambda count: watch.moved(0, count))
    if named and layer.diff_id != diff_id:
        raise TnpuError(
            f"layer {diff_id} changed while it was read: it is {layer.diff_id} now",
            "`nix-store --verify --check-contents` tells what is wrong in the store",
        )
    known.add(layer.diff_id, blob)
    if went:
        result.uploaded += 1
        result.bytes_uploaded += blob.size
    watch.ended("pushed" if went else "there")
    return layer.diff_id, blob


def _is_the_same(layer: Compressed, guess: Blob, diff_id: str, repository: Repository) -> bool:
    """Tell whether a blob of the registry is a layer, which is read to its end for it."""
    for _piece in layer.pieces():
        pass
    if (layer.digest, layer.size) == (guess.digest, guess.size):
        return layer.diff_id == diff_id
    # Compressed by another program, or something else: its content tells.
    try:
        hashed = Checked(decompressed(as_stream(repository.blob(guess.digest, guess.size))))
        while hashed.read(CHUNK):
            pass
    except BROKEN_STREAM:
        return False
    except TnpuError as error:
        if is_passing(error):
            raise
        return False  # damaged where it lies, or of a kind not known here
    return hashed.digest == diff_id


class _FalseGuessError(Exception):
    """An image in the registry says of a blob that it is a layer, and it is not.

    The layer has been read by then; the image is made again to send it.
    """


def _finish(read: _Read, repository: Repository, tag: str, result: Pushed) -> Pushed:
    """Write the configuration and then the manifest."""
    try:
        archive: dict[str, Any] = json.loads(read.documents["manifest.json"])[0]
        config = read.documents[archive["Config"]]
        layers = [read.layers[name] for name in archive["Layers"]]
        diff_ids = json.loads(config)["rootfs"]["diff_ids"]
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise TnpuError(
            "the image's stream is no docker archive: it lacks its manifest or a layer",
            "build tnpu-image-stream again",
        ) from error
    if diff_ids != [diff_id for diff_id, _ in layers]:
        raise TnpuError(
            "the image's configuration names other layers than its stream held",
            "`nix-store --verify --check-contents` tells whether the store is whole",
        )
    blobs = [blob for _, blob in layers]
    upload_blob(repository, config, digest_of(config))
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": {"mediaType": _CONFIG, "digest": digest_of(config), "size": len(config)},
        "layers": [
            {"mediaType": _LAYER, "digest": blob.digest, "size": blob.size} for blob in blobs
        ],
    }
    raw = json.dumps(manifest, separators=(",", ":")).encode()
    result.digest = put_manifest(repository, tag, raw, OCI_MANIFEST)
    result.layers, result.size = len(blobs), sum(blob.size for blob in blobs)
    return result
