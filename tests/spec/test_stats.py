"""Laws of statistics: bounds hold after truncation, batches merge, decoding gives back, evolution claims no more."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, OptionError
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.data_types import (
    ArrayType,
    BigIntType,
    BlobType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    MapType,
    SmallIntType,
    TimestampType,
    VarBinaryType,
    VarCharType,
    VariantType,
)
from paimon_spark.spec.stats import (
    EMPTY_STATS,
    NO_STATS,
    SimpleColStats,
    SimpleStats,
    StatsCollector,
    StatsMode,
    convert_stats,
    decode_stats,
    dense,
    evolve_stats,
    simple_stats,
)

STRING, BYTES = VarCharType(VarCharType.MAX), VarBinaryType(VarBinaryType.MAX)
FULL = StatsMode.parse("full")


def of(values: list[Any], data_type: DataType, mode: StatsMode = FULL, file_format: str = "avro") -> SimpleColStats:
    field = DataField(0, "c", data_type)
    table = pa.table([pa.array(values, to_arrow_type(data_type))], schema=to_arrow_schema([field]))
    collector = StatsCollector([field], [mode], file_format=file_format)
    collector.add(table)
    return collector.result()[0]


def plain(stats: SimpleColStats) -> tuple[Any, Any, int | None]:
    low, high = (None if end is None else end.as_py() for end in (stats.min, stats.max))
    return low, high, stats.null_count


@pytest.mark.parametrize("text", ["none", "counts", "full", "truncate(1)", "TRUNCATE(16)", "Full"])
def test_modes(text: str) -> None:
    assert StatsMode.parse(text).kind.value == text.lower().partition("(")[0]


@pytest.mark.parametrize(
    "text", ["", "truncate", "truncate(0)", "truncate(-1)", "truncate(x)", "some", "truncate(99999999999)"]
)
def test_bad_modes(text: str) -> None:
    with pytest.raises(OptionError, match="no statistics mode"):
        StatsMode.parse(text)


TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("a\ud7ff\ue000\uffff\U0010ffff"), max_size=8)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.integers(1, 5))
def test_truncated_texts_still_bound(values: list[str], length: int) -> None:
    low, high, nulls = plain(of(values, STRING, StatsMode.parse(f"truncate({length})")))
    assert nulls == 0
    greatest, least = max(values), min(values)  # Python orders by code points, as UTF-8 bytes do
    if low is None:
        assert high is None
        assert greatest[:length] == "\U0010ffff" * length
        assert len(greatest) > length
        return
    assert low == least[:length]
    assert greatest <= high
    assert len(high) <= length
    if len(greatest) <= length:
        assert high == greatest
    else:  # nothing that starts differently comes between
        assert high > greatest[:length]
        assert high[:-1] == greatest[: len(high) - 1]


@settings(deadline=None)
@given(st.binary(max_size=8) | st.just(b"\xff" * 6), st.integers(1, 5))
def test_truncated_bytes_still_bound(value: bytes, length: int) -> None:
    exact = SimpleColStats(pa.scalar(b""), pa.scalar(value), 0)
    _, high, _ = plain(convert_stats(exact, StatsMode.parse(f"truncate({length})")))
    if high is None:
        assert value[:length] == b"\xff" * length
        assert len(value) > length
    else:
        assert high >= value
        assert len(high) <= length


@pytest.mark.parametrize(
    ("value", "length", "upper"),
    [
        ("abcde", 4, "abce"),
        ("abcd", 4, "abcd"),
        ("数据湖仓库", 4, "数据湖仔"),
        ("a\U0010ffffb", 2, "b"),
        ("a\ud7ffb", 2, "a\ue000"),
    ],
)
def test_known_upper_bounds(value: str, length: int, upper: str) -> None:
    assert plain(of([value], STRING, StatsMode.parse(f"truncate({length})"))) == (value[:length], upper, 0)


def java_key(value: float) -> tuple[bool, float, bool]:
    """Java's order of doubles: NaN last, -0.0 before 0.0."""
    return (True, 0.0, False) if math.isnan(value) else (False, value, math.copysign(1, value) > 0)


@settings(deadline=None)
@given(st.lists(st.none() | st.floats() | st.sampled_from([0.0, -0.0, math.nan]), max_size=6), st.integers(1, 6))
def test_floats_in_javas_order_however_they_come(values: list[float | None], batch: int) -> None:
    for file_format in ("parquet", "avro", "orc"):
        for data_type in (DoubleType(), FloatType()):
            numbers = [
                v if v is None or data_type == DoubleType() else struct.unpack("f", struct.pack("f", v))[0]
                for v in _narrow(values)
            ]
            field = DataField(0, "c", data_type)
            collector = StatsCollector([field], [FULL], file_format=file_format)
            for start in range(0, len(numbers), batch):
                part = pa.array(numbers[start : start + batch], to_arrow_type(data_type))
                collector.add(pa.table({"c": part}))
            low, high, nulls = plain(collector.result()[0])
            known = [v for v in numbers if v is not None]
            assert nulls == len(numbers) - len(known)
            expected = (min(known, key=java_key), max(known, key=java_key)) if known else (None, None)
            assert [None if v is None else struct.pack("d", v) for v in (low, high)] == [
                None if v is None else struct.pack("d", v if not math.isnan(v) else math.nan) for v in expected
            ]


def _narrow(values: list[float | None]) -> list[float | None]:
    """Only values that a float can hold, so that both types take the same list."""
    return [v if v is None or math.isnan(v) or math.isinf(v) or abs(v) < 3e38 else 0.0 for v in values]


NESTED: list[DataType] = [ArrayType(IntType()), MapType(STRING, IntType()), VariantType(), BlobType()]


@pytest.mark.parametrize("data_type", NESTED)
def test_columns_without_order(data_type: DataType) -> None:
    """Parquet knows nothing of a nested column as a whole; ORC and Avro count its nulls."""
    none: list[Any] = [None, None]
    assert of(none, data_type, file_format="parquet") == NO_STATS
    assert of(none, data_type, file_format="orc") == SimpleColStats(None, None, 2)
    assert of(none, data_type, StatsMode.parse("none"), "orc") == NO_STATS
    assert of(none, data_type, StatsMode.parse("counts"), "parquet") == NO_STATS


def test_formats_differ_in_nanoseconds_and_long_strings() -> None:
    nanos = TimestampType(9)
    assert plain(of([1, None], nanos, file_format="parquet")) == (None, None, 1)
    assert of([1, None], nanos, file_format="avro").max == pa.scalar(1, to_arrow_type(nanos))
    assert plain(of([b"a", None], BYTES)) == (None, None, 1)
    long = "x" * 1025
    assert plain(of(["a", long], STRING, file_format="orc")) == ("a", None, 0)
    assert plain(of(["a", long], STRING, StatsMode.parse("truncate(3)"), "orc")) == (None, None, 0)
    assert plain(of(["a", long], STRING, file_format="parquet")) == ("a", long, 0)


TYPES: list[DataType] = [IntType(), STRING, DecimalType(20, 2), TimestampType(6), DateType(), ArrayType(IntType())]
FIELDS = [DataField(i, f"c{i}", t) for i, t in enumerate(TYPES)]
COLUMN_VALUES: list[tuple[Any, Any]] = [
    (1, 2),
    ("a", "b" * 20),
    (decimal.Decimal("-1.50"), decimal.Decimal("12345678901234567.89")),
    (datetime.datetime(1900, 1, 1, 0, 0, 0, 1), datetime.datetime(2100, 1, 1)),
    (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
    (None, None),
]


def column_stats(known: list[bool]) -> list[SimpleColStats]:
    columns = []
    for data_type, (low, high), is_known in zip(TYPES, COLUMN_VALUES, known, strict=True):
        if not is_known:
            columns.append(NO_STATS)
        elif low is None:
            columns.append(SimpleColStats(None, None, 0))
        else:
            arrow_type = to_arrow_type(data_type)
            columns.append(SimpleColStats(pa.scalar(low, arrow_type), pa.scalar(high, arrow_type), 3))
    return columns


@given(st.lists(st.booleans(), min_size=len(TYPES), max_size=len(TYPES)))
@settings(deadline=None)
def test_dense_form_and_back(known: list[bool]) -> None:
    stats, names = dense(FIELDS, column_stats(known))
    kept = [f for f, is_known in zip(FIELDS, known, strict=True) if is_known]
    assert names == (None if all(known) else tuple(f.name for f in kept))
    evolved = evolve_stats([stats, stats], pa.array([5, 6]), FIELDS, FIELDS, stats_cols=names)
    assert set(evolved) == {f.name for f in kept}
    for field in kept:
        low, high = COLUMN_VALUES[field.id]
        assert [c.to_pylist() for c in evolved[field.name]] == [[low] * 2, [high] * 2, [0 if low is None else 3] * 2]
    whole = simple_stats(TYPES, column_stats(known))
    for bounds, is_known in zip(decode_stats([whole], TYPES), known, strict=True):
        assert is_known == (bounds[2][0].as_py() is not None)


def test_no_columns() -> None:
    assert simple_stats([], []) == EMPTY_STATS
    assert dense(FIELDS, [NO_STATS] * len(FIELDS)) == (EMPTY_STATS, ())
    assert evolve_stats([EMPTY_STATS], pa.array([1]), FIELDS, FIELDS, stats_cols=()) == {}


def test_evolution_by_field_id() -> None:
    written = [DataField(0, "a", SmallIntType()), DataField(1, "b", STRING), DataField(2, "c", DecimalType(10, 2))]
    columns = [
        SimpleColStats(pa.scalar(-3, pa.int16()), pa.scalar(4, pa.int16()), 1),
        SimpleColStats(pa.scalar("10"), pa.scalar("9"), 0),
        SimpleColStats(
            pa.scalar(decimal.Decimal("1.00"), pa.decimal128(10, 2)),
            pa.scalar(decimal.Decimal("2.00"), pa.decimal128(10, 2)),
            0,
        ),
    ]
    stats = simple_stats([f.type for f in written], columns)
    read = [
        DataField(0, "renamed", BigIntType()),  # widened: the bounds hold
        DataField(1, "b", IntType()),  # '10' < '9' but 10 > 9: nothing is known
        DataField(2, "c", DecimalType(20, 4)),
        DataField(3, "a", DateType()),  # another column of an old name: all null in old files
    ]
    evolved = evolve_stats([stats] * 2, pa.array([7, 8]), written, read)
    assert set(evolved) == {"renamed", "a"}
    assert [c.to_pylist() for c in evolved["renamed"]] == [[-3, -3], [4, 4], [1, 1]]
    assert evolved["renamed"][0].type == pa.int64()
    assert [c.to_pylist() for c in evolved["a"]] == [[None] * 2, [None] * 2, [7, 8]]


def test_a_decimal_beyond_its_precision_is_not_trusted() -> None:
    """Java's sums may exceed the precision of DECIMAL(p <= 18) silently."""
    stats = simple_stats([BigIntType()], [SimpleColStats(pa.scalar(10**17), pa.scalar(10**17), 0)])
    written, read = [DataField(0, "d", DecimalType(9, 2))], [DataField(0, "d", DecimalType(12, 2))]
    assert evolve_stats([stats], pa.array([1]), written, read) == {}


def test_statistics_that_do_not_fit_are_corrupt() -> None:
    stats = simple_stats(TYPES, column_stats([True] * len(TYPES)))
    with pytest.raises(CorruptTableError, match=r"null counts.*manifest-1"):
        decode_stats([SimpleStats(stats.min_values, stats.max_values, (1,))], TYPES, path="manifest-1")
    with pytest.raises(CorruptTableError, match="manifest-1"):
        decode_stats(
            [SimpleStats(stats.min_values[:20], stats.max_values, stats.null_counts)], TYPES, path="manifest-1"
        )
    with pytest.raises(CorruptTableError, match="manifest-1"):
        evolve_stats([stats], pa.array([1]), FIELDS, FIELDS, stats_cols=["gone"], path="manifest-1")
