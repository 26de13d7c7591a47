"""The page index of a Parquet file: where the pages of a column are, and which rows lie in pages that can match.

``OffsetIndex`` and ``ColumnIndex`` of parquet-format (Java: ``ColumnIndexFilter``). pyarrow writes them but does not
read them. All that is read here is checked against the footer; what contradicts it counts as no index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec.predicate import Predicate, fields, prune_stats
from paimon_spark.storage.thrift_compact import (
    BINARY,
    BOOLEAN_FALSE,
    BOOLEAN_TRUE,
    I64,
    LIST,
    STRUCT,
    Struct,
    decode,
)

META_DATA: Final = 3
"""Field of ColumnChunk."""
COLUMN_TYPE, PATH, STORED_BYTES, DATA_PAGE, DICTIONARY_PAGE = 1, 3, 7, 9, 11
"""Fields of ColumnMetaData."""
_OFFSET_INDEX, _OFFSET_INDEX_BYTES, _COLUMN_INDEX, _COLUMN_INDEX_BYTES = 4, 5, 6, 7
"""Fields of ColumnChunk."""
_LOCATIONS, _TEXT_BYTES, _OFFSET, _SIZE, _FIRST_ROW = 1, 2, 1, 2, 3
"""Fields of OffsetIndex and PageLocation."""
_NULL_PAGES, _MINIMA, _MAXIMA, _NULL_COUNTS = 1, 2, 3, 5
"""Fields of ColumnIndex."""
_INT32, _INT64, _BYTE_ARRAY, _FIXED = 1, 2, 6, 7
_MOST_BYTES: Final = 17
"""Of a value that is no text, with the mark whether it is null."""
_NUMBERS: Final[Mapping[int, str]] = {_INT32: "<i4", _INT64: "<i8"}
_TRUE: Final = b"\x01"

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
RowRanges = npt.NDArray[np.int64]
"""(first row, row behind the last) of each stretch of rows, in order, with rows between any two."""
Bounds = tuple[pa.Array, pa.Array, Numbers]
"""Minima, maxima and null counts of pages; an unknown bound is null."""


@dataclass(frozen=True, slots=True)
class ColumnPages:
    """The pages of one flat column in one row group."""

    chunk: Struct
    """The column's ColumnChunk in the footer."""
    starts: Numbers
    """The first row of each page, and last the number of rows of the row group."""
    offsets: Numbers
    """Where each page begins in the file."""
    sizes: Numbers
    """Bytes of each page in the file."""
    text_bytes: Sequence[int] | None
    """Bytes of the strings of each page, where the file tells."""

    @property
    def meta(self) -> Struct:
        """The column's ColumnMetaData."""
        found: Struct = self.chunk[META_DATA][1]
        return found

    @property
    def first_byte(self) -> int:
        """Where the column begins in the file: at its dictionary, if it has one."""
        data, dictionary = (int(self.meta[key][1]) if key in self.meta else 0 for key in (DATA_PAGE, DICTIONARY_PAGE))
        return min(data, dictionary) if dictionary > 0 else data

    def chosen(self, wanted: RowRanges) -> Mask:
        """The pages that hold some of the rows."""
        at = np.searchsorted(wanted[:, 1], self.starts[:-1], side="right")
        firsts = np.append(wanted[:, 0], self.starts[-1])
        found: Mask = firsts[at] < self.starts[1:]
        return found

    def memory_bytes(self, chosen: Mask) -> int | None:
        """A bound of the bytes of some pages in memory; None where the file does not show how long its texts are."""
        kind = self.meta[COLUMN_TYPE][1]
        fixed = int(np.diff(self.starts)[chosen].sum()) * _MOST_BYTES
        if kind not in (_BYTE_ARRAY, _FIXED):
            return fixed
        if self.text_bytes is None or kind == _FIXED:
            return None
        return fixed + sum(self.text_bytes[at] for at in np.flatnonzero(chosen).tolist())

    def rows(self, chosen: Mask) -> RowRanges:
        """The rows of some pages."""
        return joined(self.starts, chosen)

    @classmethod
    def of(cls, chunk: Struct, offset_index: bytes, rows: int) -> ColumnPages | None:
        """Read an OffsetIndex; None where it contradicts the footer.

        Raises:
            ValueError: the bytes are no OffsetIndex.
        """
        index = decode(offset_index)
        if _LOCATIONS not in index:
            return None
        locations = _items(index, _LOCATIONS, STRUCT)
        offsets, sizes, starts = (
            np.array([location[field][1] if field in location else 0 for location in locations], np.int64)
            for field in (_OFFSET, _SIZE, _FIRST_ROW)
        )
        texts = _items(index, _TEXT_BYTES, I64) if _TEXT_BYTES in index else None
        pages = cls(chunk, np.append(starts, rows), offsets, sizes, texts)
        return pages if len(locations) and pages._fits() else None

    def _fits(self) -> bool:
        """Whether the pages lie in the column one behind the other, and hold all its rows."""
        first, ends = self.first_byte, self.offsets + self.sizes
        in_order = bool((np.diff(self.starts) > 0).all() and (self.sizes > 0).all())
        behind = bool((self.offsets[1:] >= ends[:-1]).all())
        within = first <= int(self.offsets[0]) and int(ends[-1]) <= first + int(self.meta[STORED_BYTES][1])
        texts = self.text_bytes is None or len(self.text_bytes) == len(self.offsets)
        return int(self.starts[0]) == 0 and in_order and behind and within and texts


def index_locations(chunk: Struct, *, with_bounds: bool) -> list[tuple[int, int]]:
    """Return (offset, bytes) of a column's OffsetIndex and, if wanted, of its ColumnIndex; empty without the first."""
    keys = [(_OFFSET_INDEX, _OFFSET_INDEX_BYTES), *([(_COLUMN_INDEX, _COLUMN_INDEX_BYTES)] if with_bounds else [])]
    return [(int(chunk[at][1]), int(chunk[size][1])) for at, size in keys if at in chunk and size in chunk]


def matching_rows(
    pages: Mapping[str, ColumnPages], indexes: Mapping[str, bytes], schema: pa.Schema, predicate: Predicate
) -> RowRanges | None:
    """Return the rows of a row group that lie in pages that may match; None where no index tells anything.

    Args:
        pages: of the columns, at least those that have an index in `indexes`.
        indexes: the ColumnIndex of columns.
        schema: of the file.
        predicate: over columns of the file.

    Raises:
        ValueError: the bytes are no ColumnIndex.
    """
    bounds = {}
    for name in fields(predicate) & indexes.keys():
        found = _page_bounds(decode(indexes[name]), pages[name], schema.field(name).type)
        if found is not None:
            bounds[name] = found
    if not bounds:
        return None
    starts = np.unique(np.concatenate([pages[name].starts for name in bounds]))
    counts = np.diff(starts)
    stats = {name: _of_pieces(bounds[name], pages[name].starts, starts[:-1], counts) for name in bounds}
    return joined(starts, prune_stats(predicate, stats, pa.array(counts)))


def joined(starts: Numbers, chosen: Mask) -> RowRanges:
    """Return the rows of some pieces of a row group, neighbouring pieces as one; `starts` ends with its rows."""
    edges = np.diff(chosen.astype(np.int8), prepend=0, append=0)
    return np.column_stack([starts[np.flatnonzero(edges == 1)], starts[np.flatnonzero(edges == -1)]])


def _of_pieces(
    bounds: Bounds, starts: Numbers, pieces: Numbers, counts: Numbers
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return bounds of pages as those of pieces of pages; of null counts only whether there are none or only nulls."""
    low, high, nulls = bounds
    at = np.searchsorted(starts, pieces, side="right") - 1
    found = nulls[at]
    found = np.where(found == np.diff(starts)[at], counts, np.where(found == 0, 0, counts + 1))
    taken = pa.array(at)
    return low.take(taken), high.take(taken), pa.array(found)


def _page_bounds(index: Struct, pages: ColumnPages, kind: pa.DataType) -> Bounds | None:
    """Return the bounds of each page; None where they are not there or of a type whose order is not simple."""
    if not {_NULL_PAGES, _MINIMA, _MAXIMA, _NULL_COUNTS} <= index.keys():
        return None
    empty = _items(index, _NULL_PAGES, BOOLEAN_TRUE, BOOLEAN_FALSE)
    minima, maxima = (_items(index, key, BINARY) for key in (_MINIMA, _MAXIMA))
    nulls = _items(index, _NULL_COUNTS, I64)
    if {len(empty), len(minima), len(maxima), len(nulls)} != {len(pages.offsets)}:
        return None
    physical = pages.meta[COLUMN_TYPE][1]
    ends = [
        _values([None if hidden == _TRUE else raw for hidden, raw in zip(empty, raws, strict=True)], physical, kind)
        for raws in (minima, maxima)
    ]
    if ends[0] is None or ends[1] is None:
        return None
    return ends[0], ends[1], np.array(nulls, np.int64)


def _items(index: Struct, field: int, *kinds: int) -> list[Any]:
    """Return a list in an index; an empty one may be of any kind.

    Raises:
        ValueError: it is no list, or one of other elements.
    """
    kind, value = index[field]
    if kind != LIST or (value.items and value.kind not in kinds):
        raise ValueError("the page index has fields of other types")
    found: list[Any] = value.items
    return found


def _values(raws: Sequence[bytes | None], physical: int, kind: pa.DataType) -> pa.Array | None:
    """Return bounds as values of a type; None for types of another order than their bytes tell."""
    if physical == _BYTE_ARRAY and pa.types.is_binary(kind):
        return pa.array(raws, kind)
    if physical == _BYTE_ARRAY and pa.types.is_string(kind):
        return pa.array([None if raw is None else _text(raw) for raw in raws], kind)
    if physical not in _NUMBERS:
        return None
    number = np.dtype(_NUMBERS[physical])
    numbers = [
        None if raw is None or len(raw) != number.itemsize else int(np.frombuffer(raw, number)[0]) for raw in raws
    ]
    if pa.types.is_decimal(kind):
        return pa.array([None if n is None else Decimal(n).scaleb(-kind.scale) for n in numbers], kind)
    values = pa.array(numbers, pa.int32() if physical == _INT32 else pa.int64())
    if pa.types.is_signed_integer(kind):
        return values.cast(kind)
    if pa.types.is_temporal(kind) and kind.bit_width == values.type.bit_width:
        return values.view(kind)
    return None


def _text(raw: bytes) -> Any:
    """Return a bound as text; None for one cut inside a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
