"""What is shown to people: sizes, and the text of others, which may steer a terminal."""

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


def size_text(count: int) -> str:
    """Return a number of bytes for people, in the units that nix uses: ``12.3 MiB``."""
    if count < 1024:
        return f"{count} B"
    value, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if value >= 1024:
            value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"
