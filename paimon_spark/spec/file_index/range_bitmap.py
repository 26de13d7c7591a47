"""The indexes for ranges: ``range-bitmap`` and ``bsi`` (Java: ``RangeBitmap``, ``BitSliceIndexBitmapFileIndex``).

The first is a sorted dictionary of values, and bit slices of their codes; the second has bit slices of numbers, with
slices of their own for numbers below 0, over their absolute values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.spec.arrow_buffers import ByteStrings
from paimon_spark.spec.file_index.container import IndexDamageError, Section
from paimon_spark.spec.file_index.values import Distinct, Key, KeyKind, loaded_keys, packed_key, stored_keys
from paimon_spark.spec.roaring import (
    Bits,
    Numbers,
    all_bits,
    bitmap_length,
    decode_bitmap,
    encode_bitmap,
    no_bits,
)

_LEAST = -(2**63)
_MOST_SLICES = 64
_HEAD = struct.Struct(">bqq")


def encode_bsi(keys: Numbers, there: npt.NDArray[np.bool_]) -> bytes:
    """The bytes of the index over all rows of a file.

    Args:
        keys: of each row; what stands at nulls is undefined.
        there: True where the row has a value.

    Raises:
        DataError: a value is the least BIGINT, which has no absolute value.
    """
    rows = np.flatnonzero(there)
    values = keys[rows]
    if len(values) and int(values.min()) == _LEAST:
        raise DataError(
            f"The index bsi cannot hold {_LEAST}, in Java neither: use the index range-bitmap for the column."
        )
    parts = [struct.pack(">bi", 1, len(keys))]
    for sign in (values >= 0, values < 0):
        parts.append(struct.pack(">?", bool(sign.any())))
        if sign.any():
            parts.append(_encode_slices(rows[sign], np.abs(values[sign])))
    return b"".join(parts)


def _encode_slices(rows: Numbers, values: Numbers) -> bytes:
    most = int(values.max())
    slices = [encode_bitmap(rows[values >> i & 1 == 1]) for i in range(most.bit_length())]
    return b"".join((_HEAD.pack(1, 0, most), encode_bitmap(rows), struct.pack(">i", len(slices)), *slices))


@dataclass(frozen=True, slots=True)
class _Slices:
    """Where the slices of one sign stand; all rows of it, and the least and greatest absolute value."""

    low: int
    high: int
    rows: Bits
    slices: tuple[tuple[int, int], ...]


class BsiReader:
    """Compares the rows of a file with values."""

    def __init__(self, section: Section, row_count: int) -> None:
        """Read the whole index and find the slices."""
        self._data = memoryview(section.take(0, section.length))
        self._count = row_count
        try:
            version, rows = struct.unpack_from(">bi", self._data)
            if version != 1:
                raise IndexDamageError(f"its bsi index has version {version}, known is 1")
            if rows != row_count:
                raise IndexDamageError(f"its bsi index is over {rows} rows, the file has {row_count}")
            self._positive, at = self._find(5)
            self._negative, _ = self._find(at)
        except struct.error as error:
            raise IndexDamageError("its bsi index is cut off") from error

    def _find(self, at: int) -> tuple[_Slices | None, int]:
        (there,) = struct.unpack_from(">?", self._data, at)
        if not there:
            return None, at + 1
        version, low, high = _HEAD.unpack_from(self._data, at + 1)
        if version != 1 or not 0 <= low <= high:
            raise IndexDamageError("its bsi index has slices of another version, or of no range")
        at += 1 + _HEAD.size
        rows, length = decode_bitmap(self._data[at:], self._count)
        at += length
        (count,) = struct.unpack_from(">i", self._data, at)
        if not 0 <= count <= _MOST_SLICES:
            raise IndexDamageError(f"its bsi index has {count} slices")
        at += 4
        slices = []
        for _ in range(count):
            length = bitmap_length(self._data[at:])
            slices.append((at, length))
            at += length
        return _Slices(low, high, rows, tuple(slices)), at

    def not_null(self) -> Bits:
        """The rows with a value."""
        return self._all(self._positive) | self._all(self._negative)

    def null(self) -> Bits:
        """The rows without a value."""
        return all_bits(self._count) & ~self.not_null()

    def equal(self, keys: Sequence[Key]) -> Bits:
        """The rows that have one of the values."""
        bits = no_bits(self._count)
        for key in keys:
            assert isinstance(key, int)
            bits |= self._compared(self._positive if key >= 0 else self._negative, abs(key))[0]
        return bits

    def above(self, key: Key, *, inclusive: bool) -> Bits:
        """The rows whose value is greater than a key, or equal to it."""
        assert isinstance(key, int)
        if key >= 0:
            equal, greater, _ = self._compared(self._positive, key)
        else:
            equal, _, greater = self._compared(self._negative, -key)
            greater = greater | self._all(self._positive)
        return greater | equal if inclusive else greater

    def below(self, key: Key, *, inclusive: bool) -> Bits:
        """The rows whose value is less than a key, or equal to it."""
        return self.not_null() & ~self.above(key, inclusive=not inclusive)

    def _all(self, slices: _Slices | None) -> Bits:
        return no_bits(self._count) if slices is None else slices.rows

    def _compared(self, slices: _Slices | None, value: int) -> tuple[Bits, Bits, Bits]:
        """The rows equal to, above and below an absolute value."""
        nothing = no_bits(self._count)
        if slices is None:
            return nothing, nothing, nothing
        if value < slices.low:
            return nothing, slices.rows, nothing
        if value > slices.high:
            return nothing, nothing, slices.rows
        shifted = value - slices.low
        parts = (decode_bitmap(self._data[at : at + size], self._count)[0] for at, size in slices.slices)
        equal, greater = compare_slices(slices.rows, parts, shifted)
        if shifted >> len(slices.slices):
            equal, greater = nothing, nothing
        return equal, greater, slices.rows & ~equal & ~greater


def compare_slices(rows: Bits, slices: Iterable[Bits], value: int) -> tuple[Bits, Bits]:
    """The rows whose number equals a value, and those above it.

    Args:
        rows: that have a number.
        slices: for each bit, the lowest first, the rows whose number has it.
        value: not negative.
    """
    equal, greater = rows, np.zeros_like(rows)
    for i, part in enumerate(slices):
        if value >> i & 1:
            greater = greater & part
            equal = equal & part
        else:
            greater = greater | part
            equal = equal & ~part
    return equal, greater & rows


_DICTIONARY_HEAD_BYTES = 13
_VERSION = 1


def encode_range_bitmap(rows: Distinct, *, chunk_bytes: int) -> bytes:
    """The bytes of the index over all rows of a file.

    Args:
        rows: of the file.
        chunk_bytes: size of the keys of a chunk of the dictionary, besides its first.
    """
    dictionary = _encode_dictionary(rows, chunk_bytes)
    ends = b"".join(packed_key(_key_at(rows, i), rows.kind) for i in (0, rows.count - 1)) if rows.count else b""
    head = struct.pack(">bii", _VERSION, len(rows.codes), rows.count) + ends + struct.pack(">i", len(dictionary))
    there = np.flatnonzero(rows.codes >= 0)
    codes = rows.codes[there]
    # Java counts the bits of -1 where there is no value
    count = max(1, (rows.count - 1).bit_length()) if rows.count else _MOST_SLICES
    slices = [encode_bitmap(there[codes >> np.int32(min(i, 31)) & 1 == 1]) for i in range(count)]
    existing = encode_bitmap(there)
    at, positions = 0, []
    for part in slices:
        positions.append(struct.pack(">ii", at, len(part)))
        at += len(part)
    index = struct.pack(">bbii", _VERSION, count, len(existing), 8 * count) + b"".join(positions)
    lengths = [struct.pack(">i", len(part)) for part in (head, index)]
    return b"".join((lengths[0], head, dictionary, lengths[1], index, existing, *slices))


def _key_at(rows: Distinct, at: int) -> Key:
    return int(rows.numbers[at]) if rows.texts is None else bytes(rows.texts[at].as_py())


def _encode_dictionary(rows: Distinct, chunk_bytes: int) -> bytes:
    chunks, keys = _fixed_chunks(rows, chunk_bytes) if rows.texts is None else _text_chunks(rows.texts, chunk_bytes)
    offsets, at = [], 0
    for chunk in chunks:
        offsets.append(at)
        at += len(chunk)
    head = struct.pack(">ibiii", _DICTIONARY_HEAD_BYTES, _VERSION, len(chunks), 4 * len(chunks), at)
    return b"".join((head, np.array(offsets, ">i4").tobytes(), *chunks, *keys))


def _fixed_chunks(rows: Distinct, chunk_bytes: int) -> tuple[list[bytes], list[bytes]]:
    stored, width = stored_keys(rows.numbers, rows.kind), rows.kind.width
    data = stored.tobytes()
    step = 1 + chunk_bytes // width
    chunks, keys, at = [], [], 0
    for first in range(0, rows.count, step):
        after = min(first + step, rows.count)
        keys.append(data[(first + 1) * width : after * width])
        numbers = struct.pack(">iiiii", first, at, after - first - 1, len(keys[-1]), width)
        chunks.append(b"\1" + data[first * width : (first + 1) * width] + numbers)
        at += len(keys[-1])
    return chunks, keys


def _text_chunks(texts: pa.Array, chunk_bytes: int) -> tuple[list[bytes], list[bytes]]:
    strings = ByteStrings.from_array(texts, None)
    sizes = 4 + strings.lengths
    ends = np.cumsum(sizes)
    framed = _framed(strings)
    chunks, keys, at, first = [], [], 0, 0
    while first < len(ends):
        by_bytes = int(np.searchsorted(ends, ends[first] + chunk_bytes, side="right"))
        after = max(first + 1, min(by_bytes, first + 1 + chunk_bytes // 4))
        inner = (ends[first + 1 : after] - sizes[first + 1 : after] - ends[first]).astype(">i4").tobytes()
        keys.append(inner + framed[ends[first] : ends[after - 1]])
        head = framed[ends[first] - sizes[first] : ends[first]]
        numbers = struct.pack(">iiiii", first, at, after - first - 1, len(inner), len(keys[-1]) - len(inner))
        chunks.append(b"\1" + head + numbers)
        at += len(keys[-1])
        first = after
    return chunks, keys


def _framed(strings: ByteStrings) -> bytes:
    """All strings one after the other, each behind its length."""
    lengths = strings.lengths
    ends = np.cumsum(lengths + 4)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    prefix = lengths.astype(">i4").view(np.uint8).reshape(-1, 4)
    for i in range(4):
        out[ends - lengths - 4 + i] = prefix[:, i]
    inner = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    out[np.repeat(ends - lengths, lengths) + inner] = strings.source[np.repeat(strings.starts, lengths) + inner]
    return out.tobytes()


class RangeBitmapReader:
    """Compares the rows of a file with values."""

    def __init__(self, section: Section, kind: KeyKind, row_count: int) -> None:
        """Read the head; the dictionary and the slices are read as far as they are asked for."""
        self._section, self._kind, self._count = section, kind, row_count
        (length,) = section.unpack(">i", 0)
        head = section.take(4, length)
        try:
            version, rows, self._keys = struct.unpack_from(">bii", head)
            (dictionary,) = struct.unpack_from(">i", head, len(head) - 4)
        except struct.error as error:
            raise IndexDamageError("its range-bitmap index is cut off") from error
        if version != _VERSION:
            raise IndexDamageError(f"its range-bitmap index has version {version}, known is 1")
        if rows != row_count:
            raise IndexDamageError(f"its range-bitmap index is over {rows} rows, the file has {row_count}")
        self._dictionary_at = 4 + length
        self._slices_at = self._dictionary_at + dictionary
        self._chunks: tuple[list[int], bytes, int] | None = None
        self._existing: Bits | None = None

    def not_null(self) -> Bits:
        """The rows with a value."""
        if self._keys <= 0:
            return no_bits(self._count)
        if self._existing is None:
            self._load_slices()
        assert self._existing is not None
        return self._existing

    def null(self) -> Bits:
        """The rows without a value."""
        return all_bits(self._count) & ~self.not_null()

    def equal(self, keys: Sequence[Key]) -> Bits:
        """The rows that have one of the values."""
        bits = no_bits(self._count)
        for key in keys:
            code, found = self._find(key)
            if found:
                bits |= self._compared(code)[0]
        return bits

    def above(self, key: Key, *, inclusive: bool) -> Bits:
        """The rows whose value is greater than a key, or equal to it."""
        code, found = self._find(key)
        if code >= self._keys:
            return no_bits(self._count)
        equal, greater = self._compared(code)
        # of a value that is not there the code is that of the next one
        return greater | equal if inclusive or not found else greater

    def below(self, key: Key, *, inclusive: bool) -> Bits:
        """The rows whose value is less than a key, or equal to it."""
        return self.not_null() & ~self.above(key, inclusive=not inclusive)

    def _compared(self, code: int) -> tuple[Bits, Bits]:
        """The rows whose code equals one, and those above it."""
        rows = self.not_null()
        parts = (decode_bitmap(self._section.take(at, size), self._count)[0] for at, size in self._positions)
        equal, greater = compare_slices(rows, parts, code)
        if code >> len(self._positions):
            return no_bits(self._count), no_bits(self._count)
        return equal, greater

    def _load_slices(self) -> None:
        at = self._slices_at
        (length,) = self._section.unpack(">i", at)
        head = self._section.take(at + 4, length)
        try:
            version, count, existing, _ = struct.unpack_from(">bbii", head)
            positions = np.frombuffer(head, ">i4", 2 * max(count, 0), 10).reshape(-1, 2).tolist()
        except (struct.error, ValueError) as error:
            raise IndexDamageError("its range-bitmap index is cut off") from error
        if version != _VERSION or not 0 < count <= _MOST_SLICES:
            raise IndexDamageError(f"its range-bitmap index has {count} slices of version {version}")
        body = at + 4 + length
        self._existing = decode_bitmap(self._section.take(body, existing), self._count)[0]
        self._positions = [(body + existing + start, size) for start, size in positions]

    def _find(self, key: Key) -> tuple[int, bool]:
        """The code of a key and whether it is there; else the code of the next greater one."""
        if self._keys <= 0:
            return 0, False
        offsets, data, keys_at = self._load_dictionary()
        low, high = 0, len(offsets)
        while low < high:
            middle = (low + high) // 2
            if self._chunk(data, offsets[middle])[0] <= key:  # type: ignore[operator]
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return 0, False
        first, code, at, size, keys = self._chunk(data, offsets[low - 1])
        if first == key:
            return code, True
        key_of = self._keys_of(keys_at + at, size, keys)
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            if key_of(middle) < key:  # type: ignore[operator]
                low = middle + 1
            else:
                high = middle
        return code + 1 + low, low < size and key_of(low) == key

    def _load_dictionary(self) -> tuple[list[int], bytes, int]:
        if self._chunks is None:
            at = self._dictionary_at
            length, version, count, offset_bytes, chunk_bytes = self._section.unpack(">ibiii", at)
            if version != _VERSION or count < 0 or offset_bytes != 4 * count:
                raise IndexDamageError(f"its range-bitmap dictionary has {count} chunks of version {version}")
            at += 4 + length
            data = self._section.take(at, offset_bytes + chunk_bytes)
            offsets = np.frombuffer(data, ">i4", count).tolist()
            self._chunks = offsets, data[offset_bytes:], at + offset_bytes + chunk_bytes
        return self._chunks

    def _chunk(self, data: bytes, at: int) -> tuple[Key, int, int, int, tuple[int, int]]:
        """The head of a chunk: (first key, its code, where the other keys begin, their number, two lengths)."""
        try:
            (version,) = struct.unpack_from(">b", data, at)
            key, at = _read_key(data, at + 1, self._kind)
            code, start, size, one, two = struct.unpack_from(">iiiii", data, at)
        except struct.error as error:
            raise IndexDamageError("its range-bitmap dictionary is cut off") from error
        if version != _VERSION or min(code, start, size, one, two) < 0:
            raise IndexDamageError("its range-bitmap dictionary has a chunk of another version, or of no size")
        return key, code, start, size, (one, two)

    def _keys_of(self, at: int, size: int, lengths: tuple[int, int]) -> Callable[[int], Key]:
        """The keys of a chunk after its first, by their number."""
        if not self._kind.is_bytes:
            data = self._section.take(at, lengths[0])
            if lengths[0] != size * self._kind.width:
                raise IndexDamageError("its range-bitmap dictionary has keys of another width")
            numbers = loaded_keys(data, self._kind)
            if not bool((numbers[1:] > numbers[:-1]).all()):
                raise IndexDamageError("its range-bitmap dictionary is not in order")
            return lambda i: int(numbers[i])
        data = self._section.take(at, sum(lengths))
        if lengths[0] != 4 * size:
            raise IndexDamageError("its range-bitmap dictionary has no place for each key")
        positions = np.frombuffer(data, ">i4", size).tolist()
        keys = data[lengths[0] :]
        return lambda i: _read_key(keys, positions[i], self._kind)[0]


def _read_key(data: bytes, at: int, kind: KeyKind) -> tuple[Key, int]:
    if at < 0:
        raise IndexDamageError("its range-bitmap dictionary points before its begin")
    if kind.is_bytes:
        try:
            (length,) = struct.unpack_from(">i", data, at)
        except struct.error as error:
            raise IndexDamageError("its range-bitmap dictionary is cut off") from error
        end = at + 4 + length
        if length < 0 or end > len(data):
            raise IndexDamageError("its range-bitmap dictionary is cut off")
        return data[at + 4 : end], end
    end = at + kind.width
    if end > len(data):
        raise IndexDamageError("its range-bitmap dictionary is cut off")
    return int(loaded_keys(data[at:end], kind)[0]), end
