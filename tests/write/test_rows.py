"""Incoming rows become the table's: names, defaults, NOT NULL, row kinds and the filters on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import DataError, OptionError, SchemaMismatchError
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.write.rows import MappedRows, map_columns


def schema(*columns: tuple[Any, ...], pk: tuple[str, ...] = (), **options: str) -> TableSchema:
    """Columns as (name, type[, default])."""
    fields = [DataField(i, c[0], parse_type(c[1]), None, *c[2:]) for i, c in enumerate(columns)]
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return create_schema(fields, pk, (), named, None)


def mapped(of: TableSchema, data: pa.Table) -> MappedRows:
    return map_columns(of, data.schema).apply(data)


def test_by_name_in_any_order_with_casts() -> None:
    of = schema(("Id", "INT"), ("name", "STRING"), ("x", "DOUBLE"))
    data = pa.table({"NAME": ["a", None], "id": pa.array([1, None], pa.int64())})
    got = mapped(of, data)
    assert got.kinds is None
    assert got.rows.to_pylist() == [{"Id": 1, "name": "a", "x": None}, {"Id": None, "name": None, "x": None}]
    assert got.rows.schema.types == [pa.int32(), pa.string(), pa.float64()]


def test_equal_columns_are_passed_on() -> None:
    of = schema(("a", "BIGINT"))
    data = pa.table({"a": [1, 2]})
    assert mapped(of, data).rows.column("a").chunk(0).buffers()[1].address == data["a"].chunk(0).buffers()[1].address


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"a": [1], "c": [1]}, "no 'c'"),
        ({"b": ["x"]}, "'a' is NOT NULL and has no default"),
        ({"a": ["1"]}, "Cannot write column 'a'"),
        ({"a": [1], "A": [2]}, "both stand for 'a'"),
        ({"a": [1], "_VALUE_KIND": ["+I"]}, "must be an integer"),
    ],
)
def test_refused_when_planned(data: dict[str, list[Any]], words: str) -> None:
    with pytest.raises(SchemaMismatchError, match=words):
        map_columns(schema(("a", "INT NOT NULL"), ("b", "STRING")), pa.table(data).schema)


def test_defaults_for_missing_columns_and_for_nulls() -> None:
    of = schema(("a", "INT"), ("b", "STRING", "my_value"), ("c", "INT NOT NULL", "5"), ("d", "DECIMAL(5, 2)", "1.5"))
    got = mapped(of, pa.table({"a": [1, 2], "b": ["x", None]}))
    assert [tuple(map(str, r.values())) for r in got.rows.to_pylist()] == [
        ("1", "x", "5", "1.50"),
        ("2", "my_value", "5", "1.50"),
    ]


def test_null_in_a_not_null_column_is_an_error_even_with_a_default() -> None:
    of = schema(("a", "INT NOT NULL", "5"))
    with pytest.raises(DataError, match=r"Cannot write null to non-null column\(a\)"):
        mapped(of, pa.table({"a": pa.array([1, None])}))


def test_a_default_that_is_no_value() -> None:
    with pytest.raises(SchemaMismatchError, match="default value 'x' of column 'b'"):
        map_columns(schema(("a", "INT"), ("b", "INT", "x")), pa.schema([("a", pa.int32())]))


def kinds_of(of: TableSchema, kinds: list[int | None]) -> tuple[list[int], list[int] | None]:
    data = pa.table({"k": range(len(kinds)), "_VALUE_KIND": pa.array(kinds, pa.int8())})
    got = mapped(of, data)
    return got.rows.column("k").to_pylist(), None if got.kinds is None else got.kinds.tolist()


def test_row_kinds_and_filters() -> None:
    every: list[int | None] = [0, 1, 2, 3, 0]
    key = {"pk": ("k",), "bucket": "1"}
    assert kinds_of(schema(("k", "INT"), **key), every) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 0])
    assert kinds_of(schema(("k", "INT"), ignore_delete="true", **key), every) == ([0, 2, 4], [0, 2, 0])
    assert kinds_of(schema(("k", "INT"), ignore_update_before="true", **key), every) == ([0, 2, 3, 4], [0, 2, 3, 0])
    assert kinds_of(schema(("k", "INT"), ignore_delete="true", **key), [0, 3]) == ([0], None)
    for bad, words in (([0, None], "Row kind cannot be null"), ([4], "Unknown row kind 4"), ([-1], "kind -1")):
        with pytest.raises(DataError, match=words):
            kinds_of(schema(("k", "INT"), **key), bad)


def test_append_tables_take_inserts_only() -> None:
    assert kinds_of(schema(("k", "INT")), [0, 0]) == ([0, 1], None)
    with pytest.raises(DataError, match="row of kind -D"):
        kinds_of(schema(("k", "INT")), [0, 3])


def test_rowkind_field() -> None:
    of = schema(("k", "INT"), ("op", "STRING"), pk=("k",), bucket="1", rowkind__field="op")
    got = mapped(of, pa.table({"k": range(4), "op": ["+I", "-U", "+U", "-D"]}))
    assert got.kinds is not None
    assert got.kinds.tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match="Row kind cannot be null"):
        mapped(of, pa.table({"k": [1], "op": pa.array([None], pa.string())}))
    with pytest.raises(DataError, match="holds '~'"):
        mapped(of, pa.table({"k": [1], "op": ["~"]}))
    with pytest.raises(OptionError, match="Rowkind field: 'no' can not be found"):
        map_columns(schema(("k", "INT"), pk=("k",), rowkind__field="no"), pa.schema([("k", pa.int32())]))


def test_rows_of_another_schema() -> None:
    mapping = map_columns(schema(("a", "INT")), pa.schema([("a", pa.int32())]))
    with pytest.raises(SchemaMismatchError, match="planned for"):
        mapping.apply(pa.table({"b": [1]}))


def test_kinds_follow_chunks() -> None:
    of = schema(("k", "INT"), pk=("k",), bucket="1", ignore_delete="true")
    parts = [pa.table({"k": pa.array([i], pa.int32()), "_VALUE_KIND": pa.array([i % 4], pa.int8())}) for i in range(9)]
    got = mapped(of, pa.concat_tables(parts))
    assert got.rows.column("k").to_pylist() == [0, 2, 4, 6, 8]
    assert np.array_equal(got.kinds, [0, 2, 0, 2, 0])
