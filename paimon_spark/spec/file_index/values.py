"""Keys: what an index is over. Each value of a column as a 64-bit number that keeps Java's order, or as bytes.

Integers, dates and times are their own keys; timestamps are milliseconds (precision 3 at most) or microseconds;
decimals their unscaled value; FLOAT and DOUBLE have their bits turned so that they order as in Java (-0.0 below 0.0,
NaN last). Strings and binaries are bytes. Source: Java ``getValueMapper``, ``KeyFactory``, ``FastHash``.

Java writes indexes and bitmaps in the order in which its ``HashMap`` gives its keys, which is made here as well. Of a
large table the places into which eight keys fall become trees in Java, whose order is not imitated: readers do not
depend on any order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import ROUND_FLOOR, Context, Decimal
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_buffers import boolean_values, decimal_words, fixed_values, null_mask, one_array

K = TypeVar("K")
Numbers = npt.NDArray[np.int64]

_MASK = 0xFFFFFFFF
_FIRST_CAPACITY = 16
_LOAD = 0.75
_CROWD = 7
_TREE_CAPACITY = 64
_WATCHED = 50


def hash_map_order(hashes: npt.NDArray[np.int32], arrival: Numbers, *, size_at_last_call: int) -> Numbers:
    """Return positions of distinct keys in the order of a ``HashMap`` that ``computeIfAbsent`` has filled.

    That puts a key before the others of its place, and lets the table grow before it looks a key up.

    Args:
        hashes: ``hashCode`` of each key.
        arrival: when each key came first; any ascending numbers.
        size_at_last_call: how many keys there were when it was called last.
    """
    words = hashes.view(np.uint32)
    spread = words ^ (words >> np.uint32(16))
    first = np.argsort(arrival, kind="stable")[:_WATCHED]
    capacity = max(_capacity(size_at_last_call), _crowded(spread[first].tolist()))
    return np.lexsort((-arrival, spread & np.uint32(capacity - 1)))


def _capacity(size: int) -> int:
    capacity = _FIRST_CAPACITY
    while size > capacity * _LOAD:
        capacity *= 2
    return capacity


def _crowded(spread: list[int]) -> int:
    """The capacity to which a small table grows because many keys fall into one place."""
    capacity = _FIRST_CAPACITY
    for count in range(len(spread)):
        capacity = max(capacity, _capacity(count))
        position = spread[count] & (capacity - 1)
        if capacity < _TREE_CAPACITY and sum(each & (capacity - 1) == position for each in spread[:count]) >= _CROWD:
            capacity *= 2
    return capacity


def in_hash_map_order(calls: Iterable[K], hash_of: Callable[[K], int], *, computed: bool) -> list[K]:
    """Return distinct keys in the order in which a ``HashMap`` gives them.

    Args:
        calls: the keys with which it was called, one after the other.
        hash_of: ``hashCode``, as an unsigned number.
        computed: by ``computeIfAbsent``, not by ``put``.
    """
    called = list(calls)
    keys = list(dict.fromkeys(called))
    hashes = np.array([hash_of(key) for key in keys], np.uint32).view(np.int32)
    arrival = np.arange(len(keys))
    if not computed:
        words = hashes.view(np.uint32)
        positions = (words ^ (words >> np.uint32(16))) & np.uint32(_capacity(len(keys)) - 1)
        return [keys[i] for i in np.lexsort((arrival, positions)).tolist()]
    before = len(set(called[:-1]))
    return [keys[i] for i in hash_map_order(hashes, arrival, size_at_last_call=before).tolist()]


def string_hash(text: str) -> int:
    """Java's ``String.hashCode``, as an unsigned number."""
    result = 0
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    for unit in units.tolist():
        result = (31 * result + unit) & _MASK
    return result


def column_hash(name: str, key: str | None) -> int:
    """Java's ``FileIndexOptions.Column.hashCode``, of a column or of one key of a map."""
    result = 1
    for part in (string_hash(name), 0 if key is None else string_hash(key), 1237 if key is None else 1231):
        result = (31 * result + part) & _MASK
    return result


def fold_longs(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Java's ``Long.hashCode`` of each value."""
    words = values.view(np.uint64)
    return (words ^ (words >> np.uint64(32))).astype(np.uint32).view(np.int32)


Key = int | bytes
"""A key of a column: a number, or the bytes of a string or binary."""

_LOW, _HIGH = -(2**63), 2**63 - 1
_MOST_DIGITS = 18
_MOST_EXACT = 2.0**53
_REAL = (int, float, Decimal, np.integer, np.floating)
_EXACT = Context(prec=100)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


class KeyKind(Enum):
    """How the values of a type become keys; the value is the ``struct`` form of a key in Java's streams."""

    BOOLEAN = "?"
    BYTE = "b"
    SHORT = "h"
    INT = "i"
    LONG = "q"
    FLOAT = "f"
    DOUBLE = "d"
    DECIMAL = "Q"
    STRING = "s"
    BINARY = "p"

    @property
    def width(self) -> int:
        """Bytes of a key in an index; 0 where each key tells its own length."""
        return _WIDTHS[self]

    @property
    def is_bytes(self) -> bool:
        """Whether keys are bytes and not numbers."""
        return self in (KeyKind.STRING, KeyKind.BINARY)


_WIDTHS = {
    KeyKind.BOOLEAN: 1, KeyKind.BYTE: 1, KeyKind.SHORT: 2, KeyKind.INT: 4, KeyKind.FLOAT: 4, KeyKind.STRING: 0,
    KeyKind.BINARY: 0, KeyKind.LONG: 8, KeyKind.DOUBLE: 8, KeyKind.DECIMAL: 8,
}  # fmt: skip
_KINDS: dict[type[t.DataType], KeyKind] = {
    t.BooleanType: KeyKind.BOOLEAN,
    t.TinyIntType: KeyKind.BYTE,
    t.SmallIntType: KeyKind.SHORT,
    t.IntType: KeyKind.INT,
    t.DateType: KeyKind.INT,
    t.TimeType: KeyKind.INT,
    t.BigIntType: KeyKind.LONG,
    t.TimestampType: KeyKind.LONG,
    t.LocalZonedTimestampType: KeyKind.LONG,
    t.FloatType: KeyKind.FLOAT,
    t.DoubleType: KeyKind.DOUBLE,
    t.DecimalType: KeyKind.DECIMAL,
    t.CharType: KeyKind.STRING,
    t.VarCharType: KeyKind.STRING,
    t.BinaryType: KeyKind.BINARY,
    t.VarBinaryType: KeyKind.BINARY,
}


def key_kind(data_type: t.DataType) -> KeyKind | None:
    """How values of a type become keys; None where no index is over such a type."""
    if isinstance(data_type, t.DecimalType) and data_type.precision > _MOST_DIGITS:
        return None
    return _KINDS.get(type(data_type))


def numbers_of(
    column: pa.Array | pa.ChunkedArray, data_type: t.DataType
) -> tuple[Numbers, npt.NDArray[np.bool_] | None]:
    """Return the key of each row of a column of numbers, and where it is null; what stands at nulls is undefined."""
    kind = key_kind(data_type)
    array = one_array(column, data_type)
    nulls = null_mask(array)
    match kind:
        case KeyKind.BOOLEAN:
            return boolean_values(array).astype(np.int64), nulls
        case KeyKind.DECIMAL:
            return decimal_words(array)[0].view(np.int64).copy(), nulls
        case KeyKind.FLOAT:
            return float_keys(fixed_values(array, "<f4")), nulls
        case KeyKind.DOUBLE:
            return float_keys(fixed_values(array, "<f8")), nulls
    width = array.type.bit_width // 8
    numbers = fixed_values(array, f"<i{width}").astype(np.int64)
    unit = array.type.unit if pa.types.is_timestamp(array.type) else ""
    if unit in ("s", "ns"):
        numbers = numbers * 1000 if unit == "s" else numbers // 1000
    return numbers, nulls


def float_keys(values: npt.NDArray[Any]) -> Numbers:
    """Return the keys of FLOAT or DOUBLE values: ordered as ``Float.compareTo`` orders them, all NaN the same."""
    values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    bits: Numbers = values.view(f"<i{values.dtype.itemsize}").astype(np.int64)
    return _turned(bits, values.dtype.itemsize)


def _turned(bits: Numbers, width: int) -> Numbers:
    """Turn bits into keys and keys into bits: those of negative values are complemented, except for the sign."""
    turned: Numbers = np.where(bits < 0, bits ^ (2 ** (8 * width - 1) - 1), bits)
    return turned


def key_bits(keys: Numbers, kind: KeyKind) -> Numbers:
    """Return keys as the numbers that an index stores, sign-extended: of FLOAT and DOUBLE the bits."""
    return _turned(keys, kind.width) if kind in (KeyKind.FLOAT, KeyKind.DOUBLE) else keys


def stored_keys(keys: Numbers, kind: KeyKind) -> npt.NDArray[Any]:
    """Return keys as an array whose bytes are those of Java's streams."""
    return key_bits(keys, kind).astype(f">i{kind.width}")


def loaded_keys(data: bytes | memoryview, kind: KeyKind) -> Numbers:
    """Return the keys whose bytes stand one after the other."""
    numbers: Numbers = np.frombuffer(data, f">i{kind.width}").astype(np.int64)
    if kind is KeyKind.BOOLEAN:
        return np.asarray(numbers != 0, np.int64)
    if kind in (KeyKind.FLOAT, KeyKind.DOUBLE):
        return float_keys(numbers.astype(f"i{kind.width}").view(f"f{kind.width}"))
    return numbers


def key_hashes(keys: Numbers, kind: KeyKind) -> npt.NDArray[np.int32]:
    """Return ``hashCode`` of the Java object of each key."""
    if kind is KeyKind.BOOLEAN:
        return np.where(keys != 0, 1231, 1237).astype(np.int32)
    bits = key_bits(keys, kind)
    return fold_longs(bits) if kind.width == 8 else bits.astype(np.int32)


@dataclass(frozen=True, slots=True)
class Distinct:
    """The rows of a column by their keys.

    Attributes:
        kind: Of the column's type.
        codes: For each row the position of its key among the distinct ones; -1 for null.
        numbers: The distinct keys, ascending; empty for bytes.
        texts: The distinct keys, ascending, as a binary array; None for numbers.
        count: How many keys there are.
    """

    kind: KeyKind
    codes: npt.NDArray[np.int32]
    numbers: Numbers
    texts: pa.Array | None

    @property
    def count(self) -> int:  # noqa: D102
        return len(self.numbers) if self.texts is None else len(self.texts)

    @property
    def first_rows(self) -> Numbers:
        """The first row of each key."""
        rows = np.full(self.count, -1, np.int64)
        seen = np.flatnonzero(self.codes >= 0)[::-1]
        rows[self.codes[seen]] = seen
        return rows


_LOOSE_BYTES = 1 << 20
"""Strings of chunks that are not compared with those of other chunks yet."""


class KeyCollector:
    """The keys of a column of a file, taken chunk by chunk: numbers as they are, strings about once."""

    def __init__(self, data_type: t.DataType) -> None:
        """Hold nothing yet."""
        kind = key_kind(data_type)
        assert kind is not None
        self._type, self._kind = data_type, kind
        self._numbers: list[Numbers] = [np.empty(0, np.int64)]
        self._there: list[npt.NDArray[np.bool_]] = [np.empty(0, bool)]
        self._texts: list[pa.Array] = []
        self._loose_bytes, self._most_loose = 0, _LOOSE_BYTES

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Take rows, in their order."""
        if not self._kind.is_bytes:
            numbers, nulls = numbers_of(column, self._type)
            self._numbers.append(numbers)
            self._there.append(np.ones(len(numbers), bool) if nulls is None else ~nulls)
            return
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            wide = chunk.cast(pa.large_binary() if pa.types.is_binary(chunk.type) else pa.large_string())
            self._texts.append(wide.view(pa.large_binary()).dictionary_encode())
            self._loose_bytes += self._texts[-1].dictionary.nbytes
        if self._loose_bytes > self._most_loose:
            self._texts = [self._whole()]
            self._loose_bytes = 0
            self._most_loose = max(_LOOSE_BYTES, self._texts[0].dictionary.nbytes)

    def _whole(self) -> pa.Array:
        """All strings with one dictionary."""
        arrow_type = pa.dictionary(pa.int32(), pa.large_binary())
        whole = pa.chunked_array(self._texts, arrow_type).unify_dictionaries().combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = whole.chunk(0) if whole.num_chunks else pa.array([], pa.large_binary()).dictionary_encode()
        return whole

    def numbers(self) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The key of each row, and whether it has one."""
        return np.concatenate(self._numbers), np.concatenate(self._there)

    def distinct(self) -> Distinct:
        """The distinct keys, and which each row has."""
        if not self._kind.is_bytes:
            keys, there = self.numbers()
            found, inverse = np.unique(keys[there], return_inverse=True)
            codes = np.full(len(keys), -1, np.int32)
            codes[there] = inverse
            return Distinct(self._kind, codes, found, None)
        whole = self._whole()
        order = pc.sort_indices(whole.dictionary).to_numpy().astype(np.int64)
        ranks = np.empty(len(order) + 1, np.int32)
        ranks[order], ranks[-1] = np.arange(len(order)), -1
        codes = ranks[whole.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)]
        return Distinct(self._kind, codes, np.empty(0, np.int64), whole.dictionary.take(pa.array(order)))


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a literal stands among the keys of a column.

    Attributes:
        below: The greatest key of the column's type that is not above the literal; None if there is none.
        exact: Whether the literal is that key.
        least: As `below`, of the least key that equals the literal (-0.0 of 0.0); the same for all other literals.
        coarse: Whether a key stands for many values, so that one with the literal's key may be greater than it.
    """

    below: Key | None
    exact: bool
    least: Key | None
    coarse: bool = False

    @property
    def equal(self) -> tuple[Key, ...]:
        """The keys that equal the literal."""
        if not (self.exact or self.coarse) or self.below is None or self.least is None:
            return ()
        return (self.below,) if self.below == self.least else (self.least, self.below)


def bound_of(literal: Any, data_type: t.DataType) -> Bound | None:
    """Return where a literal of a predicate stands among the keys of a type; None where it does not compare."""
    kind = key_kind(data_type)
    match kind:
        case None:
            return None
        case KeyKind.STRING:
            return _exactly(literal.encode("utf-8", "surrogatepass")) if isinstance(literal, str) else None
        case KeyKind.BINARY:
            return _exactly(bytes(literal)) if isinstance(literal, bytes | bytearray) else None
        case KeyKind.BOOLEAN:
            return _exactly(int(literal)) if isinstance(literal, bool | np.bool_) else None
        case KeyKind.FLOAT | KeyKind.DOUBLE:
            return _float_bound(literal, np.dtype(f"f{kind.width}"))
    scaled = _scaled(literal, data_type)
    if scaled is None or not scaled.is_finite():
        return None
    floor = int(scaled.to_integral_value(ROUND_FLOOR, _EXACT))
    if floor > _HIGH:
        return Bound(_HIGH, False, _HIGH)
    coarse = isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType) and data_type.precision > 6
    return Bound(None, False, None) if floor < _LOW else Bound(floor, floor == scaled, floor, coarse)


def _exactly(key: Key) -> Bound:
    return Bound(key, True, key)


def _scaled(literal: Any, data_type: t.DataType) -> Decimal | None:
    """The literal in the unit of the type's keys, as an exact number."""
    if isinstance(literal, bool | np.bool_):
        return None
    match data_type:
        case t.DateType():
            # a datetime is a date as well
            return Decimal(literal.toordinal() - _EPOCH_ORDINAL) if type(literal) is date else None
        case t.TimeType():
            if not isinstance(literal, time):
                return None
            seconds = (literal.hour * 60 + literal.minute) * 60 + literal.second
            return Decimal(seconds * 1_000_000 + literal.microsecond) / 1000
        case t.TimestampType() | t.LocalZonedTimestampType():
            nanos = _nanos(literal, local=isinstance(data_type, t.LocalZonedTimestampType))
            return None if nanos is None else Decimal(nanos) / (1_000_000 if data_type.precision <= 3 else 1000)
    if not isinstance(literal, _REAL):
        return None
    plain = literal.item() if isinstance(literal, np.generic) else literal
    if isinstance(plain, float) and (isinstance(data_type, t.DecimalType) or not abs(plain) < _MOST_EXACT):
        return None  # then the column is compared as DOUBLE, whose values are not the keys
    number = plain if isinstance(plain, Decimal) else Decimal(plain)
    return number.scaleb(data_type.scale, _EXACT) if isinstance(data_type, t.DecimalType) else number


def _nanos(literal: Any, *, local: bool) -> int | None:
    if isinstance(literal, np.datetime64):
        return int(literal.astype("datetime64[ns]").astype(np.int64))
    if not isinstance(literal, datetime) or (literal.tzinfo is not None) != local:
        return None
    return int(pa.scalar(literal, pa.timestamp("us", tz="UTC" if local else None)).value) * 1000


def _float_bound(literal: Any, dtype: np.dtype[Any]) -> Bound | None:
    if isinstance(literal, bool | np.bool_) or not isinstance(literal, _REAL):
        return None
    try:
        literal = float(literal)  # as Spark compares: both sides as DOUBLE
    except OverflowError:
        return None
    with np.errstate(over="ignore"):
        near = np.array([literal], "f8").astype(dtype)
    value = float(near[0])
    if value != value:
        key = int(float_keys(near)[0])
        return Bound(key, True, key)
    exact = literal == value
    if value > literal:
        near = np.nextafter(near, np.array(-np.inf, dtype))
    if exact and value == 0:
        zeros = float_keys(np.array([-0.0, 0.0], dtype)).tolist()
        return Bound(zeros[1], True, zeros[0])
    key = int(float_keys(near)[0])
    return Bound(key, exact, key)


def packed_key(key: Key, kind: KeyKind) -> bytes:
    """The bytes of one key: of a string with its length before it."""
    if isinstance(key, bytes):
        return struct.pack(">i", len(key)) + key
    return stored_keys(np.array([key], np.int64), kind).tobytes()
