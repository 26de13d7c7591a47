"""What users see when something is wrong. Spark passes on only the text, so the text is what is tested."""

import datetime
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from paimon_spark.errors import CorruptTableError, DataError, OptionError, PaimonError, TableNotFoundError
from paimon_spark.spark.register import _choose_workers
from paimon_spark.table.table import load_table, table_exists

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def keyed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partial-update table with one row; not to be changed."""
    path = tmp_path_factory.mktemp("keyed") / "db.db" / "t"
    options = {"primary-key": "id", "bucket": "2", "merge-engine": "partial-update"}
    frame = spark.createDataFrame([(1, "a", 1.5)], "id int not null, v string, d double")
    frame.write.format("paimon").options(**options).mode("append").save(str(path))
    return path


@pytest.fixture(scope="module")
def partitioned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with the partition dt=a; not to be changed."""
    path = str(tmp_path_factory.mktemp("partitioned") / "t")
    writer = spark.createDataFrame([(1, "a")], "id int, dt string").write.format("paimon")
    writer.option("partition", "dt").mode("append").save(path)
    return path


@pytest.fixture
def table(keyed: Path, tmp_path: Path) -> str:
    """A copy of the table with one row."""
    shutil.copytree(keyed, tmp_path / "db.db" / "t")
    return str(tmp_path / "db.db" / "t")


READS = {
    "no table": ({}, "/nowhere/db.db/t", r"^There is no Paimon table at /nowhere/db\.db/t"),
    "no path": ({}, None, r"format\('paimon'\) needs the path of a table directory"),
    "unknown option": (
        {"scan.snapshotid": "1"},
        "",
        r"Unknown option 'scan\.snapshotid'\. Did you mean 'scan\.snapshot-id'",
    ),
    "no such snapshot": ({"scan.snapshot-id": "7"}, "", r".*7.*\[1, 1\]"),
    "no such tag": ({"scan.tag-name": "x"}, "", r"Tag 'x' doesn't exist. The table has no tags"),
    "no number": ({"scan.snapshot-id": "one"}, "", r"Could not parse value 'one' for key 'scan\.snapshot-id'"),
    "two versions": (
        {"scan.snapshot-id": "1", "scan.tag-name": "x"},
        "",
        "Only one of the following parameters may be set",
    ),
    "no such column": ({"columns": "id, w"}, "", "there is no column w in the table; its columns are id, v, d"),
    "columns that are no list": ({"columns": "id,,v"}, "", "option 'columns' is a list of column names"),
    "filter on no column": ({"filter": "w = 1"}, "", "w"),
    "filter that is no predicate": ({"filter": "id >"}, "", "filter"),
    "immutable option": (
        {"merge-engine": "deduplicate"},
        "",
        "Cannot change merge-engine from partial-update to deduplicate",
    ),
    "branch that is not there": ({"branch": "b"}, "", "branch 'b'"),
    "write option": ({"replaceWhere": "id = 1"}, "", "option 'replaceWhere' has no meaning for a read"),
    "incremental": ({"incremental-between": "1,9"}, "", r"range \[1, 9\] is out of available .* range \[1, 1\]"),
}


@pytest.mark.parametrize("case", READS)
def test_reads(spark: SparkSession, table: str, case: str) -> None:
    options, path, message = READS[case]
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        spark.read.format("paimon").options(**options).load(table if path == "" else path).collect()


def test_a_system_table(spark: SparkSession, table: str) -> None:
    with pytest.raises(TableNotFoundError, match=r"There is no system table \$fyles .*\$files"):
        spark.read.format("paimon").load(f"{table}$fyles")


def test_a_schema_with_another_type(spark: SparkSession, table: str) -> None:
    with pytest.raises(
        PySparkException, match=r"column id is of type INT NOT NULL, which Spark shows as int; .* bigint"
    ):
        spark.read.format("paimon").schema("id bigint").load(table).collect()


def test_a_schema_with_another_column(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match="there is no column x in the table"):
        spark.read.format("paimon").schema("x bigint").load(table).collect()


def test_several_tables_at_once(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match="reads one table at a time"):
        spark.read.format("paimon").load([table, table])


@pytest.mark.parametrize("damage", [b"", b"{", b'{"id": 1}', b"\xff\xfe"])
def test_a_damaged_snapshot(spark: SparkSession, table: str, damage: bytes) -> None:
    (Path(table) / "snapshot" / "snapshot-1").write_bytes(damage)
    with pytest.raises(CorruptTableError, match=r".*snapshot/snapshot-1"):
        spark.read.format("paimon").load(table).collect()


@pytest.mark.thorough
@pytest.mark.usefixtures("reads_by_tasks")
@pytest.mark.parametrize("location", ["manifest/*", "bucket-*/*"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_files(spark: SparkSession, table: str, location: str, damage: str) -> None:
    files = list(Path(table).glob(location))
    assert files
    for file in files:
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:40])
    reader = spark.read.format("paimon").option("read.spark-parquet", "false")  # else the file is Spark's to name
    with pytest.raises(CorruptTableError, match=f".*{location.split('*')[0]}"):
        reader.load(table).collect()
    if location.startswith("bucket"):
        reported = "FAILED_READ_FILE" if damage == "gone" else "The data file has 40 bytes"
        with pytest.raises(Exception, match=rf"{reported}.*/bucket-.*/data-"):
            spark.read.format("paimon").load(table).collect()


@pytest.mark.parametrize(
    ("damage", "reason"), [("cut", "not a valid Parquet file"), ("gone", "A data file is missing")]
)
def test_damaged_files_that_the_driver_reads(spark: SparkSession, table: str, damage: str, reason: str) -> None:
    for file in Path(table).glob("bucket-*/*"):
        file.unlink() if damage == "gone" else file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(CorruptTableError, match=rf"{reason}.*/bucket-.*/data-"):
        spark.read.format("paimon").load(table).limit(1).collect()


WRITES = {
    "another merge engine": (
        "id int, v string",
        {"merge-engine": "deduplicate"},
        "Cannot change merge-engine from partial-update",
    ),
    "another key": (
        "id int, v string",
        {"primary-key": "v"},
        "Cannot change primary-key to 'v': .* with the primary key: id. Leave",
    ),
    "partitions": (
        "id int, v string",
        {"partition": "v"},
        "Cannot change partition to 'v': .* with the partition columns: none. Leave",
    ),
    "another bucket number": (
        "id int, v string",
        {"bucket": "5"},
        "Cannot change bucket from 2 to 5",
    ),
    "unknown column": ("id int, w string", {}, "has no 'w'"),
    "no key": ("v string", {}, "id"),
    "not a number": ("id string, v string", {}, "id"),
    "read option": ("id int, v string", {"scan.snapshot-id": "1"}, "'scan.snapshot-id' has no meaning for a write"),
    "unknown option": ("id int, v string", {"bukket": "1"}, "Unknown option 'bukket'. Did you mean 'bucket'"),
    "replaceWhere": ("id int, v string", {"replacewhere": "id = 1"}, r"'replaceWhere' needs mode\('overwrite'\)"),
}


@pytest.mark.parametrize("case", WRITES)
def test_writes(spark: SparkSession, table: str, case: str) -> None:
    columns, options, message = WRITES[case]
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        spark.createDataFrame([], columns).write.format("paimon").options(**options).mode("append").save(table)
    assert load_table(table).snapshots.latest_id() == 1


def test_a_value_that_its_column_cannot_hold(spark: SparkSession, table: str) -> None:
    with pytest.raises(DataError, match="id"):
        spark.createDataFrame([(2**40,)], "id bigint").write.format("paimon").mode("append").save(table)
    assert load_table(table).snapshots.latest_id() == 1


def test_null_in_a_not_null_column(spark: SparkSession, table: str) -> None:
    with pytest.raises(DataError, match="id"):
        spark.createDataFrame([(None, "x")], "id int, v string").write.format("paimon").mode("append").save(table)
    assert load_table(table).snapshots.latest_id() == 1


@pytest.mark.parametrize("where", ["id = 1", "dt = 'a' AND id > 1", "dt = 'a' OR id = 2", "nonsense ="])
def test_replace_where_names_whole_partitions(spark: SparkSession, partitioned: str, where: str) -> None:
    writer = spark.createDataFrame([(1, "a")], "id int, dt string").write.format("paimon").mode("overwrite")
    with pytest.raises(OptionError):
        writer.option("replaceWhere", where).save(partitioned)


@pytest.mark.thorough
def test_rows_of_another_partition_than_the_one_replaced(spark: SparkSession, partitioned: str) -> None:
    writer = spark.createDataFrame([(1, "a")], "id int, dt string").write.format("paimon").mode("overwrite")
    with pytest.raises(PySparkException, match=r"dt=a.*does not belong to this partition"):
        writer.option("replaceWhere", "dt = 'b'").save(partitioned)
    with pytest.raises(PySparkException, match=r"dt=a.*does not belong to this partition.*`dt` > 'a'"):
        writer.option("replaceWhere", "dt > 'a'").save(partitioned)


CREATIONS = {
    "key that is no column": ("id int", {"primary-key": "x"}, "should include all primary key constraint.*x"),
    "only partitions in the key": (
        "id int, dt string",
        {"primary-key": "dt", "partition": "dt"},
        "same with partition fields",
    ),
    "group of no column": (
        "id int, v string, g int",
        {"primary-key": "id", "merge-engine": "partial-update", "fields.g.sequence-group": "w"},
        "w.*can not be found in table schema",
    ),
    "unknown merge engine": (
        "id int",
        {"primary-key": "id", "merge-engine": "newest"},
        "merge-engine.*newest|newest.*merge-engine",
    ),
    "aggregate function that is none": (
        "id int, v int",
        {"primary-key": "id", "merge-engine": "aggregation", "fields.v.aggregate-function": "count"},
        "Use unsupported aggregation: count or spell aggregate function incorrectly!",
    ),
    "chain table": ("id int", {"primary-key": "id", "chain-table.enabled": "true"}, "'chain-table.enabled'"),
    "interval": ("id int, i interval day", {}, "Not a supported type: interval day"),
    "name of the system": ("id int, _KEY_id int", {"primary-key": "id"}, "_KEY_"),
    "branch": ("id int", {"branch": "b"}, "branch 'b'"),
}


@pytest.mark.parametrize("case", CREATIONS)
def test_creations(spark: SparkSession, tmp_path: Path, case: str) -> None:
    columns, options, message = CREATIONS[case]
    path = str(tmp_path / "t")
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        spark.createDataFrame([], columns).write.format("paimon").options(**options).mode("append").save(path)
    assert not table_exists(path)


@pytest.mark.thorough
def test_a_failed_first_write_does_not_block_a_retry(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    bad = spark.range(3).selectExpr("id", "if(id = 2, raise_error('bad row'), 'x') AS v")
    writer = {"primary-key": "id", "bucket": "1"}
    with pytest.raises(PySparkException, match="bad row"):
        bad.write.format("paimon").options(**writer).mode("append").save(path)
    assert load_table(path).snapshots.latest_id() is None
    good = spark.range(3).selectExpr("id", "'x' AS v")
    good.write.format("paimon").options(**writer).mode("append").save(path)
    assert spark.read.format("paimon").load(path).count() == 3


def test_credentials_stay_out_of_messages(spark: SparkSession, table: str) -> None:
    options = {"s3.secret-key": "hush-hush", "scan.snapshot-id": "9"}
    with pytest.raises(PySparkException) as caught:
        spark.read.format("paimon").options(**options).load(table)
    assert "hush-hush" not in str(caught.value)


FIRST_MINUTES = """
import sys
from pyspark.sql import SparkSession
import paimon_spark
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions")
    .getOrCreate()
)
paimon_spark.register(spark)
spark.sql("CREATE TABLE submitted.default.t (id INT)")
spark.sql("USE lake")
spark.sql("USE default")
spark.sql("CREATE TABLE t (id INT, name STRING)")
spark.sql("INSERT INTO t VALUES (1, 'a')")
spark.sql("USE submitted")
spark.sql("CREATE TABLE of_shop (id INT)")
print(spark.catalog.currentDatabase(), spark.catalog.tableExists("submitted.shop.of_shop"))
spark.sql("USE lake")
spark.range(2).write.saveAsTable("u")
print(spark.table("lake.default.t").collect(), spark.table("u").count())
spark.read.format("paimon").load(sys.argv[1] + "/lake/default.db/t").write.format("paimon").mode("append").save(
    sys.argv[1] + "/copy")
print(spark.read.format("paimon").load(sys.argv[1] + "/copy").count())
for warehouse in ("one", "one", "two"):
    paimon_spark.register_catalog(spark, "other", warehouse=f"{sys.argv[1]}/{warehouse}")
spark.stop()
"""


@pytest.mark.turns("program")
def test_the_first_minutes_on_a_python_that_workers_do_not_find(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(empty)], check=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    official = "org.apache.paimon.spark.SparkCatalog"
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        f"spark.sql.catalog.lake {official}\nspark.sql.catalog.lake.warehouse {tmp_path}/lake\n"
    )
    by_submit = (
        f"--conf spark.sql.catalog.submitted={official} --conf spark.sql.catalog.submitted.warehouse={tmp_path}/sub"
        " --conf spark.sql.catalog.submitted.defaultDatabase=shop"
    )
    environment = {
        **environment,
        "PYSPARK_PYTHON": str(empty / "bin" / "python"),
        "SPARK_CONF_DIR": str(conf),
        "PYSPARK_SUBMIT_ARGS": f"{by_submit} pyspark-shell",
    }
    command = [sys.executable, "-c", FIRST_MINUTES, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.splitlines() == ["shop True", "[Row(id=1, name='a')] 2", "1"], done.stdout + done.stderr
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line and "catalog" in line]
    assert said == [
        f"the warehouse {tmp_path}/lake of catalog lake was not there: it is made now",
        f"the warehouse {tmp_path}/sub of catalog submitted was not there: it is made now",
        f"the warehouse {tmp_path}/one of catalog other was not there: it is made now",
        f"catalog other was {tmp_path}/one, and is {tmp_path}/two from now on",
        f"the warehouse {tmp_path}/two of catalog other was not there: it is made now",
    ]


@pytest.mark.parametrize(
    ("master", "looked_at"), [("local[2]", True), ("local", True), ("local-cluster[2,1,1024]", False)]
)
def test_only_workers_of_this_machine_get_this_interpreter(master: str, looked_at: bool) -> None:
    context = SimpleNamespace(master=master, pythonExec="./environment/bin/python")  # of `--archives …#environment`
    _choose_workers(cast("SparkSession", SimpleNamespace(_sc=context)))
    assert context.pythonExec == (sys.executable if looked_at else "./environment/bin/python")


def test_a_process_that_does_not_know_its_interpreter_is_reported_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    context = SimpleNamespace(master="local[2]", pythonExec="/no/python")
    with pytest.raises(PaimonError, match=r"is not there: call spark\.stop\(\), set the environment variable PYSPARK"):
        _choose_workers(cast("SparkSession", SimpleNamespace(_sc=context)))


@pytest.mark.thorough
def test_a_time_before_everything(spark: SparkSession, table: str) -> None:
    long_ago = datetime.datetime(2001, 1, 1).isoformat(sep=" ")
    with pytest.raises(PySparkException, match="no snapshot earlier than or equal to timestamp"):
        spark.read.format("paimon").option("scan.timestamp", long_ago).load(table)
