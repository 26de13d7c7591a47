"""``input_file_name()``: of rows of tables without primary keys the path of their file, whichever reader reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import input_file_name

import paimon_spark
from paimon_spark import PaimonTable

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("properties", ["'file.format' = 'orc'", "'bucket' = '2', 'bucket-key' = 'id'"])
def test_rows_know_their_files(spark: SparkSession, tmp_path: Path, properties: str) -> None:
    paimon_spark.register(spark)
    paimon_spark.register_catalog(spark, "named", warehouse=str(tmp_path))
    spark.sql("CREATE DATABASE named.db")
    spark.sql(
        f"CREATE TABLE named.db.t (id INT, v STRING, p STRING) PARTITIONED BY (p) "
        f"TBLPROPERTIES ({properties}, 'write-only' = 'true')"
    )
    spark.sql("INSERT INTO named.db.t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    spark.sql("INSERT INTO named.db.t VALUES (3, 'c', 'x'), (4, 'd', 'x')")
    path = str(tmp_path / "db.db" / "t")
    known = {
        (str(row["partition"]).strip("{}[]"), row.file_path) for row in spark.table("named.db.`t$files`").collect()
    }
    of_x = {file for partition, file in known if partition.endswith("x")}

    def names(frame: DataFrame) -> set[str]:
        return {row[0] for row in frame.collect()}

    for rows in (
        spark.table("named.db.t"), spark.read.format("paimon").load(path), PaimonTable.for_path(spark, path).to_df(),
    ):  # fmt: skip
        assert names(rows.select(input_file_name())) == {file for _, file in known}
        native = "reader=spark-parquet" in str(rows.select("id", "p", input_file_name())._jdf.queryExecution())
        assert native == ("orc" not in properties)
        assert names(rows.where("p = 'x'").select(input_file_name())) == of_x
        whole = rows.select("id", input_file_name().alias("file")).where("id > 2").select("file", "id")
        assert {row.file for row in whole.collect()} <= of_x
        counted = rows.groupBy(input_file_name().alias("file")).count()
        assert {row.file: row["count"] for row in counted.collect()}.keys() == {file for _, file in known}
        assert rows.where(input_file_name().isin(*of_x)).count() == 3
    query = "SELECT *, startswith(input_file_name(), '{}') AS it FROM named.db.t AS a WHERE id < 3 ORDER BY id"
    rows = spark.sql(query.format(path))
    assert rows.columns == ["id", "v", "p", "it"]
    assert [tuple(row) for row in rows.collect()] == [(1, "a", "x", True), (2, "b", "y", True)]
    assert spark.sql("SELECT input_file_name() FROM named.db.t").columns == ["input_file_name()"]


def test_tables_with_keys_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    paimon_spark.register(spark)
    for _ in range(2):
        rows = spark.range(2).write.format("paimon").mode("append")
        rows.options(**{"primary-key": "id", "bucket": "1", "write-only": "true"}).save(path)
    found = spark.read.format("paimon").load(path).select("id", input_file_name().alias("file")).collect()
    assert sorted(row.id for row in found) == [0, 1]
    assert all(row.file == "" or row.file.endswith(".parquet") for row in found)


def test_files_of_other_sources_are_named_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(2).write.parquet(str(tmp_path / "plain"))
    paimon_spark.register(spark)
    names = {row[0] for row in spark.read.parquet(str(tmp_path / "plain")).select(input_file_name()).collect()}
    assert all(name.startswith("file:///") for name in names)
