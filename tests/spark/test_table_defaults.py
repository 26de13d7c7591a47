"""Catalog options ``table-default.*``: options of new tables where their definition says nothing, by both fronts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.table.table import load_table
from tests.support.warehouses import FRONTS, run_by

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("front", FRONTS)
def test_defaults_of_new_tables(spark: SparkSession, tmp_path: Path, front: str) -> None:
    session = spark.newSession()
    options = {"table-default.file.format": "orc", "table-default.snapshot.num-retained.min": "3"}
    paimon_spark.register_catalog(session, "c", warehouse=str(tmp_path), **options)
    paimon_spark.sql(session, "SELECT 1", warehouse=str(tmp_path), catalog="c", **options)
    run = run_by(session, front)
    run("CREATE DATABASE c.d")

    def found(table: str) -> tuple[str | None, str | None]:
        kept = load_table(f"{tmp_path}/d.db/{table}").schema.options
        return kept.get("file.format"), kept.get("snapshot.num-retained.min")

    run("CREATE TABLE c.d.a (k INT)")
    run("CREATE TABLE c.d.b TBLPROPERTIES ('file.format' = 'avro') AS SELECT 1 AS k")
    run("CREATE TABLE c.d.l LIKE c.d.b")
    assert [found(table) for table in "abl"] == [("orc", "3"), ("avro", "3"), ("avro", "3")]
    run("INSERT INTO c.d.a VALUES (1)")
    assert run("SELECT * FROM c.d.a").collect()[0][0] == 1
    run("CREATE OR REPLACE TABLE c.d.b AS SELECT 2 AS k")
    assert found("b") == ("orc", "3")
    session.range(2).write.saveAsTable("c.d.saved") if front == "catalog" else None
    assert front == "text" or found("saved") == ("orc", "3")
    run(f"CREATE TABLE c.`{tmp_path}/outside` (k INT)")
    assert "file.format" not in load_table(f"{tmp_path}/outside").schema.options
