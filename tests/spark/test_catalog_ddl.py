"""DDL through the SQL catalog: what statements make, show and refuse, with Spark's own errors."""

import datetime
import getpass
import itertools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

import paimon_spark
from paimon_spark.errors import PaimonError
from paimon_spark.table.table import load_table

pytestmark = [pytest.mark.spark, pytest.mark.catalog("ddl", current=True)]

_numbers = itertools.count()


@pytest.fixture
def name(warehouse: Path) -> str:
    """A name that no table has yet."""
    return f"t{next(_numbers)}"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def condition(spark: SparkSession, statement: str) -> str | None:
    """The name of the error that Spark gives for a statement."""
    with pytest.raises(PySparkException) as error:
        spark.sql(statement)
    return error.value.getCondition()


def test_databases(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE DATABASE ddl.one")
    assert (warehouse / "one.db").is_dir()
    assert condition(spark, "CREATE DATABASE ddl.one") == "SCHEMA_ALREADY_EXISTS"
    spark.sql("CREATE DATABASE IF NOT EXISTS ddl.one")
    spark.sql("CREATE TABLE ddl.one.t (a INT)")
    assert ("one",) in rows(spark.sql("SHOW DATABASES IN ddl"))
    assert condition(spark, "DROP DATABASE ddl.one") == "SCHEMA_NOT_EMPTY"
    changes = ("ALTER DATABASE ddl.one SET DBPROPERTIES ('a'='b')", "COMMENT ON DATABASE ddl.one IS 'x'")
    for change in (*changes, "ALTER DATABASE ddl.one SET LOCATION '/tmp/x'"):
        with pytest.raises(PySparkException, match="Alter database is not supported"):
            spark.sql(change)
    # Java discards them as well
    spark.sql("CREATE DATABASE ddl.noted COMMENT 'x' WITH DBPROPERTIES ('a'='b')")
    described = dict(rows(spark.sql("DESCRIBE DATABASE EXTENDED ddl.noted")))
    assert (described["Properties"], described["Location"]) == ("", str(warehouse / "noted.db"))
    with pytest.raises(PySparkException, match="Cannot specify location for a database"):
        spark.sql("CREATE DATABASE ddl.two LOCATION '/tmp/elsewhere'")
    spark.sql("DROP DATABASE ddl.one CASCADE")
    assert not (warehouse / "one.db").exists()
    assert condition(spark, "CREATE TABLE ddl.one.t (a INT)") == "SCHEMA_NOT_FOUND"


def test_create_table_is_what_java_reads(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name} (k INT NOT NULL, v STRING COMMENT 'text', d INT DEFAULT 5, s STRING DEFAULT 'ab', "
        "day DATE DEFAULT DATE'2024-01-31', c CHAR(3), dt STRING) PARTITIONED BY (dt) COMMENT 'all of it' "
        "TBLPROPERTIES ('primary-key'='dt,k', 'BUCKET'='2')"
    )
    schema = json.loads((warehouse / "db.db" / name / "schema" / "schema-0").read_text())
    assert (schema["primaryKeys"], schema["partitionKeys"]) == (["dt", "k"], ["dt"])
    # as the official connector: Spark's user is the owner
    assert (schema["options"], schema["comment"]) == ({"bucket": "2", "owner": getpass.getuser()}, "all of it")
    assert [field["type"] for field in schema["fields"]] == [
        *("INT NOT NULL", "STRING", "INT", "STRING", "DATE", "CHAR(3)", "STRING NOT NULL")
    ]
    assert [field.get("defaultValue") for field in schema["fields"]] == [
        *(None, None, "5", "'ab'", "2024-01-31", None, None)
    ]


def test_show_create_table_works_again(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name} (k INT NOT NULL COMMENT 'key', v VARCHAR(9), d DATE DEFAULT DATE'2024-01-31', "
        "s STRUCT<a: INT, b: ARRAY<STRING>>, q STRING DEFAULT 'it''s') PARTITIONED BY (v) COMMENT 'x' "
        "TBLPROPERTIES ('primary-key'='k,v', 'bucket'='2')"
    )
    first = spark.sql(f"SHOW CREATE TABLE {name}").head()[0]
    path = str(warehouse / "db.db" / name)
    assert "LOCATION" not in first
    assert ("path", path) in rows(spark.sql(f"SHOW TBLPROPERTIES {name}"))
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}
    assert (described["Location"], described["Owner"]) == (path, getpass.getuser())
    with pytest.raises(PySparkException, match=r"its own directory.*leave LOCATION out"):
        spark.sql(f"CREATE TABLE {name}_2 (k INT) LOCATION '{path}'")
    spark.sql(f"DROP TABLE {name}")
    spark.sql(first)
    assert spark.sql(f"SHOW CREATE TABLE {name}").head()[0] == first


@pytest.mark.parametrize("comment", ["", "  "])
def test_a_comment_may_be_blank(spark: SparkSession, name: str, comment: str) -> None:
    spark.sql(f"CREATE TABLE {name} (a INT)")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('comment' = '{comment}')")
    assert {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}["Comment"] == comment
    assert f"COMMENT '{comment}'" in spark.sql(f"SHOW CREATE TABLE {name}").head()[0]
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('comment')")
    assert "Comment" not in {row[0] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}


def test_errors_are_sparks(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (a INT)")
    assert condition(spark, f"CREATE TABLE {name} (a INT)") == "TABLE_OR_VIEW_ALREADY_EXISTS"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} (a INT)")
    for statement in ("SELECT * FROM nope", "DROP TABLE nope", "ALTER TABLE nope RENAME TO x", "DESCRIBE nope"):
        assert condition(spark, statement) == "TABLE_OR_VIEW_NOT_FOUND"
    assert condition(spark, "REPLACE TABLE nope (a INT)") == "TABLE_OR_VIEW_NOT_FOUND"
    spark.sql("DROP TABLE IF EXISTS nope")
    with pytest.raises(ParseException):
        spark.sql(f"SELEC * FROM {name}")
    with pytest.raises(PySparkException, match="Provider 'csv' is not supported"):
        spark.sql("CREATE TABLE other (a INT) USING csv")
    with pytest.raises(PySparkException, match="does not support specifying the table path"):
        spark.sql("CREATE TABLE other (a INT) LOCATION '/tmp/elsewhere'")
    with pytest.raises(PySparkException, match="must be a literal"):
        spark.sql("CREATE TABLE other (a TIMESTAMP DEFAULT current_timestamp())")


def test_replace_keeps_path_and_snapshots(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT 1 AS a, 'x' AS b")
    spark.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT a + 1 AS a, b, 3 AS c FROM {name}")
    assert rows(spark.table(name)) == [(2, "x", 3)]
    assert rows(spark.sql(f"SELECT * FROM {name} VERSION AS OF 1")) == [(1, "x")]
    spark.sql(f"REPLACE TABLE {name} (z INT)")
    assert (spark.table(name).columns, rows(spark.table(name))) == (["z"], [])
    with pytest.raises(PySparkException, match=r"Cannot replace table .* does not support changing partition keys"):
        spark.sql(f"REPLACE TABLE {name} (z INT, p INT) PARTITIONED BY (p)")


def test_create_as_select_that_fails_leaves_nothing(spark: SparkSession, warehouse: Path, name: str) -> None:
    with pytest.raises(PySparkException, match="boom"):
        spark.sql(f"CREATE TABLE {name} AS SELECT CAST(raise_error(concat('bo', 'om', id)) AS INT) AS x FROM range(2)")
    assert not (warehouse / "db.db" / name).exists()


def test_create_table_like(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT NOT NULL, v STRING DEFAULT 'x') TBLPROPERTIES ('primary-key'='k')")
    spark.sql(f"CREATE TABLE {name}_like LIKE {name} TBLPROPERTIES ('bucket'='3')")
    shown = spark.sql(f"SHOW CREATE TABLE {name}_like").head()[0]
    assert "'primary-key' = 'k'" in shown
    assert "'bucket' = '3'" in shown
    assert "DEFAULT 'x'" in shown


def test_rename_and_drop(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} AS SELECT 1 AS a")
    spark.sql("CREATE DATABASE IF NOT EXISTS ddl.other")
    spark.sql(f"ALTER TABLE {name} RENAME TO other.{name}")
    assert rows(spark.table(f"ddl.other.{name}")) == [(1,)]
    spark.sql(f"CREATE TABLE {name} AS SELECT 2 AS a")
    assert condition(spark, f"ALTER TABLE {name} RENAME TO other.{name}") == "TABLE_OR_VIEW_ALREADY_EXISTS"
    with pytest.raises(PySparkException, match="Only supports operations within the same catalog"):
        spark.sql(f"ALTER TABLE {name} RENAME TO spark_catalog.other.{name}")
    spark.sql(f"DROP TABLE {name} PURGE")
    assert not (warehouse / "db.db" / name).exists()


@pytest.mark.parametrize("bad", ["../evil", "a/b", "a/../../evil", "..", "a$b"])
@pytest.mark.parametrize("by_text", [False, True], ids=["catalog", "text"])
def test_no_name_leads_out_of_the_warehouse(
    spark: SparkSession,
    warehouse: Path,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: str,
    *,
    by_text: bool,
) -> None:
    sql = statements(spark, warehouse, by_text=by_text)
    monkeypatch.chdir(tmp_path)
    sql(f"CREATE TABLE ddl.db.{name} (a INT)")
    for statement in (
        f"CREATE TABLE ddl.db.`{bad}` (a INT)",
        f"CREATE TABLE ddl.`{bad}`.t (a INT)",
        f"CREATE TABLE ddl.db.`{bad}` AS SELECT 1 a",
        f"ALTER TABLE ddl.db.{name} RENAME TO ddl.db.`{bad}`",
        f"CREATE DATABASE ddl.`{bad}`" if "$" not in bad else "DROP DATABASE ddl.nix",
    ):
        with pytest.raises((PySparkException, PaimonError)):
            sql(statement).collect()
    assert not list(tmp_path.iterdir())
    assert not list(warehouse.parent.glob("evil*"))
    assert not list(warehouse.rglob("*evil*"))
    assert sql(f"SELECT * FROM ddl.db.{name}").collect() == []


@pytest.mark.parametrize("by_text", [False, True], ids=["catalog", "text"])
def test_what_is_no_table_is_not_dropped_or_written(
    spark: SparkSession, warehouse: Path, name: str, tmp_path: Path, *, by_text: bool
) -> None:
    sql = statements(spark, warehouse, by_text=by_text)
    (warehouse / f"{name}.db" / "other").mkdir(parents=True)
    (warehouse / f"{name}.db" / "other" / "mine.parquet").write_text("mine")
    for statement in (f"DROP DATABASE ddl.{name}", f"DROP DATABASE ddl.{name} CASCADE"):
        with pytest.raises((PySparkException, PaimonError), match="other"):
            sql(statement)
    assert (warehouse / f"{name}.db" / "other" / "mine.parquet").read_text() == "mine"

    (tmp_path / "letter").write_text("mine")
    with pytest.raises((PySparkException, PaimonError)):
        sql(f"CREATE TABLE ddl.`{tmp_path}` AS SELECT assert_true(id < 0) a FROM range(1)").collect()
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def statements(spark: SparkSession, warehouse: Path, *, by_text: bool) -> Callable[[str], DataFrame]:
    """Statements through the catalog, or through `paimon_spark.sql`."""
    if not by_text:
        return spark.sql
    paimon_spark.sql(spark, "SELECT 1", warehouse=str(warehouse), catalog="ddl")
    return lambda statement: paimon_spark.sql(spark, statement)


@pytest.mark.parametrize("filled", [True, False])
def test_a_query_on_a_dropped_table_is_an_error(
    spark: SparkSession, warehouse: Path, name: str, *, filled: bool
) -> None:
    path = f"{warehouse}/db.db/{name}"
    spark.sql(f"CREATE TABLE ddl.db.{name} (a INT)")
    if filled:
        spark.sql(f"INSERT INTO ddl.db.{name} VALUES (1)")
    entry_points = {
        "catalog": spark.table(f"ddl.db.{name}"),
        "path": spark.table(f"ddl.`{path}`"),
        "load": spark.read.format("paimon").load(path),
        "filtered": spark.read.format("paimon").load(path).where("a > 0").select("a"),
        "count": spark.table(f"ddl.db.{name}").groupBy().count(),
        "to_df": paimon_spark.PaimonTable.for_path(spark, path).to_df(),
        "view": spark.sql(f"SELECT * FROM ddl.db.{name} WHERE a > 0"),
        "snapshots": spark.table(f"ddl.db.`{name}$snapshots`"),
        "schemas": spark.table(f"ddl.db.`{name}$schemas`"),
        "text": paimon_spark.sql(spark, f"SELECT * FROM ddl.`{path}`"),
    }
    spark.sql(f"DROP TABLE ddl.db.{name}")
    for entry_point, frame in entry_points.items():
        with pytest.raises((PySparkException, PaimonError)) as error:
            frame.collect()
        assert path in str(error.value) or name in str(error.value), entry_point


def test_a_lost_snapshot_is_given_up_by_an_argument(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(f"CREATE TABLE ddl.db.{name} (a INT)")
    for number in (1, 2, 3):
        spark.sql(f"INSERT INTO ddl.db.{name} VALUES ({number})")
    table = paimon_spark.PaimonTable.for_path(spark, f"{warehouse}/db.db/{name}")

    def lose(snapshot_id: int) -> None:
        (warehouse / "db.db" / name / "snapshot" / f"snapshot-{snapshot_id}").unlink()

    lose(3)
    assert rows(spark.table(f"ddl.db.{name}")) == [(1,), (2,)]
    for statement in (
        f"INSERT INTO ddl.db.{name} VALUES (4)",
        f"CALL ddl.sys.rollback(table => 'db.{name}', version => '2')",
        f"CALL ddl.sys.remove_orphan_files(table => 'db.{name}')",
    ):
        with pytest.raises((PySparkException, PaimonError), match="snapshot-3 is missing, although LATEST names it"):
            spark.sql(statement).collect()
    spark.sql(f"CALL ddl.sys.rollback(table => 'db.{name}', version => '2', accept_lost_snapshot => true)")
    spark.sql(f"INSERT INTO ddl.db.{name} VALUES (4)")
    lose(3)
    with pytest.raises(PaimonError, match="snapshot-3 is missing"):
        table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.expire_snapshots(retain_max=1, retain_min=1, accept_lost_snapshot=True) == 1
    assert rows(table.to_df()) == [(1,), (2,)]


def test_partitions(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, dt DATE, h INT) PARTITIONED BY (dt, h)")
    spark.sql(f"INSERT INTO {name} VALUES (1, DATE'2024-01-01', 1), (2, DATE'2024-01-01', 2), (3, NULL, 1)")
    listed = [("dt=2024-01-01/h=1",), ("dt=2024-01-01/h=2",), ("dt=null/h=1",)]
    assert rows(spark.sql(f"SHOW PARTITIONS {name}")) == listed
    assert rows(spark.sql(f"SHOW PARTITIONS {name} PARTITION (h=2)")) == listed[1:2]
    spark.sql(f"ALTER TABLE {name} DROP PARTITION (dt='2024-01-01', h=1)")
    assert rows(spark.table(name)) == [(2, datetime.date(2024, 1, 1), 2), (3, None, 1)]
    missing = f"ALTER TABLE {name} DROP PARTITION (dt='2024-01-01', h=9)"
    assert condition(spark, missing) == "PARTITIONS_NOT_FOUND"
    spark.sql(missing.replace("DROP", "DROP IF EXISTS"))
    spark.sql(missing.replace("ALTER", "TRUNCATE").replace("DROP", ""))  # nothing, as with the official connector
    spark.sql(f"TRUNCATE TABLE {name} PARTITION (dt='2024-01-01', h=2)")
    assert rows(spark.table(name)) == [(3, None, 1)]
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (dt='2024-01-01', h=5)")
    spark.sql(f"ALTER TABLE {name} ADD IF NOT EXISTS PARTITION (dt=null, h=1) PARTITION (dt='2024-01-01', h=6)")
    assert rows(spark.sql(f"SHOW PARTITIONS {name}")) == listed[2:]
    spark.sql(f"TRUNCATE TABLE {name}")
    assert rows(spark.table(name)) == []
    assert len(rows(spark.sql(f"SELECT * FROM {name} VERSION AS OF 1"))) == 3


def test_drop_partition_by_the_first_columns(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, dt DATE, h INT, s STRING) PARTITIONED BY (dt, h, s)")
    day, next_day = "DATE'2024-01-01'", "DATE'2024-01-02'"
    spark.sql(
        f"INSERT INTO {name} VALUES (1, {day}, 1, 'a'), (2, {day}, 2, 'a'), (3, NULL, 1, 'b'), "
        f"(4, {next_day}, 1, 'a'), (5, {next_day}, 2, 'b'), (6, {next_day}, 3, 'b')"
    )
    keys = lambda: [row[0] for row in rows(spark.sql(f"SELECT k FROM {name}"))]  # noqa: E731
    snapshots = load_table(str(warehouse / "db.db" / name)).snapshots
    spark.sql(f"ALTER TABLE {name} DROP PARTITION (dt='2024-01-01')")
    assert keys() == [3, 4, 5, 6]
    two = "PARTITION (DT='2024-01-02', H=2), PARTITION (dt='2024-01-02', h=1, s='a')"
    spark.sql(f"ALTER TABLE ddl.db.{name} DROP {two}")
    assert (keys(), snapshots.latest_id()) == ([3, 6], 3)
    nothing = f"ALTER TABLE {name} DROP PARTITION (dt='1999-01-01')"
    spark.sql(nothing)  # a clause that leaves out columns may match nothing; one that names all must match
    spark.sql(nothing.replace("DROP", "DROP IF EXISTS"))
    missing = f"{nothing}, PARTITION (dt='2024-01-02', h=3, s='x'), PARTITION (dt='2024-01-02')"
    with pytest.raises(AnalysisException, match=r"PARTITION \(`dt` = 2024-01-02, `h` = 3, `s` = x\) cannot be found"):
        spark.sql(missing)
    assert (keys(), snapshots.latest_id()) == ([3, 6], 3)
    with pytest.raises(AnalysisException, match=r"The spec \(h\) must match the partition spec"):
        spark.sql(f"ALTER TABLE {name} DROP PARTITION (h=1)")
    spark.sql(f"ALTER TABLE {name} DROP IF EXISTS PARTITION (dt=NULL), PARTITION (dt='1999-01-01')")
    assert keys() == [6]
    spark.sql(f"TRUNCATE TABLE {name} PARTITION (dt='2024-01-02')")
    assert keys() == []


def test_options_of_the_session_are_not_the_tables(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (a INT) TBLPROPERTIES ('file.format'='orc')")
    before = (rows(spark.sql(f"SHOW TBLPROPERTIES {name}")), spark.sql(f"SHOW CREATE TABLE {name}").head()[0])
    spark.conf.set("spark.paimon.scan.mode", "latest-full")
    spark.conf.set("spark.paimon.ddl.db.*.file.format", "avro")
    try:
        shown = (rows(spark.sql(f"SHOW TBLPROPERTIES {name}")), spark.sql(f"SHOW CREATE TABLE {name}").head()[0])
    finally:
        spark.conf.unset("spark.paimon.scan.mode")
        spark.conf.unset("spark.paimon.ddl.db.*.file.format")
    assert shown == before
    assert [row for row in before[0] if row[0] != "path"] == [("file.format", "orc")]


def test_tables_by_path(spark: SparkSession, warehouse: Path, name: str) -> None:
    path = f"ddl.`{warehouse}/elsewhere/{name}`"
    spark.sql(f"CREATE TABLE {path} (a INT)")
    spark.sql(f"INSERT INTO {path} VALUES (1)")
    spark.sql(f"ALTER TABLE {path} ADD COLUMN b INT")
    assert rows(spark.sql(f"SELECT * FROM {path}")) == [(1, None)]
    assert rows(spark.sql(f"SELECT a FROM {path} VERSION AS OF 1")) == [(1,)]
    with pytest.raises(PySparkException, match="cannot be dropped"):
        spark.sql(f"DROP TABLE {path}")


def test_save_as_table_and_write_to(spark: SparkSession, name: str) -> None:
    frame = spark.range(3).selectExpr("id", "id % 2 AS p")
    writer = frame.write.option("primary-key", "id,p").option("bucket", "2").option("write.merge-schema", "true")
    writer.partitionBy("p").saveAsTable(f"ddl.db.{name}")
    shown = spark.sql(f"SHOW CREATE TABLE {name}").head()[0]
    assert "write.merge-schema" not in shown
    assert "PARTITIONED BY (p)" in shown
    assert "'primary-key' = 'id,p'" in shown
    with pytest.raises(AnalysisException) as error:
        frame.write.format("paimon").saveAsTable(f"ddl.db.{name}")
    assert error.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    frame.write.format("paimon").mode("ignore").saveAsTable(f"ddl.db.{name}")
    spark.range(3, 5).selectExpr("id", "0L AS p").write.mode("append").saveAsTable(f"ddl.db.{name}")
    assert spark.table(name).count() == 5
    frame.write.mode("overwrite").saveAsTable(f"ddl.db.{name}")
    assert spark.table(name).count() == 3
    assert spark.sql(f"SHOW CREATE TABLE {name}").head()[0] == shown
    with pytest.raises(AnalysisException) as error:
        frame.writeTo(f"ddl.db.{name}").create()
    assert error.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    again = frame.limit(1).writeTo(f"ddl.db.{name}").partitionedBy(col("p")).tableProperty("bucket", "-1")
    again.createOrReplace()
    assert spark.table(name).count() == 1


def test_options_that_are_slips_are_refused_by_every_statement(spark: SparkSession, warehouse: Path, name: str) -> None:
    """As Java keeps every key, `merge_engine` would be a table of another kind without a word."""
    slips = "TBLPROPERTIES ('primary_key' = 'id', 'merge_engine' = 'partial-update')"
    frame = spark.range(1)
    makers = [
        lambda: spark.sql(f"CREATE TABLE {name} (id INT, a INT) {slips}"),
        lambda: spark.sql(f"CREATE TABLE {name} {slips} AS SELECT 1 AS id"),
        lambda: spark.sql(f"CREATE OR REPLACE TABLE {name} {slips} AS SELECT 1 AS id"),
        lambda: frame.writeTo(f"ddl.db.{name}").tableProperty("primary_key", "id").create(),
        lambda: frame.writeTo(f"ddl.db.{name}").option("primary_key", "id").create(),
        lambda: frame.write.option("primary_key", "id").saveAsTable(f"ddl.db.{name}"),
        lambda: frame.write.format("paimon").option("primary_key", "id").mode("append").save(str(warehouse / name)),
        lambda: paimon_spark.sql(spark, f"CREATE TABLE ddl.db.{name} (id INT) {slips}", warehouse=str(warehouse)),
        lambda: paimon_spark.PaimonTable.create(
            spark, str(warehouse / name), "id int, v int", options={"fields.v.sequence_group": "id"}
        ),
    ]
    for make in makers:
        with pytest.raises(Exception, match=r"Did you mean '(primary-key|merge-engine|fields\.v\.sequence-group)'"):
            make()
        assert not spark.catalog.tableExists(f"ddl.db.{name}")
        assert not (warehouse / name).exists()
    spark.sql(f"CREATE TABLE {name} (id INT NOT NULL, a INT) TBLPROPERTIES ('primary-key' = 'id', 'team' = 'blue')")
    with pytest.raises(PySparkException, match="Did you mean 'merge-engine'"):
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('merge_engine' = 'partial-update')")
    assert spark.sql(f"SHOW TBLPROPERTIES {name} ('team')").head()[1] == "blue"


def test_save_as_table_overwrites_by_name(spark: SparkSession, name: str) -> None:
    """Spark hands the rows over by position, as if the table had their columns; the table keeps its own."""
    spark.sql(f"CREATE TABLE {name} (a INT, b INT, c STRING)")
    spark.sql("SELECT 10 AS B, 'x' AS c, 20 AS a").write.mode("overwrite").saveAsTable(f"ddl.db.{name}")
    assert rows(spark.table(name)) == [(20, 10, "x")]
    with pytest.raises(AnalysisException, match="TOO_MANY_DATA_COLUMNS"):
        spark.sql("SELECT 1 AS a, 2 AS b, 'x' AS c, 4 AS d").write.mode("overwrite").saveAsTable(f"ddl.db.{name}")
    assert rows(spark.table(name)) == [(20, 10, "x")]


def test_catalog_api(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT NOT NULL, v STRING)")
    assert spark.catalog.tableExists(f"ddl.db.{name}")
    assert not spark.catalog.tableExists("ddl.db.nope")
    assert name in [table.name for table in spark.catalog.listTables("ddl.db")]
    assert [(c.name, c.nullable) for c in spark.catalog.listColumns(f"ddl.db.{name}")] == [("k", False), ("v", True)]
    assert spark.catalog.databaseExists("ddl.db")
    assert (spark.catalog.currentCatalog(), spark.catalog.currentDatabase()) == ("ddl", "db")
    spark.catalog.refreshTable(f"ddl.db.{name}")


def test_two_catalogs_and_a_new_session(spark: SparkSession, warehouse: Path, name: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {name} AS SELECT 1 AS a")
    paimon_spark.register_catalog(spark, "ddl_two", warehouse=str(tmp_path))
    spark.sql("CREATE DATABASE ddl_two.db")
    spark.sql(f"CREATE TABLE ddl_two.db.{name} AS SELECT * FROM ddl.db.{name}")
    joined = spark.sql(f"SELECT count(*) FROM ddl.db.{name} JOIN ddl_two.db.{name} USING (a)")
    assert rows(joined) == [(1,)]
    assert rows(spark.newSession().sql(f"SELECT * FROM ddl.db.{name}")) == [(1,)]


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ("(a STRING COLLATE UTF8_LCASE)", "column a has the collation UTF8_LCASE"),
        ("(n STRUCT<a: STRING COLLATE UNICODE>)", r"column n\.a has the collation UNICODE"),
        ("(a INT) CLUSTER BY (a)", r"Unsupported partition transform: cluster_by\(a\)"),
        ("(a DATE) PARTITIONED BY (years(a))", r"Unsupported partition transform: years\(a\)"),
        ("(a INT) CLUSTERED BY (a) INTO 4 BUCKETS", r"Unsupported partition transform: bucket\(4, a\)"),
    ],
)
def test_columns_and_partitions_that_paimon_does_not_have(
    spark: SparkSession, name: str, definition: str, words: str
) -> None:
    with pytest.raises(PySparkException, match=words):
        spark.sql(f"CREATE TABLE {name} {definition}")
    assert not spark.catalog.tableExists(name)


def test_create_table_of_the_catalog_api(spark: SparkSession, name: str) -> None:
    """A format that nobody gave is the catalog's, as in saveAsTable; any other is refused."""
    options = {"primary-key": "id", "bucket": "1"}
    spark.catalog.createTable(name, schema=spark.range(1).schema, **options)
    spark.range(3).writeTo(name).append()
    spark.range(1).writeTo(name).append()
    assert spark.table(name).count() == 3
    with pytest.raises(PySparkException, match="Provider 'orc' is not supported"):
        spark.catalog.createTable(f"{name}_orc", schema=spark.range(1).schema, source="orc")


def test_a_query_stopped_amid_a_call_of_its_function_has_not_failed(spark: SparkSession, name: str) -> None:
    within = threading.Event()

    def sleep(batch: DataFrame, number: int) -> None:
        within.set()
        batch.sparkSession._jvm.java.lang.Thread.sleep(60_000)  # the thread that Spark interrupts

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    query = source.writeStream.foreachBatch(sleep).start()
    assert within.wait(60)
    query.stop()
    failure = query.exception()
    assert failure is None, str(failure)


def test_foreach_batch_knows_the_catalog(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (a BIGINT)")
    seen = []

    def add(batch: DataFrame, number: int) -> None:
        batch.selectExpr("value AS a").writeTo(f"ddl.db.{name}").append()
        seen.append(batch.sparkSession.table(f"ddl.db.{name}").count())

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    query = source.writeStream.foreachBatch(add).start()
    try:
        deadline = time.monotonic() + 60
        while not seen and query.exception() is None and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        query.stop()
    failure = query.exception()
    assert failure is None, str(failure)
    assert seen
    assert seen[0] == 2
