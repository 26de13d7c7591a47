"""Laws of BinaryRow: both encoders agree, rows come back, hashes equal a plain reference, damaged rows are refused."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, DataError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row import decode_row, deserialize_row, encode_row, serialize_row
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.binary_row_encoder import encode_rows
from paimon_spark.spec.data_types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BlobType,
    BooleanType,
    CharType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    VariantType,
    VectorType,
)
from paimon_spark.spec.hashing import bucket_ids, buckets_of_hashes, key_hashes, murmur_hash_rows
from paimon_spark.spec.manifest import EMPTY_SERIALIZED_ROW

STRING, BYTES = VarCharType(VarCharType.MAX), VarBinaryType(VarBinaryType.MAX)
EPOCH = datetime.datetime(1970, 1, 1)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(data_type: DecimalType) -> st.SearchStrategy[decimal.Decimal]:
    top = 10**data_type.precision - 1
    edges = [
        v for n in range(0, 128, 8) for v in (2**n - 1, 2**n, -(2**n), -(2**n) - 1, 2 ** (n + 7) - 1, 2 ** (n + 7))
    ]
    numbers = st.integers(-top, top) | st.sampled_from([v for v in edges if abs(v) <= top])
    context = decimal.Context(prec=60)
    return numbers.map(lambda n: decimal.Decimal(n).scaleb(-data_type.scale, context))


def timestamps(precision: int, *, zoned: bool) -> st.SearchStrategy[Any]:
    if precision > 6:
        return integers(62)
    micros = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
    step = 10 ** (6 - (0 if precision == 0 else 3 if precision <= 3 else 6))
    epoch = EPOCH.replace(tzinfo=datetime.UTC) if zoned else EPOCH
    return micros.map(
        lambda us: (
            epoch + datetime.timedelta(microseconds=us // step * step)
            if us // step * step >= -62_135_596_800_000_000
            else epoch
        )
    )


def text() -> st.SearchStrategy[str]:
    return st.text(max_size=30) | st.text("ab", min_size=6, max_size=9) | st.text("ü数", min_size=60, max_size=90)


ATOMIC: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (TinyIntType(), integers(8)),
    (SmallIntType(), integers(16)),
    (IntType(), integers(32)),
    (BigIntType(), integers(64)),
    (FloatType(), st.floats(width=32)),
    (DoubleType(), st.floats()),
    (DateType(), st.dates()),
    (TimeType(3), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    (DecimalType(9, 2), decimals(DecimalType(9, 2))),
    (DecimalType(18, 0), decimals(DecimalType(18, 0))),
    (DecimalType(19, 19), decimals(DecimalType(19, 19))),
    (DecimalType(38, 10), decimals(DecimalType(38, 10))),
    *[(TimestampType(p), timestamps(p, zoned=False)) for p in (0, 3, 6, 9)],
    *[(LocalZonedTimestampType(p), timestamps(p, zoned=True)) for p in (0, 2, 5, 7)],
    (CharType(9), st.text(max_size=9)),
    (STRING, text()),
    (BinaryType(4), st.binary(max_size=4)),
    (BYTES, st.binary(max_size=300)),
    (BlobType(), st.binary(max_size=20)),
]


def nullable(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def nested(
    inner: tuple[DataType, st.SearchStrategy[Any]],
) -> st.SearchStrategy[tuple[DataType, st.SearchStrategy[Any]]]:
    element, values = inner
    fields = (DataField(0, "x", element), DataField(1, "y", STRING))
    row = st.fixed_dictionaries({"x": nullable(values), "y": nullable(text())})
    return st.sampled_from(
        [
            (ArrayType(element), st.lists(nullable(values), max_size=40)),
            (RowType(fields), row),
            (MapType(STRING, element), st.lists(st.tuples(text(), nullable(values)), max_size=5)),
            (MultisetType(STRING), st.lists(st.tuples(text(), integers(32)), max_size=5)),
            (VectorType(FloatType(), 3), st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3)),
            (
                VariantType(),
                st.fixed_dictionaries({"value": st.binary(max_size=20), "metadata": st.binary(max_size=9)}),
            ),
        ]
    )


TYPED = (
    st.sampled_from(ATOMIC)
    | st.sampled_from(ATOMIC).flatmap(nested)
    | st.sampled_from(ATOMIC).flatmap(nested).flatmap(nested)
)


@st.composite
def tables(draw: st.DrawFn, *, atomic: bool = False) -> tuple[list[DataType], list[list[Any]]]:
    """Types and rows; sometimes more than 56 fields, so that the null bits take a second word."""
    source = st.sampled_from(ATOMIC) if atomic else TYPED
    width = draw(st.sampled_from([1, 1, 2, 3, 5, 56, 57, 120]))
    distinct = draw(st.lists(source, min_size=1, max_size=min(width, 5)))
    typed = [distinct[i % len(distinct)] for i in range(width)]
    rows = draw(st.lists(st.tuples(*(nullable(values) for _, values in typed)), min_size=1, max_size=4))
    return [t for t, _ in typed], [list(row) for row in rows]


def arrow_columns(types: list[DataType], rows: list[list[Any]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], to_arrow_type(t)) for i, t in enumerate(types)]


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals NaN and lists, tuples and dicts are looked into."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


@settings(max_examples=80, deadline=None)
@given(tables())
def test_both_encoders_give_the_same_bytes_and_rows_come_back(table: tuple[list[DataType], list[list[Any]]]) -> None:
    types, rows = table
    scalar = [encode_row(row, types) for row in rows]
    columns = arrow_columns(types, rows)
    assert encode_rows(columns, types).to_bytes_list() == scalar
    for row, data in zip(rows, scalar, strict=True):
        assert same(decode_row(data, types), row)
        assert len(data) % 8 == 0
    again = decode_rows(scalar, types)
    assert encode_rows(again, types).to_bytes_list() == scalar
    assert [c.type for c in again] == [c.type for c in columns]
    for array in again:
        array.validate(full=True)
    serialized = [serialize_row(row, types) for row in rows]
    assert serialized == encode_rows(columns, types).to_bytes_list(serialized=True)
    assert same(deserialize_row(serialized[0], types), rows[0])
    last = decode_rows(serialized, types, serialized=True, fields=[len(types) - 1])
    assert len(last) == 1
    assert encode_rows(last, types[-1:]).to_bytes_list() == encode_rows(columns[-1:], types[-1:]).to_bytes_list()


def reference_hash(data: bytes) -> int:
    """murmur3_x86_32 with seed 42, from its definition."""
    value = 42
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 % 2**32
        word = (word << 15 | word >> 17) % 2**32 * 0x1B873593 % 2**32
        value = value ^ word
        value = ((value << 13 | value >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    value ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        value = (value ^ value >> shift) * factor % 2**32
    return value - 2**32 if value >= 2**31 else value


@settings(max_examples=100, deadline=None)
@given(tables(atomic=True), st.integers(1, 40))
def test_hashes_equal_the_reference(table: tuple[list[DataType], list[list[Any]]], buckets: int) -> None:
    types, rows = table
    columns = arrow_columns(types, rows)
    expected = [reference_hash(encode_row(row, types)) for row in rows]
    assert murmur_hash_rows(encode_rows(columns, types)).tolist() == expected
    assert key_hashes(columns, types).tolist() == expected
    wanted = [abs(h) % buckets for h in expected]  # abs(h % n) with Java's remainder
    assert bucket_ids(columns, types, buckets).tolist() == wanted


def test_rows_of_very_different_lengths() -> None:
    values = ["x" * n for n in (0, 1, 7, 8, 9, 63, 64, 65, 71, 72, 73, 500, 4096, 5000, 100_003)] * 3 + [None]
    rows = encode_rows([pa.array(values), pa.array(values[::-1])], [STRING, STRING])
    expected = [encode_row([a, b], [STRING, STRING]) for a, b in zip(values, values[::-1], strict=True)]
    assert rows.to_bytes_list() == expected
    assert [c.to_pylist() for c in decode_rows(expected, [STRING, STRING])] == [values, values[::-1]]
    assert decode_rows(expected[:7], [STRING, STRING])[0].to_pylist() == values[:7]
    assert murmur_hash_rows(rows).tolist() == [reference_hash(row) for row in expected]


def test_many_rows_and_slices() -> None:
    """More rows than the internal chunk, of sliced and chunked columns whose buffers begin elsewhere."""
    chance = random.Random(1)
    numbers = [chance.choice([None, chance.randrange(2**40)]) for _ in range(40_000)]
    words = [chance.choice([None, "k" * chance.randrange(20) + str(n)]) for n in range(40_000)]
    flags = [chance.choice([None, True, False]) for _ in range(40_000)]
    types: list[DataType] = [BigIntType(), STRING, BooleanType(), DecimalType(30, 2)]
    amounts = [None if n is None else decimal.Decimal(n) / 100 for n in numbers]
    columns = [
        pa.array(v, to_arrow_type(t)).slice(3) for v, t in zip((numbers, words, flags, amounts), types, strict=True)
    ]
    chunked = [pa.chunked_array([c.slice(0, 7), c.slice(7, 30_000), c.slice(30_007)]) for c in columns]
    rows = encode_rows(chunked, types)
    for i in (0, 6, 7, 16_384, 30_006, 39_996):
        assert rows.row(i) == encode_row([c[i].as_py() for c in columns], types)
    whole = key_hashes(chunked, types)
    assert np.array_equal(whole, murmur_hash_rows(rows))
    assert whole[39_996] == reference_hash(rows.row(39_996))
    large = columns[1].cast(pa.large_string()), columns[1].dictionary_encode(), columns[1].cast(pa.string_view())
    for form in large:
        assert np.array_equal(key_hashes([form], [STRING]), key_hashes([columns[1]], [STRING]))


def test_negative_hashes_and_the_smallest_one() -> None:
    hashes = np.array([-(2**31), 2**31 - 1, -1, 0, -7], dtype=np.int32)
    assert buckets_of_hashes(hashes, 7).tolist() == [2, 1, 1, 0, 0]


def test_empty_columns_and_the_row_without_fields() -> None:
    assert encode_row([], []) == bytes(8)
    assert serialize_row([], []) == EMPTY_SERIALIZED_ROW == bytes(12)
    assert deserialize_row(EMPTY_SERIALIZED_ROW, []) == []
    assert decode_rows([EMPTY_SERIALIZED_ROW], [], serialized=True) == []
    for data_type, _ in ATOMIC:
        none = pa.array([], to_arrow_type(data_type))
        assert encode_rows([none], [data_type]).to_bytes_list() == []
        assert key_hashes([none], [data_type]).tolist() == []
        assert decode_rows([], [data_type])[0].type == none.type


def test_values_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="does not fit DECIMAL"):
        encode_row([decimal.Decimal("1.234")], [DecimalType(5, 2)])
    with pytest.raises(DataError, match="does not fit DECIMAL"):
        encode_row([decimal.Decimal(10**30)], [DecimalType(30, 0)])


def test_arity_is_checked() -> None:
    data = serialize_row([1], [IntType()])
    with pytest.raises(CorruptTableError, match=r"2 fields was expected.*file: t/m-7"):
        deserialize_row(data, [IntType(), IntType()], path="t/m-7")
    with pytest.raises(CorruptTableError, match=r"must have.*file: t/m-7"):
        decode_rows([data], [IntType()] * 2, serialized=True, path="t/m-7")
    with pytest.raises(CorruptTableError, match="file: t/m-7"):
        decode_rows([data[:-3]], [IntType()], serialized=True, path="t/m-7")
    with pytest.raises(CorruptTableError, match="file: t/m-7"):
        deserialize_row(b"", [IntType()], path="t/m-7")


def attempt(action: Any) -> Any:
    """The action's result, or None where it refused with the right error."""
    try:
        return action()
    except CorruptTableError as error:
        if error.path != "t/m-7":
            raise
        return None


@settings(max_examples=80, deadline=None)
@given(tables(), st.data())
def test_damaged_rows_are_decoded_or_refused(
    table: tuple[list[DataType], list[list[Any]]], data: st.DataObject
) -> None:
    types, rows = table
    damaged = []
    for row in rows:
        mutant = bytearray(encode_row(row, types))
        for _ in range(data.draw(st.integers(1, 6))):
            mutant[data.draw(st.integers(0, len(mutant) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        cut = data.draw(st.sampled_from([0, 0, 0, 1, 8]))
        damaged.append(bytes(mutant[: len(mutant) - cut]))
    columns = attempt(lambda: decode_rows(damaged, types, path="t/m-7"))
    for column in columns or []:  # (a decimal may exceed its precision: Java writes such sums)
        column.validate(full="DECIMAL" not in str([t.sql() for t in types]))
    for row in damaged:
        attempt(lambda row=row: decode_row(row, types, path="t/m-7"))


@pytest.mark.parametrize("millis", [86_400_000, 2**31 - 1, -1])
def test_times_out_of_range(millis: int) -> None:
    row = bytes(8) + millis.to_bytes(8, "little", signed=True)
    decoders: list[Callable[[], Any]] = [
        lambda: decode_rows([row], [TimeType(precision=3)], path="t/m-7"),
        lambda: decode_row(row, [TimeType(precision=3)], path="t/m-7"),
    ]
    for decode in decoders:
        with pytest.raises(CorruptTableError, match="out of range"):
            decode()


@pytest.mark.parametrize("data_type", [STRING, BYTES, ArrayType(IntType()), DecimalType(30, 0), TimestampType(6)])
@pytest.mark.parametrize(
    "slot", [2**63 - 1, 2**62, 0x7FFFFFFF_FFFFFFFF, 0xFE << 56, (16 << 32) | 0x7FFFFFFF, (12 << 32) | 0xFFFFFFFF]
)
def test_hostile_slots(data_type: DataType, slot: int) -> None:
    row = bytes(8) + slot.to_bytes(8, "little") + bytes(16)
    for decode in (
        lambda: decode_rows([row], [data_type], path="t/m-7"),
        lambda: decode_row(row, [data_type], path="t/m-7"),
    ):
        with pytest.raises(CorruptTableError, match="file: t/m-7"):
            decode()


def test_rows_of_java_0_9_with_zero_slots_for_wide_nulls() -> None:
    """Older writers reserve nothing for null timestamps and decimals; both forms are read."""
    types: list[DataType] = [TimestampType(6), DecimalType(20, 2)]
    old = bytes([0, 3]) + bytes(6) + bytes(16)
    assert decode_row(old, types) == [None, None]
    assert [c.to_pylist() for c in decode_rows([old, encode_row([None, None], types)], types)] == [[None] * 2] * 2
