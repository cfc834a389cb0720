"""The picture of a plan: the components as boxes, with sizes and states, and what needs what."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import drawsvg

from tnpu_nix import history, plan
from tnpu_nix.errors import TnpuError
from tnpu_nix.plan import Component, Plan
from tnpu_nix.terminal import size_text

# Box and border: the state is written in the box, too.
_COLOURS = {
    plan.BUILT: ("#fde3c8", "#b45309"),
    plan.SUBSTITUTED: ("#dbeafe", "#1d4ed8"),
    plan.THERE: ("#dcfce7", "#15803d"),
    plan.UNNEEDED: ("#f3f4f6", "#6b7280"),
}
_INK, _EDGE = "#111827", "#4b5563"
_FONT = "DejaVu Sans, Verdana, sans-serif"
_NAME, _TEXT = 15, 12  # font sizes in pixels
# Pixels that a character takes at most of its font's size: these are wide fonts.
_PER_CHARACTER = 0.66
_LINE, _PADDING = 17, 12
_COLUMN_GAP, _ROW_GAP, _MARGIN = 36, 56, 24
_STYLE = (
    f"body {{ font-family: {_FONT}; color: {_INK}; margin: 2em; }}"
    " table { border-collapse: collapse; margin: 1.5em 0; }"
    " th, td { border: 1px solid #9ca3af; padding: 0.3em 0.8em; text-align: left; }"
    " svg { max-width: 100%; height: auto; }"
)


@dataclass(frozen=True)
class _Place:
    """Where the middle of a box, or of a bend of a long edge, lies: pixels."""

    x: float
    y: float


def write(made: Plan, path: Path) -> None:
    """Draw a plan into a file that ends in .svg or .html, as a whole or not at all.

    Raises:
        TnpuError: the file cannot be written.
    """
    drawn = svg(made)
    text = drawn if path.suffix == ".svg" else _page(made, drawn)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise TnpuError(
            f"{path} cannot be written: {error.strerror}", "name a file in a folder that is yours"
        ) from error


def svg(made: Plan) -> str:
    """Return the picture as SVG; the plan's `needs` are its edges."""
    needs = made.needs or {}
    rows = _rows(needs)
    texts = {one.name: _texts(one) for one in made.components}
    width = max(_width(lines) for lines in texts.values()) + 2 * _PADDING
    height = max(len(lines) for lines in texts.values()) * _LINE + 2 * _PADDING
    titles = [f"Building {made.target} now", *plan.work(made)]
    top = _MARGIN + len(titles) * (_LINE + 3)
    places = _places(rows, width, height, top)
    ends = (place.x + _own_width(name, width) / 2 for name, place in places.items())
    across = max(*ends, _width(titles) + _MARGIN) + _MARGIN
    down = max(place.y for place in places.values()) + height / 2 + _MARGIN
    drawing = drawsvg.Drawing(across, down, font_family=_FONT)
    drawing.append(drawsvg.Rectangle(0, 0, across, down, fill="white"))
    for number, title in enumerate(titles):
        size, weight = (_NAME, "bold") if number == 0 else (_TEXT, "normal")
        y = _MARGIN + number * (_LINE + 3)
        drawing.append(drawsvg.Text(title, size, _MARGIN, y, fill=_INK, font_weight=weight))
    _draw_edges(drawing, needs, rows, places, height)
    for one in made.components:
        _draw_box(drawing, one, texts[one.name], places[one.name], (width, height))
    return str(drawing.as_svg())


def _texts(one: Component) -> list[str]:
    """Return the lines in a component's box: its name, its state and sizes, where it comes from."""
    state = one.state.upper()
    if one.rebuilt is not None:
        state += ", another derivation" if one.rebuilt else ", same derivation"
    sizes = []
    if one.download is not None:
        sizes.append(f"{size_text(one.download)} to download")
    elif one.size is not None:
        sizes.append(size_text(one.size))
    if one.closure is not None:
        sizes.append(f"closure {size_text(one.closure)}")
    if one.state == plan.BUILT:
        known = "never" if one.seconds is None else f"took {history.duration(one.seconds)}"
        sizes.append(f"last build {known}")
    return [one.name, state, ", ".join(sizes) or "size unknown", one.source or one.version or ""]


def _width(lines: Sequence[str]) -> float:
    name, *rest = lines
    return max(len(name) * _NAME, *(len(line) * _TEXT for line in rest)) * _PER_CHARACTER


def _levels(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return how far down each component stands: below all that it needs.

    One that is needed more than it needs itself goes down as far as it can, nearer to its users.
    """
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            levels[name] = 1 + max(map(level, needs[name]), default=-1)
        return levels[name]

    for name in sorted(needs, key=level, reverse=True):
        users = [user for user in needs if name in needs[user]]
        if users and len(needs[name]) <= len(users):
            levels[name] = min(levels[user] for user in users) - 1
    return levels


def _bends(needs: Mapping[str, Sequence[str]], levels: Mapping[str, int]) -> list[list[str]]:
    """Return each edge as the names of its stops: a made-up one on each level that it passes."""
    return [
        [
            name,
            *(f"{name} -> {user} {level}" for level in range(levels[name] + 1, levels[user])),
            user,
        ]
        for user, all_ in needs.items()
        for name in all_
    ]


def _rows(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the names on each level, in an order in which few edges cross."""
    levels = _levels(needs)
    bends = _bends(needs, levels)
    rows: list[list[str]] = [[] for _ in range(max(levels.values(), default=0) + 1)]
    for name, level in levels.items():
        rows[level].append(name)
    beside: dict[str, list[str]] = {}
    for bend in bends:
        for number, stop in enumerate(bend[1:-1]):
            rows[levels[bend[0]] + 1 + number].append(stop)
        for one, other in itertools.pairwise(bend):
            beside.setdefault(one, []).append(other)
            beside.setdefault(other, []).append(one)
    # Each row in the order of where its neighbours stand, to and fro a few times.
    for turn in range(8):
        at = {name: (i + 0.5) / len(row) for row in rows for i, name in enumerate(row)}
        for row in rows if turn % 2 else reversed(rows):
            row.sort(key=lambda name: _middle([at[one] for one in beside.get(name, [])], at[name]))
            at |= {name: (i + 0.5) / len(row) for i, name in enumerate(row)}
    return rows


def _middle(positions: Sequence[float], otherwise: float) -> float:
    return sum(positions) / len(positions) if positions else otherwise


def _places(
    rows: Sequence[Sequence[str]], width: float, height: float, top: float
) -> dict[str, _Place]:
    """Return where everything stands: each row in the middle, a bend as wide as the gap."""
    widths = [
        sum(_own_width(name, width) for name in row) + (len(row) - 1) * _COLUMN_GAP for row in rows
    ]
    places = {}
    for number, row in enumerate(rows):
        x = _MARGIN + (max(widths) - widths[number]) / 2
        for name in row:
            own = _own_width(name, width)
            y = top + number * (height + _ROW_GAP) + height / 2
            places[name] = _Place(x + own / 2, y)
            x += own + _COLUMN_GAP
    return places


def _own_width(name: str, width: float) -> float:
    return _COLUMN_GAP if " -> " in name else width


def _draw_edges(
    drawing: drawsvg.Drawing,
    needs: Mapping[str, Sequence[str]],
    rows: Sequence[Sequence[str]],
    places: Mapping[str, _Place],
    height: float,
) -> None:
    """Draw a line from each component to what is built from it, with an arrow at its end."""
    levels = {name: number for number, row in enumerate(rows) for name in row}
    arrow = drawsvg.Marker(-6, -4, 1, 4, scale=1.6, orient="auto")
    arrow.append(drawsvg.Lines(-6, -3, -6, 3, 0, 0, fill=_EDGE, close=True))
    for bend in _bends(needs, levels):
        path = drawsvg.Path(stroke=_EDGE, stroke_width=1.5, fill="none", marker_end=arrow)
        for number, stop in enumerate(bend):
            x, y = places[stop].x, places[stop].y
            if number == 0:
                path.M(x, y + height / 2)
                continue
            before = places[bend[number - 1]]
            start, end = before.y + height / 2, y - height / 2
            half = (start + end) / 2
            path.C(before.x, half, x, half, x, end)
            if number < len(bend) - 1:
                path.L(x, y + height / 2)
        drawing.append(path)


def _draw_box(
    drawing: drawsvg.Drawing,
    one: Component,
    lines: Sequence[str],
    place: _Place,
    size: tuple[float, float],
) -> None:
    fill, border = _COLOURS[one.state]
    left, top = place.x - size[0] / 2, place.y - size[1] / 2
    thick = 3 if one.rebuilt else 1.5
    box = drawsvg.Rectangle(left, top, *size, rx=6, fill=fill, stroke=border, stroke_width=thick)
    box.append_title(f"{one.name}: {one.derivation}")
    drawing.append(box)
    for number, line in enumerate(lines):
        y = top + _PADDING + number * _LINE + 12
        bold = {"font_weight": "bold"} if number < 2 else {}
        colour = border if number == 1 else _INK
        font = _NAME if number == 0 else _TEXT
        drawing.append(
            drawsvg.Text(
                line, font, place.x, y, center=False, fill=colour, text_anchor="middle", **bold
            )
        )


def _page(made: Plan, drawn: str) -> str:
    """Return a page of the picture and the table."""
    title = escape(f"Plan of {made.target}")
    head, *rows = plan.table(made)
    cells = "".join(f"<th>{escape(word)}</th>" for word in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(word)}</td>' for word in row)}</tr>\n" for row in rows
    )
    picture = drawn[drawn.index("<svg") :]  # without the declaration of an XML file
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
{picture}
<table>
<tr>{cells}</tr>
{body}</table>
</body>
</html>
"""
