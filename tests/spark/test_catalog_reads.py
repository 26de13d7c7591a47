"""Reads of the catalog: what is planned (columns, files, tasks) and the rows that come out."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.table import schema_store
from tests.support.calls import jobs_of
from tests.support.plan_texts import calls_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session with a catalog `reads` in use, and its table `t`: partitions x, y and z, a file in each."""
    paimon_spark.register_catalog(spark, "reads", warehouse=str(tmp_path_factory.mktemp("reads")))
    spark.sql("CREATE DATABASE IF NOT EXISTS reads.db")
    spark.sql("USE reads.db")
    spark.sql(
        "CREATE TABLE t (id INT, v DOUBLE, name STRING, s STRUCT<a: INT, b: STRUCT<c: INT, d: STRING>>,"
        " at TIMESTAMP_NTZ, day DATE, amount DECIMAL(10, 2), p STRING) PARTITIONED BY (p)"
    )
    spark.sql(
        "INSERT INTO t SELECT id, id / 2, concat('n', id), struct(id, struct(id * 2, 'd')), timestamp_ntz'2020-01-01' +"
        " make_dt_interval(id), date_add(date'2020-01-01', id), id * 1.5, p FROM VALUES (1, 'x'), (2, 'x'), (3, 'y'),"
        " (4, 'z'), (CAST(NULL AS INT), 'z') AS r (id, p)"
    )
    yield spark
    spark.sql("USE spark_catalog.default")


def physical(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def planned(frame: DataFrame) -> list[tuple[str, int]]:
    """Columns and number of files of every scan of a query."""
    found = re.findall(r"columns=\[([^\]]*)\].*?files=(\d+)", physical(frame))
    return [(columns, int(files)) for columns, files in found]


def ids(frame: DataFrame) -> list[Any]:
    return sorted((row[0] for row in frame.collect()), key=lambda value: (value is None, value))


@pytest.mark.parametrize(
    ("condition", "rows", "files"),
    [
        ("p = 'x'", [1, 2], 1),
        ("p IN ('x', 'y')", [1, 2, 3], 2),
        ("p <> 'x'", [3, 4, None], 2),
        ("id = 3", [3], 1),
        ("3 <= id", [3, 4], 2),
        ("id <=> NULL", [None], 1),
        ("id IS NULL OR id = 1", [1, None], 2),
        ("NOT (id < 4 OR p = 'q')", [4], 1),
        ("name LIKE 'n3%'", [3], 1),
        ("name LIKE '%4'", [4], 3),
        ("v = 2.0D", [4], 1),
        ("v = CAST('NaN' AS DOUBLE)", [], 3),
        ("day = DATE'2020-01-05'", [4], 1),
        ("at >= TIMESTAMP_NTZ'2020-01-04 00:00:00'", [3, 4], 2),
        ("amount > 5", [4], 1),
        ("amount = 1.5", [1], 1),
        ("s.a = 3", [3], 3),
        ("length(name) = 2 AND p = 'y'", [3], 1),
        ("id IN (4, 99)", [4], 1),
        ("id NOT IN (1, 2, 3)", [4], 2),
        ("false", [], 0),
    ],
)
def test_filters_choose_rows_and_files(catalog: SparkSession, condition: str, rows: list[Any], files: int) -> None:
    frame = catalog.sql(f"SELECT id FROM t WHERE {condition}")
    assert ids(frame) == rows
    found = planned(frame)
    assert [count for _, count in found] == ([files] if found else [])
    assert bool(found) == (condition != "false")


def test_only_the_columns_asked_for_are_read(catalog: SparkSession) -> None:
    assert planned(catalog.sql("SELECT v FROM t WHERE p = 'x'"))[0][0] == "v"
    assert planned(catalog.sql("SELECT v FROM t WHERE id = 1"))[0][0] == "id, v"
    assert planned(catalog.sql("SELECT s.b.c FROM t"))[0][0] == "s:struct<b:struct<c:int>>"
    assert ids(catalog.sql("SELECT s.b.c FROM t")) == [2, 4, 6, 8, None]
    assert [tuple(row) for row in catalog.sql("SELECT s.b.d, s.a FROM t WHERE id = 3").collect()] == [("d", 3)]


def test_a_filter_that_only_spark_knows_is_left_to_it(catalog: SparkSession) -> None:
    frame = catalog.sql("SELECT id FROM t WHERE length(name) = 2 AND id < 3")
    assert "Filter " in physical(frame)
    assert "`id` < 3" in physical(frame)
    assert ids(frame) == [1, 2]
    assert "Filter " not in physical(catalog.sql("SELECT id FROM t WHERE p < 'y'"))


def test_a_limit_plans_no_more_files_than_it_needs(catalog: SparkSession) -> None:
    frame = catalog.sql("SELECT id FROM t LIMIT 1")
    assert len(frame.collect()) == 1
    assert planned(frame) == [("id", 1)]
    judged = catalog.sql("SELECT id FROM t WHERE v < 100 LIMIT 1")
    assert [files for _, files in planned(judged)] == [3]


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("SELECT count(*) FROM t", (5,)),
        ("SELECT count(*), count(id), min(id), max(id) FROM t", (5, 4, 1, 4)),
        ("SELECT min(p), max(p), count(p) FROM t WHERE p > 'x'", ("y", "z", 3)),
        ("SELECT CAST(max(day) AS STRING), CAST(min(amount) AS STRING) FROM t", ("2020-01-05", "1.50")),
        ("SELECT CAST(max(at) AS STRING) FROM t", ("2020-01-05 00:00:00",)),
        ("SELECT p, count(*) FROM t WHERE p = 'z' GROUP BY p", ("z", 2)),
        ("SELECT count(*), max(id) FROM t WHERE p = 'nowhere'", (0, None)),
        ("SELECT count(DISTINCT p), count(p), max(id) FROM t", (3, 5, 4)),
        ("SELECT count(DISTINCT p) FROM t WHERE p > 'x'", (2,)),
        ("SELECT count(DISTINCT p) FROM t WHERE p = 'nowhere'", (0,)),
    ],
)
def test_counts_and_extremes_run_no_task(catalog: SparkSession, query: str, row: tuple[Any, ...]) -> None:
    with jobs_of(catalog) as jobs:
        frame = catalog.sql(query)
        assert [tuple(found) for found in frame.collect()] == [row]
    assert jobs == []
    assert "LocalTableScan" in physical(frame)
    assert "BatchScan" not in physical(frame)


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("SELECT max(name) FROM t", ("n4",)),
        ("SELECT max(v) FROM t", (2.0,)),
        ("SELECT count(*) FROM t WHERE id > 2", (2,)),
        ("SELECT count(DISTINCT id) FROM t", (4,)),
        ("SELECT sum(id) FROM t", (10,)),
        ("SELECT count(*) FROM t WHERE length(p) = 1", (5,)),
    ],
)
def test_what_metadata_cannot_show_is_read(catalog: SparkSession, query: str, row: tuple[Any, ...]) -> None:
    frame = catalog.sql(query)
    assert [tuple(found) for found in frame.collect()] == [row]
    assert "BatchScan" in physical(frame)


def test_counts_of_merged_rows_are_read(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE k (k INT, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    catalog.sql("INSERT INTO k VALUES (1, 1), (2, 2)")
    one_run = catalog.sql("SELECT count(*), max(v) FROM k")
    assert tuple(one_run.first() or ()) == (2, 2)
    assert "LocalTableScan" in physical(one_run)
    catalog.sql("INSERT INTO k VALUES (1, 0), (2, 1)")
    two_runs = catalog.sql("SELECT count(*), max(v) FROM k")
    assert tuple(two_runs.first() or ()) == (2, 1)
    assert "BatchScan" in physical(two_runs)


def test_scans_of_one_frame_do_not_share_what_is_pushed_down(catalog: SparkSession) -> None:
    frame = catalog.table("t")
    assert ids(frame.where("id = 1").union(frame.where("id = 2")).select("id")) == [1, 2]
    assert frame.count() == 5
    frame.createOrReplaceTempView("reads_view")
    assert ids(catalog.sql("SELECT id FROM reads_view WHERE p = 'x'")) == [1, 2]
    assert ids(catalog.sql("SELECT id FROM reads_view WHERE p = 'y'")) == [3]
    joined = catalog.sql("SELECT a.id FROM t a JOIN t b ON a.id = b.id + 1 WHERE b.p = 'x'")
    assert ids(joined) == [2, 3]


def test_statistics_let_small_tables_be_broadcast(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE big (id INT, w STRING)")
    catalog.sql("INSERT INTO big SELECT CAST(id AS INT), repeat('w', 50) FROM range(1000)")
    assert "BroadcastHashJoin" in physical(catalog.sql("SELECT * FROM big JOIN t USING (id)"))
    statistics = catalog.table("big")._jdf.queryExecution().optimizedPlan().stats()
    assert 10_000 < int(str(statistics.sizeInBytes())) < 1_000_000


def test_a_join_leaves_out_partitions_while_it_runs(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE dim (p STRING, name STRING)")
    catalog.sql("INSERT INTO dim VALUES ('x', 'ex'), ('y', 'why'), ('z', 'zed')")
    frame = catalog.sql("SELECT t.id FROM t JOIN dim ON t.p = dim.p WHERE dim.name = 'ex'")
    assert ids(frame) == [1, 2]
    assert ("id, p", 1) in planned(frame)


def test_a_cached_frame_is_found_again_and_sees_writes_of_its_session(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE cached (id INT)")
    catalog.sql("INSERT INTO cached VALUES (1)")
    frame = catalog.table("cached").cache()
    try:
        assert frame.count() == 1
        assert "InMemoryTableScan" in physical(catalog.table("cached").select("id"))
        assert "InMemoryTableScan" not in physical(catalog.sql("SELECT id FROM cached VERSION AS OF 1"))
        catalog.sql("INSERT INTO cached VALUES (2)")
        assert catalog.table("cached").count() == 2
    finally:
        frame.unpersist()


def test_a_frame_of_a_table_that_another_process_has_changed(
    catalog: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that reads later than it was described gives right rows or says what happened, never other rows."""
    monkeypatch.setattr(schema_store, "FRESH_SECONDS", 0.0)
    root = catalog.sql("DESCRIBE EXTENDED t").where("col_name = 'Location'").first()["data_type"].rpartition("/")[0]
    rival = catalog.newSession()
    paimon_spark.register_catalog(rival, "rival", warehouse=root.rpartition("/")[0])
    catalog.sql("CREATE TABLE held (a INT, b STRING)")
    catalog.sql("INSERT INTO held VALUES (1, 'x')")
    held = catalog.table("held")
    frames = [held, held.where("a > 1"), held.selectExpr("max(a)"), held.groupBy().count(), held.select("b")]
    other = "rival.db.held"
    for statement in ("ALTER TABLE {t} ADD COLUMN c INT", "ALTER TABLE {t} RENAME COLUMN b TO d"):
        rival.sql(statement.format(t=other))
    rival.sql(f"INSERT INTO {other} VALUES (2, 'y', 3)")
    assert [sorted(map(tuple, frame.collect())) for frame in frames] == [
        [(1, "x"), (2, "y")], [(2, "y")], [(2,)], [(2,)], [("x",), ("y",)]
    ]  # fmt: skip
    frames, again = ([frame.select("*") for frame in frames] for _ in range(2))
    rival.sql(f"ALTER TABLE {other} ALTER COLUMN a TYPE BIGINT")
    rival.sql(f"INSERT INTO {other} VALUES (5000000000, 'z', 3)")
    for frame in frames:
        with pytest.raises(Exception, match="column a was changed from INT to BIGINT"):
            frame.collect()
    rival.sql(f"DROP TABLE {other}")
    rival.sql(f"CREATE TABLE {other} (x INT, y STRING)")
    rival.sql(f"INSERT INTO {other} VALUES (7, 'new')")
    for frame in again:
        with pytest.raises(Exception, match="was dropped or made anew"):
            frame.collect()


def test_a_frame_sees_the_latest_snapshot_each_time(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE growing (id INT)")
    frame = catalog.table("growing")
    assert frame.where("id > 0").count() == 0
    catalog.sql("INSERT INTO growing VALUES (1)")
    assert frame.where("id > 0").count() == 1


def test_two_passes_of_one_query(catalog: SparkSession) -> None:
    """As the official connector: a plan that is there is run again, whatever makes a new one takes the latest snapshot.

    README says so, and which of our other entry points stay on one.
    """
    catalog.sql("CREATE OR REPLACE TABLE passes (a INT)")
    catalog.sql("INSERT INTO passes VALUES (1), (2)")
    frame, pinned = catalog.table("passes"), catalog.sql("SELECT * FROM passes VERSION AS OF 1")
    path = catalog.sql("DESCRIBE EXTENDED passes").where("col_name = 'Location'").head()[1]
    table = paimon_spark.PaimonTable.for_path(catalog, path)
    loaded, made = catalog.read.format("paimon").load(path), table.to_df()
    frames = (frame, pinned, loaded, made)
    assert [len(each.collect()) for each in frames] == [2, 2, 2, 2]
    table.append(catalog.sql("SELECT 3 AS a"))
    assert [len(each.collect()) for each in frames] == [2, 2, 2, 2]
    assert [each.count() for each in frames] == [3, 2, 2, 2]
    assert catalog.table("passes").count() == 3


def test_metadata_columns(catalog: SparkSession) -> None:
    rows = catalog.sql(
        "SELECT id, __paimon_partition.p, __paimon_bucket, __paimon_row_index, __paimon_file_path FROM t WHERE id = 2"
    ).collect()
    assert [tuple(row)[:4] for row in rows] == [(2, "x", 0, 1)]
    assert re.search(r"/db\.db/t/p=x/bucket-0/data-.*\.parquet$", rows[0][4])
    assert catalog.sql("SELECT DISTINCT __paimon_file_path FROM t").count() == 3
    assert "__paimon_bucket" not in catalog.table("t").columns
    assert [row[0] for row in catalog.sql("SELECT __paimon_partition FROM growing").collect()] == [()]


def test_metadata_columns_of_merged_rows(catalog: SparkSession) -> None:
    assert ids(catalog.sql("SELECT __paimon_bucket FROM k")) == [0, 0]
    with pytest.raises(Exception, match="merged from several files"):
        catalog.sql("SELECT __paimon_file_path FROM k").collect()


def test_the_number_of_calls_does_not_grow_with_files_or_columns(catalog: SparkSession) -> None:
    """Counted in the gateway's client while a query is planned."""
    catalog.sql("CREATE TABLE few (a INT)")
    catalog.sql("INSERT INTO few VALUES (1)")
    columns = ", ".join(f"c{n} INT" for n in range(40))
    catalog.sql(f"CREATE TABLE many ({columns}, p INT) PARTITIONED BY (p)")
    catalog.sql(f"INSERT INTO many SELECT {', '.join(['1'] * 40)}, CAST(id AS INT) FROM range(20)")
    few, many = calls_of(catalog, "SELECT * FROM few"), calls_of(catalog, "SELECT * FROM many")
    assert many <= few + 5
    assert few < 200
    assert calls_of(catalog, "DESCRIBE many") < 25


def test_the_number_of_calls_of_a_change_does_not_grow_with_files(catalog: SparkSession) -> None:
    """Each file that an UPDATE or DELETE writes anew took ten calls, and each column twelve."""
    calls = {}
    for files in (1, 9):
        catalog.sql(f"CREATE TABLE of_{files} (id INT, p INT, v STRING) PARTITIONED BY (p)")
        catalog.sql(f"INSERT INTO of_{files} SELECT id, id % {files}, 'v' FROM VALUES (1), (2), (3), (4), (5) AS s(id)")
        catalog.sql(f"INSERT INTO of_{files} SELECT id, id % {files}, 'v' FROM range(90)")
        calls[files] = calls_of(catalog, f"UPDATE of_{files} SET v = concat(v, 'x') WHERE id < 50")
        assert catalog.sql(f"SELECT count(*) FROM of_{files} WHERE v = 'vxx'").head()[0] == 55
    assert calls[9] <= calls[1] + 30
