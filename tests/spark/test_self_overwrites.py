"""Overwrites of a table by rows that are made of it: every row is read, and no commit of others is lost."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonError, PaimonTable
from paimon_spark.spark.hooks import self_overwrites
from paimon_spark.spark.table import rows as table_rows

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

_numbers = itertools.count()
Way = Callable[[SparkSession, str, str], None]


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("self_overwrites")
    paimon_spark.register_catalog(spark, "itself", warehouse=str(path))
    spark.sql("CREATE DATABASE itself.db")
    yield path
    paimon_spark.sql(spark, "SELECT 1", warehouse=str(path), catalog="itself")


@pytest.fixture
def create(spark: SparkSession, warehouse: Path) -> Callable[[str], tuple[str, str]]:
    """Makes a table of (k, n, dt) with three rows; gives its name and its path."""

    def create(properties: str) -> tuple[str, str]:
        name = f"t{next(_numbers)}"
        spark.sql(
            f"CREATE TABLE itself.db.{name} (k INT NOT NULL, n INT, dt STRING NOT NULL) PARTITIONED BY (dt) "
            f"TBLPROPERTIES ({properties})"
        )
        spark.sql(f"INSERT INTO itself.db.{name} VALUES (1, 10, 'a'), (2, 20, 'a'), (3, 30, 'b')")
        return f"itself.db.{name}", str(warehouse / "db.db" / name)

    return create


def add(spark: SparkSession, path: str, rows: str) -> None:
    """Commit rows without compacting them."""
    frame = spark.sql(f"SELECT * FROM VALUES {rows} AS rows(k, n, dt)")
    PaimonTable.for_path(spark, path).append(frame, write_only="true")


def rows_of(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.table(name).collect())


def by_statement(spark: SparkSession, name: str, _path: str) -> None:
    spark.sql(f"INSERT OVERWRITE {name} SELECT k, n + 1, dt FROM {name}")


def by_text(spark: SparkSession, name: str, path: str) -> None:
    text = f"INSERT OVERWRITE {name} SELECT k, n + 1, dt FROM {name}"
    paimon_spark.sql(spark, text, warehouse=str(Path(path).parents[1]), catalog="itself")


def by_method(spark: SparkSession, _name: str, path: str) -> None:
    table = PaimonTable.for_path(spark, path)
    table.overwrite(table.to_df().selectExpr("k", "n + 1 AS n", "dt"))


def by_save(spark: SparkSession, _name: str, path: str) -> None:
    frame = spark.read.format("paimon").load(path).selectExpr("k", "n + 1 AS n", "dt")
    frame.write.format("paimon").mode("overwrite").save(path)


def by_partitions(spark: SparkSession, name: str, _path: str) -> None:
    spark.table(name).selectExpr("k", "n + 1 AS n", "dt").writeTo(name).option(
        "write-buffer-size", "8 mb"
    ).overwritePartitions()


def by_subquery(spark: SparkSession, name: str, _path: str) -> None:
    spark.sql(
        f"INSERT OVERWRITE {name} SELECT k, n + 1, dt FROM (SELECT * FROM {name} a) "
        f"WHERE k IN (SELECT k FROM {name}) OR EXISTS (SELECT 1 FROM {name} b WHERE b.n = 0)"
    )


def by_replacing(spark: SparkSession, name: str, _path: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (dt) TBLPROPERTIES ('primary-key'='k,dt', 'bucket'='1') "
        f"AS SELECT k, n + 1 AS n, dt FROM {name}"
    )


WAYS: tuple[Way, ...] = (by_statement, by_text, by_method, by_save, by_partitions, by_subquery, by_replacing)
VECTORS = "'primary-key'='k,dt', 'bucket'='1', 'deletion-vectors.enabled'='true'"
FIRST_ROW = "'primary-key'='k,dt', 'bucket'='1', 'merge-engine'='first-row'"


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_are_not_compacted_yet_stay(
    spark: SparkSession, create: Callable[[str], tuple[str, str]], way: Way
) -> None:
    name, path = create(VECTORS)
    add(spark, path, "(2, 21, 'a'), (4, 40, 'b')")
    assert rows_of(spark, name) == [(1, 10, "a"), (2, 20, "a"), (3, 30, "b")]  # as in Java, until the next compaction
    way(spark, name, path)
    assert rows_of(spark, name) == [(1, 11, "a"), (2, 22, "a"), (3, 31, "b"), (4, 41, "b")]


@pytest.mark.parametrize("way", [by_statement, by_text, by_save])
def test_rows_of_first_row_tables_stay(spark: SparkSession, create: Callable[[str], tuple[str, str]], way: Way) -> None:
    name, path = create(FIRST_ROW)
    add(spark, path, "(2, 21, 'a'), (4, 40, 'b')")
    way(spark, name, path)
    assert rows_of(spark, name) == [(1, 11, "a"), (2, 21, "a"), (3, 31, "b"), (4, 41, "b")]


@pytest.mark.parametrize("way", [by_statement, by_text, by_method, by_save, by_partitions, by_replacing])
def test_postponed_rows_are_not_dropped_unread(
    spark: SparkSession, create: Callable[[str], tuple[str, str]], way: Way
) -> None:
    name, path = create("'primary-key'='k,dt', 'bucket'='-2'")
    frame = spark.sql("SELECT * FROM VALUES (2, 21, 'a'), (4, 40, 'b') AS rows(k, n, dt)")
    PaimonTable.for_path(spark, path).append(frame, **{"postpone.batch-write-fixed-bucket": "false"})
    assert rows_of(spark, name) == [(1, 10, "a"), (2, 20, "a"), (3, 30, "b")]
    with pytest.raises((PySparkException, PaimonError), match="postponed, and an overwrite of the table from itself"):
        way(spark, name, path)
    PaimonTable.for_path(spark, path).compact()
    if way is not by_replacing:
        way(spark, name, path)
        assert rows_of(spark, name) == [(1, 11, "a"), (2, 22, "a"), (3, 31, "b"), (4, 41, "b")]


@pytest.mark.parametrize("way", WAYS)
def test_postponed_rows_that_reads_merge_in_stay(
    spark: SparkSession, create: Callable[[str], tuple[str, str]], way: Way
) -> None:
    name, path = create("'primary-key'='k,dt', 'bucket'='-2', 'postpone.merge-on-read'='true'")
    frame = spark.sql("SELECT * FROM VALUES (2, 21, 'a'), (4, 40, 'b') AS rows(k, n, dt)")
    PaimonTable.for_path(spark, path).append(frame, **{"postpone.batch-write-fixed-bucket": "false"})
    assert rows_of(spark, name) == [(1, 10, "a"), (2, 21, "a"), (3, 30, "b"), (4, 40, "b")]
    way(spark, name, path)
    assert rows_of(spark, name) == [(1, 11, "a"), (2, 22, "a"), (3, 31, "b"), (4, 41, "b")]


@pytest.mark.turns("connect")
def test_overwrites_on_connect(connect: str, tmp_path: Path) -> None:
    command = [sys.executable, "tests/spark/connect_overwrites_program.py", connect, str(tmp_path / "wh")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stdout + done.stderr


@pytest.mark.parametrize("way", [by_statement, by_text, by_method, by_save, by_partitions])
@pytest.mark.parametrize("properties", ["'bucket'='-1'", "'primary-key'='k,dt', 'bucket'='1'"])
def test_a_rival_between_read_and_commit_is_a_conflict(
    spark: SparkSession,
    create: Callable[[str], tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
    properties: str,
) -> None:
    name, path = create(properties)
    came = []

    def late(original: Callable[..., Any]) -> Callable[..., Any]:
        def pinned(*given: Any, **named: Any) -> Any:
            found = original(*given, **named)
            if not came:
                came.append(True)
                add(spark, path, "(5, 50, 'a')")
            return found

        return pinned

    monkeypatch.setattr(self_overwrites, "tree_at", late(self_overwrites.tree_at))
    monkeypatch.setattr(table_rows, "pinned_source", late(table_rows.pinned_source))
    with pytest.raises((PySparkException, PaimonError), match="the same partition"):
        way(spark, name, path)
    assert rows_of(spark, name) == [(1, 10, "a"), (2, 20, "a"), (3, 30, "b"), (5, 50, "a")]
    way(spark, name, path)
    assert rows_of(spark, name) == [(1, 11, "a"), (2, 21, "a"), (3, 31, "b"), (5, 51, "a")]


def test_a_rival_elsewhere_is_none(
    spark: SparkSession, create: Callable[[str], tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, path = create("'bucket'='-1'")
    original = self_overwrites.tree_at

    def late(*given: Any) -> Any:
        found = original(*given)
        add(spark, path, "(5, 50, 'c')")
        return found

    monkeypatch.setattr(self_overwrites, "tree_at", late)
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (dt = 'a') SELECT k, n + 1 FROM {name} WHERE dt = 'a'")
    assert {(1, 11, "a"), (2, 21, "a"), (3, 30, "b"), (5, 50, "c")} == set(rows_of(spark, name))


def test_overwrites_of_other_rows_replace_what_is_there(
    spark: SparkSession, create: Callable[[str], tuple[str, str]]
) -> None:
    """No conflict is looked for where a query reads another table, or names an older version of this one."""
    name, path = create("'bucket'='-1'")
    other, _ = create("'bucket'='-1'")
    spark.sql(f"INSERT OVERWRITE {name} SELECT k, n + 5, dt FROM {other}")
    assert rows_of(spark, name) == [(1, 15, "a"), (2, 25, "a"), (3, 35, "b")]
    add(spark, path, "(5, 50, 'a')")
    spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} VERSION AS OF 1")
    assert rows_of(spark, name) == [(1, 10, "a"), (2, 20, "a"), (3, 30, "b")]


@pytest.fixture
def tested_analyzer(spark: SparkSession) -> Iterator[None]:
    """Spark checks its analyzer while ``spark.testing`` is set, as the test suites of users' jobs do."""
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty("spark.testing", "true")
    yield
    system.clearProperty("spark.testing")


@pytest.mark.usefixtures("tested_analyzer")
def test_an_analyzer_that_is_tested(spark: SparkSession, create: Callable[[str], tuple[str, str]]) -> None:
    name, _ = create("'write-only' = 'true'")
    spark.sql(f"INSERT OVERWRITE {name} SELECT k, n + 1, dt FROM {name} WHERE k IN (SELECT k FROM {name})")
    spark.sql(f"UPDATE {name} SET n = n + 1 WHERE k = (SELECT min(k) FROM {name})")
    spark.sql(f"MERGE INTO {name} t USING (SELECT * FROM {name}) s ON t.k = s.k AND s.k = 2 WHEN MATCHED THEN DELETE")
    assert spark.sql(f"SELECT count(input_file_name()) FROM {name} WHERE upper(dt) < 'C'").first()[0] == 2  # type: ignore[index]
    spark.sql(f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (dt) AS SELECT k, n, dt FROM {name}")
    assert rows_of(spark, name) == [(1, 12, "a"), (3, 31, "b")]
