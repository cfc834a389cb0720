"""`tnpu-nix demo`."""

from __future__ import annotations

from pathlib import Path

import click

from tnpu_nix import history
from tnpu_nix.commands.common import error_console, say
from tnpu_nix.progress import watching


@click.command()
@click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("tnpu-demo")
)
def demo(folder: Path) -> None:
    """Run the whole pipeline in FOLDER with miniature upstreams, without network."""
    # Here and not above: no other command needs the miniatures.
    from tnpu_nix.offline import demo as demos

    with watching(error_console, history.load(folder / "project")) as watch:
        demos.run(folder, say, click.echo, watch)
