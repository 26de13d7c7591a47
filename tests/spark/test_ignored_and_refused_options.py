"""What a statement of SQL or a DataFrame gives or sets is refused by name, or ignored with one log line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.options import refusal

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A table `t` of the current database."""
    warehouse = tmp_path_factory.mktemp("given_options")
    paimon_spark.register_catalog(spark, "given", warehouse=str(warehouse))
    spark.sql("CREATE DATABASE given.db")
    spark.sql("USE given.db")
    spark.sql("CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    yield warehouse / "db.db" / "t"
    spark.sql("USE spark_catalog.default")


def test_ignored_options_are_reported_once(spark: SparkSession, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def reported(act: Callable[[], object], key: str) -> None:
        caplog.clear()
        act()
        act()
        lines = [record for record in caplog.records if record.name == refusal.__name__]
        assert [(line.levelno, f"option '{key}'" in line.getMessage()) for line in lines] == [(logging.WARNING, True)]

    rows = spark.createDataFrame([(3, "c")], "k int, v string")
    with_option = "SELECT * FROM t WITH ('scan.max-snapshot.count' = '3')"
    created = "CREATE TABLE IF NOT EXISTS t1 (k INT) TBLPROPERTIES ('sink.parallelism'='4')"
    reported(lambda: spark.sql(created), "sink.parallelism")
    reported(lambda: spark.sql("ALTER TABLE t SET TBLPROPERTIES ('lookup.async'='true')"), "lookup.async")
    reported(lambda: spark.sql(with_option).collect(), "scan.max-snapshot.count")
    reported(lambda: rows.writeTo("t").option("sink.writer-cpu", "2").append(), "sink.writer-cpu")
    reported(lambda: spark.read.option("scan.parallelism", "2").table("t").collect(), "scan.parallelism")
    spark.conf.set("spark.paimon.lookup.cache", "full")
    try:
        reported(lambda: spark.sql("SELECT * FROM t").collect(), "lookup.cache")
    finally:
        spark.conf.unset("spark.paimon.lookup.cache")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "CREATE TABLE t2 (k INT) TBLPROPERTIES ('bucket'='-1', 'orc.encrypt'='pii:k')",
            "orc.encrypt",
        ),
        ("CREATE TABLE t2 (k INT) TBLPROPERTIES ('batch-scan-mode'='compact')", "batch-scan-mode"),
        ("CREATE TABLE t2 (k INT) TBLPROPERTIES ('lookup.async'='yes')", "Could not parse value 'yes'"),
        ("ALTER TABLE t SET TBLPROPERTIES ('commit.callbacks'='a.B')", "commit.callbacks"),
        ("ALTER TABLE t SET TBLPROPERTIES ('sink.parallelism'='many')", "Could not parse value 'many'"),
        ("SELECT * FROM t WITH ('consumer-id' = 'me')", "consumer-id"),
        ("SELECT * FROM t WITH ('scan.bounded.watermark' = '1')", "scan.bounded.watermark"),
        ("SELECT * FROM t WITH ('metastore' = 'hive')", "give it to register_catalog"),
    ],
)
def test_refused_options_are_refused_by_every_statement(
    spark: SparkSession, path: Path, statement: str, words: str
) -> None:
    with pytest.raises((PySparkException, paimon_spark.errors.PaimonError), match=words):
        spark.sql(statement).collect()
    assert not (path.parent / "t2").exists()


def test_refused_options_are_refused_by_paths(spark: SparkSession, path: Path) -> None:
    with pytest.raises(PySparkException, match=r"option 'consumer-id' = 'me' is not supported yet"):
        spark.read.format("paimon").option("consumer-id", "me").load(str(path))
    rows = spark.createDataFrame([(3, "c")], "k int, v string").write.format("paimon").mode("append")
    with pytest.raises(PySparkException, match=r"option 'orc.encrypt' = 'pii:k' is not"):
        rows.option("orc.encrypt", "pii:k").save(str(path))
