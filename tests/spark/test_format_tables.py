"""Format tables of REST and Hive catalogs, by both fronts: Spark's own sources read and write their files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.table.metastore_catalog import open_catalog
from tests.support.warehouses import FRONTS, Run, run_by, run_in_database

pytestmark = pytest.mark.spark
FORMATS = ("csv", "json", "orc", "parquet")
of_catalog = pytest.mark.parametrize("run", ["catalog"], indirect=True)


@pytest.fixture(scope="module", params=["rest", "hive"])
def kept_by(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The options of a catalog that keeps such tables."""
    server = request.getfixturevalue(request.param)
    if request.param == "rest":
        return dict(server.options())
    return {"metastore": "hive", "uri": server.uri, "warehouse": str(tmp_path_factory.mktemp("warehouse"))}


@pytest.fixture(scope="module")
def session(spark: SparkSession, kept_by: dict[str, str]) -> SparkSession:
    found = spark.newSession()
    paimon_spark.register_catalog(found, "r", **kept_by)
    paimon_spark.sql(found, "SELECT 1", catalog="r", **kept_by)
    return found


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, session: SparkSession) -> Iterator[Run]:
    yield from run_in_database(session, request.param, "r.f")


@pytest.fixture
def run_of_format(session: SparkSession, kept_by: dict[str, str], name: str) -> Iterator[Run]:
    """Runs statements by one of the fronts: each format by both, one in each kind of catalog."""
    front = FRONTS[(FORMATS.index(name) + (kept_by["metastore"] == "hive")) % len(FRONTS)]
    yield from run_in_database(session, front, "r.f")


def rows(run: Run, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in run(text).collect())


def location(run: Run, name: str) -> Path:
    described = {row.col_name: row.data_type for row in run(f"DESCRIBE EXTENDED r.f.{name}").collect()}
    return Path(described["Location"].removeprefix("file:"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_without_partitions(run_of_format: Run, name: str) -> None:
    run = run_of_format
    run(f"CREATE TABLE r.f.t (id INT, name STRING, value DOUBLE) USING {name}")
    assert rows(run, "SELECT * FROM r.f.t") == []
    run("INSERT INTO r.f.t VALUES (1, 'a', 0.5), (2, 'b', 1.5)")
    run("INSERT INTO r.f.t VALUES (3, NULL, 2.5)")
    assert rows(run, "SELECT id, name FROM r.f.t") == [(1, "a"), (2, "b"), (3, None)]
    assert rows(run, "SELECT name FROM r.f.t WHERE value > 1 AND id < 3") == [("b",)]
    assert rows(run, "SELECT count(*) FROM r.f.t") == [(3,)]
    assert {file.name.rpartition(".")[2] for file in location(run, "t").iterdir() if file.name[0] not in "._"} == {name}
    run("INSERT OVERWRITE r.f.t SELECT id + 10, name, value FROM r.f.t WHERE id = 1")
    assert rows(run, "SELECT * FROM r.f.t") == [(11, "a", 0.5)]
    run("TRUNCATE TABLE r.f.t")
    assert rows(run, "SELECT * FROM r.f.t") == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_with_partitions(run_of_format: Run, name: str, session: SparkSession) -> None:
    run = run_of_format
    run(f"CREATE TABLE r.f.t (id INT, day DATE, v STRING, p INT) USING {name} PARTITIONED BY (day, p)")
    assert rows(run, "SELECT id, p FROM r.f.t WHERE p = 1") == []
    columns = "(id, day, v, p)"  # in Hive's metastore the columns of partitions are the last ones
    run(
        f"INSERT INTO r.f.t {columns} "
        "VALUES (1, DATE '2026-01-01', 'a', 1), (2, DATE '2026-01-02', 'b', 2), (3, NULL, 'c', 3)"
    )
    place = location(run, "t")
    assert sorted(folder.name for folder in place.iterdir() if folder.is_dir() and folder.name[0] != ".") == [
        "day=2026-01-01", "day=2026-01-02", "day=__DEFAULT_PARTITION__",
    ]  # fmt: skip
    assert [tuple(row) for row in run("SELECT id, CAST(day AS STRING), v, p FROM r.f.t ORDER BY id").collect()] == [
        (1, "2026-01-01", "a", 1), (2, "2026-01-02", "b", 2), (3, None, "c", 3),
    ]  # fmt: skip
    assert rows(run, "SELECT v FROM r.f.t WHERE p > 1 AND day IS NOT NULL") == [("b",)]
    assert rows(run, "SELECT id FROM r.f.t WHERE day = DATE '2026-01-01' AND v = 'a'") == [(1,)]
    run("INSERT OVERWRITE r.f.t PARTITION (p = 1, day = DATE '2026-01-01') VALUES (5, 'x')")
    assert rows(run, "SELECT id, p FROM r.f.t") == [(2, 2), (3, 3), (5, 1)]
    run("INSERT INTO r.f.t PARTITION (p = 2, day) (id, day, v) VALUES (6, DATE '2026-01-02', 'y')")
    assert [row[0] for row in run("SHOW PARTITIONS r.f.t").collect()][:2] == [
        "day=2026-01-01/p=1", "day=2026-01-02/p=2",
    ]  # fmt: skip
    assert [row[0] for row in run("SHOW PARTITIONS r.f.t PARTITION (p = 2)").collect()] == ["day=2026-01-02/p=2"]
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        run(f"INSERT OVERWRITE r.f.t {columns} VALUES (7, DATE '2026-01-02', 'z', 2)")
    finally:
        session.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(run, "SELECT id, p FROM r.f.t") == [(3, 3), (5, 1), (7, 2)]
    run("TRUNCATE TABLE r.f.t PARTITION (p = 2, day = DATE '2026-01-02')")
    assert rows(run, "SELECT id, p FROM r.f.t") == [(3, 3), (5, 1)]
    run(f"INSERT OVERWRITE r.f.t {columns} VALUES (8, DATE '2026-01-02', 'z', 2)")
    assert rows(run, "SELECT id, p FROM r.f.t") == [(8, 2)]


@pytest.mark.parametrize("kept_by", ["rest"], indirect=True)
@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_columns_and_options_change_in_a_rest_catalog(run: Run, name: str) -> None:
    run(f"CREATE TABLE r.f.t (id INT, v STRING, p INT) USING {name} PARTITIONED BY (p)")
    run("INSERT INTO r.f.t VALUES (1, 'a', 1)")
    run("ALTER TABLE r.f.t SET TBLPROPERTIES ('x' = 'y')")
    run("ALTER TABLE r.f.t ADD COLUMN n INT")
    assert dict(run("SHOW TBLPROPERTIES r.f.t").collect())["x"] == "y"
    columns = [row.col_name for row in run("DESCRIBE r.f.t").collect()]
    assert columns[: columns.index("# Partition Information")] == ["id", "v", "p", "n"]
    run("INSERT INTO r.f.t VALUES (2, 'b', 1, 5)")
    assert [tuple(row) for row in run("SELECT * FROM r.f.t ORDER BY id").collect()] == [
        (1, "a", 1, None),
        (2, "b", 1, 5),
    ]


def test_a_partition_is_described(run: Run) -> None:
    run("CREATE TABLE r.f.t (id INT, p INT) USING csv PARTITIONED BY (p)")
    run("INSERT INTO r.f.t VALUES (1, 1), (2, 2)")
    described = [tuple(row) for row in run("DESCRIBE EXTENDED r.f.t PARTITION (p = 1)").collect()]
    assert ("Partition Values", "[p=1]", "") in described
    assert ("Partition Parameters", "{fileCount=1, fileSizeInBytes=2}", "") in described
    assert ("Partition Statistics", "2 bytes", "") in described
    with pytest.raises(Exception, match="PARTITIONS_NOT_FOUND"):
        run("DESCRIBE r.f.t PARTITION (p = 3)")


def test_a_table_of_text(run: Run) -> None:
    run("CREATE TABLE r.f.t (line STRING, p INT) USING text PARTITIONED BY (p)")
    run("INSERT INTO r.f.t VALUES ('a, b', 1), ('c', 2)")
    run("INSERT INTO r.f.t VALUES ('d', 2)")
    assert rows(run, "SELECT line FROM r.f.t WHERE p = 1") == [("a, b",)]
    assert rows(run, "SELECT p, line FROM r.f.t") == [(1, "a, b"), (2, "c"), (2, "d")]
    assert {file.suffix for file in location(run, "t").glob("p=*/part-*")} == {".txt"}
    run("INSERT OVERWRITE r.f.t PARTITION (p = 2) VALUES ('e')")
    assert rows(run, "SELECT line FROM r.f.t") == [("a, b",), ("e",)]
    for columns in ("a STRING, b STRING", "a INT"):
        with pytest.raises(Exception, match="one column of STRING"):
            run(f"CREATE TABLE r.f.broken ({columns}) USING text")
    assert [row.tableName for row in run("SHOW TABLES IN r.f").collect()] == ["t"]


@of_catalog
def test_what_else_opens_tables_refuses_them(run: Run, session: SparkSession, kept_by: dict[str, str]) -> None:
    run("CREATE TABLE r.f.t (id INT) USING csv")
    run("INSERT INTO r.f.t VALUES (1)")
    options = {key: text for key, text in kept_by.items() if key != "warehouse"}
    warehouse = kept_by["warehouse"]
    path = f"{'' if kept_by['metastore'] == 'hive' else 'rest://'}{warehouse}/f.db/t"
    for opened in (
        lambda: PaimonTable.for_name(session, "r.f.t").to_df(),
        lambda: paimon_spark.open_table("f.t", catalog=warehouse, **options).scan().to_arrow(),
        lambda: session.read.format("paimon").options(**kept_by).load(path).collect(),
    ):
        with pytest.raises(Exception, match=r"format.table"):
            opened()


@pytest.mark.parametrize("kind", ["filesystem", "jdbc", "hive"])
def test_other_catalogs_refuse_them(
    spark: SparkSession, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    options = {"metastore": kind, "warehouse": str(tmp_path / "wh")}
    if kind == "jdbc":
        options["uri"] = f"jdbc:sqlite:{tmp_path}/catalog.db"
    elif kind == "hive":
        options |= {"uri": request.getfixturevalue("hive").uri, "format-table.enabled": "false"}
    found = spark.newSession()
    paimon_spark.register_catalog(found, "o", **options)
    paimon_spark.sql(found, "SELECT 1", catalog="o", **options)
    found.sql("CREATE DATABASE o.no_files")
    for front in FRONTS:
        for definition, message in {
            "(id INT) USING csv": "Provider 'csv' is not supported by a Paimon catalog",
            "USING parquet AS SELECT 1 AS id": "Provider 'parquet' is not supported by a Paimon catalog",
            "(line STRING) USING text": "Catalogs with 'metastore' = 'rest' or 'hive' keep tables of plain files",
            "(id INT) TBLPROPERTIES ('type' = 'format-table')": "does not support format tables",
        }.items():
            with pytest.raises(Exception, match=message):
                run_by(found, front)(f"CREATE TABLE o.no_files.t {definition}")
    assert found.sql("SHOW TABLES IN o.no_files").collect() == []
    found.sql("DROP DATABASE o.no_files")


def test_directories_of_values_alone(run: Run) -> None:
    run(
        "CREATE TABLE r.f.t (id INT, p STRING) USING csv PARTITIONED BY (p) "
        "TBLPROPERTIES ('format-table.partition-path-only-value' = 'true')"
    )
    run("INSERT INTO r.f.t VALUES (1, 'a b'), (2, NULL)")
    names = {folder.name for folder in location(run, "t").iterdir() if folder.is_dir() and folder.name[0] != "."}
    assert names == {"a b", "__DEFAULT_PARTITION__"}
    assert [tuple(row) for row in run("SELECT id, p FROM r.f.t ORDER BY id").collect()] == [(1, "a b"), (2, None)]
    assert rows(run, "SELECT id FROM r.f.t WHERE p = 'a b'") == [(1,)]


def test_options_of_csv(run: Run) -> None:
    run("CREATE TABLE r.f.t (a INT, b STRING) USING csv TBLPROPERTIES ('csv.field-delimiter' = ';', 'header' = 'true')")
    place = location(run, "t")
    place.mkdir(parents=True, exist_ok=True)
    (place / "by_hand.csv").write_text("a;b\n1;x\n")
    (place / "_hidden.csv").write_text("a;b\n9;y\n")
    assert rows(run, "SELECT * FROM r.f.t") == [(1, "x")]
    shown = run("SHOW CREATE TABLE r.f.t").collect()[0][0]
    assert "USING csv" in shown
    assert "'csv.field-delimiter' = ';'" in shown


def test_tables_of_queries(run: Run) -> None:
    run("CREATE TABLE r.f.t USING json AS SELECT id, id % 2 AS p FROM range(4)")
    assert rows(run, "SELECT * FROM r.f.t") == [(0, 0), (1, 1), (2, 0), (3, 1)]
    run("CREATE OR REPLACE TABLE r.f.t USING parquet PARTITIONED BY (p) AS SELECT 7 AS id, 1 AS p")
    assert rows(run, "SELECT * FROM r.f.t") == [(7, 1)]
    run("CREATE OR REPLACE TABLE r.f.t AS SELECT 8 AS id")
    assert rows(run, "SELECT * FROM r.f.t") == [(8,)]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        run("CREATE TABLE r.f.broken USING csv AS SELECT 1 / id AS k FROM range(3)")
    assert [row.tableName for row in run("SHOW TABLES IN r.f").collect()] == ["t"]


def test_a_failed_overwrite_changes_nothing(run: Run) -> None:
    run("CREATE TABLE r.f.t (k DOUBLE) USING parquet")
    run("INSERT INTO r.f.t VALUES (1)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        run("INSERT OVERWRITE r.f.t SELECT 1 / id FROM range(3)")
    assert rows(run, "SELECT * FROM r.f.t") == [(1.0,)]
    assert [file.name for file in location(run, "t").iterdir() if file.name.startswith(".staging")] == []


def test_what_such_tables_have_not(run: Run) -> None:
    run("CREATE TABLE r.f.t (id INT, p INT) USING csv PARTITIONED BY (p)")
    run("INSERT INTO r.f.t VALUES (1, 1)")
    for statement, message in {
        "DELETE FROM r.f.t WHERE id = 1": "format.table",
        "UPDATE r.f.t SET id = 2": "format.table",
        "MERGE INTO r.f.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE": "format.table",
        "ALTER TABLE r.f.t ADD PARTITION (p = 2)": "ADD PARTITION is not supported for format table",
        "ALTER TABLE r.f.t DROP PARTITION (p = 1)": "DROP PARTITION is not supported for format table",
        "CALL r.sys.compact(table => 'f.t')": "format.table",
        "ANALYZE TABLE r.f.t COMPUTE STATISTICS": "format.table",
        "ALTER TABLE r.f.t CREATE TAG x": "format.table",
        "SHOW TAGS r.f.t": "format.table",
        "SELECT * FROM r.f.t VERSION AS OF 1": "format table",
        "CREATE TABLE r.f.k (id INT) USING csv TBLPROPERTIES ('primary-key' = 'id')": "has no primary key",
        "CREATE TABLE r.f.k (id INT) USING avro": "Supported providers",
    }.items():
        with pytest.raises(Exception, match=message):
            run(statement).collect()
    assert rows(run, "SELECT * FROM r.f.t") == [(1, 1)]


KEPT = "'metastore.partitioned-table' = 'true'"


@pytest.mark.parametrize("kept_by", ["rest"], indirect=True)
def test_partitions_that_the_catalog_keeps(run: Run, kept_by: dict[str, str]) -> None:
    """What it does not know is not seen: files come by writes, MSCK REPAIR TABLE and ADD PARTITION."""
    run(f"CREATE TABLE r.f.kept (id INT, day DATE, p INT) USING parquet PARTITIONED BY (day, p) TBLPROPERTIES ({KEPT})")
    table = open_catalog(kept_by["warehouse"], kept_by).load_table("f", "kept")
    server, place = table.schemas.server, location(run, "kept")
    assert server is not None
    assert rows(run, "SELECT * FROM r.f.kept") == []

    def shown() -> list[str]:
        return [row[0] for row in run("SHOW PARTITIONS r.f.kept").collect()]

    run("INSERT INTO r.f.kept VALUES (1, DATE '2026-01-01', 1), (2, DATE '2026-01-02', 2), (3, NULL, 3)")
    assert shown() == ["day=2026-01-01/p=1", "day=2026-01-02/p=2", "day=null/p=3"]
    assert sorted(each["day"] for each in server.registered_partitions()) == ["20454", "20455", "__DEFAULT_PARTITION__"]
    shutil.copytree(place / "day=20454", place / "day=20460")
    assert rows(run, "SELECT id, p FROM r.f.kept") == [(1, 1), (2, 2), (3, 3)]
    run("TRUNCATE TABLE r.f.kept PARTITION (day = DATE '2026-01-02', p = 2)")
    assert len(shown()) == 3
    run("MSCK REPAIR TABLE r.f.kept")
    assert rows(run, "SELECT id, CAST(day AS STRING) FROM r.f.kept WHERE day > DATE '2026-01-03'") == [
        (1, "2026-01-07")
    ]
    shutil.rmtree(place / "day=20455")
    assert len(shown()) == 4
    assert rows(run, "SELECT count(*) FROM r.f.kept") == [(3,)]
    run("MSCK REPAIR TABLE r.f.kept SYNC PARTITIONS")
    assert shown() == ["day=2026-01-01/p=1", "day=2026-01-07/p=1", "day=null/p=3"]
    run("ALTER TABLE r.f.kept ADD PARTITION (day = DATE '2026-02-01', p = 9)")
    with pytest.raises(Exception, match="exist"):
        run("ALTER TABLE r.f.kept ADD PARTITION (day = DATE '2026-02-01', p = 9)")
    run("ALTER TABLE r.f.kept ADD IF NOT EXISTS PARTITION (day = DATE '2026-02-01', p = 9)")
    with pytest.raises(Exception, match="LOCATION is not supported"):
        run("ALTER TABLE r.f.kept ADD PARTITION (day = DATE '2026-02-02', p = 9) LOCATION '/tmp/x'")
    assert (place / "day=20485" / "p=9").is_dir()
    run("INSERT OVERWRITE r.f.kept PARTITION (day = DATE '2026-02-01', p = 9) VALUES (4)")
    run("ALTER TABLE r.f.kept DROP PARTITION (day = DATE '2026-01-01')")
    with pytest.raises(Exception, match="PARTITIONS_NOT_FOUND"):
        run("ALTER TABLE r.f.kept DROP PARTITION (day = DATE '2026-01-01', p = 1)")
    run("ALTER TABLE r.f.kept DROP IF EXISTS PARTITION (day = DATE '2026-01-01', p = 1)")
    assert not (place / "day=20454" / "p=1").exists()
    assert rows(run, "SELECT id FROM r.f.kept") == [(1,), (3,), (4,)]
    shutil.copytree(place / "day=20460", place / "day=20454", dirs_exist_ok=True)
    run("INSERT OVERWRITE r.f.kept VALUES (5, DATE '2026-01-01', 1)")
    assert rows(run, "SELECT * FROM r.f.kept") == [(5, date(2026, 1, 1), 1)]
    with pytest.raises(Exception, match="only supported for internal tables"):
        run(
            f"CREATE TABLE r.f.out (id INT, p INT) USING csv PARTITIONED BY (p) TBLPROPERTIES ({KEPT}) "
            f"LOCATION '{place}/out'"
        )


def test_only_a_catalog_that_keeps_partitions_repairs_them(run: Run) -> None:
    run("CREATE TABLE r.f.t (id INT, p INT) USING csv PARTITIONED BY (p)")
    run("CREATE TABLE r.f.plain (id INT)")
    for name, words in (("t", "its directories say which partitions"), ("plain", "its snapshots say which partitions")):
        with pytest.raises(Exception, match=words):
            run(f"MSCK REPAIR TABLE r.f.{name}")


def test_an_external_table_stays(run: Run, tmp_path: Path) -> None:
    run(f"CREATE TABLE r.f.t (id INT) USING orc LOCATION '{tmp_path}/there'")
    run("INSERT INTO r.f.t VALUES (1)")
    run("DROP TABLE r.f.t")
    assert list((tmp_path / "there").glob("*.orc"))


@of_catalog
def test_frames(run: Run, session: SparkSession) -> None:
    frame = session.createDataFrame([(1, "a")], "id INT, p STRING")
    frame.write.format("csv").partitionBy("p").saveAsTable("r.f.t")
    frame.write.mode("append").format("csv").saveAsTable("r.f.t")
    frame.write.insertInto("r.f.t")
    assert session.table("r.f.t").count() == 3
    frame.writeTo("r.f.t").overwritePartitions()
    assert rows(run, "SELECT * FROM r.f.t") == [(1, "a")]
    frame.write.mode("overwrite").format("csv").saveAsTable("r.f.t")
    assert rows(run, "SELECT * FROM r.f.t") == [(1, "a")]
    assert (
        "PushedFilters: [IsNotNull(id)"
        in session.sql("SELECT * FROM r.f.t WHERE id = 1 AND p = 'a'")._jdf.queryExecution().toString()
    )
