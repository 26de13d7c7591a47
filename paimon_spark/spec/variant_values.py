"""Binary VARIANT values of many rows at once: rows of bytes, and how typed columns are encoded.

Equals Java's ``GenericVariantBuilder``.

Binary objects and arrays of VARIANTs, of many rows at once: taken apart, put together, the names of their fields.

Equals Java's ``GenericVariantUtil`` and ``GenericVariantBuilder``. No Python loop over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, UnsupportedError

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_TRUE, _FALSE, _INT1, _DOUBLE, _DECIMAL4, _DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _FLOAT, _BINARY, _LONG_STR, _UUID = (
    1, 2, 3, 7, 8, 11, 12, 13, 14, 15, 16, 20,
)  # fmt: skip
_SHORT_STR: Final = 1
_MOST_SHORT: Final = 63

OBJECT: Final = 2
ARRAY: Final = 3
_NO_NAMES: Final = b"\x01\x00\x00"
"""Metadata without names."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of bytes in one buffer; a row may be missing."""

    data: Bytes
    starts: Longs
    lengths: Longs
    present: Bools

    @classmethod
    def of(cls, array: pa.Array) -> Ragged:
        """The values of a binary column; nulls are missing."""
        plain = array.cast(pa.large_binary())
        offsets = np.frombuffer(plain.buffers()[1], np.int64, len(plain) + 1, plain.offset * 8) if len(plain) else _NONE
        buffer = plain.buffers()[2]
        data = np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
        present = plain.is_valid().to_numpy(zero_copy_only=False)
        return cls(data, offsets[:-1], np.where(present, np.diff(offsets), 0), present)

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """All rows, one part after the other."""
        if not parts:
            return missing(0)
        sizes = np.array([len(part.data) for part in parts], np.int64)
        before = np.cumsum(sizes) - sizes
        return cls(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.starts + shift for part, shift in zip(parts, before, strict=True)]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.present for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Longs) -> Ragged:
        """Some rows."""
        return Ragged(self.data, self.starts[rows], self.lengths[rows], self.present[rows])

    def parts(self, rows: Longs, at: Longs, lengths: Longs) -> Ragged:
        """Parts of some rows.

        Raises:
            DataError: a part is not inside its row.
        """
        if (lengths < 0).any() or (at < 0).any() or (at + lengths > self.lengths[rows]).any():
            raise DataError("a VARIANT is damaged: a part of it lies outside")
        return Ragged(self.data, self.starts[rows] + at, lengths, np.ones(len(rows), bool))

    def number(self, at: Longs, widths: Longs, rows: Longs | None = None) -> Longs:
        """Unsigned numbers of one to four bytes, the lowest first, in all or some rows.

        Raises:
            DataError: a number is not inside its row.
        """
        inside = self.parts(np.arange(len(self)) if rows is None else rows, at, widths)
        found = np.zeros(len(inside), np.int64)
        for byte in range(4):
            some = np.flatnonzero(widths > byte)
            found[some] |= self.data[inside.starts[some] + byte].astype(np.int64) << (8 * byte)
        return found

    def flat(self) -> Bytes:
        """The bytes of all rows, one after the other."""
        before = np.cumsum(self.lengths) - self.lengths
        total = int(self.lengths.sum())
        return self.data[np.repeat(self.starts - before, self.lengths) + np.arange(total)] if total else _NO_BYTES

    def replaced(self, other: Ragged) -> Ragged:
        """The rows of another where these are present, else those here."""
        if other.present.all():
            return other
        both = Ragged.concat([self, other])
        here = np.arange(len(self))
        return both.take(np.where(other.present, here + len(self), here))

    def to_arrow(self, valid: Bools | None) -> pa.Array:
        """A binary column; null where a row is not valid."""
        data = self.flat()
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        if offsets[-1] >= 2**31:
            raise DataError("the VARIANT values of one batch take more than 2 GB")
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        array = pa.Array.from_buffers(pa.binary(), len(self), buffers)
        return array if valid is None or valid.all() else pc.if_else(pa.array(valid), array, None)


_NONE: Final = np.zeros(1, np.int64)
_NO_BYTES: Final = np.empty(0, np.uint8)


def missing(rows: int) -> Ragged:
    """Rows that are all missing."""
    zeros = np.zeros(rows, np.int64)
    return Ragged(_NO_BYTES, zeros, zeros, np.zeros(rows, bool))


def constant(byte: int, present: Bools) -> Ragged:
    """Some rows of one byte, the others missing."""
    zeros = np.zeros(len(present), np.int64)
    return Ragged(np.array([byte], np.uint8), zeros, present.astype(np.int64), present)


def scalar_values(typed: pa.Array) -> Ragged:
    """The values of a typed column as Java encodes them: integers and decimals in as few bytes as they need.

    Raises:
        UnsupportedError: VARIANT has no such type.
    """
    kind = typed.type
    present = typed.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind):
        return _numbers(_filled(typed.cast(pa.int64()), 0), present, _INT1, (1, 2, 4, 8))
    if pa.types.is_decimal(kind):
        return _decimals(typed, present)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(Ragged.of(typed.cast(pa.large_string()).cast(pa.large_binary())))
    if pa.types.is_boolean(kind):
        return _fixed(np.where(_filled(typed, False), _TRUE << 2, _FALSE << 2).astype(np.uint8)[:, None], present)
    if pa.types.is_date32(kind):
        return _headed(_DATE, _filled(typed.cast(pa.int32()), 0), present)
    if pa.types.is_timestamp(kind):
        header = _TIMESTAMP_NTZ if kind.tz is None else _TIMESTAMP
        micros = typed.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return _headed(header, _filled(micros, 0), present)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _headed(_FLOAT if pa.types.is_float32(kind) else _DOUBLE, _filled(typed, 0.0), present)
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return _prefixed(Ragged.of(typed.cast(pa.binary())), np.full((len(typed), 1), _UUID << 2, np.uint8), present)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = Ragged.of(typed)
        return _prefixed(values, _sized(_BINARY, values.lengths), present)
    raise UnsupportedError(f"a shredded VARIANT has typed values of the type {kind}, which is not supported")


def _filled(array: pa.Array, value: object) -> npt.NDArray[np.generic]:
    filled = pc.fill_null(array, value) if array.null_count else array
    found: npt.NDArray[np.generic] = filled.to_numpy(zero_copy_only=False)
    return found


def _headed(header: int, values: npt.NDArray[np.generic], present: Bools) -> Ragged:
    payload = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    heads = np.full((len(values), 1), header << 2, np.uint8)
    return _fixed(np.concatenate([heads, payload], axis=1), present)


def _fixed(rows: Bytes, present: Bools) -> Ragged:
    width = rows.shape[1]
    starts = np.arange(len(rows), dtype=np.int64) * width
    return Ragged(rows.reshape(-1), starts, np.where(present, width, 0), present)


def _numbers(values: npt.NDArray[np.generic], present: Bools, header: int, widths: Sequence[int]) -> Ragged:
    """Integers in the first of some widths that holds them; the headers count up."""
    numbers = values.astype(np.int64)
    level = np.zeros(len(numbers), np.int64)
    for width in widths[:-1]:
        most = 1 << (8 * width - 1)
        level += (numbers < -most) | (numbers >= most)
    rows = np.zeros((len(numbers), 9), np.uint8)
    rows[:, 0] = (header + level) << 2
    rows[:, 1:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 8)
    lengths = 1 + np.array(widths, np.int64)[level]
    starts = np.arange(len(numbers), dtype=np.int64) * 9
    return Ragged(rows.reshape(-1), starts, np.where(present, lengths, 0), present)


def _decimals(typed: pa.Array, present: Bools) -> Ragged:
    scale = typed.type.scale
    plain = typed.cast(pa.decimal128(38, scale))
    count = len(plain)
    raw = np.frombuffer(plain.buffers()[1], np.uint8, count * 16, plain.offset * 16).reshape(count, 16)
    low = np.ascontiguousarray(raw[:, :8]).view(np.int64)[:, 0]
    high = np.ascontiguousarray(raw[:, 8:]).view(np.int64)[:, 0]
    narrow = high == (low >> 63)
    small = narrow & (np.abs(low) < 10**9) & (low != -(2**63)) & (scale <= 9)
    middle = narrow & (np.abs(low) < 10**18) & (low != -(2**63)) & (scale <= 18)
    level = np.where(small, 0, np.where(middle, 1, 2))
    rows = np.zeros((count, 18), np.uint8)
    rows[:, 0] = (_DECIMAL4 + level) << 2
    rows[:, 1] = scale
    rows[:, 2:] = raw
    lengths = 2 + np.array([4, 8, 16], np.int64)[level]
    starts = np.arange(count, dtype=np.int64) * 18
    return Ragged(rows.reshape(-1), starts, np.where(present, lengths, 0), present)


def _texts(values: Ragged) -> Ragged:
    long = values.lengths > _MOST_SHORT
    heads = _sized(_LONG_STR, values.lengths)
    heads[~long, 0] = (values.lengths[~long] << 2) | _SHORT_STR
    return _prefixed(values, heads, values.present, np.where(long, 5, 1))


def _sized(header: int, lengths: Longs) -> Bytes:
    rows = np.zeros((len(lengths), 5), np.uint8)
    rows[:, 0] = header << 2
    rows[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    return rows


def _prefixed(values: Ragged, heads: Bytes, present: Bools, head_lengths: Longs | None = None) -> Ragged:
    """Each row behind its head."""
    width = heads.shape[1]
    own = np.full(len(values), width, np.int64) if head_lengths is None else head_lengths
    own = np.where(present, own, 0)
    lengths = own + values.lengths
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    for byte in range(width):
        some = own > byte
        out[starts[some] + byte] = heads[some, byte]
    flat = values.flat()
    before = np.cumsum(values.lengths) - values.lengths
    out[np.repeat(starts + own - before, values.lengths) + np.arange(len(flat))] = flat
    return Ragged(out, starts, lengths, present)


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
