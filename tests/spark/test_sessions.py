"""Sessions and jobs: registering, threads, retried and speculative tasks, views, Spark Connect."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from conftest import ROOT
from paimon_spark.spark.jvm.gateway import start_callbacks
from paimon_spark.table.table import load_table
from tests.support.store_servers import SERVERS, store_server

pytestmark = pytest.mark.spark


@pytest.mark.thorough
def test_register_as_often_as_you_like(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(3):
        paimon_spark.register(spark)
    other = spark.newSession()
    paimon_spark.register(other)
    other.range(3).write.format("paimon").mode("append").save(str(tmp_path / "t"))
    assert spark.read.format("paimon").load(str(tmp_path / "t")).count() == 3


def test_views_and_sql(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(4).write.format("paimon").mode("append").save(path)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING paimon OPTIONS (path '{path}')")
    spark.sql("INSERT INTO v SELECT id + 10 FROM range(2)")
    assert spark.read.format("paimon").load(path).count() == 6
    spark.sql("INSERT OVERWRITE v SELECT 7L")
    assert [row.id for row in spark.read.format("paimon").load(path).collect()] == [7]


@pytest.mark.thorough
def test_text_statements_know_the_catalogs_of_a_classic_session(spark: SparkSession, tmp_path: Path) -> None:
    """`paimon_spark.sql` asked for the warehouse of the catalog ``paimon``, though the session had it."""
    session = spark.newSession()
    paimon_spark.register_catalog(session, "paimon", warehouse=str(tmp_path / "wh"))

    def sql(statement: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in paimon_spark.sql(session, statement).collect())

    sql("CREATE DATABASE paimon.db")
    sql("CREATE TABLE paimon.db.t (id INT)")
    sql("INSERT INTO paimon.db.t VALUES (1), (2)")
    sql("ALTER TABLE paimon.db.t CREATE TAG two")
    sql("DELETE FROM paimon.db.t WHERE id = 1")
    assert sql("SELECT * FROM paimon.db.t VERSION AS OF 'two'") == [(1,), (2,)]
    assert sql("CALL paimon.sys.compact(table => 'db.t')")[0][0] is True
    assert [row[1] for row in sql("SHOW TABLES IN paimon.db")] == ["t"]
    sql("USE paimon.db")
    assert sql("SELECT * FROM t") == sql(f"SELECT * FROM paimon.`{tmp_path}/wh/db.db/t`") == [(2,)]
    sql("USE spark_catalog")
    sql("USE paimon")
    assert (session.catalog.currentCatalog(), session.catalog.currentDatabase()) == ("paimon", "default")
    sql("DROP TABLE paimon.db.t")
    assert not session.catalog.tableExists("paimon.db.t")


def test_threads_write_and_read_one_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {"primary-key": "id", "bucket": "2", "write-only": "true"}
    spark.range(0).write.format("paimon").options(**options).mode("append").save(path)

    def append(number: int) -> int:
        rows = spark.range(number * 10, number * 10 + 10, 1, 1)
        rows.write.format("paimon").mode("append").save(path)
        return spark.read.format("paimon").load(path).count()

    def replace(number: int) -> None:
        spark.range(number).write.format("paimon").mode("overwrite").saveAsTable("threads.d.t")

    paimon_spark.register_catalog(spark, "threads", warehouse=str(tmp_path / "wh"))
    spark.sql("CREATE DATABASE threads.d")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(replace, 3).result()
    assert spark.table("threads.d.t").count() == 3
    with ThreadPoolExecutor(4) as threads:
        counts = list(threads.map(append, range(6)))
    assert all(count % 10 == 0 and count > 0 for count in counts)
    assert spark.read.format("paimon").load(path).selectExpr("count(*)", "sum(id)").first() == (60, sum(range(60)))
    assert load_table(path).snapshots.ids() == list(range(1, 7))


RETRY = """
import os, sys
from pyspark.sql import SparkSession
from pyspark import TaskContext
import paimon_spark

spark = (
    SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    .config("spark.speculation", "true").config("spark.speculation.interval", "50ms")
    .config("spark.speculation.quantile", "0.25").config("spark.speculation.multiplier", "1.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
paimon_spark.register(spark)

def flaky(batches):
    import time
    context = TaskContext.get()
    yield from batches
    if context.partitionId() % 2 == 0 and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt fails after its rows are written")
    if context.partitionId() == 3 and context.attemptNumber() == 0:
        time.sleep(2)

rows = spark.range(0, 8000, 1, 4).selectExpr("id", "cast(id AS string) AS v").mapInArrow(flaky, "id long, v string")
keyed = {"primary-key": "id"}
for kind, times, options in (("append", 1, {}), ("keyed", 2, keyed), ("fixed", 1, {**keyed, "bucket": "2"})):
    path = os.path.join(sys.argv[1], kind)
    for _ in range(times):
        rows.write.format("paimon").options(**options).mode("append").save(path)
    frame = spark.read.format("paimon").load(path)
    print(kind, *frame.selectExpr("count(*)", "count(distinct id)", "sum(id)").first())
spark.stop()
"""


@pytest.mark.turns("storm")
def test_retried_and_speculative_tasks_add_nothing_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RETRY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    total = sum(range(8000))
    assert done.stdout.splitlines()[-3:] == [
        f"append 8000 8000 {total}",
        f"keyed 8000 8000 {total}",
        f"fixed 8000 8000 {total}",
    ]


CONNECT = """
import sys
from pyspark.sql import SparkSession
import paimon_spark

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
paimon_spark.register(spark)
paimon_spark.register(spark)
path = sys.argv[2]
users = paimon_spark.PaimonTable.create(
    spark, path, "id long not null, name string", primary_key="id", options={"bucket": "2"}
)
users.append(spark.createDataFrame([(1, "Ada"), (2, "Alan")], "id long, name string"))
users.create_tag("first")
users.append(spark.createDataFrame([(2, "Alan T."), (3, "Grace")], "id long, name string"))
print(sorted(tuple(row) for row in users.to_df().collect()))
print(users.to_df(scan_tag_name="first").count(), users.tags().count(), users.snapshots().count())
spark.createDataFrame([(9, "Z")], "id long, name string").write.format("paimon").mode("overwrite").save(path)
print([tuple(row) for row in spark.read.format("paimon").load(path).collect()])
try:
    spark.read.format("paimon").option("scan.tag-name", "none").load(path).collect()
except Exception as error:
    print("Tag 'none' doesn't exist. The tags are: first" in str(error))
print(type(spark).__module__, users)
files, levels = users.files().count(), users.lsm().shape
print(files == levels.total.files, users.history().first().snapshot_id, "<svg" in users.lsm()._repr_html_())
print("Newest of 3 snapshots" in users._repr_html_(), users.read_optimized().count())
print(sorted(tuple(row) for row in users.changes(0, 2).collect()), users.changes(0, 1).count())
changed = users.changes(1, 2, source="diff", with_kinds=True, columns="rowkind, id")
print(sorted(tuple(row) for row in changed.collect()))
users.create_branch("b", tag="first")
b = paimon_spark.PaimonTable.for_path(spark, path + "$branch_b")
b.append(spark.createDataFrame([(7, "Kay")], "id long, name string"))
print(sorted(row.id for row in b.to_df().collect()), [row.branch_name for row in users.branches().collect()])
users.rename_tag("first", "one")
users.replace_tag("one", snapshot_id=2)
print([tuple(row) for row in users.tags().select("tag_name", "snapshot_id").collect()], users.audit_log().count())
users.fast_forward("b")
users.rename_branch("b", "c")
users.delete_branch("c")
print(sorted(row.id for row in users.to_df().collect()), users.branches().count())
users.rollback_to(snapshot_id=1)
users.create_tag("again")
users.delete_tag("again")
print(users.to_df().count(), [row.tag_name for row in users.tags().collect()])
"""


def test_spark_connect(connect: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONNECT, connect, str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines.pop(4).startswith(
        f"pyspark.sql.connect.session PaimonTable('{tmp_path / 't'}': primary-key table (deduplicate), 2 columns, "
        "primary key id, snapshot 3 of "
    )
    assert lines == [
        "[(1, 'Ada'), (2, 'Alan T.'), (3, 'Grace')]",
        "2 1 2",
        "[(9, 'Z')]",
        "True",
        "True 3 True",
        "True 1",
        "[(1, 'Ada'), (2, 'Alan'), (2, 'Alan T.'), (3, 'Grace')] 2",
        "[('+I', 2), ('+I', 3)]",
        "[1, 2, 7] ['b']",
        "[('one', 2)] 1",
        "[1, 2, 7] 0",
        "2 ['first']",
    ]


@pytest.mark.parametrize("store", sorted(SERVERS))
def test_spark_connect_on_a_store(connect: str, store: str) -> None:
    with store_server(store) as server:
        program = [sys.executable, "-m", "tests.spark.connect_store_program"]
        arguments = [connect, server.root, json.dumps(server.options)]
        done = subprocess.run([*program, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        rows = [[2, "B"], [3, "c"], [4, "d"]]
        assert found == {"rows": rows, "tag": 3, "loaded": 3, "tables": [["d", "t", False]]}


CONNECT_SQL = """
import sys
from pyspark.sql import SparkSession
import paimon_spark

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()

def sql(statement, **more):
    return sorted(tuple(row) for row in paimon_spark.sql(spark, statement, **more).collect())

sql("CREATE DATABASE shop", warehouse=sys.argv[2])
sql("USE paimon.shop")
sql("CREATE TABLE t (id BIGINT, code CHAR(2), dt STRING DEFAULT 'd') PARTITIONED BY (dt) "
    "TBLPROPERTIES ('primary-key' = 'id,dt', 'bucket' = '1')")
print(sql("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', DEFAULT)"))
sql("ALTER TABLE t CREATE TAG first")
sql("INSERT OVERWRITE t PARTITION (dt = 'd') SELECT id + 10, code FROM t WHERE dt = 'd' AND id > :n", args={"n": 1})
print(sql("SELECT id, code, dt FROM t"), sql("SELECT id FROM t VERSION AS OF 'first' WHERE dt = 'd'"))
kept = paimon_spark.sql(spark, "SELECT old.id, now.id FROM t AS now JOIN t VERSION AS OF 1 AS old USING (code)")
print(sorted(map(tuple, kept.collect())), kept.where("code = 'b'").count(), kept.join(spark.range(2)).count())
print(sql("WITH t AS (SELECT 5 AS id) SELECT count(*) FROM t JOIN shop.t AS o ON o.id < t.id"))
print(sql("CALL sys.rollback(table => 't', tag => 'first')"), sql("SELECT tag_name FROM `t$tags`"))
print(sql("CREATE TABLE u AS SELECT id FROM t"), sql("SHOW TABLES"), sql("DESCRIBE u"))
for engine in ("'deletion-vectors.enabled' = 'true'", "'merge-engine' = 'first-row'"):
    sql(f"CREATE OR REPLACE TABLE w (id INT, n INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', {engine})")
    sql("INSERT INTO w VALUES (1, 10)")
    whole = paimon_spark.PaimonTable.for_path(spark, f"{sys.argv[2]}/shop.db/w")
    whole.append(spark.sql("SELECT 2 AS id, 20 AS n"), write_only="true")
    sql("INSERT OVERWRITE w SELECT id, n + 1 FROM w")
    whole.append(spark.sql("SELECT 3 AS id, 30 AS n"), write_only="true")
    whole.overwrite(whole.to_df().selectExpr("id", "n + 1 AS n"))
    print(sql("SELECT * FROM w"))
from paimon_spark.spark.jobs import compact_job
compact_job._DRIVER_BYTES = 0  # so that tasks of the server do it
for days in ("1", "2"):
    sql("INSERT INTO t SELECT id, 'c', dt FROM t WHERE dt <> :d", args={"d": days})
done = [row[:1] for row in sql("CALL sys.compact(table => 't')")]
print(done, sql("SELECT level, partition, record_count FROM `t$files`"))
from pyspark.sql.functions import col
for name, key in (("k", "'primary-key' = 'id,dt', "), ("n", "")):
    sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING, s STRUCT<x: INT>, dt STRING NOT NULL) PARTITIONED BY (dt) "
        f"TBLPROPERTIES ({key}'file.format' = 'parquet')")
    sql(f"INSERT INTO {name} VALUES (1, 'a', NULL, 'x'), (2, 'b', struct(2), 'x'), (3, 'c', NULL, 'y'), "
        "(4, 'd', NULL, 'z')")
    sql(f"UPDATE {name} SET v = concat(v, :more), s.x = id WHERE id IN (SELECT max(id) FROM {name})",
        args={"more": "{+}"})
    sql(f"DELETE FROM {name} AS old WHERE old.v = 'a' OR old.dt = 'y'")
    table = paimon_spark.PaimonTable.for_path(spark, f"{sys.argv[2]}/shop.db/{name}")
    table.update({"v": "upper(v)"}, col("id") == 2)
    sql(f"DELETE FROM {name} WHERE dt = 'none'")
    print(sql(f"SELECT * FROM {name}"))
    table.delete("dt = 'x'")
    table.delete(col("v") == "nothing")
    print(sql(f"SELECT id FROM {name}"), sql(f"SELECT commit_kind, count(*) FROM `{name}$snapshots` GROUP BY ALL"))
print([view.name for view in spark.catalog.listTables()], sql("SELECT * FROM VALUES (1)"))
import datetime
from decimal import Decimal
from pyspark.sql.functions import array, lit
sql("CREATE TABLE m (id INT NOT NULL, n INT, d DECIMAL(5, 2)) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
sql("INSERT INTO m VALUES (1, 10, NULL), (2, 20, NULL), (3, 30, 1.5)")
sql("MERGE INTO m AS t USING (SELECT id, n AS was FROM m WHERE n > ?) AS s ON t.id = s.id "
    "WHEN MATCHED AND array_contains(?, t.id) THEN UPDATE SET n = s.was + ?, d = ? "
    "WHEN NOT MATCHED BY SOURCE AND t.id = ? THEN DELETE",
    args=[15, array(lit(2), lit(7)), 2, Decimal("2.25"), 1])
print(sql("SELECT * FROM m"))
sql("MERGE WITH SCHEMA EVOLUTION INTO m AS t USING (SELECT 3 AS id, 'c' AS more, :day AS day) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", args={"day": datetime.date(2024, 5, 1)})
print(sql("SELECT * FROM m"))
m = paimon_spark.PaimonTable.for_path(spark, f"{sys.argv[2]}/shop.db/m")
itself = m.to_df(columns=["id", "n"]).where("id = 2")
sql("UPDATE m SET n = 100 WHERE id = 2")
kept = paimon_spark.sql(spark, "SELECT id AS old, n AS first FROM m VERSION AS OF 1")
both = itself.join(kept, itself["id"] == kept["old"])
m.merge(both, "target.id = source.id").when_matched_update({"n": "source.n + source.first"}).execute()
print(sql("SELECT id, n FROM m"))
for wrong in ("SELECT * FROM paimon.shop.nix", "SELECT * FROM t WHER id = 1 2", "INSERT INTO t VALUES (1)"):
    try:
        sql(wrong)
    except Exception as error:
        print(type(error).__name__, str(error).split()[0])
"""


@pytest.mark.turns("connect")
def test_sql_on_spark_connect(connect: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONNECT_SQL, connect, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines == [
        "[(2, 2)]",
        "[(1, 'a ', 'x'), (12, 'b ', 'd')] [(2,)]",
        "[(1, 1), (2, 12)] 1 4",
        "[(1,)]",
        "[(2, 1)] [('first',)]",
        "[] [('shop', 't', False), ('shop', 'u', False)] [('id', 'bigint', None)]",
        "[(1, 12), (2, 22), (3, 31)]",
        "[(1, 12), (2, 22), (3, 31)]",
        "[(True,)] [(5, '{d}', 1), (5, '{x}', 1)]",
        "[(2, 'B', Row(x=2), 'x'), (4, 'd{+}', Row(x=4), 'z')]",
        "[(4,)] [('APPEND', 4), ('OVERWRITE', 1)]",
        "[(2, 'B', Row(x=2), 'x'), (4, 'd{+}', Row(x=4), 'z')]",
        "[(4,)] [('APPEND', 1), ('OVERWRITE', 4)]",
        "[] [(1,)]",
        "[(2, 22, Decimal('2.25')), (3, 30, Decimal('1.50'))]",
        "[(2, 22, Decimal('2.25'), None, None), (3, 30, Decimal('1.50'), 'c', datetime.date(2024, 5, 1))]",
        "[(2, 120), (3, 30)]",
        "AnalysisException [TABLE_OR_VIEW_NOT_FOUND]",
        "ParseException [PARSE_SYNTAX_ERROR]",
        "AnalysisException [INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS]",
    ]


CALLBACKS = """
import os, sys
from pyspark.sql import SparkSession
import paimon_spark

def session():
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

spark = session()
gateway = spark.sparkContext._gateway
gateway.start_callback_server()  # another library; Java is not informed of its port
server = gateway.get_callback_server()
for name in ("one", "two"):
    paimon_spark.register_catalog(spark, name, warehouse=f"{sys.argv[1]}/{name}")
    spark.sql(f"CREATE DATABASE {name}.db")
    spark.sql(f"CREATE TABLE {name}.db.t AS SELECT '{name}' AS a")
print(gateway.get_callback_server() is server)
print(spark.sql("SELECT x.a, y.a FROM one.db.t x, two.db.t y").collect())
spark.stop()
sys.stdout.flush()
os._exit(0)  # a server that was started like that keeps the process from ending, whoever uses it
"""


@pytest.mark.turns("program")
def test_callbacks_of_another_library_and_several_catalogs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CALLBACKS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == ["True", "[Row(a='one', a='two')]"]


class _NoServer:
    """A gateway whose port is taken."""

    def __init__(self) -> None:
        self._callback_server = None
        self.callback_server_parameters = SimpleNamespace()

    def start_callback_server(self, _parameters: object) -> None:
        raise OSError("Address already in use")


def test_without_a_callback_server_there_is_a_sentence_that_says_what_to_do() -> None:
    with pytest.raises(
        paimon_spark.PaimonError, match=r"Address already in use.*before other libraries.*paimon_spark\.sql"
    ):
        start_callbacks(_NoServer())


@pytest.mark.thorough
def test_arrow_batches_are_fat(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(0, 30_000, 1, 10).write.format("paimon").mode("append").save(path)  # ten small files

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows]})

    frame = spark.read.format("paimon").load(path)
    assert frame.rdd.getNumPartitions() <= 2 * (os.cpu_count() or 1)
    rows = [row.rows for row in frame.mapInArrow(sizes, "rows long").collect()]
    assert sum(rows) == 30_000


def test_registering_searches_for_no_other_python_sources(spark: SparkSession) -> None:
    other = spark.newSession()
    paimon_spark.register(other)
    manager = other._jsparkSession.sessionState().dataSourceManager()

    def value(name: str) -> object:
        field = manager.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(manager)

    assert value("staticDataSourceBuilders") is None  # lazy: a Python worker finds them
    assert list(value("runtimeDataSourceBuilders").keySet()) == ["paimon"]  # type: ignore[attr-defined]


CONNECT_STREAM = """
import sys
from pyspark.sql import SparkSession
import paimon_spark

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
paimon_spark.register(spark)
root = sys.argv[2]
source = paimon_spark.PaimonTable.create(
    spark, root + "/source", "id long not null, name string", primary_key="id",
    options={"bucket": "1", "changelog-producer": "input"},
)

def append(*rows):
    source.append(spark.createDataFrame(rows, "id long, name string"))

def run(name="target", **options):
    stream = spark.readStream.format("paimon").option("read.changelog", "true").option("filter", "id < 9")
    rows = stream.load(root + "/source").selectExpr("rowkind AS kind", "id", "name")
    writer = rows.writeStream.format("paimon").option("checkpointLocation", root + "/checkpoint").options(**options)
    query = writer.trigger(availableNow=True).start(root + "/" + name)
    query.awaitTermination()
    return query

append((1, "Ada"), (2, "Alan"))
first = run()
append((2, "Alan T."), (9, "no"))
second = run()
append((3, "Grace"))
import os, glob
os.rename(root + "/checkpoint/commits/1", root + "/kept")
for crc in glob.glob(root + "/checkpoint/commits/.1*"):
    os.remove(crc)
third = run()
target = paimon_spark.PaimonTable.for_path(spark, root + "/target")
print(sorted(tuple(row) for row in target.to_df().collect()))
commits = target.snapshots().orderBy("snapshot_id").collect()
print([(row.commit_identifier, row.commit_user == first.id) for row in commits])
print(first.id == third.id, str(second.lastProgress["sources"][0]["endOffset"]).replace('"', "").replace("'", ""))

def error_of(deed):
    try:
        deed(spark.readStream.format("paimon").load(root + "/source").writeStream.format("paimon"))
    except Exception as error:
        return str(error)

print("needs a catalog" in error_of(lambda writer: writer.toTable("db.t")))
print("Complete and Append" in error_of(lambda writer: writer.outputMode("update").start(root + "/x")))
"""


@pytest.mark.turns("connect")
def test_streams_on_spark_connect(connect: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONNECT_STREAM, connect, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "[('+I', 1, 'Ada'), ('+I', 2, 'Alan'), ('+I', 2, 'Alan T.'), ('+I', 3, 'Grace')]",
        "[(0, True), (1, True), (2, True)]",
        "True {snapshot: 3, position: 0, full: false}",
        "True",
        "True",
    ]
