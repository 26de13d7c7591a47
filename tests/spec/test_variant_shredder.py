"""VARIANT columns are shredded: hypothesis against a small shredder, and every type of value."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from paimon_spark.errors import DataError, OptionError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import VARIANT_STRUCT, to_arrow_type
from paimon_spark.spec.type_parser import parse_type_sql
from paimon_spark.spec.variant_shredder import configured_schemas, shredded, shredded_type
from paimon_spark.spec.variant_shredding import unshredded
from paimon_spark.spec.variant_values import scalar_values
from paimon_spark.storage.variant_writer import Inference, InferenceLimits
from tests.support.variants import SCHEMAS, VALUES, column, plain


def variants(values: list[Any], missing: frozenset[int] = frozenset()) -> pa.Array:
    parsed = [VariantUtils.parse_json(json.dumps(value)) for value in values]
    rows = [None if i in missing else {"value": v, "metadata": m} for i, (v, m) in enumerate(parsed)]
    return pa.array(rows, VARIANT_STRUCT)


def paimon_type(kind: pa.DataType) -> t.DataType:
    """The type of values that a `SCHEMAS` entry shreds."""
    if pa.types.is_struct(kind):
        fields = [t.DataField(i, f.name, paimon_type(f.type.field("typed_value").type)) for i, f in enumerate(kind)]
        return t.RowType(tuple(fields))
    if pa.types.is_list(kind):
        return t.ArrayType(paimon_type(kind.value_type.field("typed_value").type))
    return {pa.int64(): t.BigIntType(), pa.string(): t.VarCharType(t.VarCharType.MAX), pa.bool_(): t.BooleanType()}[
        kind
    ]


def decoded(group: Any, metadata: bytes) -> Any:
    """A group whose binary values are those of Python."""
    if isinstance(group, list):
        return [decoded(inner, metadata) for inner in group]
    if not isinstance(group, dict):
        return group
    return {
        name: VariantUtils.to_python(inner, metadata)
        if name == "value" and inner is not None
        else decoded(inner, metadata)
        for name, inner in group.items()
        if name != "metadata"
    }


@pytest.mark.parametrize("kind", SCHEMAS.values(), ids=list(SCHEMAS))
@settings(max_examples=25, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=8), start=st.integers(0, 2))
def test_values_are_shredded_as_parquet_says(kind: pa.DataType, values: list[Any], start: int) -> None:
    physical = shredded_type(paimon_type(kind), nullable=True)
    found = shredded(variants(values, frozenset({1})).slice(start), physical)
    found.validate(full=True)
    assert found.type == to_arrow_type(physical)
    wanted = column(values, kind, {1}).slice(start).to_pylist()
    for one, other in zip(found.to_pylist(), wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert decoded(one, one["metadata"]) == decoded(other, other["metadata"])
    assert plain(unshredded(found)) == [None if i == 1 else value for i, value in enumerate(values)][start:]


MICROS = 1_600_000_000_123_456
SCALARS = {
    "int": pa.array([1, -128, 32767, -(2**31), 2**63 - 1, -(2**63), 0]),
    "decimal": pa.array([Decimal("1.50"), Decimal("-999.99"), Decimal("100.00"), Decimal("0.01")], pa.decimal128(9, 2)),
    "large decimal": pa.array([Decimal(10) ** 37, Decimal(-1), Decimal(2**63)], pa.decimal128(38, 0)),
    "fine decimal": pa.array([Decimal("1e-38"), Decimal("0.5"), Decimal("-0.25")], pa.decimal128(38, 38)),
    "text": pa.array(["", "x", "é" * 31, "y" * 64, "z" * 70000]),
    "bytes": pa.array([b"", b"\x00\xff", b"q" * 300]),
    "bool": pa.array([True, False]),
    "double": pa.array([0.0, -1.5, float("inf")]),
    "float": pa.array([0.0, -1.5], pa.float32()),
    "date": pa.array([0, -1, 19000], pa.int32()).view(pa.date32()),
    "time": pa.array([MICROS, MICROS - MICROS % 1000, -1], pa.int64()).view(pa.timestamp("us")),
    "instant": pa.array([MICROS, 0], pa.int64()).view(pa.timestamp("us", "UTC")),
}
TARGETS = [
    "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(4, 1)", "DECIMAL(9, 2)", "DECIMAL(19, 0)", "DECIMAL(38, 0)",
    "DECIMAL(38, 38)", "STRING", "BOOLEAN", "DOUBLE", "FLOAT", "DATE",
]  # fmt: skip
MATCHING = {
    "text": "STRING", "bool": "BOOLEAN", "double": "DOUBLE", "float": "FLOAT", "date": "DATE",
}  # fmt: skip


def fits(value: Any, kind: t.DataType) -> bool:
    """Whether a number is one of a type, exactly."""
    if isinstance(kind, t.DecimalType):
        scaled = Decimal(value).scaleb(kind.scale)
        return scaled == scaled.to_integral_value() and abs(scaled) < Decimal(10) ** kind.precision
    bits = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}.get(type(kind))
    return bits is not None and value == int(value) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SCALARS)
def test_scalars_are_typed_where_nothing_is_lost(name: str, target: str) -> None:
    kind = parse_type_sql(target)
    assert isinstance(kind, t.DataType)
    given_values = SCALARS[name]
    values = scalar_values(given_values).to_arrow(None)
    metadata = pa.array([b"\x01\x00\x00"] * len(values), pa.binary())
    array = pa.StructArray.from_arrays([values, metadata], fields=list(VARIANT_STRUCT))
    found = shredded(array, shredded_type(kind, nullable=True))
    typed = found.field("typed_value")
    whole = given_values.to_pylist()
    if name in ("int", "decimal", "large decimal", "fine decimal"):
        with localcontext(prec=100):
            assert typed.is_valid().to_pylist() == [fits(value, kind) for value in whole]
    else:
        assert typed.null_count == (0 if MATCHING.get(name) == target else len(whole))
    for value, wanted in zip(typed.to_pylist(), whole, strict=True):
        assert value is None or value == wanted
    assert [a is None for a in found.field("value").to_pylist()] == typed.is_valid().to_pylist()


@pytest.mark.parametrize(
    "target", ["BYTES", "BINARY(3)", "TIMESTAMP(3)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "VARIANT"]
)
def test_bytes_and_timestamps_are_not_typed(target: str) -> None:
    """Java up to 1.4 reads no file that has them typed."""
    kind = t.RowType((t.DataField(0, "a", parse_type_sql(target)),))
    found = shredded(variants([{"a": "x"}]), shredded_type(kind, nullable=True))
    assert [field.name for field in found.type.field("typed_value").type.field("a").type] == ["value"]
    assert plain(unshredded(found)) == [{"a": "x"}]


def test_damage_is_reported() -> None:
    kind = shredded_type(t.RowType((t.DataField(0, "a", t.VarCharType(t.VarCharType.MAX)),)), nullable=True)
    good = variants([{"a": "text"}]).to_pylist()[0]
    for value in (b"", good["value"][:-2], b"\x02\x01\x09\x00\x01\x00"):
        with pytest.raises(DataError, match=r"damaged|does not know"):
            shredded(pa.array([{"value": value, "metadata": good["metadata"]}], VARIANT_STRUCT), kind)


def inferred(values: list[Any], **limits: Any) -> str:
    all_limits = {"most_fields": 300, "most_depth": 50, "least_share": 0.1, **limits}
    return Inference.of(InferenceLimits(**all_limits)).schema(variants(values)).sql()


def test_types_that_are_inferred() -> None:
    """As ``InferVariantShreddingSchemaTest`` of Java has them."""
    assert inferred([{"a": 1, "b": "x"}, {"a": 2**40}, None]) == "ROW<`a` BIGINT, `b` STRING>"
    assert inferred([1.5, 2]) == "DECIMAL(18, 1)"
    assert inferred([1, "x"]) == "VARIANT"
    assert inferred([2**62, 1.5]) == "DECIMAL(38, 1)"
    assert inferred([[1, 2], [], None]) == "ARRAY<BIGINT>"
    assert inferred([[], {}]) == "VARIANT"
    assert inferred([{}]) == "VARIANT"
    assert inferred([]) == "VARIANT"
    assert inferred([{"a": {"b": [{"c": True}]}}]) == "ROW<`a` ROW<`b` ARRAY<ROW<`c` BOOLEAN>>>>"
    assert inferred([{"a": {"b": [1]}}], most_depth=2) == "ROW<`a` ROW<`b` VARIANT>>"
    assert inferred([{"a": i} for i in range(20)] + [{"rare": 1}]) == "ROW<`a` BIGINT>"
    assert inferred([{f"k{i}": i for i in range(9)}], most_fields=6) == "ROW<`k0` BIGINT, `k1` BIGINT, `k2` VARIANT>"
    assert inferred([100.00, 1e300]) == "VARIANT"


@given(values=st.lists(VALUES, max_size=8))
@settings(max_examples=40, deadline=None)
def test_values_come_back_by_any_inferred_schema(values: list[Any]) -> None:
    array = variants(values)
    kind = Inference.of(InferenceLimits(300, 50, 0.1)).schema(array)
    found = shredded(array, shredded_type(kind, nullable=True))
    assert plain(unshredded(found, in_part=isinstance(kind, t.VariantType))) == values


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", '"INT"', '{"type": "ROW", "fields": []}', '{"type": "ROW"}',
        '{"type": "ROW", "fields": [{"id": 0, "name": "v", "type": "NOTHING"}]}',
        '{"type": "ROW", "fields": [{"id": 0, "name": "v", "type": "TIME(3)"}]}',
        '{"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "MAP", "key": "INT", "value": "INT"}}]}',
        '{"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": []}}]}',
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_used(text: str) -> None:
    if text == '{"type": "ROW", "fields": []}':
        assert configured_schemas(text) == {}
        return
    with pytest.raises(OptionError, match=r"variant\.shreddingSchema"):
        configured_schemas(text)
