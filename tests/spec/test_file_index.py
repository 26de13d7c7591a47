"""Indexes of data files: what they answer is what the values say; damaged bytes are reported, and take no memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, DataError, OptionError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.file_index import decode_head, encode_container
from paimon_spark.spec.file_index.answers import FileIndexes
from paimon_spark.spec.file_index.container import IndexDamageError
from paimon_spark.spec.file_index.writer import (
    FileIndexBuilder,
    IndexSetting,
    index_settings,
    supports,
    validate_index_settings,
)
from paimon_spark.spec.predicate import Leaf, Not, Or, Predicate, evaluate
from paimon_spark.spec.roaring import (
    bits_of_rows,
    decode_bitmap,
    encode_bitmap,
    encode_bitmaps,
)
from paimon_spark.spec.type_parser import parse_type_sql


def rows_of_bits(bits: np.ndarray) -> np.ndarray:
    """The numbers of the rows, ascending."""
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


INDEXES = ("bloom-filter", "bitmap", "bsi", "range-bitmap")
VALUES: dict[str, Sequence[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, -1, 0, 3, 127],
    "SMALLINT": [-(2**15), -1, 0, 3, 2**15 - 1],
    "INT": [-(2**31), -7, -1, 0, 1, 2, 2**31 - 1],
    "BIGINT": [-(2**63) + 1, -(2**40), -1, 0, 1, 5, 2**63 - 1],
    "FLOAT": [float("-inf"), -1.5, -0.0, 0.0, 0.25, 1.5, float("inf"), float("nan")],
    "DOUBLE": [float("-inf"), -1.1, -0.0, 0.0, 1e-300, 1.1, float("inf"), float("nan")],
    "DATE": [date(1900, 1, 1), date(1970, 1, 1), date(2024, 2, 29)],
    "TIMESTAMP(3)": [datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(1970, 1, 1), datetime(2024, 1, 1, 0, 0, 1)],
    "TIMESTAMP(6)": [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), datetime(2024, 1, 1)],
    "TIMESTAMP(9)": [np.datetime64(ns, "ns") for ns in (-1, 0, 999, 1000, 1001, 1_500_000)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)],
    "DECIMAL(9, 2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("0.01"), Decimal("1234567.89")],
    "STRING": ["", "a", "ab", "b", "é", "\U0001f600", "x" * 100],
    "VARBINARY(100)": [b"", b"\0", b"a", b"\xff" * 40],
}
LITERALS: dict[str, Sequence[Any]] = {
    "TINYINT": [-1000, 1000, 2],
    "INT": [2**40, -(2**40), 1.5, Decimal("0.5")],
    "BIGINT": [-(2**63), 2**62],
    "FLOAT": [0.1, 1e300, -1e300, 3],
    "DOUBLE": [2**70, 0, Decimal("1.1")],
    "TIMESTAMP(3)": [datetime(1970, 1, 1, 0, 0, 0, 500)],
    "DECIMAL(9, 2)": [Decimal("0.005"), 1, Decimal(10) ** 30, 0.01],
}
SMALL = {"bloom-filter": {"items": "100"}}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")


def indexes_of(column: pa.Array, sql: str, kinds: Sequence[str], **options: str) -> FileIndexes:
    data_type = parse_type_sql(sql)
    builder = FileIndexBuilder([IndexSetting("c", None, kind, options) for kind in kinds], {"c": data_type})
    rows = pa.table({"c": column})
    half = len(column) // 2
    builder.add(rows.slice(0, half))
    builder.add(rows.slice(half))
    data = encode_container(builder.finish())
    parts = decode_head(data, path="x")
    return FileIndexes(parts, lambda at, count: data[at : at + count], {"c": data_type}, len(column))


def leaves(sql: str, chance: random.Random) -> Predicate:
    """A random predicate over the column ``c``."""

    def literal() -> Any:
        return chance.choice([*VALUES[sql], *LITERALS.get(sql, ())])

    op = chance.choice([*COMPARISONS, "in", "not_in", "between", "is_null", "is_not_null", "or", "not"])
    match op:
        case "or":
            return Or((leaves(sql, chance), leaves(sql, chance)))
        case "not":
            return Not(leaves(sql, chance))
        case "is_null" | "is_not_null":
            return Leaf(op, "c")
        case "in" | "not_in":
            return Leaf(op, "c", tuple(literal() for _ in range(chance.randrange(4))))
        case "between":
            return Leaf(op, "c", (literal(), literal()))
    return Leaf(op, "c", (literal(),))


@pytest.mark.parametrize("sql", VALUES)
def test_no_matching_row_is_left_out(sql: str) -> None:
    chance = random.Random(sql)
    data_type = parse_type_sql(sql)
    kinds = [kind for kind in INDEXES if supports(kind, data_type)]
    assert kinds
    for round_ in range(6):
        used = VALUES[sql] if round_ % 2 else chance.sample(list(VALUES[sql]), 1)
        nulls = chance.choice([0, 0.3, 1])
        count = chance.choice([1, 9, 200])
        plain = [None if chance.random() < nulls else chance.choice(used) for _ in range(count)]
        column = pa.array(plain, to_arrow_type(data_type))
        rows = pa.table({"c": column})
        exact = [indexes_of(column, sql, [kind], **SMALL.get(kind, {})) for kind in kinds]
        together = indexes_of(column, sql, kinds)
        for _ in range(20):
            predicate = leaves(sql, chance)
            matching = np.flatnonzero(evaluate(predicate, rows).to_numpy(zero_copy_only=False)).tolist()
            for indexes in (*exact, together):
                answer = indexes.answer(predicate)
                kept = range(count) if answer is True else () if answer is False else rows_of_bits(answer).tolist()
                assert set(matching) <= set(kept), (predicate, plain)
                if isinstance(predicate, Leaf) and not isinstance(answer, bool) and sql != "TIMESTAMP(9)":
                    assert set(kept) == set(matching), (predicate, plain)


def test_bloom_filter_leaves_values_out() -> None:
    column = pa.array([f"user-{i}" for i in range(1000)])
    indexes = indexes_of(column, "STRING", ["bloom-filter"], items="1000", fpp="0.01")
    absent = [indexes.answer(Leaf("eq", "c", (f"other-{i}",))) for i in range(1000)]
    assert sum(answer is True for answer in absent) < 50
    assert indexes.answer(Leaf("in", "c", ("other-1", "user-7"))) is True
    assert indexes.answer(Not(Leaf("eq", "c", ("other-1",)))) is True


def test_a_large_bloom_filter_is_read_as_far_as_it_is_asked_for() -> None:
    column, sql = pa.array([f"user-{i}" for i in range(100)]), parse_type_sql("STRING")
    builder = FileIndexBuilder([IndexSetting("c", None, "bloom-filter", {"items": "4000000"})], {"c": sql})
    builder.add(pa.table({"c": column}))
    data = encode_container(builder.finish())
    taken: list[int] = []

    def read(at: int, count: int) -> bytes:
        taken.append(count)
        return data[at : at + count]

    indexes = FileIndexes(decode_head(data, path="x"), read, {"c": sql}, 100)
    assert indexes.answer(Leaf("in", "c", ("other", "user-99"))) is True
    assert indexes.answer(Leaf("eq", "c", ("other",))) is False
    assert sum(taken) < 50
    assert indexes.answer(Leaf("in", "c", tuple(f"other-{i}" for i in range(20)))) is False
    assert indexes.answer(Leaf("in", "c", (*(f"other-{i}" for i in range(20)), "user-1"))) is True


@settings(max_examples=60)
@given(st.lists(st.sets(st.one_of(st.integers(0, 300), st.integers(0, 200_000)), max_size=40), min_size=1, max_size=5))
def test_bitmaps_are_read_as_they_are_written(sets: list[set[int]]) -> None:
    listed = [np.array(sorted(each), np.int64) for each in sets]
    data, lengths = encode_bitmaps(np.concatenate(listed), np.cumsum([len(each) for each in listed]))
    at = 0
    for rows, length in zip(listed, lengths.tolist(), strict=True):
        bits, used = decode_bitmap(data[at:], 200_001)
        assert used == length
        assert rows_of_bits(bits).tolist() == rows.tolist()
        assert data[at : at + length] == encode_bitmap(rows)
        at += length


@pytest.mark.parametrize("step", [1, 2, 3, 70])
def test_bitmaps_of_many_rows(step: int) -> None:
    rows = np.arange(0, 400_000, step)
    bits, _ = decode_bitmap(encode_bitmap(rows), 400_000)
    assert (bits == bits_of_rows(rows, 400_000)).all()
    if step > 1:
        with pytest.raises(IndexDamageError, match="row"):
            decode_bitmap(encode_bitmap(rows), 300_000)


@pytest.mark.parametrize("kind", [*INDEXES, "bitmap 1"])
@pytest.mark.parametrize("sql", ["INT", "STRING"])
def test_damaged_indexes_are_reported(kind: str, sql: str) -> None:
    kind, _, version = kind.partition(" ")
    data_type = parse_type_sql(sql)
    if not supports(kind, data_type):
        return
    chance = random.Random(kind + sql)
    column = pa.array([str(i % 50) if sql == "STRING" else i % 50 for i in range(500)], to_arrow_type(data_type))
    setting = IndexSetting("c", None, kind, {"items": "100", "index-block-size": "100 b", "version": version or "2"})
    builder = FileIndexBuilder([setting], {"c": data_type})
    builder.add(pa.table({"c": column}))
    good = encode_container(builder.finish())
    literal: Any = "7" if sql == "STRING" else 7
    reported = 0
    for turn in range(400):
        data = bytearray(good)
        if turn % 4 == 0:
            del data[chance.randrange(16, len(data)) :]
        else:
            for _ in range(1 + turn % 3):
                data[chance.randrange(8, len(data) if turn % 2 else min(len(data), 120))] = chance.choice(
                    [0, 1, 127, 128, 255]
                )
        damaged = bytes(data)
        try:
            parts = decode_head(damaged, path="x")
            indexes = FileIndexes(parts, lambda at, count, d=damaged: d[at : at + count], {"c": data_type}, 500)
            for op in ("eq", "gt", "ne"):
                indexes.answer(Leaf(op, "c", (literal,)))
            indexes.answer(Leaf("is_null", "c"))
        except (IndexDamageError, CorruptTableError):
            reported += 1
    assert reported


def test_container() -> None:
    indexes = {"a": {"bitmap": b"123", "bsi": None}, "m[\U0001f600\0]": {"bloom-filter": b""}}
    data = encode_container(indexes)  # type: ignore[arg-type]
    parts = decode_head(data, path="x")
    assert [(p.column, p.index_type, p.length, p.start is None) for p in parts] == [
        ("a", "bitmap", 3, False),
        ("a", "bsi", 0, True),
        ("m[\U0001f600\0]", "bloom-filter", 0, False),
    ]
    assert parts[0].start is not None
    assert data[parts[0].start :] == b"123"
    with pytest.raises(CorruptTableError, match="cut off"):
        decode_head(data[:30], path="x")


def test_keys_of_maps() -> None:
    maps = pa.array([[("a", 1), ("b", 2)], None, [], [("b", None)], [("a", 5)]], pa.map_(pa.string(), pa.int32()))
    types = {"m": parse_type_sql("MAP<STRING, INT>")}
    builder = FileIndexBuilder(index_settings({"file-index.bitmap.columns": "m[a], m[b]"}), types)
    builder.add(pa.table({"m": maps}).slice(0, 2))
    builder.add(pa.table({"m": maps}).slice(2))
    found = builder.finish()
    for key, values in {"a": [1, None, None, None, 5], "b": [2, None, None, None, None]}.items():
        alone = FileIndexBuilder([IndexSetting("c", None, "bitmap")], {"c": parse_type_sql("INT")})
        alone.add(pa.table({"c": pa.array(values, pa.int32())}))
        assert found[f"m[{key}]"] == alone.finish()["c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file-index.tree.columns": "i"}, "Can't find file index for type: tree"),
        ({"file-index.bitmap.columns": "i,"}, "should not have empty column"),
        ({"file-index.bitmap.columns": "x"}, "does not exist in table schema"),
        ({"file-index.bitmap.columns": "i[a]"}, "is not a map type"),
        ({"file-index.bitmap.columns": "m"}, "is not supported by 'bitmap' index"),
        ({"file-index.bloom-filter.columns": "d"}, "is not supported by 'bloom-filter' index"),
        ({"file-index.bitmap.s.version": "1"}, "is not declared in 'file-index.bitmap.columns'"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, str], message: str) -> None:
    from paimon_spark.spec.data_types import DataField

    types = {"i": "INT", "s": "STRING", "d": "DECIMAL(20, 2)", "m": "MAP<STRING, INT>"}
    fields = [DataField(i, name, parse_type_sql(sql)) for i, (name, sql) in enumerate(types.items())]
    with pytest.raises(OptionError, match=message):
        validate_index_settings(options, fields)


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("bloom-filter", {"items": "x"}, OptionError),
        ("bloom-filter", {"items": "0"}, OptionError),
        ("bloom-filter", {"fpp": "2"}, OptionError),
        ("bloom-filter", {"items": "2000000000", "fpp": "0.000001"}, OptionError),
        ("bitmap", {"version": "3"}, OptionError),
        ("range-bitmap", {"chunk-size": "x"}, OptionError),
        ("bitmap", {"index-block-size": "10 b"}, DataError),
    ],
)
def test_settings_of_columns_that_cannot_be(kind: str, options: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        indexes_of(pa.array(["long enough"]), "STRING", [kind], **options)


def test_the_least_bigint_has_no_bsi() -> None:
    with pytest.raises(DataError, match="range-bitmap"):
        indexes_of(pa.array([-(2**63)], pa.int64()), "BIGINT", ["bsi"])


@pytest.mark.parametrize(("literal", "below"), [(2**63, True), (10**40, True), (-(10**40), False)])
def test_literals_beyond_the_type(literal: int, below: bool) -> None:
    indexes = indexes_of(pa.array([1, 2**63 - 1, -5], pa.int64()), "BIGINT", ["range-bitmap"])
    for op, kept in (("eq", False), ("lt", below), ("gt", not below)):
        answer = indexes.answer(Leaf(op, "c", (literal,)))
        rows = [] if answer is False else "all" if answer is True else rows_of_bits(answer).tolist()
        assert rows == ([0, 1, 2] if kept else [])
