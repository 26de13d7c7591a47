"""Every entry point of a classic session has one planner: the same plan of format("paimon"), methods, SQL, paths."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.spark.hooks.format_plans import has_format_plans
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.table.table import load_table
from tests.support.plain_source import plain_session

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("reads_by_tasks")]

NATIVE = "reader=spark-parquet"


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of the database `entry_points.db`, with a partitioned append table and a compacted keyed one."""
    warehouse = tmp_path_factory.mktemp("entry_points")
    paimon_spark.register_catalog(spark, "entry_points", warehouse=str(warehouse))
    spark.sql("CREATE DATABASE entry_points.db")
    spark.sql("CREATE TABLE entry_points.db.plain (id BIGINT, v STRING, c CHAR(3), p INT) PARTITIONED BY (p)")
    for low in (0, 100):
        rows = spark.range(low, low + 10, 1, 1).selectExpr("id", "concat('v', id) v", "'x' c", "cast(id % 2 AS int) p")
        rows.writeTo("entry_points.db.plain").append()
    spark.sql("CREATE TABLE entry_points.db.keyed TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2') AS "
              "SELECT id, v, p FROM entry_points.db.plain")  # fmt: skip
    spark.sql("CALL entry_points.sys.compact(table => 'db.keyed')")
    yield warehouse / "db.db"
    spark.sql("DROP DATABASE entry_points.db CASCADE")


def entry_points(spark: SparkSession, path: str, name: str) -> dict[str, Callable[[], DataFrame]]:
    return {
        "load": lambda: spark.read.format("paimon").load(path),
        "option": lambda: spark.read.option("path", path).format("PAIMON").load(),
        "to_df": lambda: PaimonTable.for_path(spark, path).to_df(),
        "path": lambda: spark.sql(f"SELECT * FROM paimon.`{path}`"),
        "table": lambda: spark.table(name),
    }


def scan_of(frame: DataFrame) -> str:
    """What the plan says that is read, without the name of the table."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    found = re.search(r"columns=.*?(?= RuntimeFilters)|metadata only.*|LocalTableScan", plan)
    assert found, plan
    return found[0]


QUERIES: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "columns": (lambda rows: rows.select("v"), rf"columns=\[v\], snapshot=\d+, files=\d, {NATIVE}"),
    "filter": (
        lambda rows: rows.where("id BETWEEN 103 AND 104").select("v"),
        rf"columns=\[id, v\], filter=\[.*103.*104.*\], .*{NATIVE}",
    ),
    "partition": (lambda rows: rows.where("p = 1"), rf".*filter=.*, {NATIVE}"),
    "limit": (lambda rows: rows.select("id").limit(3), rf"columns=\[id\], limit=3, .*{NATIVE}"),
    "count": (lambda rows: rows.selectExpr("count(*)", "min(p)"), "LocalTableScan|metadata only"),
}


@pytest.mark.parametrize("table", ["plain", "keyed"])
def test_every_entry_point_plans_the_same(spark: SparkSession, catalog: Path, table: str) -> None:
    opened = entry_points(spark, str(catalog / table), f"entry_points.db.{table}")
    for query, (narrow, shown) in QUERIES.items():
        if table == "keyed" and query == "count":
            continue
        plans = {entry_point: scan_of(narrow(rows())) for entry_point, rows in opened.items()}
        assert len(set(plans.values())) == 1, plans
        assert re.match(shown, plans["load"]), plans["load"]
        found = {
            entry_point: sorted(map(tuple, narrow(rows()).collect()))
            for entry_point, rows in opened.items()
            if query != "limit"
        }
        assert all(rows == found["load"] for rows in found.values())


def test_files_are_left_out(spark: SparkSession, catalog: Path) -> None:
    load = spark.read.format("paimon").load
    rows = load(str(catalog / "plain"))
    for condition, files in (("true", 4), ("p = 1", 2), ("id > 50", 2), ("p = 1 AND id < 50", 1)):
        assert f"files={files}, {NATIVE}" in scan_of(rows.where(condition))
        by_option = spark.read.format("paimon").option("filter", condition).option("columns", "v").load
        assert f"files={files}, {NATIVE}" in scan_of(by_option(str(catalog / "plain")))
        assert by_option(str(catalog / "plain")).count() == rows.where(condition).count()
    size = rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert size < 10_000


def test_options_of_a_load(spark: SparkSession, catalog: Path) -> None:
    path = str(catalog / "plain")
    read = spark.read.format("paimon")
    narrow = read.option("columns", "v, id").option("scan.snapshot-id", "1").load(path)
    assert (narrow.columns, narrow.count()) == (["v", "id"], 10)
    assert "columns=[id, v], snapshot=1" in scan_of(narrow)
    typed = spark.read.format("paimon").schema("P int, id bigint").load(path)
    assert typed.columns == ["P", "id"]
    assert NATIVE in scan_of(typed)
    assert {row.P for row in typed.collect()} == {0, 1}
    odd = spark.read.format("paimon").option("filter", "v <> 'it''s'").load(path)  # its escapes depend on the session
    assert odd.count() == 20
    assert {row.c for row in spark.read.format("paimon").load(path).collect()} == {"x  "}
    assigned = spark.read.format("paimon").option("columns", "id, __paimon_bucket").load(path)
    assert {tuple(row) for row in assigned.where("id < 2").collect()} == {(0, 0), (1, 0)}
    one = spark.read.format("paimon").load(path)
    assert one.alias("a").join(one.alias("b"), "id").count() == 20
    assert not one.isEmpty()
    assert spark.sql(f"SELECT count(*) FROM paimon.`{path}` WITH (`scan.snapshot-id` = 1)").first() == (10,)


@pytest.mark.parametrize("catalog_too", [False, True], ids=["no catalog", "a catalog of that name"])
def test_versions_of_a_path(spark: SparkSession, tmp_path: Path, catalog_too: bool) -> None:
    path = str(tmp_path / "t")
    for low in (0, 10):
        spark.range(low, low + 3).write.format("paimon").mode("append").save(path)
    table = PaimonTable.for_path(spark, path)
    table.create_tag("first", snapshot_id=1)
    millis = load_table(path).snapshots.get(1).time_millis
    # spark.newSession() would hand on the catalogs of other tests
    bare = SparkSession(spark.sparkContext, spark._jsparkSession.newSession())
    paimon_spark.register(bare)
    if catalog_too:
        paimon_spark.register_catalog(bare, "paimon", warehouse=str(tmp_path / "wh"))
    asked = ("VERSION AS OF 1", "VERSION AS OF 'first'", f"TIMESTAMP AS OF timestamp_millis({millis})")
    for version in asked:
        frame = bare.sql(f"SELECT count(id), max(id) FROM paimon.`{path}` {version} AS t WHERE t.id < 9")
        assert frame.collect() == [(3, 2)]
        assert "snapshot=1, files=" in scan_of(bare.sql(f"SELECT * FROM paimon.`{path}` {version}"))
    assert bare.sql(f"SELECT count(*) FROM paimon.`{path}`").first() == (6,)
    with pytest.raises(PySparkException, match="must be null when VERSION AS OF"):
        bare.sql(f"SELECT * FROM paimon.`{path}` VERSION AS OF 1 WITH ('scan.snapshot-id' = '2')")
    with pytest.raises(PySparkException, match="nix"):
        bare.sql(f"SELECT * FROM paimon.`{path}` VERSION AS OF 'nix'")


def test_a_temporary_view_using_paimon_is_planned(spark: SparkSession, catalog: Path) -> None:
    path = str(catalog / "plain")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW using_paimon USING paimon OPTIONS (path '{path}')")
    found = spark.sql("SELECT upper(v) AS v, c FROM using_paimon AS t WHERE id > 105 AND t.p = 1 ORDER BY id")
    assert "files=1, reader=spark-parquet" in scan_of(found)
    assert [tuple(row) for row in found.collect()] == [("V107", "x  "), ("V109", "x  ")]
    joined = spark.sql("SELECT count(*) FROM using_paimon a JOIN using_paimon b ON a.id = b.id")
    assert joined.first() == (20,)
    assert spark.table("using_paimon").columns == ["id", "v", "c", "p"]
    spark.sql("DROP VIEW using_paimon")


@pytest.mark.parametrize("view", ["$ro", "$files", "$snapshots", "$audit_log", "$branch_b"])
def test_views(spark: SparkSession, catalog: Path, view: str) -> None:
    path = f"{catalog / 'keyed'}{view}"
    if view == "$branch_b":
        PaimonTable.for_path(spark, str(catalog / "keyed")).create_branch("b", ignore_if_exists=True)
    rows = spark.read.format("paimon").load(path)
    plain = plain_session(spark).read.format("paimon").load(path)
    tables = [str(frame._jdf.queryExecution().analyzed().table().getClass()) for frame in (rows, plain)]
    assert ["PythonTable" in table for table in tables] == [False, True]
    assert rows.schema == plain.schema
    assert sorted(map(str, rows.collect())) == sorted(map(str, plain.collect()))


def test_sessions_made_of_a_session_plan_the_same(spark: SparkSession, catalog: Path) -> None:
    gateway = gateway_of(spark)
    clone = spark._jsparkSession.cloneSession()
    assert has_format_plans(gateway, clone.sessionState())
    for session in (spark.newSession(), SparkSession(spark.sparkContext, clone)):
        assert NATIVE in scan_of(session.read.format("paimon").load(str(catalog / "plain")))


def files_of(path: str) -> Counter[tuple[bytes, int]]:
    """How many files the last commit left in each bucket."""
    table = load_table(path)
    latest = table.snapshots.latest()
    assert latest is not None
    return Counter((entry.partition, entry.bucket) for entry in table.manifests.live_entries(latest))


SAVES: dict[str, Callable[[DataFrame, str, str], object]] = {
    "save": lambda rows, path, name: rows.write.format("paimon").mode("append").save(path),
    "append": lambda rows, path, name: PaimonTable.for_path(rows.sparkSession, path).append(rows),
    "writeTo": lambda rows, path, name: rows.writeTo(name).append(),
    "saveAsTable": lambda rows, path, name: rows.write.mode("append").saveAsTable(name),
    "insertInto": lambda rows, path, name: rows.write.insertInto(name),
}


@pytest.mark.parametrize("entry_point", SAVES)
def test_every_entry_point_leaves_one_file_in_each_bucket(spark: SparkSession, catalog: Path, entry_point: str) -> None:
    name, path = f"entry_points.db.to_{entry_point}", str(catalog / f"to_{entry_point}")
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING) "
              "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '3', 'write-only' = 'true')")  # fmt: skip
    SAVES[entry_point](spark.range(0, 600, 1, 8).selectExpr("id", "concat('v', id) v"), path, name)
    assert sorted(files_of(path).values()) == [1, 1, 1]
    assert spark.table(name).selectExpr("count(*)", "sum(id)").first() == (600, 179_700)


def test_saves(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    wide = spark.range(0, 8, 1, 4).selectExpr("cast(id AS int) ID", "cast(id % 2 AS string) p", "id v")
    writer = wide.write.format("paimon").option("primary-key", "ID,p").option("bucket", "1").partitionBy("p")
    writer.mode("overwrite").save(path)
    assert sorted(files_of(path).values()) == [1, 1]
    wide.selectExpr("p", "cast(id AS tinyint) id").write.format("paimon").mode("append").save(path)
    rows = spark.read.format("paimon").load(path)
    assert (rows.columns, rows.count(), rows.where("v IS NULL").count()) == (["ID", "p", "v"], 8, 8)
    more = spark.sql("SELECT 1 id, '1' p, 5L v, 'new' more")
    more.write.format("paimon").option("write.merge-schema", "true").mode("append").save(path)
    one = spark.sql("SELECT 9 id, '1' p, 0L v, '' more")
    one.write.format("paimon").option("replaceWhere", "p = '1'").mode("overwrite").save(path)
    assert spark.read.format("paimon").load(path).groupBy("p").count().orderBy("p").collect() == [("0", 4), ("1", 1)]
    one.selectExpr("id", "'0' p").write.format("paimon").option("partitionOverwriteMode", "dynamic").mode(
        "overwrite"
    ).save(path)
    assert spark.read.format("paimon").load(path).count() == 2
    with pytest.raises(paimon_spark.SchemaMismatchError, match=r".*nonsense"):
        one.selectExpr("id", "p", "1 nonsense").write.format("paimon").mode("append").save(path)
    with pytest.raises(paimon_spark.OptionError, match="Unknown option 'bukket'"):
        one.write.format("paimon").option("bukket", "hush").mode("append").save(path)
    spark.read.format("paimon").load(path).createOrReplaceTempView("format_view")
    spark.sql("INSERT INTO format_view VALUES (20, 'z', 1, NULL)")
    assert spark.read.format("paimon").load(path).where("p = 'z'").count() == 1


def test_a_load_asks_the_jvm_as_often_for_many_columns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of the JVM for each column would make loads of wide tables slow."""
    client = gateway_of(spark).gateway._gateway_client
    plain = client.send_command
    commands: list[str] = []

    def noting(command: str, *arguments: object, **named: object) -> object:
        if not command.startswith("m\nd\n"):  # an object is let go
            commands.append(command)
        return plain(command, *arguments, **named)

    counts = []
    for width in (1, 30):
        path = str(tmp_path / str(width))
        PaimonTable.create(spark, path, ", ".join(f"c{number} INT" for number in range(width)))
        spark.read.format("paimon").load(path)  # what is kept is made
        monkeypatch.setattr(client, "send_command", noting)
        spark.read.format("paimon").load(path)
        monkeypatch.undo()
        counts.append(len(commands))
        commands.clear()
    assert counts[0] == counts[1] <= 26
