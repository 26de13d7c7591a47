"""Types: canonical SQL, JSON, leniency of the parser, hostile input."""

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import SchemaError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import from_arrow_type, to_arrow_schema, to_arrow_type
from paimon_spark.spec.type_parser import parse_type, parse_type_sql
from tests.support.data_types import ATOMIC, NUMBERS, TYPES, decimals


@given(TYPES)
def test_json_round_trip(data_type: t.DataType) -> None:
    assert parse_type(data_type.to_json()) == data_type


@given(st.recursive(ATOMIC, lambda inner: st.one_of(st.builds(t.ArrayType, inner), st.builds(t.MapType, inner, inner))))
def test_sql_round_trip(data_type: t.DataType) -> None:
    assert parse_type_sql(data_type.sql()) == data_type


@given(TYPES)
def test_types_are_values(data_type: t.DataType) -> None:
    copy = pickle.loads(pickle.dumps(data_type))
    assert copy == data_type
    assert hash(copy) == hash(data_type)
    assert data_type.with_nullable(not data_type.nullable) != data_type


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("integer", "INT"),
        ("NUMERIC", "DECIMAL(10, 0)"),
        ("dec(5,2) not null", "DECIMAL(5, 2) NOT NULL"),
        ("DECIMAL( 12 )", "DECIMAL(12, 0)"),
        ("double precision null", "DOUBLE"),
        ("VARCHAR(2147483647)", "STRING"),
        ("varchar", "VARCHAR(1)"),
        ("VARBINARY(2147483647)", "BYTES"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP(9) WITHOUT TIME ZONE", "TIMESTAMP(9)"),
        ("TIMESTAMP WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIME", "TIME(0)"),
        ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
        ("INT ARRAY", "ARRAY<INT>"),
        ("INT NOT NULL MULTISET NOT NULL", "MULTISET<INT NOT NULL> NOT NULL"),
        ("VECTOR<FLOAT, 3>", "VECTOR<FLOAT, 3>"),
        ("MAP<STRING, ARRAY<INT>>", "MAP<STRING, ARRAY<INT>>"),
        ("ROW<`a b` INT COMMENT 'it''s', c STRING>", "ROW<`a b` INT COMMENT 'it''s', `c` STRING>"),
        ("GEOGRAPHY", "GEOGRAPHY(OGC:CRS84, spherical)"),
    ],
)
def test_parser_is_as_lenient_as_java(text: str, canonical: str) -> None:
    assert parse_type_sql(text).sql() == canonical


@pytest.mark.parametrize(
    "text",
    [
        *("", "INT INT", "DECIMAL(39, 1)", "DECIMAL(5, 6)", "DECIMAL(0)", "CHAR(0)", "TIME(10)", "TIMESTAMP(10)"),
        *(
            "INTERVAL DAY",
            "CHAR(99999999999)",
            "VECTOR<STRING, 3>",
            "VECTOR<INT, 0>",
            "ARRAY<INT",
            "ROW<a>",
            "(",
            "INT)",
        ),
        *("ROW<a INT, a INT>", "ARRAY<" * 500 + "INT" + ">" * 500, "ROW<` ` INT>", "TIMESTAMP WITH TIME ZONE", "'INT'"),
    ],
)
def test_not_types(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_type_sql(text)


@pytest.mark.parametrize(
    "value",
    [
        *(None, 3, [], {}, {"type": "ARRAY"}, {"type": 3}, {"type": "ARRAY", "element": None}, {"type": "THING"}),
        *({"type": "VECTOR", "element": "INT"}, {"type": "ROW", "fields": 3}, {"type": "ROW", "fields": [{"id": 0}]}),
        {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT"}, {"name": "b", "type": "INT"}]},
        {"type": "ROW", "fields": [{"id": True, "name": "a", "type": "INT"}]},
        {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT", "description": 5}]},
    ],
)
def test_not_json_types(value: Any) -> None:
    with pytest.raises(SchemaError):
        parse_type(value)


def test_fields_without_ids_are_numbered_depth_first() -> None:
    value = {
        "type": "ROW",
        "fields": [
            {"name": "a", "type": {"type": "ROW", "fields": [{"name": "x", "type": "INT"}]}},
            {"name": "b", "type": "INT"},
        ],
    }
    row = parse_type(value)
    assert [f.id for f in t.walk_type_fields(row)] == [0, 1, 2]


ARROW_SAFE = st.one_of(
    st.sampled_from([kind() for kind in NUMBERS]),
    decimals(),
    st.sampled_from([t.DateType(), t.VarCharType(t.MAX_LENGTH), t.VarBinaryType(t.MAX_LENGTH), t.VariantType()]),
    st.builds(t.TimestampType, st.sampled_from([0, 3, 6, 9])),
    st.builds(t.LocalZonedTimestampType, st.sampled_from([0, 3, 6, 9])),
    st.just(t.TimeType(3)),
)


@given(
    st.recursive(
        ARROW_SAFE,
        lambda inner: st.one_of(
            st.builds(t.ArrayType, inner), st.builds(lambda k, v: t.MapType(k.with_nullable(False), v), inner, inner)
        ),
        max_leaves=5,
    )
)
def test_arrow_round_trip(data_type: t.DataType) -> None:
    assert from_arrow_type(to_arrow_type(data_type)) == data_type


def test_arrow_conventions() -> None:
    fields = [
        t.DataField(i, f"c{i}", parse_type(text))
        for i, text in enumerate(
            [
                "TIMESTAMP(0)",
                "TIMESTAMP(1)",
                "TIMESTAMP(4) WITH LOCAL TIME ZONE",
                "TIMESTAMP(7)",
                "TIME(9)",
                "CHAR(3)",
                "BINARY(3)",
                "INT NOT NULL",
                "ROW<a INT NOT NULL>",
                "VECTOR<FLOAT, 3>",
            ]
        )
    ]
    assert to_arrow_schema(fields).types == [
        pa.timestamp("s"),
        pa.timestamp("ms"),
        pa.timestamp("us", tz="UTC"),
        pa.timestamp("ns"),
        pa.time32("ms"),
        pa.string(),
        pa.binary(),
        pa.int32(),
        pa.struct([pa.field("a", pa.int32(), nullable=False)]),
        pa.list_(pa.float32()),
    ]
    assert not to_arrow_schema(fields).field("c7").nullable
