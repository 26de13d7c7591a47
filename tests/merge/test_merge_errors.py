"""What the merge engines refuse, and that they say so in Java's words."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import DataError, OptionError, SchemaError, UnsupportedError
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from tests.support.merge_cases import engine_of, rows_of, rows_table

PARTIAL = {"merge-engine": "partial-update"}
GROUP = {**PARTIAL, "fields.g.sequence-group": "v"}


def row(k: int, kind: int = 0, **values: Any) -> dict[str, Any]:
    return {"k": k, **values, "_SEQUENCE_NUMBER": 0, "_VALUE_KIND": kind}


def merge(columns: dict[str, str], options: dict[str, str], *rows: dict[str, Any]) -> list[dict[str, Any]]:
    columns = {"k": "INT NOT NULL", **columns}
    numbered = [{**one, "_SEQUENCE_NUMBER": i} for i, one in enumerate(rows)]
    return rows_of(engine_of(columns, ["k"], options).merge(rows_table(columns, numbered), drop_deletes=False))


def test_a_delete_without_permission_names_the_three_ways() -> None:
    with pytest.raises(DataError, match="By default, Partial update can not accept delete records") as caught:
        merge({"v": "INT"}, PARTIAL, row(1, v=1), row(1, 3, v=1))
    for word in ("ignore-delete", "partial-update.remove-record-on-delete", "sequence-group"):
        assert word in str(caught.value)


def test_a_lone_delete_is_never_merged_and_so_no_error() -> None:
    assert merge({"v": "INT"}, PARTIAL, row(1, 3, v=1))[0]["_VALUE_KIND"] == 3


def test_a_null_in_a_not_null_column_names_the_column() -> None:
    columns = {"a": "INT", "v": "INT NOT NULL"}
    table = rows_table({"k": "INT NOT NULL", "a": "INT", "v": "INT"}, [row(1, a=1, v=None), row(1, a=2, v=2)])
    with pytest.raises(DataError, match="Field 2 can not be null: column 'v'"):
        engine_of({"k": "INT NOT NULL", **columns}, ["k"], PARTIAL).merge(table, drop_deletes=True)


def test_a_function_without_retraction_says_how_to_ignore_it() -> None:
    options = {**GROUP, "fields.v.aggregate-function": "max"}
    with pytest.raises(DataError, match="Aggregate function 'max' does not support retraction") as caught:
        merge({"g": "INT", "v": "INT"}, options, row(1, g=1, v=1), row(1, 3, g=2, v=1))
    assert "'fields.v.ignore-retract'='true'" in str(caught.value)
    ignoring = {**options, "fields.v.ignore-retract": "true"}
    assert merge({"g": "INT", "v": "INT"}, ignoring, row(1, g=1, v=1), row(1, 3, g=2, v=1))[0]["v"] == 1


@pytest.mark.parametrize(
    ("function", "kind", "values", "words"),
    [
        ("sum", "TINYINT", (100, 100), "byte overflow: 100 [+] 100"),
        ("sum", "BIGINT", (2**63 - 1, 1), "long overflow: 9223372036854775807 [+] 1"),
        ("product", "SMALLINT", (300, 300), "short overflow: 300 [*] 300"),
        ("product", "BIGINT", (-1, -(2**63)), "long overflow: -1 [*] -9223372036854775808"),
        ("product", "INT", (2**31 - 1, 2), "int overflow"),
    ],
)
def test_integer_overflow_is_an_error(function: str, kind: str, values: tuple[int, int], words: str) -> None:
    options = {**GROUP, "fields.v.aggregate-function": function}
    with pytest.raises(DataError, match=words) as caught:
        merge({"g": "INT", "v": kind}, options, *(row(1, g=1, v=value) for value in values))
    assert "column 'v'" in str(caught.value)


def test_a_sum_that_leaves_the_type_and_comes_back_is_an_error_too() -> None:
    options = {**GROUP, "fields.v.aggregate-function": "sum"}
    with pytest.raises(DataError, match="int overflow"):
        merge({"g": "INT", "v": "INT"}, options, *(row(1, g=1, v=value) for value in (2**31 - 1, 1, -5)))


def test_a_retracted_product_is_not_divided_by_zero() -> None:
    options = {**GROUP, "fields.v.aggregate-function": "product"}
    with pytest.raises(DataError, match="by zero"):
        merge({"g": "INT", "v": "INT"}, options, row(1, g=1, v=3), row(1, 1, g=1, v=0))


@pytest.mark.parametrize("function", ["hll_sketch", "theta_sketch"])
def test_sketches_are_refused_without_their_package(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)  # as if it was not installed
    with pytest.raises(UnsupportedError, match=function):
        engine_of({"k": "INT", "g": "INT", "v": "BYTES"}, ["k"], {**GROUP, "fields.v.aggregate-function": function})


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"v": "INT"}, {"fields.v.aggregate-function": "sum"}, "Must use sequence group for aggregation functions"),
        ({"g": "INT", "v": "INT"}, {**GROUP, "fields.v.aggregate-function": "median"}, "Use unsupported aggregation"),
        ({"g": "INT", "v": "STRING"}, {**GROUP, "fields.v.aggregate-function": "sum"}, "Data type for sum column"),
        ({"g": "INT"}, {"fields.g.sequence-group": "w"}, "Field w can not be found in table schema"),
        ({"g": "INT"}, {"fields.g.sequence-group": "k"}, "Primary key columns cannot be put in sequence-group"),
        ({"g": "INT", "h": "INT", "v": "INT"}, {**GROUP, "fields.h.sequence-group": "v"}, "defined repeatedly"),
        (
            {"g": "INT", "v": "MAP<INT, ROW<a INT, t INT>>"},
            {**GROUP, "fields.v.aggregate-function": "merge_map_with_keytime"},
            "Timestamp field 't' of field 'v' must be STRING",
        ),
        (
            {"g": "INT", "v": "ARRAY<ROW<a INT>>"},
            {**GROUP, "fields.v.aggregate-function": "nested_update", "fields.v.nested-key": "b"},
            "Field b can not be found in the nested table",
        ),
        (
            {"g": "INT", "v": "ARRAY<ROW<a INT>>"},
            {**GROUP, "fields.v.aggregate-function": "nested_update", "fields.v.count-limit": "few"},
            "count-limit",
        ),
        (
            {"g": "INT", "v": "INT"},
            {**GROUP, "partial-update.remove-record-on-delete": "true"},
            "have conflicting behavior so should not be enabled at the same time",
        ),
        (
            {"g": "INT", "v": "INT"},
            {**GROUP, "partial-update.remove-record-on-sequence-group": "v"},
            "must be part of sequence groups",
        ),
    ],
)
def test_bad_options_are_refused_when_the_engine_is_made(
    columns: dict[str, str], options: dict[str, str], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        engine_of({"k": "INT", **columns}, ["k"], {**PARTIAL, **options})


def test_a_function_whose_library_is_not_installed_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    for function in ("hll_sketch", "theta_sketch"):
        with pytest.raises(UnsupportedError, match=r"'datasketches'.*pip install datasketches"):
            engine_of(
                {"k": "INT", "v": "BYTES"},
                ["k"],
                {"merge-engine": "aggregation", "fields.v.aggregate-function": function},
            )


def test_a_table_without_keys_has_no_merge_engine() -> None:
    with pytest.raises(SchemaError, match="primary key"):
        merge_engine_for(create_schema([DataField(0, "v", IntType())]))


def test_required_columns_bring_keys_sequences_and_groups() -> None:
    columns = {"k": "INT", "a": "INT", "g": "INT", "h": "INT", "b": "INT", "r": "INT", "c": "INT", "s": "INT"}
    options = {
        **PARTIAL,
        "sequence.field": "s",
        "fields.g,h.sequence-group": "a",
        "fields.r.sequence-group": "c",
        "partial-update.remove-record-on-sequence-group": "r",
    }
    engine = pickle.loads(pickle.dumps(engine_of(columns, ["k"], options)))
    assert engine.required_columns(["a"]) == ["a", "g", "h", "r", "k", "s"]
    assert engine.required_columns(["b"]) == ["b", "r", "k", "s"]  # the group that removes rows is always read
    plain = engine_of(columns, ["k"], {"sequence.field": "s"})
    assert plain.required_columns(["b", "k"]) == ["b", "k", "s"]


def test_the_result_has_the_columns_asked_for_in_their_order() -> None:
    columns = {"k": "INT NOT NULL", "a": "INT", "b": "INT"}
    for options in ({}, PARTIAL):
        engine = engine_of(columns, ["k"], options)
        for rows in ([], [row(2, a=1, b=2), row(1, a=3, b=4), row(2, a=None, b=5)]):
            table = rows_table(columns, rows)
            merged = engine.merge(table, drop_deletes=True, columns=["b", "k"])
            assert merged.schema.names == ["b", "k", "_SEQUENCE_NUMBER", "_VALUE_KIND"]
            bare = engine.merge(table, drop_deletes=True, columns=["b", "k"], key_value_columns=False)
            assert bare.schema == pa.schema([table.schema.field("b"), table.schema.field("k")])
            assert bare.column("b").to_pylist() == ([4, 5] if rows else [])
