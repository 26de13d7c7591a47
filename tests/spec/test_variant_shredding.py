"""Shredded VARIANT columns are put together: hypothesis against a small shredder, and files that Java shredded."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from paimon_spark.errors import DataError
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.data_types import (
    ArrayType,
    DataField,
    DataType,
    IntType,
    MapType,
    RowType,
    VarCharType,
    VariantType,
)
from paimon_spark.spec.variant_shredding import is_shredded, unshredded
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import open_data_file
from paimon_spark.table.table import load_table
from tests.support.plans import plan_of
from tests.support.variants import SCHEMAS, VALUES, column, group, plain


@pytest.mark.parametrize("kind", SCHEMAS.values(), ids=list(SCHEMAS))
@settings(max_examples=25, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=8), start=st.integers(0, 2))
def test_values_come_back(kind: pa.DataType, values: list[Any], start: int) -> None:
    array = column(values, kind, {1})
    assert is_shredded(array.type)
    wanted = [None if i == 1 else value for i, value in enumerate(values)]
    assert plain(unshredded(array)) == wanted
    assert plain(unshredded(array.slice(start))) == wanted[start:]


def test_large_containers() -> None:
    values = [{f"k{i}": "x" * (i % 90) for i in range(400)}, {"a": list(range(70000))}, {"a": ["y" * 300] * 300}]
    kind = pa.struct([("k7", group(pa.string())), ("a", group(pa.list_(group(pa.int64()))))])
    assert plain(unshredded(column(values, kind))) == values


def test_typed_scalars_have_javas_types() -> None:
    zone = datetime.UTC
    cases: list[tuple[pa.DataType, Any, Any]] = [
        (pa.int8(), -7, -7),
        (pa.int16(), 300, 300),
        (pa.float32(), 0.5, 0.5),
        (pa.float64(), 1e300, 1e300),
        (pa.binary(), b"\x00\x01", b"\x00\x01"),
        (pa.date32(), datetime.date(1969, 12, 31), datetime.date(1969, 12, 31)),
        (pa.decimal128(9, 2), Decimal("-1.25"), Decimal("-1.25")),
        (pa.decimal128(18, 3), Decimal("123456789012.345"), Decimal("123456789012.345")),
        (pa.decimal128(38, 0), Decimal(10**30), Decimal(10**30)),
        (pa.timestamp("us"), datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.datetime(2020, 1, 2, 3, 4, 5, 6)),
        (
            pa.timestamp("us", "UTC"),
            datetime.datetime(1960, 1, 2, tzinfo=zone),
            datetime.datetime(1960, 1, 2, tzinfo=zone),
        ),
    ]
    for kind, given_value, wanted in cases:
        fields = [("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", kind)]
        row = {"metadata": b"\x01\x00\x00", "value": None, "typed_value": given_value}
        (found,) = plain(unshredded(pa.array([row], pa.struct(fields))))
        assert found == wanted, kind


@pytest.mark.parametrize(
    "change",
    [
        {"value": None, "typed_value": None},
        {"metadata": b"\x01"},
        {"metadata": b"\x01\x05\x00"},
        {"value": b"\x0c", "typed_value": {"a": {"value": None, "typed_value": 1}}},
        {"value": b"\x02\x01\x09\x00\x01\x00", "typed_value": {"a": {"value": None, "typed_value": 1}}},
    ],
)
def test_damage_is_reported(change: dict[str, Any]) -> None:
    kind = pa.struct([("a", group(pa.int64()))])
    array = column([{"a": 1}, {"a": 2}], kind)
    rows = array.to_pylist()
    rows[1] |= change
    with pytest.raises(DataError):
        unshredded(pa.array(rows, array.type))


@pytest.mark.oracle
def test_files_that_java_shredded(oracle: Any) -> None:
    name = oracle.fresh_name("variants")
    fields = [
        {"id": 1, "name": "a", "type": "BIGINT"},
        {"id": 2, "name": "b", "type": {"type": "ARRAY", "element": "STRING"}},
        {"id": 3, "name": "c", "type": {"type": "ROW", "fields": [{"id": 4, "name": "x", "type": "STRING"}]}},
    ]
    schema = {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": fields}}]}
    options = {"bucket": "-1", "parquet.variant.shreddingSchema": json.dumps(schema)}
    oracle.create(name, [("k", "INT"), ("v", "VARIANT")], options=options)
    values: list[Any] = [
        {"a": 1, "b": ["x", "y"], "c": {"x": "deep", "more": [1, None]}, "rest": 2.5},
        {"a": "no number", "b": [], "c": {}},
        [1, 2],
        "text",
        None,
        {"b": ["x", 1]},
        {},
    ]
    rows = [(i, *VariantUtils.parse_json(json.dumps(value))) for i, value in enumerate(values)]
    data = pa.table(
        {
            "k": pa.array([row[0] for row in rows], pa.int32()),
            "v": pa.array([{"value": row[1], "metadata": row[2]} for row in rows]),
        }
    )
    oracle.write(name, data)
    table, view = load_table(oracle.location(name).removeprefix("file:")), find_view(None)
    assert view is not None
    plan = plan_of(table, view)
    assert "typed_value" in str(pq.read_schema(plan.splits[0].files[0].path).field("v"))
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    found = pa.Table.from_batches(batches, to_arrow_schema(plan.fields))
    by_key = dict(zip(found["k"].to_pylist(), plain(found["v"].combine_chunks()), strict=True))
    assert by_key == dict(enumerate(values))


VARIANT = VariantType()
ROW = RowType((DataField(1, "n", IntType()), DataField(2, "v", VARIANT)))
NESTED: dict[str, tuple[DataType, Callable[[list[Any]], list[Any]]]] = {
    "row": (ROW, lambda values: [None if i == 1 else {"n": i, "v": value} for i, value in enumerate(values)]),
    "array": (ArrayType(VARIANT), lambda values: [values[:2], None, [], values[2:]]),
    "map": (MapType(VarCharType(), VARIANT), lambda values: [[(str(i), v)] for i, v in enumerate(values)]),
    "rows in arrays": (ArrayType(ROW), lambda values: [[{"n": 1, "v": value}] * 2 for value in values]),
}


@pytest.mark.parametrize(("kind", "nest"), NESTED.values(), ids=list(NESTED))
def test_shredded_variants_inside_other_columns(
    tmp_path: Path, kind: DataType, nest: Callable[[list[Any]], list[Any]]
) -> None:
    values = [{"a": 1, "b": "x"}, "hidden", {"a": "text"}, [1, 2], None]
    inner = column(values, pa.struct([("a", group(pa.int64()))]))
    found = pa.array(nest(inner.to_pylist()), nested_type(kind, inner.type))
    pq.write_table(pa.table({"c": found}), tmp_path / "x.parquet", row_group_size=2)
    with open_data_file(FileIO.for_path(str(tmp_path)), str(tmp_path / "x.parquet"), "parquet") as reader:
        batches = list(reader.read_batches([DataField(0, "c", kind)], batch_rows=2))
    assert [decoded(kind, row) for batch in batches for row in batch.column("c").to_pylist()] == nest(values)
    assert batches[0].schema == to_arrow_schema([DataField(0, "c", kind)])


def test_some_fields_of_a_row_with_a_shredded_variant(tmp_path: Path) -> None:
    inner = column([{"a": 1}, {"a": None}], pa.struct([("a", group(pa.int64()))]))
    rows = pa.StructArray.from_arrays([inner, pa.array([1, 2], pa.int32()), inner], ["v", "n", "w"])
    pq.write_table(pa.table({"c": rows}), tmp_path / "x.parquet")
    with open_data_file(FileIO.for_path(str(tmp_path)), str(tmp_path / "x.parquet"), "parquet") as reader:
        (batch,) = reader.read_batches([DataField(0, "c", ROW)])
    assert [decoded(ROW, row) for row in batch.column("c").to_pylist()] == [
        {"n": 1, "v": {"a": 1}}, {"n": 2, "v": {"a": None}}
    ]  # fmt: skip


def nested_type(kind: DataType, variant: pa.DataType) -> pa.DataType:
    """The type in a file whose VARIANTs are shredded as `variant`."""
    match kind:
        case VariantType():
            return variant
        case RowType():
            return pa.struct([pa.field(field.name, nested_type(field.type, variant)) for field in kind.fields])
        case ArrayType():
            return pa.list_(nested_type(kind.element, variant))
        case MapType():
            return pa.map_(pa.string(), nested_type(kind.value, variant))
    return to_arrow_type(kind)


def decoded(kind: DataType, value: Any) -> Any:
    """A value whose binary VARIANTs are Python's."""
    match kind:
        case VariantType():
            return None if value is None else VariantUtils.to_python(value["value"], value["metadata"])
        case RowType() if value is not None:
            return {field.name: decoded(field.type, value[field.name]) for field in kind.fields}
        case ArrayType() if value is not None:
            return [decoded(kind.element, element) for element in value]
        case MapType() if value is not None:
            return [(key, decoded(kind.value, item)) for key, item in value]
    return value
