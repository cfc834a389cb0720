"""The image that tnpu-image-stream makes: never in one piece on the disk, made each time anew."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tnpu_nix import process
from tnpu_nix.images import archive, members
from tnpu_nix.images.model import BROKEN_STREAM, Image
from tnpu_nix.images.push import command_for
from tnpu_nix.nix import Nix


@dataclass(frozen=True)
class Streamed(Image):
    """An image out of a program of dockerTools."""

    script: Path  # the output tnpu-image-stream, as it lies on the disk
    nix: Nix

    @property
    def where(self) -> str:
        """The path of the program."""
        return str(self.script)

    def tars(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield (member, tar) of each layer; the program is run for it."""
        left = {layer.member for layer in self.layers if wanted is None or layer.member in wanted}
        argv = command_for(self.script, self.nix)
        with process.stream_stdout(argv, env=self.nix.environment()) as stream:
            try:
                for name, _, content in members.walk(stream):
                    if name in left:
                        yield name, content
            except BROKEN_STREAM as error:
                raise archive.unreadable(self.script, error) from error


def read(script: Path, nix: Nix) -> Streamed:
    """Run the program once, and return what its image is.

    Raises:
        TnpuError: the image cannot be made.
    """
    argv = command_for(script, nix)
    with process.stream_stdout(argv, env=nix.environment()) as stream:
        found = archive.summary(stream, script)
    return Streamed(found.tag, found.config, found.layers, script, nix)
