"""Snapshots of CREATE TABLE … AS SELECT and its relatives name the statement, as in the official connector."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.table import load_table
from tests.support.warehouses import run_by, session_of

pytestmark = pytest.mark.spark

_numbers = itertools.count()
KINDS = {
    "append": "",
    "keys": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')",
    "keys across partitions": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id')",
}


@pytest.fixture(scope="module")
def made(spark: SparkSession, warehouse: Path) -> SparkSession:
    return session_of(spark, "made", warehouse)


@pytest.fixture(params=["catalog", "text"])
def run(request: pytest.FixtureRequest, made: SparkSession) -> Callable[[str], DataFrame]:
    return run_by(made, request.param)


def operations(warehouse: Path, name: str) -> list[Operation | None]:
    table = load_table(str(warehouse / "db.db" / name))
    return [table.snapshots.get(number).operation for number in table.snapshots.ids()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_statement_is_named(warehouse: Path, run: Callable[[str], DataFrame], kind: str) -> None:
    name = f"t{next(_numbers)}"
    query = f"TABLE made.db.{name} {KINDS[kind]} AS SELECT 1 AS id, 2 AS p"
    run(f"CREATE {query}").collect()
    assert operations(warehouse, name) == [Operation.CREATE_TABLE_AS_SELECT]
    run(f"CREATE OR REPLACE {query}").collect()
    run(f"REPLACE {query}").collect()
    run(f"INSERT INTO made.db.{name} VALUES (2, 2)").collect()
    assert operations(warehouse, name)[1:] == [
        Operation.TRUNCATE,
        Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT,
        Operation.TRUNCATE,
        Operation.REPLACE_TABLE_AS_SELECT,
        Operation.WRITE,
    ]


def test_a_table_that_or_replace_makes(warehouse: Path, run: Callable[[str], DataFrame]) -> None:
    name = f"t{next(_numbers)}"
    run(f"CREATE OR REPLACE TABLE made.db.{name} AS SELECT 1 AS id").collect()
    assert operations(warehouse, name) == [Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT]


def test_save_as_table(made: SparkSession, warehouse: Path) -> None:
    name = f"t{next(_numbers)}"
    for mode in ("error", "append", "overwrite"):
        made.range(1).write.format("paimon").mode(mode).option("primary-key", "id").saveAsTable(f"made.db.{name}")
    assert operations(warehouse, name) == [
        Operation.CREATE_TABLE_AS_SELECT,
        Operation.WRITE,
        Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT,
    ]
