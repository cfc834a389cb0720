"""Text of others, as it can be shown: an image's label or a server's words may steer a terminal."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Control characters but for the tab; what turns the direction of writing or has no width; line
# ends of Unicode; halves of characters. By code point, as the tables of Unicode take long to load.
_STEERING = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def uncoloured(text: str) -> str:
    """Return text without the colours that programs such as Nix give it."""
    return _COLOUR.sub("", text)


def printable(line: str) -> str:
    """Return a line in which nothing steers a terminal: what would is shown as its escape."""
    return _STEERING.sub(lambda found: found[0].encode("unicode-escape").decode(), line)
