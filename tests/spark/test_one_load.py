"""A statement opens its table once, whoever needs it on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.table import table as table_module
from paimon_spark.table.paths import TableName

STATEMENTS = {
    "select": "SELECT * FROM {t}",
    "select a key": "SELECT * FROM {t} WHERE k = 1",
    "count": "SELECT count(*) FROM {t}",
    "insert": "INSERT INTO {t} VALUES (7, 'x'), (8, 'y')",
    "insert from a query": "INSERT INTO {t} SELECT id, 'z' FROM range(100)",
    "overwrite": "INSERT OVERWRITE {t} VALUES (1, 'a'), (2, 'b')",
    "update": "UPDATE {t} SET v = 'u' WHERE k = 1",
    "delete": "DELETE FROM {t} WHERE k = 2",
    "merge": "MERGE INTO {t} t USING (SELECT 1L k, 'm' v) s ON t.k = s.k WHEN MATCHED AND s.v > t.v THEN UPDATE SET *",
    "upsert": "MERGE INTO {t} t USING (SELECT 1L k, 'n' v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * "
    "WHEN NOT MATCHED THEN INSERT *",
    "describe": "DESCRIBE TABLE {t}",
}
KINDS = {
    "append": "",
    "fixed": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')",
    "dynamic": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '-1')",
}


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the tables that are opened."""
    seen, real = [], table_module._load

    def load(path: str | TableName, *given: object) -> object:
        seen.append(path if isinstance(path, str) else path.root)
        return real(path, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(table_module, "_load", load)
    return seen


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    warehouse = tmp_path_factory.mktemp("loads")
    paimon_spark.register_catalog(spark, "loads", warehouse=str(warehouse))
    spark.sql("CREATE DATABASE loads.d")
    for kind, properties in KINDS.items():
        spark.sql(f"CREATE TABLE loads.d.{kind} (k BIGINT, v STRING) {properties}")
        spark.sql(f"INSERT INTO loads.d.{kind} VALUES (1, 'a'), (2, 'b')")
    return str(warehouse)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements(spark: SparkSession, catalog: str, loads: list[str], kind: str, statement: str) -> None:
    spark.sql(STATEMENTS[statement].format(t=f"loads.d.{kind}")).collect()
    assert [Path(path).name for path in loads] == [kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_saves(spark: SparkSession, catalog: str, loads: list[str], kind: str, mode: str) -> None:
    rows = spark.sql("SELECT id AS k, 'n' AS v FROM range(10)")
    rows.write.format("paimon").mode(mode).save(f"{catalog}/d.db/{kind}")
    assert [Path(path).name for path in loads] == [kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_by_path(spark: SparkSession, catalog: str, loads: list[str], kind: str) -> None:
    spark.read.format("paimon").load(f"{catalog}/d.db/{kind}").filter("k = 1").collect()
    assert [Path(path).name for path in loads] == [kind]
