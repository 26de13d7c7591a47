"""Columns of rows merged into those of a table: what Java's ``SchemaMergingUtils`` gives, but for keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from paimon_spark.errors import SchemaChangeError
from paimon_spark.spec.data_types import DataField, DataType
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.spec.schema_merge import MergeRules, can_cast, merge_columns
from paimon_spark.spec.type_parser import parse_type

ADD, WIDEN, EXPLICIT = MergeRules(), MergeRules(widen=True), MergeRules(widen=True, explicit=True)
TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "STRING", "BYTES"),
    *("CHAR(3)", "VARCHAR(5)", "BINARY(3)", "VARBINARY(5)", "DECIMAL(10, 2)", "DECIMAL(20, 2)", "DECIMAL(20, 4)"),
    *("TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    *("ARRAY<INT>", "ARRAY<BIGINT>", "MAP<INT, INT>", "MAP<INT, BIGINT>", "MULTISET<INT>"),
)
NESTED = (
    "ROW<x INT>",
    "ROW<x BIGINT, y STRING>",
    "ROW<y STRING NOT NULL, x INT>",
    "ARRAY<ROW<x INT, z ROW<a INT>>>",
    "ARRAY<ROW<z ROW<a BIGINT, b INT>, w DATE>>",
    "MAP<STRING, ROW<x INT>>",
    "MAP<STRING, ROW<x INT, v ROW<m INT, n INT>>>",
)


def table(*columns: tuple[str, str], keys: Sequence[str] = (), **options: str) -> TableSchema:
    return create_schema([DataField(0, name, parse_type(kind)) for name, kind in columns], keys, (), options, None)


def rows(*columns: tuple[str, str]) -> tuple[DataField, ...]:
    return table(*columns).fields


def text(schema: TableSchema) -> str:
    return str([(field.id, field.name, field.type) for field in schema.fields])


def test_columns_are_added_behind_and_ids_go_on() -> None:
    base = table(("k", "INT"), ("r", "ROW<a INT>"))
    merged = merge_columns(base, rows(("K", "BIGINT"), ("n", "ROW<x INT, y INT> NOT NULL")), ADD)
    assert (merged.id, merged.highest_field_id) == (base.id + 1, base.highest_field_id + 3)
    assert [(field.name, field.type.sql()) for field in merged.fields[:2]] == [("k", "INT"), ("r", "ROW<`a` INT>")]
    assert merged.fields[2].type.nullable
    assert merge_columns(merged, rows(("n", "ROW<y INT NOT NULL>"), ("k", "INT NOT NULL")), WIDEN) is merged


@pytest.mark.parametrize(
    ("base", "update", "rules", "expected"),
    [
        ("INT", "BIGINT", ADD, "INT"),
        ("INT NOT NULL", "BIGINT", WIDEN, "BIGINT NOT NULL"),
        ("DECIMAL(10, 2)", "DECIMAL(12, 2)", WIDEN, "DECIMAL(12, 2)"),
        ("DECIMAL(12, 2)", "DECIMAL(10, 2)", WIDEN, "DECIMAL(12, 2)"),
        ("DECIMAL(12, 2)", "DECIMAL(12, 3)", EXPLICIT, None),
        ("BIGINT", "INT", WIDEN, None),
        ("BIGINT", "INT", EXPLICIT, "INT"),
        ("VARCHAR(5)", "STRING", WIDEN, "STRING"),
        ("STRING", "VARCHAR(5)", WIDEN, None),
        ("MAP<INT, INT>", "STRING", WIDEN, None),
        ("MAP<INT, INT>", "STRING", EXPLICIT, "STRING"),
        ("ARRAY<INT NOT NULL>", "ARRAY<BIGINT>", WIDEN, "ARRAY<BIGINT NOT NULL>"),
    ],
)
def test_types(base: str, update: str, rules: MergeRules, expected: str | None) -> None:
    schema = table(("v", base))
    if expected is None:
        with pytest.raises(SchemaChangeError, match=r"Failed to merge data types: column v is "):
            merge_columns(schema, rows(("v", update)), rules)
    else:
        assert merge_columns(schema, rows(("v", update)), rules).fields[0].type.sql() == expected


def test_a_type_that_the_engine_shows_otherwise_is_kept() -> None:
    schema = table(("t", "TIME(3)"), ("v", "INT"))
    shown: dict[DataType, DataType] = {parse_type("TIME(3)"): parse_type("INT")}
    found = rows(("t", "INT"), ("v", "BIGINT"))
    merged = merge_columns(schema, found, WIDEN, shown_as=lambda kind: shown.get(kind, kind))
    assert [field.type.sql() for field in merged.fields] == ["TIME(3)", "BIGINT"]
    with pytest.raises(SchemaChangeError):
        merge_columns(schema, found, WIDEN)


@pytest.mark.parametrize(
    ("what", "schema"),
    [
        ("primary key", table(("k", "INT"), ("v", "INT"), keys=("k",))),
        ("bucket key", table(("k", "INT"), ("v", "INT"), **{"bucket": "2", "bucket-key": "k"})),
        ("partition column", table(("k", "INT"), ("v", "INT"), **{"partition": "k"})),
    ],
)
def test_columns_that_locate_rows_keep_their_type(what: str, schema: TableSchema) -> None:
    """Java: takes the new type, and finds rows with negative keys no more: their buckets are others."""
    with pytest.raises(SchemaChangeError, match=rf"Cannot update {what}: \[k\]"):
        merge_columns(schema, rows(("k", "BIGINT"), ("v", "BIGINT")), WIDEN)
    assert merge_columns(schema, rows(("k", "INT"), ("v", "BIGINT")), WIDEN).field("v").type == parse_type("BIGINT")


@pytest.mark.oracle
@pytest.mark.parametrize("rules", [WIDEN, EXPLICIT], ids=["widen", "explicit"])
def test_as_java_merges(oracle: Any, rules: MergeRules) -> None:
    jvm = oracle.gw.jvm
    merging, of_json = (
        jvm.org.apache.paimon.schema.SchemaMergingUtils,
        jvm.org.apache.paimon.schema.TableSchema.fromJson,
    )
    pairs = [
        *itertools.product(TYPES, TYPES),
        *itertools.product(NESTED, NESTED),
        *itertools.product(NESTED, TYPES[:9]),
    ]
    differing = []
    for base_type, update_type in pairs:
        base, update = table(("a", "INT"), ("v", base_type)), table(("v", update_type), ("z", "ROW<q INT>"))
        try:
            mine = text(merge_columns(base, update.fields, rules))
        except SchemaChangeError:
            mine = "refused"
        rows_of = of_json(update.to_json()).logicalRowType()
        try:
            java = text(
                TableSchema.from_json(str(merging.mergeSchemas(of_json(base.to_json()), rows_of, rules.explicit)))
            )
        except Py4JJavaError:
            java = "refused"
        # types that Java has a rule for, but no cast: it could not read the table's files any more
        readable = can_cast(parse_type(base_type), parse_type(update_type))
        if mine != java and (readable or mine != "refused"):
            differing.append((base_type, update_type, mine, java))
    assert not differing, (len(differing), differing[:5])
