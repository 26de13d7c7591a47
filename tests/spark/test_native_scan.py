"""Scans of the catalog that Spark's own Parquet reader does: the rows of our reader, where files are the rows."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from spark.test_golden import FULL, as_spark_shows, collected
from support.golden import GoldenRead, row_multiset

import paimon_spark
from paimon_spark.read.plain_files import holds_plain_rows
from paimon_spark.read.plan import plan_read
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.spark

NATIVE = "reader=spark-parquet"
BATCH = "NativeBatchProxy"


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session with a catalog `native` in use."""
    paimon_spark.register_catalog(spark, "native", warehouse=str(tmp_path_factory.mktemp("native")))
    spark.sql("CREATE DATABASE IF NOT EXISTS native.db")
    spark.sql("USE native.db")
    yield spark
    spark.sql("USE spark_catalog.default")


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def batch_of(frame: DataFrame) -> str:
    """What the only scan of a query reads with."""
    leaf = frame._jdf.queryExecution().sparkPlan().collectLeaves().head()
    return str(leaf.scan().toBatch().toString())


def plain_columns(case: GoldenRead) -> list[str]:
    table = load_table(str(case.table.path) + (f"$branch_{case.branch}" if case.branch else ""))
    return [f.name for f in table.schema.fields if holds_plain_rows(plan_read(table, columns=[f.name]))]


PLAIN = [(case, columns) for case in FULL if (columns := plain_columns(case))]


@pytest.mark.parametrize(("case", "columns"), PLAIN, ids=[case.id for case, _ in PLAIN])
def test_rows_of_golden_tables_are_javas(catalog: SparkSession, case: GoldenRead, columns: list[str]) -> None:
    path = str(case.table.path) + (f"$branch_{case.branch}" if case.branch else "")
    frame = catalog.sql(f"SELECT {', '.join(f'`{name}`' for name in columns)} FROM `{path}`")
    assert BATCH in batch_of(frame) or not case.rows().num_rows
    got, want = collected(frame), as_spark_shows(case.rows()).select(columns)
    for name in columns:
        assert (name, row_multiset(got.select([name]))) == (name, row_multiset(want.select([name])))
    assert row_multiset(got) == row_multiset(want)


def test_golden_tables_of_many_kinds_are_read_so() -> None:
    names = {case.table.name for case, _ in PLAIN}
    assert len(names) > 15
    assert any(name.startswith("old_0_9") for name in names)


@pytest.fixture(scope="module")
def facts(catalog: SparkSession) -> str:
    """An append table of two files with NaN, nulls, -0.0 and times before 1582."""
    catalog.sql(
        "CREATE TABLE facts (id BIGINT NOT NULL, v DOUBLE, f FLOAT, name STRING, code CHAR(3), at TIMESTAMP, "
        "local TIMESTAMP_NTZ, day DATE, amount DECIMAL(12, 2), big DECIMAL(30, 4), ok BOOLEAN, raw BINARY)"
    )
    for low, high in ((0, 40), (40, 100)):
        catalog.range(low, high, 1, 1).selectExpr(
            "id",
            "CASE WHEN id % 7 = 0 THEN double('NaN') WHEN id % 5 = 0 THEN -0.0D ELSE id / 3.0D END v",
            "CASE WHEN id % 6 = 0 THEN NULL ELSE float(id) END f",
            "CASE WHEN id % 4 = 0 THEN NULL ELSE concat('ü', id) END name",
            "'ab' code",
            "timestamp_micros(-30000000000000000 + id * 1000001) at",
            "timestamp_ntz'1400-01-01 00:00:00.123456' + make_dt_interval(id) local",
            "date_add(date'1500-02-28', int(id)) day",
            "cast(id * 1.25 as decimal(12,2)) amount",
            "cast(id as decimal(30,4)) * -1 big",
            "id % 3 = 0 ok",
            "cast(concat('x', id) as binary) raw",
        ).writeTo("facts").append()
    return "facts"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM {t}",
        "SELECT id FROM {t} WHERE v > 1000",
        "SELECT id FROM {t} WHERE v = 0",
        "SELECT id FROM {t} WHERE v = double('NaN') AND id > 50",
        "SELECT name, day FROM {t} WHERE day >= date'1500-04-01' AND name LIKE 'ü5%'",
        "SELECT id FROM {t} WHERE at < timestamp_micros(-30000000000000000 + 17 * 1000001)",
        "SELECT id FROM {t} WHERE local IN (timestamp_ntz'1400-01-08 00:00:00.123456')",
        "SELECT id FROM {t} WHERE amount BETWEEN 10 AND 20 OR big = -99",
        "SELECT id FROM {t} WHERE name IS NULL AND NOT ok",
        "SELECT id FROM {t} WHERE raw = cast('x7' as binary)",
        "SELECT id FROM {t} WHERE code = 'ab' AND id IN (3, 98, 1000)",
        "SELECT count(*), sum(amount), max(local) FROM {t} WHERE f >= 0",
        "SELECT a.id, b.name FROM {t} a JOIN {t} b ON a.id = b.id + 1 WHERE a.ok AND b.v < 20",
        "SELECT id FROM {t} WHERE id < 5 UNION ALL SELECT id FROM {t} WHERE id > 95",
        "SELECT id FROM {t} ORDER BY id DESC LIMIT 3",
        "SELECT count(*) FROM (SELECT id FROM {t} LIMIT 41)",
    ],
)
def test_queries_give_the_rows_of_our_reader(catalog: SparkSession, facts: str, query: str) -> None:
    native = catalog.sql(query.format(t=facts))
    ours = catalog.sql(query.format(t=f"(SELECT * FROM {facts} WITH (`read.spark-parquet` = 'false'))"))
    assert NATIVE in plan_of(native)
    assert NATIVE not in plan_of(ours)
    assert row_multiset(collected(native)) == row_multiset(collected(ours))


def test_row_groups_are_left_out_by_spark(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE groups (id BIGINT, v STRING) TBLPROPERTIES ('parquet.block.row.count.limit' = '100')")
    catalog.range(0, 1000, 1, 1).selectExpr("id", "concat('v', id) v").writeTo("groups").append()
    frame = catalog.sql("SELECT v FROM groups WHERE id = 950")
    assert [row[0] for row in frame.collect()] == ["v950"]
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert leaf.metrics().apply("numOutputRows").value() == 100


def shown(catalog: SparkSession, query: str) -> tuple[bool, list[tuple[Any, ...]]]:
    frame = catalog.sql(query)
    return NATIVE in plan_of(frame), sorted(tuple(row) for row in frame.collect())


def test_only_files_that_are_the_rows_are_read_so(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE parts (id INT, p STRING) PARTITIONED BY (p)")
    catalog.sql("INSERT INTO parts VALUES (1, 'a=b'), (2, 'c d'), (3, NULL)")
    assert shown(catalog, "SELECT id FROM parts WHERE p = 'a=b'") == (True, [(1,)])
    assert shown(catalog, "SELECT id FROM parts WHERE p IS NULL OR p = 'c d'") == (True, [(2,), (3,)])
    assert shown(catalog, "SELECT id, p FROM parts WHERE p = 'c d'") == (False, [(2, "c d")])
    catalog.sql("CREATE TABLE keyed (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    catalog.sql("INSERT INTO keyed VALUES (1, 1), (2, 2)")
    catalog.sql("INSERT INTO keyed VALUES (1, 3)")
    assert shown(catalog, "SELECT * FROM keyed") == (False, [(1, 3), (2, 2)])
    catalog.sql("CREATE TABLE orc (id INT) TBLPROPERTIES ('file.format' = 'orc')")
    catalog.sql("INSERT INTO orc VALUES (1)")
    assert shown(catalog, "SELECT * FROM orc") == (False, [(1,)])
    assert shown(catalog, "SELECT id, __paimon_bucket FROM parts WHERE p IS NULL") == (False, [(3, 0)])


def test_changed_columns_are_read_by_us(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE changing (id INT, v INT, w STRING)")
    catalog.sql("INSERT INTO changing VALUES (1, 10, 'a')")
    catalog.sql("ALTER TABLE changing ALTER COLUMN v TYPE BIGINT")
    catalog.sql("ALTER TABLE changing RENAME COLUMN w TO x")
    catalog.sql("INSERT INTO changing VALUES (2, 20, 'b')")
    assert shown(catalog, "SELECT id FROM changing") == (True, [(1,), (2,)])
    assert shown(catalog, "SELECT id, v FROM changing") == (False, [(1, 10), (2, 20)])
    assert shown(catalog, "SELECT x FROM changing") == (False, [("a",), ("b",)])


def test_many_slices_of_one_file_hold_each_row_once(catalog: SparkSession) -> None:
    catalog.sql(
        "CREATE TABLE sliced (id BIGINT, v DOUBLE) TBLPROPERTIES ('parquet.block.row.count.limit' = '1000',"
        " 'source.split.target-size' = '8kb', 'source.split.open-file-cost' = '1kb')"
    )
    catalog.range(0, 20_000, 1, 1).selectExpr("id", "rand(5) v").writeTo("sliced").append()
    frame = catalog.sql("SELECT * FROM sliced")
    assert NATIVE in plan_of(frame)
    assert frame.rdd.getNumPartitions() > 5
    assert frame.selectExpr("count(*)", "count(DISTINCT id)", "sum(id)").first() == (20_000, 20_000, 199_990_000)


def test_a_snapshot_stays_what_it_was(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE history (id INT)")
    catalog.sql("INSERT INTO history VALUES (1)")
    catalog.sql("INSERT INTO history VALUES (2)")
    assert shown(catalog, "SELECT * FROM history VERSION AS OF 1") == (True, [(1,)])
    frame = catalog.sql("SELECT * FROM history")
    assert sorted(row[0] for row in frame.collect()) == [1, 2]
    catalog.sql("INSERT OVERWRITE history VALUES (3)")
    assert sorted(row[0] for row in frame.collect()) == [1, 2]
    assert shown(catalog, "SELECT * FROM history") == (True, [(3,)])
