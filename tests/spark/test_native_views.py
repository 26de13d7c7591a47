"""Every view of a table, whatever the order of its columns, gives the same rows by Spark's reader and by ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.support.native_scans import BATCH, batch_of

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.usefixtures("reads_by_tasks")]

COLUMNS = {"p": "INT NOT NULL", "q": "STRING NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING", "d": "DATE"}
FIRST = {"p": 7, "q": "x", "id": 1, "v": "one", "d": None}
SECOND = {"p": 8, "q": "y", "id": 2, "v": None, "d": None}
ORDERS = {  # the columns, and those that partition the table
    "first": (("p", "q", "id", "v", "d"), ("p", "q")),
    "turned": (("v", "q", "id", "p", "d"), ("p", "q")),
    "last": (("d", "id", "v", "p"), ("p",)),
    "middle": (("id", "p", "v", "d"), ("p",)),
}
KINDS = {
    "append": "'bucket' = '-1'",
    "bucketed": "'bucket' = '2', 'bucket-key' = 'id'",
    "keyed": "'primary-key' = '{key}', 'bucket' = '1'",
    "compacted": "'primary-key' = '{key}', 'bucket' = '1'",
}
NATIVE_VIEWS = {"", "$branch_b", "$ro"}
"""The views whose rows can be those of the files."""


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose database is `views.db`."""
    warehouse: Path = tmp_path_factory.mktemp("views")
    paimon_spark.register_catalog(spark, "views", warehouse=str(warehouse))
    spark.sql("CREATE DATABASE IF NOT EXISTS views.db")
    spark.sql("USE views.db")
    yield spark
    spark.sql("USE spark_catalog.default")


def make(catalog: SparkSession, kind: str, order: str) -> tuple[str, tuple[str, ...]]:
    """A table with two rows and a branch of it; its name and columns."""
    columns, partition = ORDERS[order]
    name = f"{kind}_{order}"
    options = KINDS[kind].format(key=",".join((*partition, "id")))
    catalog.sql(
        f"CREATE TABLE {name} ({', '.join(f'{c} {COLUMNS[c]}' for c in columns)}) "
        f"PARTITIONED BY ({', '.join(partition)}) TBLPROPERTIES ({options})"
    )
    schema = catalog.table(name).schema
    catalog.createDataFrame([[row[c] for c in columns] for row in (FIRST, SECOND)], schema).writeTo(name).append()
    if kind == "compacted":
        catalog.sql(f"CALL sys.compact(table => 'db.{name}')")
    catalog.sql(f"CALL sys.create_tag(table => 'db.{name}', tag => 'now')")
    catalog.sql(f"CALL sys.create_branch(table => 'db.{name}', branch => 'b', tag => 'now')")
    return name, columns


def rows_of(catalog: SparkSession, query: str) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in catalog.sql(query).collect()), key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("kind", "order"),
    [(k, o) for k in ("append", "compacted") for o in ORDERS] + [("keyed", "first"), ("bucketed", "turned")],
)
def test_views(catalog: SparkSession, kind: str, order: str) -> None:
    name, columns = make(catalog, kind, order)
    for view in ("", "$ro", "$audit_log", "$branch_b"):
        shown = ["p", "id", *(c for c in columns if c not in ("p", "id"))]  # not in the order of the table
        source = f"`{name}{view}`"
        expected = [{c: row[c] for c in shown} for row in (FIRST, SECOND)]
        if view == "$ro" and kind == "keyed":
            expected = []  # all is at level 0
        for reported in (source, f"{source} WITH (`read.spark-parquet` = false)"):
            query = f"SELECT {', '.join(shown)} FROM {reported} WHERE id < 9"
            assert rows_of(catalog, query) == expected, query
        whole = catalog.sql(f"SELECT * FROM {source}")
        assert (BATCH in batch_of(whole)) == (view in NATIVE_VIEWS and bool(expected)), view
        found = sorted((row.asDict() for row in whole.collect()), key=lambda row: row["id"])
        assert [{c: row[c] for c in shown} for row in found] == expected
        counted = catalog.sql(f"SELECT p, count(v), max(id) FROM {source} GROUP BY p ORDER BY p")
        assert [tuple(row) for row in counted.collect()] == ([(7, 1, 1), (8, 0, 2)] if expected else [])
