"""Scans of the catalog that Spark's own Parquet reader does: the rows of our reader, where files are the rows."""

import contextlib
import datetime
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.errors import CorruptTableError, PaimonError, StorageError
from paimon_spark.read.plain_files import holds_plain_rows
from paimon_spark.spark.jvm import spark_errors
from paimon_spark.spec.data_types import CharType
from paimon_spark.table.manifest_store import ManifestStore
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.golden import GoldenRead, row_multiset
from tests.support.golden_frames import FULL, as_spark_shows, collected
from tests.support.native_scans import BATCH, batch_of
from tests.support.plan_texts import calls_of
from tests.support.plans import plan_of as read_plan_of

pytestmark = [pytest.mark.spark, pytest.mark.catalog("native", current=True), pytest.mark.usefixtures("reads_by_tasks")]

NATIVE = "reader=spark-parquet"


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, warehouse: Path) -> SparkSession:
    """The session with the catalog."""
    return spark


@contextlib.contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings for a while."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def rows_read(frame: DataFrame) -> int:
    """The rows that the only scan of a query gave when it ran."""
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(leaf.metrics().apply("numOutputRows").value())


def path_of(case: GoldenRead) -> str:
    return str(case.table.path) + (f"$branch_{case.branch}" if case.branch else "")


def plain_columns(table: FileStoreTable) -> list[str]:
    names = [f.name for f in table.schema.fields]
    return [name for name in names if holds_plain_rows(read_plan_of(table, columns=[name]), filtered=True)]


TABLES = {case.id: (case, load_table(path_of(case))) for case in FULL if not case.system}
PLAIN = [(case, table, columns) for case, table in TABLES.values() if (columns := plain_columns(table))]


@pytest.mark.parametrize(("case", "table", "columns"), PLAIN, ids=[case.id for case, _, _ in PLAIN])
def test_rows_of_golden_tables_are_javas(
    catalog: SparkSession, case: GoldenRead, table: FileStoreTable, columns: list[str]
) -> None:
    query = f"SELECT {', '.join(f'`{name}`' for name in columns)} FROM `{path_of(case)}`"
    frame = catalog.sql(query)
    assert BATCH in batch_of(frame)
    got, want = collected(frame), as_spark_shows(case.rows()).select(columns)
    for at, name in enumerate(columns):
        kind = table.schema.field(name).type
        if isinstance(kind, CharType):  # which Spark pads
            want = want.set_column(at, name, pc.utf8_rpad(want.column(name), kind.length))
    assert row_multiset(got) == row_multiset(want)
    ours = catalog.sql(f"{query} WITH (`read.spark-parquet` = 'false')")
    assert BATCH not in batch_of(ours)
    assert row_multiset(collected(ours)) == row_multiset(got)


def test_golden_tables_of_many_kinds_are_read_so() -> None:
    assert len(PLAIN) > 15
    assert any(case.table.name.startswith("old_0_9") for case, _, _ in PLAIN)
    assert any(table.schema.primary_keys for _, table, _ in PLAIN)
    assert len([table for _, table, _ in PLAIN if table.options.deletion_vectors_enabled]) >= 5
    assert any(set(columns) & set(table.schema.partition_keys) for _, table, columns in PLAIN)
    assert any(set(table.schema.partition_keys) < set(columns) == set(names_of(table)) for _, table, columns in PLAIN)


def names_of(table: FileStoreTable) -> list[str]:
    return [field.name for field in table.schema.fields]


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
            "date_add(date'1582-10-01', int(id % 20)) day",
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
        "SELECT name, day FROM {t} WHERE day >= date'1582-10-08' AND name LIKE 'ü5%'",
        "SELECT id FROM {t} WHERE day = date'1582-10-10'",
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
    assert collected(ours).num_rows or "1000" in query


@pytest.mark.parametrize(
    "values",
    [
        {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY", "spark.sql.parquet.int96RebaseModeInRead": "LEGACY"},
        {"spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION"},
        {"spark.sql.parquet.enableVectorizedReader": "false", "spark.sql.parquet.recordLevelFilter.enabled": "true"},
        {"spark.sql.caseSensitive": "true", "spark.sql.parquet.fieldId.read.enabled": "true"},
        {"spark.sql.parquet.binaryAsString": "true", "spark.sql.parquet.inferTimestampNTZ.enabled": "false"},
        {"spark.sql.session.timeZone": "America/Los_Angeles", "spark.sql.datetime.java8API.enabled": "true"},
        {"spark.sql.files.maxPartitionBytes": "1000", "spark.sql.codegen.wholeStage": "false"},
    ],
    ids=lambda values: next(iter(values)).removeprefix("spark.sql."),
)
def test_settings_of_the_session_do_not_change_rows(
    catalog: SparkSession, facts: str, values: Mapping[str, str]
) -> None:
    query = f"SELECT * FROM {facts} WHERE day < date'1582-10-12' AND id >= 0 AND local > timestamp_ntz'1400-01-05'"
    expected = collected(catalog.sql(f"SELECT * FROM ({query}) WHERE id > -1"))
    with settings(catalog, values):
        frame = catalog.sql(query)
        assert NATIVE in plan_of(frame)
        assert row_multiset(as_utc(collected(frame))) == row_multiset(expected)


def as_utc(rows: pa.Table) -> pa.Table:
    """Times as the session in UTC shows them; the moments are the same."""
    return rows.cast(pa.schema([(f.name, utc(f.type)) for f in rows.schema]))


def utc(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) and kind.tz else kind


def test_settings_that_would_shift_times_leave_the_rows_to_us(catalog: SparkSession, facts: str) -> None:
    assert NATIVE in plan_of(catalog.table(facts))
    with settings(catalog, {"spark.sql.parquet.int96TimestampConversion": "true"}):
        assert NATIVE not in plan_of(catalog.table(facts))
    with settings(catalog, {"spark.paimon.read.spark-parquet": "false"}):
        assert NATIVE not in plan_of(catalog.table(facts))


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_lost_files_are_never_passed_over(catalog: SparkSession, warehouse: Path, damage: str) -> None:
    catalog.sql(f"CREATE TABLE {damage} (id INT)")
    for value in (1, 2):
        catalog.sql(f"INSERT INTO {damage} VALUES ({value})")
    file = next((warehouse / "db.db" / damage).rglob("data-*.parquet"))
    file.unlink() if damage == "missing" else file.write_bytes(b"PAR1" + bytes(file.stat().st_size - 8) + b"PAR1")
    values = {"spark.sql.files.ignoreMissingFiles": "true", "spark.sql.files.ignoreCorruptFiles": "true"}
    with settings(catalog, values):
        frame = catalog.table(damage)
        assert NATIVE in plan_of(frame)
        said = rf"FAILED_READ_FILE\] Data file \S*/{file.name} of a Paimon table is damaged or missing\."
        with pytest.raises(paimon_spark.CorruptTableError, match=said):
            frame.collect()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("Read timed out", StorageError), ("Connection refused", StorageError), ("not a Parquet file", CorruptTableError)],
)
def test_a_store_that_does_not_answer_is_no_damaged_file(reason: str, kind: type[PaimonError]) -> None:
    cause = SimpleNamespace(getCause=lambda: None, getMessage=lambda: f"{reason}\n\tat java")
    thrown = SimpleNamespace(getCause=lambda: cause, getMessage=lambda: "Job aborted")
    file = "s3a-paimon-0a1b://b/a%20t/p=%252F+/bucket-0/data-1.parquet"
    found = spark_errors._failure(f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {file}.", thrown)
    assert found is not None
    assert found[0] is kind
    assert "s3a://b/a t/p=%2F+/bucket-0/data-1.parquet" in found[1]
    assert reason in found[1]


@pytest.mark.parametrize("larger", [True, False])
def test_files_exchanged_for_others(catalog: SparkSession, warehouse: Path, larger: bool) -> None:
    """Both are whole Parquet files of the table; Spark would read the row groups that lie in the recorded range."""
    name = f"exchanged_{larger}".lower()
    catalog.sql(f"CREATE TABLE {name} (id BIGINT)")
    for rows in (10, 1000):
        catalog.range(0, rows, 1, 1).writeTo(name).append()
    files = sorted((warehouse / "db.db" / name).rglob("data-*.parquet"), key=lambda path: path.stat().st_size)
    one, other = files if larger else reversed(files)
    frame = catalog.table(name)
    assert NATIVE in plan_of(frame)
    shutil.copy(other, one)
    for load in (
        lambda: catalog.table(name),
        lambda: catalog.read.format("paimon").load(str(warehouse / "db.db" / name)),
    ):
        with pytest.raises(Exception, match=rf"bytes, but its manifest entry says.*{one.name}"):
            load().collect()
        with pytest.raises(Exception, match=rf"bytes, but its manifest entry says.*{one.name}"):
            load().where("id = 5").count()


def test_row_groups_are_left_out_by_spark(catalog: SparkSession) -> None:
    catalog.sql(
        "CREATE TABLE groups (id BIGINT, v STRING, day DATE) TBLPROPERTIES ('parquet.block.row.count.limit' = '100')"
    )
    catalog.range(0, 1000, 1, 1).selectExpr(
        "id", "concat('v', id) v", "date_add(date'1899-12-01', int(id)) day"
    ).writeTo("groups").append()
    frame = catalog.sql("SELECT v FROM groups WHERE id = 950")
    assert [row[0] for row in frame.collect()] == ["v950"]
    assert rows_read(frame) == 100
    for day, rows in ((datetime.date(1902, 1, 1), 100), (datetime.date(1899, 12, 3), 1000)):
        frame = catalog.sql(f"SELECT v FROM groups WHERE day = date'{day}'")
        assert [row[0] for row in frame.collect()] == [f"v{(day - datetime.date(1899, 12, 1)).days}"]
        assert rows_read(frame) == rows


def shown(catalog: SparkSession, query: str) -> tuple[bool, list[tuple[Any, ...]]]:
    frame = catalog.sql(query)
    return NATIVE in plan_of(frame), sorted((tuple(row) for row in frame.collect()), key=repr)


def test_files_are_left_out_by_their_statistics_and_partitions(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE pruned (v INT, p INT, id INT) PARTITIONED BY (p)")
    for low in (0, 100, 200):
        catalog.sql(f"INSERT INTO pruned SELECT CAST(id AS INT), CAST(id % 2 AS INT), CAST(id AS INT) "
                    f"FROM range({low}, {low + 10}, 1, 1)")  # fmt: skip
    for condition, files, rows in (("true", 6, 30), ("id > 150", 2, 10), ("p = 1", 3, 15), ("p = 1 AND id < 50", 1, 5)):
        frame = catalog.sql(f"SELECT * FROM pruned WHERE {condition}")
        assert f"files={files}, {NATIVE}" in plan_of(frame)
        found = [tuple(row) for row in frame.collect()]
        assert len(found) == rows
        assert all(v == id_ and p == v % 2 for v, p, id_ in found)
    frame = catalog.sql("SELECT id FROM pruned LIMIT 3")
    assert f"limit=3, snapshot=3, files=3, {NATIVE}" in plan_of(frame)
    assert len(frame.collect()) == 3


def test_files_are_left_out_by_their_indexes(catalog: SparkSession) -> None:
    catalog.sql(
        "CREATE TABLE looked_up (id INT, v STRING) TBLPROPERTIES ('file-index.bloom-filter.columns' = 'v', "
        "'file-index.bloom-filter.v.items' = '100', 'file-index.bloom-filter.v.fpp' = '0.0001')"
    )
    for start in range(3):
        catalog.sql(
            f"INSERT INTO looked_up SELECT CAST(id AS INT), concat('v', id % 100) FROM range({start}, 99, 3, 1)"
        )
    frame = catalog.sql("SELECT * FROM looked_up WHERE v = 'v43'")
    assert f"files=1, {NATIVE}" in plan_of(frame)
    assert [tuple(row) for row in frame.collect()] == [(43, "v43")]
    with settings(catalog, {"spark.paimon.file-index.read.enabled": "false"}):
        assert f"files=3, {NATIVE}" in plan_of(catalog.sql("SELECT * FROM looked_up WHERE v = 'v43'"))


def test_values_of_partitions_are_not_read_from_files(catalog: SparkSession, warehouse: Path) -> None:
    """Files of migrated tables lack these columns; here they hold other values."""
    catalog.sql(
        "CREATE TABLE parts (s STRING, id INT, t TINYINT, m SMALLINT, i INT, l BIGINT, b BOOLEAN, d DATE, c CHAR(2)) "
        "PARTITIONED BY (s, t, m, i, l, b, d, c)"
    )
    rows = [
        ("a=b/%ü c", 1, 1, -2, 3, 2**40, True, datetime.date(1500, 1, 1), "x "),
        (None, 2, None, None, None, None, None, None, None),
        ("'", 3, -128, 32767, -(2**31), 5, False, datetime.date(2024, 2, 29), "yz"),
    ]
    catalog.createDataFrame(rows, catalog.table("parts").schema).writeTo("parts").append()
    assert shown(catalog, "SELECT * FROM parts") == (True, sorted(rows, key=repr))
    assert shown(catalog, "SELECT id, l, s FROM parts WHERE l < 10") == (True, [(3, 5, "'")])
    assert shown(catalog, "SELECT d FROM parts") == (True, sorted(((row[7],) for row in rows), key=repr))
    first, second = sorted((warehouse / "db.db" / "parts").glob("s=[!_]*/**/data-*.parquet"))
    contents = first.read_bytes(), second.read_bytes()
    if len(contents[0]) == len(contents[1]):
        shutil.copy(first, second)
        native, found = shown(catalog, "SELECT l, s FROM parts WHERE s IS NOT NULL")
        assert (native, found) == (True, [(2**40, "a=b/%ü c"), (5, "'")])


def scan_of(frame: DataFrame, table: str) -> str:
    """The scan of a table in the plan of a query."""
    (line,) = [line for line in plan_of(frame).splitlines() if f"paimon db.{table} " in line]
    return line


def test_a_join_leaves_out_partitions_while_it_runs(catalog: SparkSession) -> None:
    """Spark takes the reader of the files that were planned first, whatever files are left then."""
    catalog.sql("CREATE TABLE daily (id INT, day STRING, v INT) PARTITIONED BY (day)")
    catalog.sql("INSERT INTO daily VALUES (1, 'a', 1), (2, 'b', 2)")
    catalog.sql("CREATE TABLE days (day STRING, name STRING)")
    catalog.sql("INSERT INTO days VALUES ('a', 'first'), ('b', 'second'), ('c', 'third')")
    query = "SELECT id, day, v FROM daily JOIN days USING (day) WHERE name = '{}'"
    for name, rows in (("second", [(2, "b", 2)]), ("third", [])):
        frame = catalog.sql(query.format(name))
        assert scan_of(frame, "daily").count(NATIVE) == 1
        assert [tuple(row) for row in frame.collect()] == rows
    catalog.sql("ALTER TABLE daily ALTER COLUMN v TYPE BIGINT")
    catalog.sql("INSERT INTO daily VALUES (3, 'c', 3)")
    for name, rows in (("third", [(3, "c", 3)]), ("second", [(2, "b", 2)])):
        frame = catalog.sql(query.format(name))
        assert NATIVE not in scan_of(frame, "daily")  # the files of `daily` are not all alike, those that are left are
        assert [tuple(row) for row in frame.collect()] == rows


@pytest.mark.thorough
def test_only_files_that_are_the_rows_are_read_so(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE keyed (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    catalog.sql("INSERT INTO keyed VALUES (1, 1), (2, 2)")
    assert shown(catalog, "SELECT * FROM keyed") == (True, [(1, 1), (2, 2)])
    catalog.sql("INSERT INTO keyed VALUES (1, 3)")
    assert shown(catalog, "SELECT * FROM keyed") == (True, [(1, 3), (2, 2)])
    assert shown(catalog, "SELECT id, v FROM `keyed$audit_log`") == (False, [(1, 3), (2, 2)])
    catalog.sql("DELETE FROM keyed")
    properties = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'partial-update')"
    catalog.sql(f"CREATE TABLE merged (id INT NOT NULL, v INT) {properties}")
    catalog.sql("INSERT INTO merged VALUES (1, 1), (2, 2)")
    catalog.sql("INSERT INTO merged VALUES (1, NULL)")
    assert shown(catalog, "SELECT * FROM merged") == (False, [(1, 1), (2, 2)])
    catalog.sql("CREATE TABLE orc (id INT) TBLPROPERTIES ('file.format' = 'orc')")
    catalog.sql("INSERT INTO orc VALUES (1)")
    assert shown(catalog, "SELECT * FROM orc") == (False, [(1,)])
    catalog.sql("CREATE TABLE odd (id INT, fine TIMESTAMP_NTZ, s STRUCT<a: INT>, v VARIANT)")
    catalog.sql("INSERT INTO odd VALUES (1, timestamp_ntz'2024-01-31 00:00:00', struct(1), parse_json('2'))")
    assert shown(catalog, "SELECT id, fine FROM odd")[0]
    assert shown(catalog, "SELECT id, s.a FROM odd") == (False, [(1, 1)])
    assert shown(catalog, "SELECT id, variant_get(v, '$', 'int') FROM odd") == (False, [(1, 2)])
    assert shown(catalog, "SELECT id, __paimon_bucket FROM odd") == (False, [(1, 0)])


def test_changes_are_read_by_us(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE changed (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    for values in ("(1, 1)", "(2, 2)"):
        catalog.sql(f"INSERT INTO changed VALUES {values}")
    query = "SELECT * FROM changed WITH (`incremental-between` = '1,2')"
    assert shown(catalog, query) == (False, [(2, 2)])


def test_changed_columns_are_read_by_us(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE changing (id INT, v INT, w STRING, gone INT)")
    catalog.sql("INSERT INTO changing VALUES (1, 10, 'a', 5)")
    catalog.sql("ALTER TABLE changing ALTER COLUMN v TYPE BIGINT")
    catalog.sql("ALTER TABLE changing RENAME COLUMN w TO x")
    catalog.sql("ALTER TABLE changing DROP COLUMN gone")
    catalog.sql("ALTER TABLE changing ADD COLUMNS (gone INT)")
    catalog.sql("INSERT INTO changing VALUES (2, 20, 'b', 6)")
    assert shown(catalog, "SELECT id FROM changing") == (True, [(1,), (2,)])
    assert shown(catalog, "SELECT id, v FROM changing") == (False, [(1, 10), (2, 20)])
    assert shown(catalog, "SELECT x FROM changing") == (False, [("a",), ("b",)])
    assert shown(catalog, "SELECT gone FROM changing") == (False, [(6,), (None,)])
    assert shown(catalog, "SELECT gone FROM changing WHERE id = 2") == (True, [(6,)])


def test_names_are_matched_as_the_session_does(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE cased (`Grüße a.b` INT, B INT)")
    catalog.sql("INSERT INTO cased VALUES (1, 2)")
    assert shown(catalog, "SELECT b FROM cased WHERE `grüße A.B` = 1") == (True, [(2,)])
    with settings(catalog, {"spark.sql.caseSensitive": "true"}):
        assert shown(catalog, "SELECT B FROM cased WHERE `Grüße a.b` = 1") == (True, [(2,)])


def test_paths_are_taken_as_they_are(catalog: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a b%20c" / "ü:#?*[x]{y}" / "t"
    catalog.range(3).write.format("paimon").mode("append").save(str(path))
    for name in (str(path), f"file:{path}", f"file://{path}"):
        assert shown(catalog, f"SELECT * FROM `{name}`") == (True, [(0,), (1,), (2,)])


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
    assert [row[0] for row in frame.select("id").collect()] == list(range(20_000))  # in the order of the plan


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


@pytest.mark.thorough
def test_the_number_of_calls_does_not_grow_with_files_or_columns(catalog: SparkSession) -> None:
    catalog.sql("CREATE TABLE one (a INT, p INT) PARTITIONED BY (p)")
    catalog.sql("INSERT INTO one VALUES (1, 1)")
    columns = ", ".join(f"c{n} INT" for n in range(40))
    catalog.sql(f"CREATE TABLE forty ({columns}, p INT) PARTITIONED BY (p)")
    catalog.sql(f"INSERT INTO forty SELECT {', '.join(['1'] * 40)}, CAST(id AS INT) FROM range(40)")
    calls = [calls_of(catalog, f"SELECT * FROM {name}") for name in ("one", "forty")]
    assert all(NATIVE in plan_of(catalog.table(name)) for name in ("one", "forty"))
    assert calls[0] == calls[1]


def test_where_spark_refuses_its_reader_we_read(
    catalog: SparkSession, facts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_spark.spark.catalog.native_scan._OPTIONS", {"mergeSchema": "perhaps"})
    frame = catalog.table(facts)
    assert BATCH not in batch_of(frame)
    assert NATIVE not in plan_of(frame)
    assert frame.count() == 100


@pytest.fixture(scope="module")
def marked(catalog: SparkSession) -> str:
    """A table of four files in two partitions and a bucket count; of three of them rows are deleted."""
    catalog.sql(
        "CREATE TABLE marked (k BIGINT, v STRING, p STRING) PARTITIONED BY (p) "
        "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"
    )
    for low, high, p in ((0, 1000, "a"), (1000, 2000, "b"), (2000, 3000, "a")):
        rows = catalog.range(low, high, 1, 1).selectExpr("id k", "concat('v', id % 100) v", f"'{p}' p")
        rows.sortWithinPartitions("v").writeTo("marked").append()
    catalog.sql("INSERT INTO marked VALUES (3000, 'kept', 'b')")
    catalog.sql("DELETE FROM marked WHERE k % 3 = 0 AND k < 3000 OR v = 'v7' OR k BETWEEN 2100 AND 2900")
    return "marked"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM {t}",
        "SELECT count(*), min(k), max(v) FROM {t}",
        "SELECT p, max(v) FROM {t} GROUP BY p",
        "SELECT k FROM {t} WHERE v = 'v8' AND p = 'a'",
        "SELECT v FROM {t} WHERE k > 2950",
        "SELECT a.k, b.v FROM {t} a JOIN {t} b ON a.k = b.k + 1 WHERE a.p = 'b'",
        "SELECT k FROM {t} WHERE k IN (SELECT max(k) FROM {t} GROUP BY p)",
        "SELECT m.k FROM {t} m JOIN (SELECT DISTINCT p FROM {t} WHERE v = 'kept') d ON m.p = d.p",
        "SELECT k FROM {t} ORDER BY k DESC LIMIT 3",
        "SELECT count(*) FROM (SELECT k FROM {t} LIMIT 900)",
    ],
)
def test_spark_filters_rows_that_vectors_mark(catalog: SparkSession, marked: str, query: str) -> None:
    frame = catalog.sql(query.format(t=marked))
    assert NATIVE in plan_of(frame)
    rows = collected(frame)
    ours = catalog.sql(query.format(t=f"{marked} WITH (`read.spark-parquet` = 'false')"))
    assert NATIVE not in plan_of(ours)
    assert row_multiset(rows) == row_multiset(collected(ours))
    slices = catalog.sql(query.format(t=f"{marked} WITH (`source.split.target-size` = '1 kb')"))
    assert row_multiset(rows) == row_multiset(collected(slices))


@pytest.fixture(scope="module")
def superseded(catalog: SparkSession) -> str:
    """A table of two partitions of overlapping files of several levels, with deletes."""
    catalog.sql(
        "CREATE TABLE superseded (k BIGINT NOT NULL, v STRING, p STRING NOT NULL) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '2', 'num-sorted-run.compaction-trigger' = '6')"
    )
    for low, step, p in ((0, 1, "a"), (1000, 1, "b"), (0, 3, "a"), (900, 2, "b"), (500, 7, "a")):
        rows = catalog.range(low, low + 1000 * step, step, 1).selectExpr("id k", "concat('v', id % 100) v", f"'{p}' p")
        rows.selectExpr("k", f"concat(v, '-', {step}) v", "p").writeTo("superseded").append()
    catalog.sql("DELETE FROM superseded WHERE k % 5 = 0 AND p = 'a' OR v = 'v7-1'")
    return "superseded"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM {t}",
        "SELECT v FROM {t} WHERE v < 'v4' AND p = 'a'",
        "SELECT k FROM {t} WHERE v = 'v8-1' OR v LIKE '%-7'",
        "SELECT v FROM {t} WHERE k > 950 AND p = 'b'",
        "SELECT a.k, b.v FROM {t} a JOIN {t} b ON a.k = b.k + 1 WHERE a.p = 'b'",
        "SELECT k FROM {t} WHERE k IN (SELECT max(k) FROM {t} WHERE v LIKE 'v%' GROUP BY v)",
        "SELECT m.k FROM {t} m JOIN (SELECT DISTINCT p FROM {t} WHERE v = 'v9-1') d ON m.p = d.p",
        "SELECT k FROM {t} ORDER BY k DESC LIMIT 3",
        "SELECT count(*), sum(k) FROM {t} WHERE v LIKE '%-3'",
        "SELECT count(*) FROM (SELECT k FROM {t} LIMIT 900)",
    ],
)
def test_spark_filters_rows_that_newer_ones_supersede(catalog: SparkSession, superseded: str, query: str) -> None:
    frame = catalog.sql(query.format(t=superseded))
    assert NATIVE in plan_of(frame)
    ours = catalog.sql(query.format(t=f"{superseded} WITH (`read.spark-parquet` = 'false')"))
    assert NATIVE not in plan_of(ours)
    assert row_multiset(collected(frame)) == row_multiset(collected(ours))


def test_merged_rows_that_the_driver_should_not_look_for_are_merged_in_tasks(
    catalog: SparkSession, superseded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = shown(catalog, f"SELECT * FROM {superseded}")[1]
    assert NATIVE not in plan_of(catalog.sql(f"SELECT * FROM {superseded} WHERE k = 7"))
    monkeypatch.setattr("paimon_spark.spark.catalog.position_filter._MOST_PARTLY_WANTED_ROWS", 1000)
    assert shown(catalog, f"SELECT * FROM {superseded} WHERE k >= 0") == (False, every)
    assert NATIVE not in plan_of(catalog.sql(f"SELECT * FROM {superseded} LIMIT 3"))
    assert shown(catalog, f"SELECT * FROM {superseded}") == (True, every)
    monkeypatch.setattr("paimon_spark.spark.catalog.position_filter._MOST_ROWS", 1000)
    assert shown(catalog, f"SELECT * FROM {superseded}") == (False, every)


def test_overlapping_files_are_read_by_several_tasks(catalog: SparkSession, superseded: str) -> None:
    options = "`source.split.target-size` = '1 kb', `source.split.open-file-cost` = '1 kb'"
    frame = catalog.sql(f"SELECT * FROM {superseded} WITH ({options}) WHERE p = 'a'")
    files = catalog.sql(f"SELECT count(*) FROM `{superseded}$files` WHERE partition LIKE '%a%'").first()
    assert NATIVE in plan_of(frame)
    assert files is not None
    assert frame.rdd.getNumPartitions() == files[0] > 4
    assert frame.count() == catalog.table(superseded).where("p = 'a'").count()


@pytest.mark.parametrize(
    ("values", "native"),
    [
        ({"spark.sql.parquet.enableVectorizedReader": "false"}, False),
        ({"spark.sql.codegen.wholeStage": "false", "spark.sql.files.maxPartitionBytes": "1000"}, True),
        ({"spark.sql.codegen.maxFields": "1"}, True),
        ({"spark.sql.ansi.enabled": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}, True),
    ],
    ids=["enableVectorizedReader", "wholeStage", "maxFields", "factoryMode"],
)
def test_settings_of_the_session_do_not_change_position_filters(
    catalog: SparkSession, superseded: str, values: Mapping[str, str], native: bool
) -> None:
    query = f"SELECT * FROM {superseded} WHERE v > 'v3' AND k < 1500"
    rows = shown(catalog, query)
    assert rows[0]
    with settings(catalog, values):
        assert shown(catalog, query) == (native, rows[1])


def test_an_older_snapshot_has_marks_of_its_own(catalog: SparkSession, superseded: str) -> None:
    native, rows = shown(catalog, f"SELECT * FROM {superseded} VERSION AS OF 5")
    options = "`scan.snapshot-id` = '5', `read.spark-parquet` = 'false'"
    assert (native, rows) == (True, shown(catalog, f"SELECT * FROM {superseded} WITH ({options})")[1])
    assert rows != shown(catalog, f"SELECT * FROM {superseded}")[1]


def test_where_spark_refuses_its_reader_we_mask_rows(
    catalog: SparkSession, marked: str, superseded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = catalog.table(marked).count()
    merged = catalog.table(superseded).where("v > 'v3'").collect()
    monkeypatch.setattr("paimon_spark.spark.catalog.native_scan._OPTIONS", {"mergeSchema": "perhaps"})
    frame = catalog.table(marked).where("p = 'a' OR k > 0")
    assert BATCH not in plan_of(frame)
    assert frame.count() == expected
    frame = catalog.table(superseded).where("v > 'v3'")
    assert BATCH not in batch_of(frame)
    assert sorted(frame.collect()) == sorted(merged)
    monkeypatch.undo()
    monkeypatch.setattr("paimon_spark.spark.catalog.position_filter._MOST_ROWS", 1000)
    large = catalog.sql(f"SELECT * FROM {marked} WHERE k >= 0")
    assert NATIVE not in plan_of(large)
    assert large.count() == expected


@pytest.mark.thorough
def test_frames_of_a_table_by_its_path(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = paimon_spark.PaimonTable.create(spark, path, "id INT, c CHAR(4), p STRING", partition_by="p")
    table.append(spark.createDataFrame([(1, "a", "x"), (2, "b", "y")], "id INT, c STRING, p STRING"))
    table.create_tag("first")
    frame = table.to_df()
    assert NATIVE in plan_of(frame)
    assert frame.schema == spark.read.format("paimon").load(path).schema
    assert "files=1" in plan_of(frame.where("p = 'y'"))
    assert "LocalTableScan" in plan_of(frame.selectExpr("count(*)", "max(id)"))
    cached = frame.cache()
    assert sorted(map(tuple, cached.collect())) == [(1, "a   ", "x"), (2, "b   ", "y")]
    table.append(spark.createDataFrame([(3, "c", "x")], "id INT, c STRING, p STRING"))
    assert frame.count() == 2  # a frame stays on its snapshot
    assert table.to_df().count() == 3
    assert "InMemoryTableScan" not in plan_of(table.to_df())
    cached.unpersist()
    some = table.to_df(columns="p, id", scan_tag_name="first")
    assert NATIVE in plan_of(some)
    assert sorted(map(tuple, some.collect())) == [("x", 1), ("y", 2)]
    filtered = table.to_df(filter="id > 1")
    assert NATIVE in plan_of(filtered)
    assert "filter=[" in plan_of(filtered)
    for options in ({"incremental_between": "1,2"}, {"read_spark_parquet": False}):
        assert NATIVE not in plan_of(table.to_df(**options))
    assert [row.id for row in table.to_df(incremental_between="1,2").collect()] == [3]
    assert table.read_optimized().count() == 3
    table.overwrite(table.to_df().where("id < 3"))
    assert sorted(row.id for row in table.to_df().collect()) == [1, 2]


@pytest.mark.thorough
def test_a_frame_by_its_path_is_planned_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What told that Spark's reader will do are the files that it reads; a filter lets them be looked for anew."""
    path = str(tmp_path / "t")
    table = paimon_spark.PaimonTable.create(spark, path, "id INT, v STRING, p STRING", partition_by="p")
    table.append(spark.sql("SELECT 1 id, 'x' v, 'p' p UNION ALL SELECT 2, null, 'q'"))
    planned: list[Any] = []
    real = ManifestStore.live_columns

    def counting(self: ManifestStore, *args: Any, **options: Any) -> Any:
        planned.append(args)
        return real(self, *args, **options)

    monkeypatch.setattr(ManifestStore, "live_columns", counting)
    frame = table.to_df()
    assert NATIVE in plan_of(frame)
    assert sorted(row.id for row in frame.collect()) == [1, 2]
    assert sorted(row.id for row in frame.select("id").collect()) == [1, 2]
    assert sorted((row.p, row.v or "") for row in frame.select("p", "v").collect()) == [("p", "x"), ("q", "")]
    assert len(planned) == 1
    assert [row.id for row in frame.where("p = 'q'").collect()] == [2]
    assert len(planned) == 2
    assert frame.limit(1).count() == 1
    table.append(spark.sql("SELECT 3 id, null v, 'r' p"))
    assert sorted(row.id for row in frame.collect()) == [1, 2]
    assert sorted(row.id for row in table.to_df().collect()) == [1, 2, 3]
    assert [row.id for row in table.to_df(scan_snapshot_id=1).where("id > 1").collect()] == [2]


def test_sparks_reader_verifies_the_checksums_of_pages(catalog: SparkSession, warehouse: Path) -> None:
    catalog.sql("CREATE TABLE checked (id INT, s STRING) TBLPROPERTIES ('file.compression' = 'none')")
    catalog.sql("INSERT INTO checked SELECT id, concat('value ', id) FROM range(0, 100, 1, 1)")
    (path,) = (warehouse / "db.db" / "checked").rglob("data-*.parquet")
    data = bytearray(path.read_bytes())
    data[data.index(b"value 7")] ^= 1
    path.write_bytes(data)
    frame = catalog.table("checked")
    assert NATIVE in plan_of(frame)
    with pytest.raises(Exception, match=r"(?i)crc|checksum|integrity"):
        frame.collect()
