"""A table at a glance: what it is, how large, its newest snapshots, and its LSM trees, as facts and as a picture.

What a notebook shows, made on the driver from metadata files. It stays quick for a huge table: bytes are summed only
over a bounded number of files, and the LSM picture has a bounded number of columns. The picture has levels from top to
bottom, buckets from left to right: SVG without scripts, fonts or other files, in colours that read on light and dark
ground alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

from paimon_spark.display.texts import bytes_text, counted, records_text
from paimon_spark.options import is_secret
from paimon_spark.spec.schema import BucketMode
from paimon_spark.table.system.files import own_files
from paimon_spark.table.system.groups import grouped

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_MOST_FILES_SUMMED = 20_000
_NEWEST = 5
_HIDDEN = "******"
MOST_COLUMNS = 24
"""Columns of an LSM picture; more buckets than these are summed."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What a table is and holds."""

    path: str
    branch: str
    schema: TableSchema
    options: tuple[tuple[str, str], ...]
    """Sorted; of credentials only the keys."""
    newest: tuple[Snapshot, ...]
    """The newest snapshots, latest first."""
    snapshot_count: int
    tags: tuple[str, ...]
    branches: tuple[str, ...]
    """Without the main one."""
    files: int
    """Data files of the latest snapshot, of every level."""
    bytes: int | None
    """Their size; None where there are too many to sum up."""

    @property
    def size_text(self) -> str:
        """Bytes, files and records for people."""
        records = records_text(self.records, keyed=self.schema.kind.is_keyed)
        return f"{bytes_text(self.bytes)}, {counted(self.files, 'file')}, {records}"

    @property
    def records(self) -> int:
        """Rows of the data files, before merging."""
        return 0 if not self.newest else self.newest[0].total_record_count or 0


@dataclass(frozen=True, slots=True)
class Cell:
    """The files of one level in one column of an LSM picture."""

    files: int = 0
    bytes: int = 0
    records: int = 0

    def __add__(self, other: Cell) -> Cell:
        return Cell(self.files + other.files, self.bytes + other.bytes, self.records + other.records)


@dataclass(frozen=True, slots=True)
class LsmShape:
    """How many files of which size lie in which level of which bucket, in one version of a table."""

    path: str
    snapshot_id: int | None
    has_levels: bool
    """Whether the table has a primary key: the files of others all lie in level 0."""
    summed: str
    """What a column is: ``bucket``, ``partition``, ``buckets`` or ``partitions``."""
    columns: tuple[str, ...]
    groups: tuple[tuple[str, int], ...]
    """Partitions with the number of columns that each has; empty where columns are not of partitions' buckets."""
    levels: tuple[int, ...]
    cells: tuple[tuple[Cell, ...], ...]
    """By level, then by column."""
    buckets: int
    """Buckets with files, of all partitions."""

    def of_level(self, at: int) -> Cell:
        """Sums of a level (its position in `levels`)."""
        return sum(self.cells[at], Cell())

    @property
    def total(self) -> Cell:
        """Sums of all."""
        return sum((self.of_level(at) for at in range(len(self.levels))), Cell())


def overview(table: FileStoreTable) -> Overview:
    """Look at a table and its latest snapshot.

    Raises:
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    ids = table.snapshots.ids()
    newest = tuple(table.snapshots.get(snapshot_id) for snapshot_id in reversed(ids[-_NEWEST:]))
    files, size = _sizes(table, newest[0]) if newest else (0, 0)
    options = sorted(table.schema.options.items())
    return Overview(
        path=table.path,
        branch=table.branch,
        schema=table.schema,
        options=tuple((key, _HIDDEN if is_secret(key) else value) for key, value in options),
        newest=newest,
        snapshot_count=len(ids),
        tags=tuple(sorted(table.tags.names())),
        branches=tuple(sorted(table.branches.names())),
        files=files,
        bytes=size,
    )


def _sizes(table: FileStoreTable, snapshot: Snapshot) -> tuple[int, int | None]:
    """Files and bytes of a snapshot."""
    manifests = table.manifests.data_manifests(snapshot)
    entries = sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)
    if entries > _MOST_FILES_SUMMED:
        return sum(manifest.num_added_files - manifest.num_deleted_files for manifest in manifests), None
    chunks = list(table.manifests.live_chunks(snapshot, statistics=False))
    return sum(map(len, chunks)), sum(int(chunk.file_sizes.sum()) for chunk in chunks)


def kind_of(schema: TableSchema) -> str:
    """What kind of table it is, in words: ``primary-key table (deduplicate)``."""
    return f"primary-key table ({schema.core_options.merge_engine})" if schema.kind.is_keyed else "append table"


def buckets_of(schema: TableSchema) -> str:
    """How its rows find their bucket, in words."""
    match schema.bucket_mode:
        case BucketMode.HASH_FIXED:
            return f"{schema.core_options.bucket}, by {', '.join(schema.bucket_keys)}"
        case BucketMode.BUCKET_UNAWARE:
            return "none"
        case BucketMode.POSTPONE_MODE:
            return "postponed until compaction"
        case BucketMode.KEY_DYNAMIC:
            return "dynamic, keys move between partitions"
    return "dynamic"


def lsm_shape(table: FileStoreTable, *, most_columns: int = MOST_COLUMNS) -> LsmShape:
    """Look at the levels of all buckets of the version that the table's scan options name.

    One column is a bucket; where there are more than `most_columns`, a partition with all its buckets; where there are
    more of these too, several neighbours.

    Raises:
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    live = own_files(table)
    sums = grouped(live, live.chunks(), ["partition", "bucket", "level"]).to_pylist()
    rank = live.by_name().tolist()
    buckets = sorted({(rank[row["partition"]], row["bucket"]) for row in sums})
    names = sorted(live.names)
    columns = _columns(names, buckets, most_columns)
    column_of = {bucket: at for at, (_, members) in enumerate(columns.parts) for bucket in members}
    has_levels = table.schema.kind.is_keyed
    top = live.table.options.num_levels - 1
    levels = tuple(sorted({row["level"] for row in sums} | ({0, top} if has_levels else {0})))
    cells = [[Cell()] * len(columns.parts) for _ in levels]
    for row in sums:
        at = column_of[rank[row["partition"]], row["bucket"]]
        level = levels.index(row["level"])
        cells[level][at] += Cell(row["file_count"], row["file_size_in_bytes"], row["record_count"])
    return LsmShape(
        path=table.path,
        snapshot_id=None if live.snapshot is None else live.snapshot.id,
        has_levels=has_levels,
        summed=columns.summed,
        columns=tuple(label for label, _ in columns.parts),
        groups=columns.groups,
        levels=levels,
        cells=tuple(map(tuple, cells)),
        buckets=len(buckets),
    )


BucketRank = tuple[int, int]
"""A bucket: the rank of its partition's name, and its number."""


@dataclass(frozen=True, slots=True)
class _Columns:
    summed: str
    parts: list[tuple[str, list[BucketRank]]]
    """Label and members of each column."""
    groups: tuple[tuple[str, int], ...] = ()


def _columns(names: Sequence[str], buckets: Sequence[BucketRank], most: int) -> _Columns:
    partitioned = names not in ([], [""])
    if len(buckets) <= most:
        parts = [(str(bucket), [(partition, bucket)]) for partition, bucket in buckets]
        by_partition = groupby(buckets, key=lambda bucket: bucket[0])
        groups = tuple((names[partition], len(list(members))) for partition, members in by_partition)
        return _Columns("bucket", parts, groups if partitioned else ())
    if not partitioned:
        return _Columns("buckets", [(_span(part, 1, str), list(part)) for part in _shares(buckets, most)])
    of_partitions = [
        (partition, list(members)) for partition, members in groupby(buckets, key=lambda bucket: bucket[0])
    ]
    if len(of_partitions) <= most:
        return _Columns("partition", [(names[partition], members) for partition, members in of_partitions])
    shares = [[bucket for _, members in share for bucket in members] for share in _shares(of_partitions, most)]
    return _Columns("partitions", [(_span(part, 0, names.__getitem__), part) for part in shares])


def _shares(items: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """Neighbours together, in `most` shares of nearly equal length."""
    bounds = [len(items) * i // most for i in range(most + 1)]
    return [items[start:end] for start, end in pairwise(bounds) if end > start]


def _span(part: Sequence[BucketRank], at: int, shown: Any) -> str:
    first, last = part[0][at], part[-1][at]
    return str(shown(first)) if first == last else f"{shown(first)} … {shown(last)}"


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
