"""CALL sys.compact and PaimonTable.compact: what they take and answer, on the driver and as a Spark job."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.maintain.compact.rewrite import Rewrite
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.compact.step import BucketFiles, split_files
from paimon_spark.spark.jobs import compact_job
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.history import table_files

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sql(spark: SparkSession, warehouse: Path) -> Iterator[SparkSession]:
    """A session of its own with the catalog ``co``, where it is current."""
    session = SparkSession(spark.sparkContext, spark._jsparkSession.newSession())
    paimon_spark.register_catalog(session, "co", warehouse=str(warehouse))
    session.sql("CREATE DATABASE co.db")
    session.sql("USE co.db")
    yield session
    paimon_spark.register(spark)
    spark.range(1).collect()  # the session of the other tests is the active one again


@pytest.fixture
def name(sql: SparkSession, request: pytest.FixtureRequest) -> str:
    """A table of days with keys, three buckets in each of two partitions, two files in each bucket."""
    named = f"db.t{abs(hash(request.node.name))}"
    sql.sql(
        f"CREATE TABLE co.{named} (k INT NOT NULL, v INT, dt DATE NOT NULL) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'dt,k', 'bucket' = '3', 'write-only' = 'true')"
    )
    for version in (1, 2):
        day = "date_add(DATE'2024-01-01', int(id % 2))"
        sql.sql(f"INSERT INTO co.{named} SELECT int(id), int(id * {version}), {day} FROM range(60)")
    return named


def call(sql: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sql.sql(f"CALL co.sys.{text}").collect()]


def table_of(warehouse: Path, name: str) -> FileStoreTable:
    return load_table(str(warehouse / name.replace(".", ".db/", 1)))


def levels(table: FileStoreTable) -> dict[tuple[str, int], list[int]]:
    """Levels of the files in each (partition, bucket)."""
    found: dict[tuple[str, int], list[int]] = {}
    for entry in table.manifests.live_entries(table.snapshots.latest()):
        location = (table.paths.partition_path(entry.partition)[-1:], entry.bucket)
        found.setdefault(location, []).append(entry.file.level)
    return found


def sizes(table: FileStoreTable) -> list[int]:
    """Bytes of each live file."""
    return [entry.file.file_size for entry in table.manifests.live_entries(table.snapshots.latest())]


def contents(sql: SparkSession, name: str) -> list[tuple[Any, ...]]:
    return sorted((row.k, row.v) for row in sql.table(f"co.{name}").collect())


ROWS = [(k, 2 * k) for k in range(60)]
FIRST_DAY, BOTH_DAYS = {("3", bucket) for bucket in range(3)}, {(d, bucket) for d in "34" for bucket in range(3)}
CHOICES = {
    "partitions => 'dt=2024-01-01'": FIRST_DAY,
    "partitions => 'dt=\"2024-01-01\";dt=2030-01-01'": FIRST_DAY,
    "partitions => \"dt='2024-01-01';dt=2024-01-02\"": BOTH_DAYS,
    "where => \"dt < '2024-01-02'\"": FIRST_DAY,
    "where => \"dt = DATE'2024-01-01' AND dt IS NOT NULL\", compact_strategy => 'FULL'": FIRST_DAY,
    "buckets => '0'": {("3", 0), ("4", 0)},
    "buckets => '0,1-2', where => \"dt = '2024-01-01'\"": FIRST_DAY,
    "partition_idle_time => '1 h'": set(),
    "partition_idle_time => '1 ms', order_strategy => 'none'": BOTH_DAYS,
    "compact_strategy => 'minor'": set(),
    "compact_strategy => 'minor', options => 'num-sorted-run.compaction-trigger=2, num-levels=6'": BOTH_DAYS,
    "partitions => '', where => '', compact_strategy => ''": BOTH_DAYS,
}


@pytest.mark.parametrize("arguments", CHOICES)
def test_what_is_compacted(sql: SparkSession, warehouse: Path, name: str, arguments: str) -> None:
    assert call(sql, f"compact(table => '{name}', {arguments})")[0][0] is True
    table, chosen = table_of(warehouse, name), CHOICES[arguments]
    assert {location for location, found in levels(table).items() if found == [5]} == chosen
    assert table.snapshots.latest_id() == (3 if chosen else 2)
    assert contents(sql, name) == ROWS


REFUSED = {
    "partitions => 'dt=2024-01-01', where => 'dt IS NULL'": "partitions and where cannot be used together",
    "partitions => 'k=1'": r"Partition keys \[k\] are invalid. Available partition keys are \[dt\]",
    "partitions => 'dt'": "Invalid key-value string 'dt'. Please use format 'key=value'",
    "where => 'k = 1'": r"Only partition predicate is supported, your predicate is k = 1, .*\[dt\]",
    "compact_strategy => 'half'": "The compact strategy only supports 'full' or 'minor', but 'half' is configured",
    "order_by => 'k'": 'order_strategy "none" cannot work with order_by columns',
    "order_strategy => 'order', order_by => 'dt'": "order_by should not contain partition cols",
    "order_strategy => 'sorted'": "cannot match type: sorted for ordering",
    "order_strategy => 'zorder', partition_idle_time => '1 h'": "do not support 'partition_idle_time'",
    "buckets => '3'": r"Integer or range '3' is out of range \[0, 3\)",
    "buckets => '2-1'": "Integer range start 2 must not be greater than end 1",
    "buckets => 'x'": "Invalid integer or range: 'x'",
    "partition_idle_time => 'long'": "long",
    "options => 'bucket=7'": "Cannot change bucket",
}


@pytest.mark.parametrize("strategy", ["order", "ZORDER", "hilbert"])
def test_rows_of_buckets_are_not_put_in_order(sql: SparkSession, warehouse: Path, name: str, strategy: str) -> None:
    before = table_files(table_of(warehouse, name))
    with pytest.raises(UnsupportedOperationException, match="only supports unaware-bucket append-only tables"):
        call(sql, f"compact(table => '{name}', order_strategy => '{strategy}', order_by => 'k')")
    assert table_files(table_of(warehouse, name)) == before


@pytest.mark.thorough
def test_what_is_refused(sql: SparkSession, warehouse: Path, name: str) -> None:
    before = table_files(table_of(warehouse, name))
    for arguments, text in REFUSED.items():
        with pytest.raises(IllegalArgumentException, match=text):
            call(sql, f"compact(table => '{name}', {arguments})")
    assert table_files(table_of(warehouse, name)) == before


def test_methods(sql: SparkSession, warehouse: Path, name: str) -> None:
    opened = paimon_spark.PaimonTable.for_path(sql, table_of(warehouse, name).path)
    assert opened.compact(partition_idle_time=timedelta(hours=1)) is None
    assert opened.compact(partitions={"dt": "2024-01-01"}, buckets=[1]) == 3
    assert {location for location, found in levels(table_of(warehouse, name)).items() if found == [5]} == {("3", 1)}
    assert opened.compact(where="dt = '2024-01-01'", partition_idle_time="1 ms") == 4
    assert opened.compact(partitions=[{"dt": "2024-01-01"}]) is None, "it is done"
    assert opened.compact(compact_strategy="minor", num_sorted_run_compaction_trigger=2, num_levels=6) == 5
    assert opened.compact() is None
    assert contents(sql, name) == ROWS
    with pytest.raises(paimon_spark.OptionError, match="only supports 'full' or 'minor'"):
        opened.compact(compact_strategy="most")  # type: ignore[arg-type]


def test_expiry_comes_after_it_although_the_table_is_write_only(sql: SparkSession, warehouse: Path, name: str) -> None:
    one = "snapshot.num-retained.min=1,snapshot.num-retained.max=1"
    assert call(sql, f"compact(table => '{name}', options => 'write-only=true,{one}')")[0][0] is True
    assert table_of(warehouse, name).snapshots.ids() == [1, 2, 3]
    sql.sql(f"INSERT INTO co.{name} SELECT * FROM co.{name}")
    assert call(sql, f"compact(table => '{name}', options => '{one}')")[0][0] is True
    assert table_of(warehouse, name).snapshots.ids() == [5]
    assert contents(sql, name) == ROWS


def test_a_job_does_what_the_driver_does(
    sql: SparkSession, warehouse: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_job, "_DRIVER_BYTES", 0)
    seen: list[int] = []
    in_tasks = compact_job.rewrite_in_tasks

    def watched(spark: SparkSession, table: FileStoreTable, rewrites: Any) -> Any:
        seen.append(len(rewrites))
        return in_tasks(spark, table, rewrites)

    monkeypatch.setattr(compact_job, "rewrite_in_tasks", watched)
    before = sizes(table_of(warehouse, name))
    [(done, made, *rewritten)] = call(sql, f"compact(table => '{name}')")
    after = sizes(table_of(warehouse, name))
    assert (done, made) == (True, table_of(warehouse, name).snapshots.latest_id())
    assert rewritten == [len(before), sum(before), len(after), sum(after)]
    assert seen == [6]
    assert levels(table_of(warehouse, name)) == {location: [5] for location in BOTH_DAYS}
    assert contents(sql, name) == ROWS


def test_answers_of_tasks_are_in_order(sql: SparkSession, warehouse: Path, name: str) -> None:
    table = table_of(warehouse, name)
    buckets = CompactScope().bucket_files(table, table.snapshots.get(2))
    rewrites = [rewrite_of(table, bucket) for bucket in buckets]
    answers = compact_job.rewrite_in_tasks(sql, table, rewrites)
    assert [sum(file.row_count for file in answer.files) for answer in answers] == [
        sum(file.row_count for file in bucket.files) for bucket in buckets
    ]
    for bucket, answer in zip(buckets, answers, strict=True):
        for file in answer.files:
            assert Path(table.paths.data_file_path(bucket.partition, bucket.bucket, file)).exists()
    assert compact_job.shared_out([5, 1, 9, 3], 2) == [[2, 1], [0, 3]]


def test_a_little_work_is_done_by_a_task_for_each_core() -> None:
    mib = 1 << 20
    assert compact_job.number_of_tasks(50, 20 * mib, partitions=200, cores=2) == 2
    assert compact_job.number_of_tasks(50, 400 * mib, partitions=200, cores=2) == 25
    assert compact_job.number_of_tasks(50, 4000 * mib, partitions=8, cores=2) == 8
    assert compact_job.number_of_tasks(50, 4000 * mib, partitions=8, cores=64) == 50
    assert compact_job.number_of_tasks(3, 4000 * mib, partitions=8, cores=2) == 3
    assert compact_job.number_of_tasks(50, 20 * mib, partitions=40, cores=None) == 40


def test_the_driver_does_a_little_work_itself() -> None:
    def is_little(mib: int, rewrites: int = 1, module: str = "pyspark.sql.session") -> bool:
        session: Any = type("SparkSession", (), {"__module__": module})()
        work = [Rewrite(b"", 0, 0, ())] * (rewrites - 1) + [SimpleNamespace(size_bytes=mib << 20)]
        return compact_job.fits_driver(session, work)

    assert is_little(32, 64)
    assert not is_little(32, 65)
    assert not is_little(33)
    connect = "pyspark.sql.connect.session"
    assert is_little(16, module=connect), "a client that may be far from the files"
    assert not is_little(17, module=connect)


def rewrite_of(table: FileStoreTable, bucket: BucketFiles) -> Rewrite:
    """Every file by itself, so that rows count as in the files."""
    sections = tuple((file,) for file in split_files(table, bucket, bucket.files))
    return Rewrite(bucket.partition, bucket.bucket, 3, sections)


def test_an_error_in_a_task_is_the_error_of_the_call_and_leaves_nothing(
    sql: SparkSession, warehouse: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_job, "_DRIVER_BYTES", 0)
    table = table_of(warehouse, name)
    bucket, *_ = CompactScope().bucket_files(table, table.snapshots.get(2))
    lost = Path(table.paths.data_file_path(bucket.partition, bucket.bucket, bucket.files[0]))
    lost.unlink()
    before = table_files(table)
    with pytest.raises(Exception, match=lost.name):
        call(sql, f"compact(table => '{name}')")
    with pytest.raises(paimon_spark.CorruptTableError, match=lost.name):
        paimon_spark.PaimonTable.for_path(sql, table.path).compact()
    assert table.snapshots.latest_id() == 2
    assert table_files(table) == before


NO_PANDAS = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not here")
sys.meta_path.insert(0, Nothing())
"""
WITHOUT_PANDAS = """
import sys
from pyspark.sql import SparkSession
import paimon_spark
from paimon_spark.spark.jobs import compact_job

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
paimon_spark.register(spark)
compact_job._DRIVER_BYTES = 0
table = paimon_spark.PaimonTable.create(
    spark, sys.argv[1], "id long not null", primary_key="id", options={"bucket": "4"}
)
for _ in range(2):
    spark.range(100).write.format("paimon").mode("append").save(sys.argv[1])
try:
    import pandas
except ImportError:
    print(table.compact(), table.files().where("level = 5").count(), table.to_df().count(), table.compact())
"""


@pytest.mark.turns("program")
def test_without_pandas(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_PANDAS)  # for the workers as well
    known = os.pathsep.join([str(tmp_path), *sys.path[1:]])
    command = [sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": known})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "3 4 100 None"


def test_file_indexes_are_rewritten(sql: SparkSession, warehouse: Path, name: str, monkeypatch: Any) -> None:
    sql.sql(f"ALTER TABLE co.{name} SET TBLPROPERTIES ('file-index.bitmap.columns' = 'v')")
    assert call(sql, f"rewrite_file_index(table => '{name}', where => \"dt = '2024-01-01'\")") == [(1, 6)]
    shown = f"SELECT count(DISTINCT file_path), max(index_type) FROM co.{name.replace('.', '.`')}$file_indexes`"
    assert [tuple(row) for row in sql.sql(shown).collect()] == [(6, "bitmap")]
    monkeypatch.setattr(compact_job, "_DRIVER_REWRITES", 2)  # a Spark job
    table = paimon_spark.PaimonTable.for_path(sql, table_of(warehouse, name).path)
    assert table.rewrite_file_index(file_index__in_manifest_threshold="0 b") == 4
    assert [tuple(row) for row in sql.sql(shown).collect()] == [(12, "bitmap")]
    assert contents(sql, name) == ROWS
    assert [row.k for row in sql.sql(f"SELECT k FROM co.{name} WHERE v = 14").collect()] == [7]
    with pytest.raises(IllegalArgumentException, match="Only partition predicate is supported"):
        call(sql, f"rewrite_file_index(table => '{name}', where => 'k = 1')")
