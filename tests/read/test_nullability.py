"""Columns that became NOT NULL over nulls: shown as nullable, read as Java reads them."""

from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.read.field_mapping import fields_as_stored
from paimon_spark.read.row_views import ROWS
from paimon_spark.table.table import FileStoreTable, load_table

ROWS_WRITTEN = [(1, None, None, [None]), (2, 5, "a", [1])]


def make(oracle: Any, name: str) -> FileStoreTable:
    """A table of Java's whose columns but the first became NOT NULL after its only write."""
    columns = [("id", "INT NOT NULL"), ("v", "INT"), ("s", "STRING"), ("a", "ARRAY<INT>")]
    oracle.create(name, columns, options={"bucket": -1, "alter-column-null-to-not-null.disabled": "false"})
    oracle.write(name, ROWS_WRITTEN)
    oracle.alter(name, ("nullable", "v", "false"), ("nullable", "s", "false"))
    return load_table(str(Path(oracle.warehouse) / "db.db" / name.split(".")[1]))


@pytest.mark.oracle
def test_columns_are_nullable_while_an_older_schema_lets_them_be_null(oracle: Any) -> None:
    table = make(oracle, "db.became_not_null")
    assert [field.type.nullable for field in table.schema.fields] == [False, False, False, True]
    assert [field.type.nullable for field in fields_as_stored(table)] == [False, True, True, True]
    assert ROWS.fields(table) == fields_as_stored(table)
    oracle.alter("db.became_not_null", ("add", "w", "INT"))
    table = load_table(table.path)
    assert [field.type.nullable for field in fields_as_stored(table)] == [False, True, True, True, True]


@pytest.mark.oracle
@pytest.mark.spark
def test_their_nulls_are_read_through_every_entry_point(oracle: Any, spark: Any) -> None:
    table = make(oracle, "db.nulls_in_not_null")
    paimon_spark.register_catalog(spark, "nulls", warehouse=oracle.warehouse)
    name, log = "nulls.db.nulls_in_not_null", "nulls.db.`nulls_in_not_null$audit_log`"
    ours = spark.sql(f"SELECT * FROM {name} WITH (`read.spark-parquet` = false)")
    by_path = paimon_spark.PaimonTable.for_path(spark, table.path).to_df()
    for frame in (spark.read.format("paimon").load(table.path), spark.table(name), ours, spark.table(log), by_path):
        assert sorted(tuple(row) for row in frame.select("id", "v", "s").collect()) == [(1, None, None), (2, 5, "a")]
        assert [row.id for row in frame.where("v IS NULL").collect()] == [1]
