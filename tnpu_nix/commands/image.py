"""`tnpu-nix image`: the group of the commands about images."""

from __future__ import annotations

import click

from tnpu_nix.commands import image_push, image_reading


@click.group()
def image() -> None:
    """Name, push, pull and read images."""


for _command in (
    *(image_push.tag, image_push.ensure, image_push.push, image_push.pull),
    *(image_reading.inspect, image_reading.diff, image_reading.verify),
):
    image.add_command(_command)
