"""Store casts: what is taken unchanged, what fits, what is refused and how the refusal reads."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import DataError, SchemaMismatchError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.write.store_cast import check_store_cast, match_names, needs_store_cast, store_cast


def cast(array: pa.Array, sql: str) -> pa.Array:
    target = parse_type(sql)
    check_store_cast(array.type, target, "c")
    result = store_cast(array, target, "c")
    assert result.type == to_arrow_type(target)
    result.validate(full=True)
    return result


def row(*fields: tuple[str, object]) -> dict[str, object]:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(fields)]}


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1, None, -5], pa.int64(), "INT", [1, None, -5]),
        ([1, None], pa.int32(), "BIGINT", [1, None]),
        ([127, -128], pa.int64(), "TINYINT", [127, -128]),
        ([1, None], pa.int64(), "DECIMAL(3, 1)", [Decimal("1.0"), None]),
        ([Decimal("1.50")], pa.decimal128(10, 2), "DECIMAL(4, 1)", [Decimal("1.5")]),
        ([Decimal(7)], pa.decimal128(10, 0), "SMALLINT", [7]),
        ([1.5, float("inf")], pa.float32(), "DOUBLE", [1.5, float("inf")]),
        ([3, 2**53], pa.int64(), "DOUBLE", [3.0, 2.0**53]),
        (["a", None], pa.large_string(), "STRING", ["a", None]),
        ([b"a"], pa.binary(1), "BYTES", [b"a"]),
        ([dt.date(2024, 1, 2)], pa.date32(), "TIMESTAMP(3)", [dt.datetime(2024, 1, 2)]),
        ([1_000], pa.int32(), "TIME(3)", [dt.time(0, 0, 1)]),
        ([dt.datetime(2024, 1, 1, 1, 2, 3)], pa.timestamp("us"), "TIMESTAMP(0)", [dt.datetime(2024, 1, 1, 1, 2, 3)]),
        ([None, None], pa.null(), "DECIMAL(30, 2)", [None, None]),
    ],
)
def test_takes(values: list[object], source: pa.DataType, target: str, expected: list[object]) -> None:
    assert cast(pa.array(values, source), target).to_pylist() == expected


def test_instants_of_any_zone() -> None:
    array = pa.array([0, 1_500_000], pa.timestamp("us", tz="Europe/Berlin"))
    assert cast(array, "TIMESTAMP(6) WITH LOCAL TIME ZONE").cast(pa.int64()).to_pylist() == [0, 1_500_000]


@pytest.mark.parametrize(
    ("values", "source", "target", "shown"),
    [
        ([1, None, 3_000_000_000], pa.int64(), "INT", "3000000000"),
        ([1, 200], pa.int32(), "TINYINT", "200"),
        ([10, 100], pa.int64(), "DECIMAL(3, 1)", "100"),
        ([Decimal("1.55")], pa.decimal128(10, 2), "DECIMAL(4, 1)", "1.55"),
        ([2**53 + 1], pa.int64(), "DOUBLE", "9007199254740993"),
        ([0, 86_400_000], pa.int32(), "TIME(3)", "86400000"),
        ([dt.datetime(2024, 1, 1, 0, 0, 0, 1)], pa.timestamp("us"), "TIMESTAMP(3)", "1)"),
        (["abc", "abcd"], pa.string(), "VARCHAR(3)", "'abcd'"),
        (["äöü"], pa.string(), "CHAR(2)", "'äöü'"),
        ([b"abc"], pa.binary(), "VARBINARY(2)", "b'abc'"),
    ],
)
def test_a_value_that_does_not_fit(values: list[object], source: pa.DataType, target: str, shown: str) -> None:
    with pytest.raises(DataError) as error:
        cast(pa.array(values, source), target)
    assert "'c'" in str(error.value)
    assert shown in str(error.value)
    assert target in str(error.value)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), "INT"),
        (pa.int64(), "STRING"),
        (pa.float64(), "FLOAT"),
        (pa.float64(), "DECIMAL(10, 2)"),
        (pa.bool_(), "INT"),
        (pa.timestamp("us"), "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (pa.timestamp("us", tz="UTC"), "TIMESTAMP(6)"),
        (pa.timestamp("us"), "DATE"),
        (pa.decimal128(10, 2), "INT"),
        (pa.binary(), "STRING"),
        (pa.string(), "BYTES"),
        (pa.list_(pa.int64()), "BIGINT"),
        (pa.list_(pa.string()), {"type": "ARRAY", "element": "INT"}),
        (pa.struct([("a", pa.int64()), ("b", pa.int64())]), row(("a", "BIGINT"))),
        (pa.struct([("a", pa.int64())]), row(("a", "BIGINT"), ("b", "BIGINT NOT NULL"))),
    ],
)
def test_refused_before_any_row(source: pa.DataType, target: object) -> None:
    with pytest.raises(SchemaMismatchError, match="c"):
        check_store_cast(source, parse_type(target), "c")


def test_varchar_cuts_trailing_spaces_only_beyond_its_length() -> None:
    assert cast(pa.array(["ab ", "ab   ", "é   ", None]), "VARCHAR(3)").to_pylist() == ["ab ", "ab ", "é  ", None]


def test_nested_by_name_with_casts_and_slices() -> None:
    target = parse_type({"type": "ARRAY", "element": row(("X", "INT"), ("y", "STRING"), ("z", "DOUBLE"))})
    source = pa.array(
        [[{"y": "q", "x": 1}], None, [], [{"y": None, "x": None}, None]],
        pa.list_(pa.struct([("y", pa.large_string()), ("x", pa.int64())])),
    )
    for start in range(5):
        part = source.slice(start)
        check_store_cast(part.type, target, "c")
        got = store_cast(part, target, "c")
        got.validate(full=True)
        assert got.type == to_arrow_type(target)
        want = [
            None if v is None else [None if s is None else {"X": s["x"], "y": s["y"], "z": None} for s in v]
            for v in part.to_pylist()
        ]
        assert got.to_pylist() == want


def test_maps_and_multisets() -> None:
    source = pa.array([[("a", 1)], None, [("b", 2), ("c", None)], []], pa.map_(pa.string(), pa.int64()))
    target = parse_type({"type": "MAP", "key": "STRING", "value": "INT"})
    for start in range(5):
        got = store_cast(source.slice(start), target, "c")
        got.validate(full=True)
        assert got.to_pylist() == source.slice(start).to_pylist()
    with pytest.raises(DataError, match=r"non-null column\(c\.value\)"):
        store_cast(source, parse_type({"type": "MULTISET", "element": "STRING"}), "c")


def test_inner_not_null() -> None:
    element = {"type": "ARRAY", "element": "INT NOT NULL"}
    with pytest.raises(DataError, match=r"c\.element"):
        cast(pa.array([[1, None]], pa.list_(pa.int32())), element)
    assert cast(pa.array([[1], None], pa.list_(pa.int32())), element).to_pylist() == [[1], None]
    inner = row(("a", "INT NOT NULL"))
    assert cast(pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())])), inner).to_pylist() == [{"a": 1}, None]
    with pytest.raises(DataError, match=r"c\.a"):
        cast(pa.array([{"a": None}], pa.struct([("a", pa.int32())])), inner)


def test_vector_length() -> None:
    target = {"type": "VECTOR", "element": "FLOAT", "length": 2}
    assert cast(pa.array([[1.0, 2.0], None], pa.list_(pa.float32())), target).to_pylist() == [[1.0, 2.0], None]
    with pytest.raises(DataError, match="3 elements"):
        cast(pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float32())), target)


def test_equal_types_are_not_touched() -> None:
    assert not needs_store_cast(pa.int32(), parse_type("INT"))
    assert not needs_store_cast(pa.string(), parse_type("STRING"))
    assert needs_store_cast(pa.string(), parse_type("VARCHAR(3)"))
    array = pa.array([1, 2])
    assert store_cast(array, parse_type("BIGINT"), "c") is array


def test_names() -> None:
    assert match_names(["Id", "name"], ["NAME", "id"], "t") == {"name": 0, "Id": 1}
    assert match_names(["a", "A"], ["A", "a"], "t") == {"A": 0, "a": 1}
    for given_names, word in ((["aA"], "ambiguous"), (["b"], "has no 'b'"), (["q", "Q"], "both stand for 'q'")):
        with pytest.raises(SchemaMismatchError, match=word):
            match_names(["aa", "AA", "q"], given_names, "t")


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), st.sampled_from(["TINYINT", "SMALLINT", "INT"])
)
def test_integers_fit_or_are_named(values: list[int | None], target: str) -> None:
    bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31}[target]
    bad = [v for v in values if v is not None and not -(2**bits) <= v < 2**bits]
    array = pa.array(values, pa.int64())
    if not bad:
        assert cast(array, target).to_pylist() == values
        return
    with pytest.raises(DataError) as error:
        cast(array, target)
    assert f" {bad[0]}:" in str(error.value)


@given(st.lists(st.one_of(st.none(), st.integers(-(10**12), 10**12))), st.integers(1, 20), st.integers(0, 6))
def test_integers_as_decimals(values: list[int | None], precision: int, scale: int) -> None:
    if scale > precision:
        precision = scale
    target = f"DECIMAL({precision}, {scale})"
    array = pa.array(values, pa.int64())
    if all(v is None or abs(v) * 10**scale < 10**precision for v in values):
        assert cast(array, target).to_pylist() == [None if v is None else Decimal(v) for v in values]
    else:
        with pytest.raises(DataError, match="cannot hold"):
            cast(array, target)


def test_nothing_lies_under_null_rows() -> None:
    """Parquet's writer refuses nulls of fields that are NOT NULL, though the rows that they are in are null."""
    binary = pa.array([b"x", None, b"z"])
    mask = pa.array([False, True, False])
    variant = cast(pa.StructArray.from_arrays([binary, binary], ["metadata", "value"], mask=mask), "VARIANT")
    assert variant.to_pylist() == [{"value": b"x", "metadata": b"x"}, None, {"value": b"z", "metadata": b"z"}]
    assert [variant.field(i).null_count for i in range(2)] == [0, 0]
    numbers = pa.StructArray.from_arrays([pa.array([1, None, 3]), binary], ["a", "b"], mask=mask).slice(1)
    found = cast(numbers, row(("a", "BIGINT NOT NULL"), ("b", "BYTES NOT NULL")))
    assert found.to_pylist() == [None, {"a": 3, "b": b"z"}]
    assert [found.field(i).null_count for i in range(2)] == [0, 0]
