"""Binary objects and arrays of VARIANTs, of many rows at once: taken apart, put together, the names of their fields.

Equals Java's ``GenericVariantUtil`` and ``GenericVariantBuilder``. No Python loop over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec.variant_values import Ragged

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OBJECT: Final = 2
ARRAY: Final = 3
_NO_NAMES: Final = b"\x01\x00\x00"
"""Metadata without names."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of fields that the metadata of each row knows."""

    of_row: Longs
    """For each row its metadata, by number."""
    starts: Longs
    """For each metadata the position of its first name in `codes`."""
    codes: Longs
    """For each name of each metadata its number in `names`."""
    owners: Longs
    """For each name its metadata."""
    names: list[str]
    ranks: Longs
    """For each name its position in the order of names."""

    @classmethod
    def of(cls, metadata: pa.Array) -> Names:
        """Of a column of metadata."""
        encoded = pc.dictionary_encode(metadata.fill_null(_NO_NAMES))
        each = Ragged.of(encoded.dictionary)
        head = each.number(np.zeros(len(each), np.int64), np.ones(len(each), np.int64))
        width = (head >> 6) + 1
        count = each.number(np.ones(len(each), np.int64), width)
        owners = np.repeat(np.arange(len(each)), count)
        position = within(count)
        at = (1 + width)[owners] + position * width[owners]
        start = each.number(at, width[owners], owners)
        end = each.number(at + width[owners], width[owners], owners)
        texts = (1 + width + (count + 1) * width)[owners]
        found = each.parts(owners, texts + start, end - start).to_arrow(None)
        coded = pc.dictionary_encode(found.cast(pa.string()))
        names = coded.dictionary.to_pylist()
        order = sorted(range(len(names)), key=lambda i: names[i].encode("utf-16-be"))
        ranks = np.empty(len(names), np.int64)
        ranks[order] = np.arange(len(names))
        starts = np.cumsum(count) - count
        return cls(longs(encoded.indices), starts, longs(coded.indices), owners, names, ranks)

    def ids(self, name: str, rows: Longs) -> tuple[int, Longs]:
        """The number of a name, and its id in the metadata of some rows; -1 where the metadata lacks it."""
        if name not in self.names:
            return -1, np.full(len(rows), -1, np.int64)
        code = self.names.index(name)
        hits = np.flatnonzero(self.codes == code)
        by_metadata = np.full(len(self.starts), -1, np.int64)
        by_metadata[self.owners[hits]] = hits - self.starts[self.owners[hits]]
        return code, by_metadata[self.of_row[rows]]

    def codes_of(self, ids: Longs, rows: Longs) -> Longs:
        """The numbers of the names with some ids in the metadata of some rows."""
        at = self.starts[self.of_row[rows]] + ids
        if len(at) and (int(at.max()) >= len(self.codes) or (self.owners[at] != self.of_row[rows]).any()):
            raise DataError("a VARIANT names a field that its metadata does not know")
        found: Longs = self.codes[at]
        return found


def fields_of(objects: Ragged) -> tuple[Longs, Longs, Ragged]:
    """The fields of binary objects: the object's position, the field's id and value; fields of one object together."""
    count = len(objects)
    zero = np.zeros(count, np.int64)
    head = objects.number(zero, zero + 1)
    if (head & 3 != OBJECT).any():
        raise DataError("the rest of a shredded VARIANT is no object")
    info = head >> 2
    offset_size, id_size, large = (info & 3) + 1, ((info >> 2) & 3) + 1, (info >> 4) & 1
    size_bytes = np.where(large == 1, 4, 1)
    fields = objects.number(zero + 1, size_bytes)
    row, position = np.repeat(np.arange(count), fields), within(fields)
    first = (1 + size_bytes)[row]
    ids = objects.number(first + position * id_size[row], id_size[row], row)
    offsets_at = first + (fields * id_size)[row]
    offsets = objects.number(offsets_at + position * offset_size[row], offset_size[row], row)
    totals = objects.number(1 + size_bytes + fields * id_size + fields * offset_size, offset_size)
    order = np.lexsort((offsets, row))
    ends = np.empty(len(row), np.int64)
    following = np.concatenate([offsets[order][1:], [0]]) if len(row) else offsets
    last = np.concatenate([row[order][1:] != row[order][:-1], [True]]) if len(row) else np.empty(0, bool)
    ends[order] = np.where(last, totals[row[order]], following)
    data_at = offsets_at + ((fields + 1) * offset_size)[row]
    return row, ids, objects.parts(row, data_at + offsets, ends - offsets)


def containers(kind: int, valid: Bools, owners: Longs, ids: Longs | None, values: Ragged) -> Ragged:
    """Arrays or objects of the values that belong together.

    Args:
        kind: of container.
        valid: for each row whether it has one.
        owners: the row of each value, ascending.
        ids: the id of each value's name; None in arrays.
        values: in their order.
    """
    rows = len(valid)
    counts = np.bincount(owners, minlength=rows).astype(np.int64)
    data = np.bincount(owners, weights=values.lengths, minlength=rows).astype(np.int64)
    large = counts > 255
    size_bytes = np.where(large, 4, 1)
    offset_size = _bytes_for(data)
    most = np.zeros(rows, np.int64)
    if ids is not None:
        np.maximum.at(most, owners, ids)
    id_size = _bytes_for(most) if ids is not None else np.zeros(rows, np.int64)
    heads = 1 + size_bytes + counts * id_size + (counts + 1) * offset_size
    lengths = np.where(valid, heads + data, 0)
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    own = np.flatnonzero(valid)
    if kind == OBJECT:
        head = (large.astype(np.int64) << 6) | ((id_size - 1) << 4) | ((offset_size - 1) << 2) | OBJECT
    else:
        head = (large.astype(np.int64) << 4) | ((offset_size - 1) << 2) | ARRAY
    _put(out, starts[own], head[own], np.ones(len(own), np.int64))
    _put(out, starts[own] + 1, counts[own], size_bytes[own])
    position = within(counts)
    firsts = starts + 1 + size_bytes
    if ids is not None:
        _put(out, firsts[owners] + position * id_size[owners], ids, id_size[owners])
    offsets_at = firsts + counts * id_size
    ends = np.cumsum(values.lengths)
    before = np.cumsum(data) - data
    _put(
        out,
        offsets_at[owners] + position * offset_size[owners],
        ends - values.lengths - before[owners],
        offset_size[owners],
    )
    _put(out, (offsets_at + counts * offset_size)[own], data[own], offset_size[own])
    flat = values.flat()
    out[np.repeat((starts + heads - before)[owners], values.lengths) + np.arange(len(flat))] = flat
    return Ragged(out, starts, lengths, valid)


def _put(out: npt.NDArray[np.uint8], at: Longs, numbers: Longs, widths: Longs) -> None:
    """Write numbers of some bytes, the lowest first."""
    for byte in range(4):
        some = widths > byte
        out[at[some] + byte] = (numbers[some] >> (8 * byte)) & 255


def _bytes_for(numbers: Longs) -> Longs:
    return 1 + (numbers > 0xFF).astype(np.int64) + (numbers > 0xFFFF) + (numbers > 0xFFFFFF)


def within(counts: Longs) -> Longs:
    """0, 1, 2, … for each group of so many."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def longs(array: pa.Array) -> Longs:
    """Numbers as int64."""
    return np.asarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def flags(array: pa.Array) -> Bools:
    """Booleans."""
    return np.asarray(array.to_numpy(zero_copy_only=False), bool)


def elements_of(arrays: Ragged) -> tuple[Longs, Ragged]:
    """The elements of binary arrays: how many each has, and their values, one array after the other.

    Raises:
        DataError: an array is damaged.
    """
    count = len(arrays)
    zero = np.zeros(count, np.int64)
    head = arrays.number(zero, zero + 1)
    if (head & 3 != ARRAY).any():
        raise DataError("a VARIANT is damaged: an array is expected")
    info = head >> 2
    offset_size, size_bytes = (info & 3) + 1, np.where((info >> 2) & 1 == 1, 4, 1)
    sizes = arrays.number(zero + 1, size_bytes)
    row, position = np.repeat(np.arange(count), sizes), within(sizes)
    first = (1 + size_bytes)[row]
    starts = arrays.number(first + position * offset_size[row], offset_size[row], row)
    ends = arrays.number(first + (position + 1) * offset_size[row], offset_size[row], row)
    data_at = first + ((sizes + 1) * offset_size)[row]
    return sizes, arrays.parts(row, data_at + starts, ends - starts)
