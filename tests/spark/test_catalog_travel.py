"""Time travel of the catalog: versions, times, tags and watermarks, by SQL, by read options and by the session."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import OptionError
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.spark.sql.read_version import layered, options_for_table
from paimon_spark.table.table import load_table


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session with a catalog `travel` in use, and its table `t`: two snapshots, the first one tagged `one`."""
    warehouse = str(tmp_path_factory.mktemp("travel"))
    paimon_spark.register_catalog(spark, "travel", warehouse=warehouse)
    spark.sql("CREATE DATABASE travel.db")
    spark.sql("USE travel.db")
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    table = load_table(f"{warehouse}/db.db/t")
    first = table.snapshots.get(1)
    table.tags.create("one", first)
    spark.sql("ALTER TABLE t ADD COLUMN w STRING")
    spark.sql("INSERT INTO t VALUES (2, 'w')")
    commit(table.with_latest_schema(), [], watermark=500, ignore_empty=False)
    yield spark
    spark.sql("USE spark_catalog.default")


OLD, NEW = [(1,)], [(1, None), (2, "w")]


def rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "version", "key", "value"),
    [
        ("t", "VERSION AS OF 1", "incremental-between", "1,2"),
        ("`t$audit_log`", "TIMESTAMP AS OF now()", "incremental-between", "1,2"),
        ("`t$files`", "VERSION AS OF 1", "scan.tag-name", "one"),
    ],
)
def test_a_read_is_of_one_version_or_of_changes(
    catalog: SparkSession, table: str, version: str, key: str, value: str
) -> None:
    reported = f"{key} must be null when VERSION AS OF or TIMESTAMP AS OF is given"
    with pytest.raises(IllegalArgumentException, match=reported):
        catalog.sql(f"SELECT * FROM {table} {version} WITH ('{key}' = '{value}')").collect()
    statement = f"SELECT * FROM {table} {version} WITH ('{key}' = '{value}')"
    ((warehouse,),) = rows(catalog, "SELECT value FROM sys.catalog_options WHERE key = 'warehouse'")
    with pytest.raises(OptionError, match=reported):
        paimon_spark.sql(catalog, statement, warehouse=warehouse, catalog="travel", database="db")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("VERSION AS OF 1", OLD),
        ("VERSION AS OF 2", NEW),
        ("VERSION AS OF '1'", OLD),
        ("VERSION AS OF 'one'", OLD),
        ("VERSION AS OF 'watermark-100'", NEW),
        ("FOR SYSTEM_VERSION AS OF 'one'", OLD),
        ("TIMESTAMP AS OF now()", NEW),
    ],
)
def test_versions_in_sql(catalog: SparkSession, version: str, expected: list[Any]) -> None:
    assert rows(catalog, f"SELECT * FROM t {version}") == expected


@pytest.mark.spark
def test_times_in_sql(catalog: SparkSession) -> None:
    path = catalog.sql("SELECT __paimon_file_path FROM t LIMIT 1").collect()[0][0]
    millis = load_table(path.split("/bucket-")[0]).snapshots.get(1).time_millis
    assert rows(catalog, f"SELECT * FROM t TIMESTAMP AS OF timestamp_millis({millis})") == OLD
    with pytest.raises(Exception, match="no snapshot earlier than or equal to timestamp"):
        catalog.sql(f"SELECT * FROM t TIMESTAMP AS OF timestamp_millis({millis - 1})").collect()


@pytest.mark.spark
def test_read_options(catalog: SparkSession) -> None:
    for key, value in (("scan.tag-name", "one"), ("scan.snapshot-id", "1"), ("Scan.Version", "one")):
        frame = catalog.read.option(key, value).table("t")
        assert [row.id for row in frame.collect()] == [1]
        assert frame.count() == 1
    assert [row[0] for row in rows(catalog, "SELECT id FROM t WITH ('scan.tag-name' = 'one')")] == [1]
    with pytest.raises(Exception, match=r"scan.tag-nam.*scan.tag-name"):
        catalog.read.option("scan.tag-nam", "one").table("t").collect()
    with pytest.raises(Exception, match=r"t\$branch_b"):
        catalog.read.option("branch", "b").table("t").collect()
    with pytest.raises(Exception, match="doesn't exist"):
        catalog.read.option("scan.tag-name", "nope").table("t").collect()


@pytest.mark.spark
def test_two_versions_in_one_query(catalog: SparkSession) -> None:
    query = "SELECT new.id FROM t AS new LEFT ANTI JOIN t VERSION AS OF 'one' AS old ON new.id = old.id"
    assert rows(catalog, query) == [(2,)]


@pytest.mark.spark
@pytest.mark.parametrize(
    "key",
    ["scan.tag-name", "travel.db.t.scan.tag-name", "*.*.t.scan.tag-name", "travel.*.*.scan.tag-name"],
)
def test_options_of_the_session(catalog: SparkSession, key: str) -> None:
    catalog.sql(f"SET `spark.paimon.{key}` = one")
    try:
        assert rows(catalog, "SELECT * FROM t") == OLD
        assert rows(catalog, "SELECT * FROM t VERSION AS OF 2") == NEW
        assert catalog.read.option("scan.snapshot-id", "2").table("t").count() == 2
        assert rows(catalog, "SELECT sum(record_count) FROM `t$files`") == [(len(OLD),)]
        assert rows(catalog, "SELECT count(*) FROM `t$audit_log`") == [(len(OLD),)]
    finally:
        catalog.conf.unset(f"spark.paimon.{key}")
    assert rows(catalog, "SELECT * FROM t") == NEW


@pytest.mark.spark
def test_spark_own_options_of_a_version(catalog: SparkSession) -> None:
    for value, expected in (("one", OLD), ("1", OLD), ("2", NEW)):
        assert sorted(tuple(row) for row in catalog.read.option("versionAsOf", value).table("t").collect()) == expected
    assert catalog.read.option("timestampAsOf", "2100-01-01").table("t").count() == len(NEW)
    with pytest.raises(PySparkException, match="'no' doesn't exist"):
        catalog.read.option("versionAsOf", "no").table("t").collect()


@pytest.mark.spark
def test_options_of_the_session_count_for_writes(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE formats (id INT, dt STRING) PARTITIONED BY (dt)")
    for key, value in (("file.format", "orc"), ("*.*.formats.file.format", "avro"), ("scan.mode", "latest")):
        catalog.conf.set(f"spark.paimon.{key}", value)
    try:
        catalog.sql("INSERT INTO formats VALUES (1, 'a')")
        catalog.sql("SELECT 2 AS id, 'b' AS dt").writeTo("formats").option("File.Format", "orc").append()
        catalog.conf.unset("spark.paimon.*.*.formats.file.format")
        catalog.sql("INSERT OVERWRITE formats PARTITION (dt = 'c') VALUES (3)")
        assert rows(catalog, "SELECT partition, file_format FROM `formats$files`") == [
            ("{a}", "avro"),
            ("{b}", "orc"),
            ("{c}", "orc"),
        ]
        catalog.conf.unset("spark.paimon.scan.mode")
        catalog.sql("ALTER TABLE formats DROP PARTITION (dt = 'a')")
        catalog.sql("TRUNCATE TABLE formats PARTITION (dt = 'b')")
    finally:
        for key in ("file.format", "*.*.formats.file.format", "scan.mode"):
            catalog.conf.unset(f"spark.paimon.{key}")
    assert rows(catalog, "SELECT * FROM formats") == [(3, "c")]
    assert "file.format" not in catalog.sql("SHOW CREATE TABLE formats").head()[0]


@pytest.mark.spark
def test_writes_go_to_the_latest_snapshot_whatever_the_session_says(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE w (id INT)")
    catalog.sql("INSERT INTO w VALUES (1)")
    catalog.sql("SET `spark.paimon.*.*.w.scan.snapshot-id` = 1")
    try:
        catalog.sql("INSERT INTO w VALUES (2)")
        assert rows(catalog, "SELECT * FROM w") == [(1,)]
    finally:
        catalog.conf.unset("spark.paimon.*.*.w.scan.snapshot-id")
    assert rows(catalog, "SELECT * FROM w") == [(1,), (2,)]


def test_session_settings_for_a_table() -> None:
    settings = {
        "spark.paimon.scan.mode": "latest",
        "spark.paimon.c.db.t.scan.tag-name": "a",
        "spark.paimon.*.db.t.scan.tag-name": "b",
        "spark.paimon.*.*.other.scan.tag-name": "c",
        "spark.paimon.source.split.target-size": "1 mb",
        "spark.sql.shuffle.partitions": "2",
    }
    size = {"source.split.target-size": "1 mb"}
    assert options_for_table(settings, ("c", "db", "t")) == {**size, "scan.tag-name": "a"}
    assert options_for_table(settings, ("d", "db", "t")) == {**size, "scan.tag-name": "b"}
    assert options_for_table(settings, ("c", "db", "u")) == {**size, "scan.mode": "latest"}


def test_a_session_setting_that_nobody_knows_is_an_error(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE unknown (id INT)")
    for key in ("spark.paimon.scan.snapshott-id", "spark.paimon.*.*.unknown.scan.snapshott-id"):
        catalog.conf.set(key, "1")
        try:
            with pytest.raises(
                IllegalArgumentException, match=r"(?s)Did you mean 'scan.snapshot-id'.*RESET spark\.paimon"
            ):
                catalog.sql("SELECT * FROM unknown").collect()
        finally:
            catalog.conf.unset(key)
    with pytest.raises(OptionError, match=r"scan\.tag-name.*RESET spark\.paimon\.tag-name"):
        options_for_table({"spark.paimon.tag-name": "x"}, ("c", "db", "t"))
    java = {"spark.paimon.write.use-v2-write": "true", "spark.paimon.requiredSparkConfsCheck.enabled": "false"}
    assert set(options_for_table(java, ("c", "db", "t"))) == {"write.use-v2-write", "requiredSparkConfsCheck.enabled"}
    assert options_for_table({"spark.paimon.c.db.u.nonsense": "x"}, ("c", "db", "t")) == {}


def test_a_nearer_point_of_time_replaces_the_farther_ones() -> None:
    far, near = {"scan.snapshot-id": "1", "scan.mode": "from-snapshot", "branch": "b"}, {"Scan.Tag-Name": "x"}
    assert layered(far, near) == {"branch": "b", "scan.tag-name": "x"}
    assert layered(far, {}) == far
