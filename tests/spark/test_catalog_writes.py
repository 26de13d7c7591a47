"""Writing through the SQL catalog: INSERT, the kinds of overwrite, DataFrames, errors, concurrency, distribution."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

import paimon_spark
from paimon_spark import PaimonError, UnsupportedError
from paimon_spark.spark.catalog.distributed_rows import Parallelism, WriteDistribution, write_distribution
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table, load_table

pytestmark = [pytest.mark.spark, pytest.mark.catalog("writes", current=True)]

Rows = list[tuple[object, ...]]
_numbers = itertools.count()


@pytest.fixture
def create(spark: SparkSession, warehouse: Path) -> Callable[..., str]:
    """Makes a table of these columns and gives its name."""

    def create(columns: str, partitioned_by: str = "", **options: str) -> str:
        name = f"t{next(_numbers)}"
        parts = f"PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
        properties = ", ".join(f"'{key.replace('_', '-')}'='{value}'" for key, value in options.items())
        spark.sql(f"CREATE TABLE {name} ({columns}) {parts} {f'TBLPROPERTIES ({properties})' if properties else ''}")
        return name

    return create


@pytest.fixture
def rows(spark: SparkSession) -> Callable[[str], Rows]:
    return lambda name: sorted((tuple(row) for row in spark.table(f"writes.db.{name}").collect()), key=repr)


def table_of(warehouse: Path, name: str) -> FileStoreTable:
    return load_table(str(warehouse / "db.db" / name))


def files_of(warehouse: Path, name: str) -> list[tuple[int, int, int, int]]:
    """(bucket, smallest, greatest sequence number, rows) of each living file."""
    table = table_of(warehouse, name)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    files = [(e.bucket, e.file) for e in table.manifests.live_entries(snapshot)]
    return sorted((b, f.min_sequence_number, f.max_sequence_number, f.row_count) for b, f in files)


KEYED = "k INT NOT NULL, v STRING, dt STRING NOT NULL"


def test_column_lists_names_and_positions(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]
) -> None:
    name = create("id INT, name STRING, address STRING", "address")
    spark.sql(f"INSERT INTO {name} (name) VALUES ('a')")
    spark.sql(f"INSERT INTO {name} (address, name, id) VALUES ('home', 'b', 2)")
    spark.sql(f"INSERT INTO {name} PARTITION (address = 'work') (name) VALUES ('c')")
    spark.sql(f"INSERT INTO {name} BY NAME SELECT 'd' AS name, 4 AS id, 'x' AS address")
    spark.sql(f"INSERT INTO {name} TABLE {name}")
    assert rows(name) == sorted(2 * [(None, "a", None), (2, "b", "home"), (None, "c", "work"), (4, "d", "x")], key=repr)


def test_defaults_of_every_kind(spark: SparkSession, create: Callable[..., str]) -> None:
    name = create(
        "id INT, s STRING DEFAULT 'it''s', n DECIMAL(5,2) DEFAULT 1.50, d DATE DEFAULT '2024-01-31', "
        "b BOOLEAN DEFAULT true, at TIMESTAMP_NTZ DEFAULT '2024-01-31 12:30:00'"
    )
    spark.sql(f"INSERT INTO {name} (id) VALUES (1)")
    spark.sql(f"INSERT INTO {name} VALUES (2, DEFAULT, 2.5, DEFAULT, false, DEFAULT)")
    found = spark.sql(
        f"SELECT id, s, cast(n AS string), cast(d AS string), b, cast(at AS string) FROM {name} ORDER BY id"
    )
    clock = "2024-01-31 12:30:00"
    assert [tuple(row) for row in found.collect()] == [
        (1, "it's", "1.50", "2024-01-31", True, clock),
        (2, "it's", "2.50", "2024-01-31", False, clock),
    ]


def test_insert_overwrite_of_partitions(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]
) -> None:
    name = create("a INT, p STRING, q INT", "p, q")
    spark.sql(f"INSERT INTO {name} VALUES (1,'a',11), (2,'a',22), (3,'b',22), (4,NULL,22)")
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (q = 22) SELECT 10, 'a' UNION ALL SELECT 20, 'z'")
    assert rows(name) == [(1, "a", 11), (10, "a", 22), (20, "z", 22)]
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (p = 'a', q = 11) SELECT 5 WHERE false")
    assert rows(name) == [(10, "a", 22), (20, "z", 22)]
    spark.sql(f"INSERT OVERWRITE {name} VALUES (7, 'n', 1)")
    assert rows(name) == [(7, "n", 1)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(f"INSERT OVERWRITE {name} VALUES (8, 'm', 1)")
        spark.sql(f"INSERT OVERWRITE {name} PARTITION (p = 'n', q) SELECT 9, 1")
        spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE false")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(name) == [(8, "m", 1), (9, "n", 1)]


def test_replace_where(spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    name = create("k INT, dt DATE", "dt")
    spark.sql(f"INSERT INTO {name} SELECT id, date_add(DATE'2024-01-01', cast(id AS int)) FROM range(4)")
    spark.sql(
        f"INSERT INTO {name} REPLACE WHERE dt >= DATE'2024-01-02' AND dt <> DATE'2024-01-04' SELECT 9, DATE'2024-01-03'"
    )
    spark.sql(f"INSERT INTO {name} REPLACE WHERE dt IN (DATE'2024-01-01', DATE'2030-01-01') SELECT 8, DATE'2030-01-01'")
    assert [(k, str(day)) for k, day in rows(name)] == [(3, "2024-01-04"), (8, "2030-01-01"), (9, "2024-01-03")]
    before = rows(name)
    refused = {
        "k = 1": r"An overwrite where `k` = 1 .* partition columns only.* k is none .*partitioned by: dt",
        "year(dt) = 2024": r"An overwrite where EXTRACT\(YEAR FROM dt\) = 2024 is not supported",
        "dt > DATE'2030-01-01'": r"^The change in dt=.* does not belong to this partition: "
        r"the overwrite is of `dt` > DATE '2030-01-01'",
    }
    for condition, message in refused.items():
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"INSERT INTO {name} REPLACE WHERE {condition} SELECT 8, DATE'2024-01-04'")
    assert rows(name) == before


def test_dataframe_writers(spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    name = create(KEYED, "dt", primary_key="dt,k", bucket="2")
    frame = spark.createDataFrame([("a", 1, "x"), ("b", 2, "x")], "dt string, k int, v string")
    table = f"writes.db.{name}"
    frame.writeTo(table).append()
    assert rows(name) == [(1, "x", "a"), (2, "x", "b")]
    one = frame.where("k = 1")
    one.withColumn("v", lit("y")).writeTo(table).overwrite(col("dt") == "a")
    assert rows(name) == [(1, "y", "a"), (2, "x", "b")]
    one.withColumn("k", lit(5)).writeTo(table).overwritePartitions()
    assert rows(name) == [(2, "x", "b"), (5, "x", "a")]
    frame.write.format("paimon").mode("append").saveAsTable(table)
    assert rows(name) == [(1, "x", "a"), (2, "x", "b"), (5, "x", "a")]
    by_position = frame.select("k", "v", "dt").where("k = 2").withColumn("k", lit(6))
    by_position.write.insertInto(table)
    assert rows(name) == [(1, "x", "a"), (2, "x", "b"), (5, "x", "a"), (6, "x", "b")]
    by_position.write.option("partitionOverwriteMode", "dynamic").insertInto(table, overwrite=True)
    assert rows(name) == [(1, "x", "a"), (5, "x", "a"), (6, "x", "b")]
    by_position.write.insertInto(table, overwrite=True)
    assert rows(name) == [(6, "x", "b")]


def test_a_table_by_its_path(spark: SparkSession, create: Callable[..., str], warehouse: Path) -> None:
    name = create("k INT")
    path = warehouse / "db.db" / name
    spark.sql(f"INSERT INTO writes.`{path}` VALUES (1), (2)")
    assert spark.table(f"writes.db.{name}").count() == 2


def test_what_spark_checks_is_sparks_error(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]
) -> None:
    name = create(KEYED, "dt", primary_key="dt,k", bucket="1")
    refused = {
        "VALUES ('x', 'a', 'd')": "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
        "(v) VALUES ('a')": "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA",
        "VALUES (1, 'a')": "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",
        "(k, nope, dt) VALUES (1, 'a', 'd')": "UNRESOLVED_COLUMN",
        "VALUES (3000000000, 'a', 'd')": "CAST_OVERFLOW_IN_TABLE_INSERT",
        "SELECT cast(NULL AS int), 'a', 'd' FROM range(3)": "NOT_NULL_ASSERT_VIOLATION",
    }
    for rest, error in refused.items():
        with pytest.raises(PySparkException) as caught:
            spark.sql(f"INSERT INTO {name} {rest}")
        assert (caught.value.getCondition() or "").startswith(error), rest
    with pytest.raises(PySparkException, match=r"Unknown option 'scan\.nope'"):
        spark.table(f"writes.db.{name}").writeTo(f"writes.db.{name}").option("scan.nope", "1").append()
    assert rows(name) == []


def test_two_threads_insert_at_once(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows], warehouse: Path
) -> None:
    name = create(KEYED, "dt", primary_key="dt,k", bucket="2")

    def insert(thread: int) -> None:
        for number in range(3):
            spark.sql(f"INSERT INTO writes.db.{name} VALUES ({10 * thread + number}, 't{thread}', 'd{number}')")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(insert, thread) for thread in range(2)]:
            done.result()
    assert rows(name) == sorted(((10 * t + n, f"t{t}", f"d{n}") for t in range(2) for n in range(3)), key=repr)
    assert table_of(warehouse, name).snapshots.latest_id() == 6


def test_a_conflict_is_one_sentence(
    spark: SparkSession, create: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from paimon_spark.commit import file_store_commit
    from paimon_spark.errors import CommitConflictError

    def lose(*_: object, **__: object) -> None:
        raise CommitConflictError("rivals won")

    name = create("k INT")
    monkeypatch.setattr(file_store_commit, "commit", lose)
    with pytest.raises(PySparkException) as caught:
        spark.sql(f"INSERT INTO {name} VALUES (1)")
    assert isinstance(caught.value, CommitConflictError)
    assert str(caught.value) == "rivals won"


def test_every_key_is_in_one_task(spark: SparkSession, create: Callable[..., str], warehouse: Path) -> None:
    name = create("k INT NOT NULL, v STRING", primary_key="k", bucket="2")
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # so that there are two tasks
    try:
        spark.sql(f"INSERT INTO {name} SELECT id % 50, 'x' FROM range(0, 600, 1, 6)")
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    files = files_of(warehouse, name)
    assert sum(count for *_, count in files) == 50  # equal keys met before they were written
    assert [bucket for bucket, *_ in files] == [0, 1]
    assert all(end < 600 for _, _, end, _ in files)  # each bucket has one task, which numbers its rows without gaps


def test_one_bucket_has_one_writer_and_no_gaps(
    spark: SparkSession, create: Callable[..., str], warehouse: Path
) -> None:
    name = create("k INT NOT NULL, v STRING", primary_key="k", bucket="1")
    for _ in range(2):
        spark.sql(f"INSERT INTO {name} SELECT id, 'x' FROM range(0, 60, 1, 6)")
    assert files_of(warehouse, name) == [(0, 0, 59, 60), (0, 60, 119, 60)]


def test_the_plan_shuffles_by_key(spark: SparkSession, create: Callable[..., str]) -> None:
    def plan(name: str) -> str:
        statement = f"EXPLAIN INSERT INTO {name} SELECT cast(id AS int), 'x', 'd' FROM range(100)"
        return str(spark.sql(statement).collect()[0][0])

    keyed = plan(create(KEYED, "dt", primary_key="dt,k", bucket="4"))
    assert "hashpartitioning(dt" in keyed
    assert "k#" in keyed.split("hashpartitioning(", 1)[1].split(")", 1)[0]
    assert "Exchange" not in plan(create(KEYED, "dt"))


ADAPTIVE, FIXED = Parallelism(adaptive=True, tasks=8), Parallelism(adaptive=False, tasks=8)


def test_what_is_asked_of_spark(create: Callable[..., str], warehouse: Path) -> None:
    def asked(parallelism: Parallelism, partitioned_by: str = "dt", **options: str) -> WriteDistribution:
        found = write_distribution(table_of(warehouse, create(KEYED, partitioned_by, **options)), parallelism)
        assert (found.bucket is not None) == (options.get("bucket") in ("2", "4"))
        return replace(found, bucket=None, buckets=0)

    megabytes, dt = 1 << 20, ("dt",)
    many = {"primary_key": "dt,k", "bucket": "4"}
    assert asked(ADAPTIVE, **many) == WriteDistribution(("dt", "k"), advisory_bytes=512 * megabytes, partitions=dt)
    assert asked(FIXED, **many) == WriteDistribution(("dt", "k"), num_partitions=8, partitions=dt)
    assert asked(FIXED, "", **many | {"primary_key": "k"}) == WriteDistribution(("k",), num_partitions=4)
    one = {"primary_key": "dt,k", "bucket": "1"}
    assert asked(ADAPTIVE, **one) == WriteDistribution(
        ("dt",), advisory_bytes=128 * megabytes, one_task_per_bucket=True
    )
    assert asked(ADAPTIVE, "", primary_key="k", bucket="1") == WriteDistribution(
        ("k",), num_partitions=1, one_task_per_bucket=True
    )
    assert asked(FIXED, primary_key="dt,k") == WriteDistribution(
        ("dt", "k"), num_partitions=8, partitions=dt, packed=True
    )
    assert asked(FIXED, bucket="2", bucket_key="v") == WriteDistribution(("dt", "v"), num_partitions=8, partitions=dt)
    assert asked(ADAPTIVE) == WriteDistribution(rebalanced_by=("dt",))
    assert asked(FIXED) == asked(ADAPTIVE, "") == WriteDistribution()
    assert asked(ADAPTIVE, **{"partition.sink-strategy": "none"}) == WriteDistribution()
    by_partition = {"partition.sink-strategy": "hash"}
    assert asked(ADAPTIVE, **by_partition) == WriteDistribution(("dt",), advisory_bytes=256 * megabytes, may_split=True)
    assert asked(FIXED, **by_partition) == WriteDistribution(("dt",), may_split=True)
    assert asked(ADAPTIVE, "", **by_partition) == WriteDistribution()


def test_a_frame_read_from_the_table_it_overwrites(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]
) -> None:
    name = create("k INT, v STRING")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    frame: DataFrame = spark.table(f"writes.db.{name}")
    frame.where("k = 2").write.insertInto(f"writes.db.{name}", overwrite=True)
    assert rows(name) == [(2, "b")]
    assert frame.count() == 1


def test_partitions_of_bytes_are_refused_before_a_task_runs(
    spark: SparkSession, warehouse: Path, create: Callable[..., str], rows: Callable[[str], Rows]
) -> None:
    """Java names their directories by the address of an array, unless ``partition.legacy-name`` is false."""
    name = "of_bytes"  # as another engine makes it
    path, frame = str(warehouse / "db.db" / name), spark.sql("SELECT 1 k, X'0102' p")
    fields = [DataField(0, "k", parse_type("INT")), DataField(1, "p", parse_type("BYTES"))]
    create_table(path, create_schema(fields, (), ("p",), {}, None))
    entry_points: tuple[Callable[[], object], ...] = (
        lambda: create("k INT, p BINARY", "p"),
        lambda: spark.sql(f"INSERT INTO {name} VALUES (1, X'0102')"),
        lambda: spark.sql(f"INSERT OVERWRITE {name} VALUES (1, X'0102')"),
        lambda: frame.write.format("paimon").mode("append").save(path),
        lambda: frame.write.format("paimon").mode("append").option("partition", "p").save(f"{path}_new"),
        lambda: paimon_spark.PaimonTable.for_path(spark, path).append(frame),
        lambda: paimon_spark.sql(spark, f"INSERT INTO paimon.db.{name} VALUES (1, X'0102')", warehouse=str(warehouse)),
    )
    for entry_point in entry_points:
        with pytest.raises((PySparkException, UnsupportedError), match=r"no stable directory names") as refused:
            entry_point()
        assert "Partition column 'p' of type BYTES" in str(refused.value)
        assert "Python worker" not in str(refused.value)
    assert list(Path(path).glob("p=*")) == []
    spark.sql(
        f"CREATE TABLE {name}_named (k INT, p BINARY) PARTITIONED BY (p) "
        "TBLPROPERTIES ('partition.legacy-name'='false')"
    )
    spark.sql(f"INSERT INTO {name}_named VALUES (1, X'6162'), (2, NULL)")
    assert rows(f"{name}_named") == [(1, b"ab"), (2, None)]


@pytest.mark.parametrize(
    "value",
    [
        "named_struct('x', 1, 'X', 2) s",
        "named_struct('x', 1, 'y', 2, 'x', 3) s",
        "array(named_struct('x', 1, 'x', 2)) a",
        "map('k', named_struct('x', 1, 'x', 2)) m",
    ],
)
def test_ambiguous_fields_of_structs_are_refused_by_name(
    spark: SparkSession, warehouse: Path, create: Callable[..., str], rows: Callable[[str], Rows], value: str
) -> None:
    struct = "STRUCT<x: INT, y: INT>"
    name = create(f"id INT, s {struct}, a ARRAY<{struct}>, m MAP<STRING, {struct}>")
    query = f"SELECT 1 id, {value}"
    path, frame = str(warehouse / "db.db" / name), spark.sql(query)
    entry_points: tuple[Callable[[], object], ...] = (
        lambda: spark.sql(f"INSERT INTO {name} BY NAME {query}"),
        lambda: frame.writeTo(name).append(),
        lambda: frame.write.format("paimon").mode("append").save(path),
        lambda: paimon_spark.PaimonTable.for_path(spark, path).append(frame),
        lambda: paimon_spark.sql(spark, f"INSERT INTO paimon.db.{name} BY NAME {query}", warehouse=str(warehouse)),
    )
    for entry_point in entry_points:
        with pytest.raises((PySparkException, PaimonError), match=r"AMBIGUOUS_COLUMN_NAME|both stand for 'x'"):
            entry_point()
    assert rows(name) == []
