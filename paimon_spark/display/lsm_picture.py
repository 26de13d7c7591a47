"""The LSM trees of a table as a picture: levels from top to bottom, buckets from left to right.

SVG without scripts, fonts or other files, in colours that read on light and dark ground alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, sqrt

from paimon_spark.display.overview import Cell, LsmShape
from paimon_spark.display.texts import bytes_text, counted

_LEFT = 150
_RIGHT = 12
_TOP = 34
_GROUP = 20
_ROW = 58
_GAP = 6
_TILE = 26
"""Height of the files in a cell; below is their text."""
_MOST_TILES = 8
_WIDTHS = {6: 104, 12: 84, 24: 62}
"""Width of a column, by how many columns there are at most."""
_TEXT = "#79818c"
_WIDEST = 230
"""Width of a column at most, for labels that are longer than usual."""
_LEVEL_COLOURS = ("#d9822b", "#c9a227", "#6aa84f", "#3d9e8f", "#3f86c9", "#6673c4")
_LABEL_CHARACTERS = 7.0
"""Width of a letter, for cutting labels."""
_TITLE_CHARACTERS = 7.5
_MOST_NAME = 80


class LsmPicture:
    """What `PaimonTable.lsm` gives: a picture in a notebook, a table of numbers in a terminal.

    Attributes:
        shape: the numbers of the picture.
    """

    def __init__(self, shape: LsmShape) -> None:
        self.shape = shape

    def __repr__(self) -> str:
        """The numbers of each level as lines of text."""
        shape = self.shape
        lines = [self._title(), f"{'level':>6} {'files':>9} {'size':>10} {'records':>14}"]
        for at, level in enumerate(shape.levels):
            cell = shape.of_level(at)
            lines.append(f"{level:>6} {cell.files:>9,} {bytes_text(cell.bytes):>10} {cell.records:>14,}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self._repr_svg_()}</div>'

    def _repr_svg_(self) -> str:
        shape = self.shape
        top = _TOP + (_GROUP if shape.groups else 0) + 22
        column = _column_width(shape)
        width = max(_LEFT + column * len(shape.columns) + _RIGHT, 24 + int(_TITLE_CHARACTERS * len(self._title())))
        height = top + _ROW * len(shape.levels) + 8
        inside = "".join(
            (
                _text(12, 20, self._title(), size=13, weight="600"),
                *_heads(shape, column, top),
                *(_level(shape, at, column, top + _ROW * at) for at in range(len(shape.levels))),
            )
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="system-ui, sans-serif"><title>{escape(self._title())}</title>{inside}</svg>'
        )

    def _title(self) -> str:
        shape = self.shape
        total = shape.total
        name = _cut(shape.path.rstrip("/").rpartition("/")[2], _MOST_NAME * _LABEL_CHARACTERS)
        version = "no snapshot yet" if shape.snapshot_id is None else f"snapshot {shape.snapshot_id}"
        facts = (
            version,
            counted(shape.buckets, "bucket"),
            counted(total.files, "file"),
            bytes_text(total.bytes),
            counted(total.records, "record"),
        )
        return f"{name}: {', '.join(facts)}"


def _column_width(shape: LsmShape) -> int:
    """Width of a column: by their number, and wider where a label would not fit."""
    usual = next((width for most, width in _WIDTHS.items() if len(shape.columns) <= most), min(_WIDTHS.values()))
    labels = [(label, 1) for label in shape.columns] + list(shape.groups)
    needed = max(
        (ceil((_LABEL_CHARACTERS * len(label) + _GAP) / members) + _GAP for label, members in labels), default=0
    )
    return max(usual, min(needed, _WIDEST))


def _heads(shape: LsmShape, column: int, top: int) -> Iterator[str]:
    """The labels of columns, and of the partitions above them."""
    yield _text(_LEFT - 14, top - 8, shape.summed, anchor="end", size=11)
    for at, label in enumerate(shape.columns):
        yield _text(
            _LEFT + column * at + (column - _GAP) / 2, top - 8, _cut(label, column), anchor="middle", full=label
        )
    at = 0
    for name, members in shape.groups:
        left, wide = _LEFT + column * at, column * members - _GAP
        yield _text(left + wide / 2, top - 26, _cut(name, wide), anchor="middle", full=name)
        yield f'<path d="M{left} {top - 21}h{wide}" stroke="{_TEXT}" stroke-opacity=".5"/>'
        at += members


def _level(shape: LsmShape, at: int, column: int, top: int) -> str:
    """One level: its sums, then its files in each column."""
    level, sums = shape.levels[at], shape.of_level(at)
    name = f"level {level}" if shape.has_levels else "files"
    parts = [
        f'<g class="level" data-level="{level}" data-files="{sums.files}" data-bytes="{sums.bytes}" '
        f'data-records="{sums.records}">',
        _text(12, top + 18, name, size=12, weight="600"),
        _text(12, top + 34, f"{counted(sums.files, 'file')}, {bytes_text(sums.bytes)}", size=10.5),
    ]
    largest = max((cell.bytes for row in shape.cells for cell in row), default=0)
    colour = _LEVEL_COLOURS[min(at, len(_LEVEL_COLOURS) - 1)] if shape.has_levels else _LEVEL_COLOURS[4]
    for number, cell in enumerate(shape.cells[at]):
        parts.append(_cell(cell, _LEFT + column * number, top, column - _GAP, colour, largest, shape.columns[number]))
    return "".join([*parts, "</g>"])


def _cell(cell: Cell, left: int, top: int, width: int, colour: str, largest: int, label: str) -> str:
    """The files of one level in one column: a tile each, the fuller the more bytes; many are one tile more."""
    frame = (
        f'<rect x="{left}" y="{top + 4}" width="{width}" height="{_TILE}" rx="4" fill="{_TEXT}" fill-opacity=".09"/>'
    )
    if not cell.files:
        return frame
    tiles = min(cell.files, _MOST_TILES)
    step = (width - 4) / tiles
    opacity = 0.35 + 0.6 * sqrt(cell.bytes / largest) if largest else 0.35
    drawn = "".join(
        f'<rect class="file" x="{left + 2 + step * i:.1f}" y="{top + 6}" width="{step - 1.5:.1f}" '
        f'height="{_TILE - 4}" rx="2.5" fill="{colour}" fill-opacity="{opacity:.2f}"/>'
        for i in range(tiles)
    )
    hint = f"{label}: {counted(cell.files, 'file')}, {bytes_text(cell.bytes)}, {counted(cell.records, 'record')}"
    size = bytes_text(cell.bytes)
    text = f"{cell.files:,} · {size}" if width > 70 else size if cell.files == 1 else f"{cell.files:,}"
    below = _text(left + width / 2, top + _TILE + 17, text, anchor="middle", size=10)
    return (
        f'<g class="cell" data-files="{cell.files}" data-bytes="{cell.bytes}"><title>{escape(hint)}</title>'
        f"{frame}{drawn}{below}</g>"
    )


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: float = 11, weight: str = "400", full: str = ""
) -> str:
    hint = f"<title>{escape(full)}</title>" if full and full != text else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size:g}" font-weight="{weight}" '
        f'fill="{_TEXT}">{hint}{escape(text)}</text>'
    )


def _cut(label: str, width: float) -> str:
    """A label, without its middle where it does not fit: neighbours differ at the end."""
    fits = max(3, int(width / _LABEL_CHARACTERS))
    head, tail = fits // 2, fits - fits // 2 - 1
    return label if len(label) <= fits else f"{label[:head]}…{label[len(label) - tail :]}"


def html_table(rows: Sequence[tuple[str, Sequence[str]]], heads: Sequence[str] = ()) -> str:
    """Cells as a plain HTML table; everything is escaped.

    Args:
        rows: the first cell, which is a head, and the others.
        heads: of the columns.
    """
    cell = 'style="padding:2px 14px 2px 0;text-align:left;vertical-align:top;border:none"'
    head = "".join(f"<th {cell}>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr><th {cell}>{escape(first)}</th>{''.join(f'<td {cell}>{escape(text)}</td>' for text in rest)}</tr>"
        for first, rest in rows
    )
    return (
        '<table style="border-collapse:collapse;background:none;margin:4px 0">'
        f"{f'<thead><tr>{head}</tr></thead>' if heads else ''}<tbody>{body}</tbody></table>"
    )
