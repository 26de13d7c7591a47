"""A session with Hadoop's file system of S3: which queries Spark's own reader reads, and their rows, as JSON.

Arguments: the jars, a folder with the log of the first server, and the addresses of two servers with a bucket of one
name; or in place of the second server the options of a REST catalog whose tables are in the first: then tables of plain
files are made, written and read there.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.spark.catalog import driver_read, position_filter
from tests.support.s3_server import BUCKET, RequestLog, S3Server
from tests.support.session_logs import explained, served, telling, told

NATIVE = "reader=spark-parquet"
SECRET = "hidden-of-ours"


def session(jars: str, folder: Path, own: S3Server) -> SparkSession:
    settings = {
        **telling(folder),
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.s3a.endpoint": own.url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        # what only this bucket has counts more than what is set for all: ours must count more still
        f"spark.hadoop.fs.s3a.bucket.{BUCKET}.access.key": "key",
        f"spark.hadoop.fs.s3a.bucket.{BUCKET}.secret.key": "of-the-session",
    }
    os.environ["SPARK_DIST_CLASSPATH"] = jars  # behind Spark's own, as the archive of its classes needs it
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def reported(frame: DataFrame) -> dict[str, Any]:
    rows = sorted(tuple(row) for row in frame.collect())
    plan = str(frame._jdf.queryExecution().toString())
    return {"native": NATIVE in plan, "rows": rows, "hidden": "hidden" in plan}


def checkpointed(spark: SparkSession) -> list[int]:
    """How many rows a stream whose checkpoint is on the store has written after each of two runs."""
    counts = []
    for _ in range(2):
        stream = spark.readStream.table("one.d.a").writeStream.format("paimon")
        stream = stream.option("checkpointLocation", f"s3a://{BUCKET}/checkpoints/one").trigger(availableNow=True)
        stream.start(f"s3a://{BUCKET}/wh/d.db/streamed").awaitTermination()
        counts.append(spark.table("one.d.streamed").count())
        spark.sql("INSERT INTO one.d.a VALUES (100, 'é', 0)")
    return counts


def migrated(spark: SparkSession) -> list[int]:
    """The rows of a directory of Spark's that has become a table."""
    source = f"s3a://{BUCKET}/source"
    spark.range(4).write.parquet(source)
    table = paimon_spark.PaimonTable.migrate(spark, source, f"s3a://{BUCKET}/wh/d.db/taken")
    return sorted(row.id for row in table.to_df().collect())


def called(spark: SparkSession, store: Any) -> dict[str, Any]:
    """The rows of two directories that CALL has made tables of, in a new database, and what is left of them."""
    found: dict[str, Any] = {}
    for kind in ("parquet", "csv"):
        source = f"{BUCKET}/source_{kind}"
        spark.range(4).selectExpr("id", "id % 2 AS p").write.format(kind).option("header", True).partitionBy("p").save(
            f"s3a://{source}"
        )
        spark.sql(
            f"CALL one.sys.migrate_table(source_type => '{kind}', table => 's3a://{source}', "
            f"target_table => 'e.{kind}', options => 'source.header=true,bucket=-1')"
        )
        found[kind] = sorted(int(row.id) for row in spark.table(f"one.e.{kind}").collect())
        found[f"left of {kind}"] = [name for name in store.find(source) if "part-" in name]
    return found


def requests_of_reads(spark: SparkSession, log: RequestLog) -> list[int]:
    """How many requests a read of four small files sends, the JVM's among them, and each time after it."""
    spark.sql("CREATE TABLE one.d.four (k INT)")
    for n in range(4):
        spark.sql(f"INSERT INTO one.d.four VALUES ({n})")
    found = []
    for _ in range(3):
        log.new()
        spark.sql("SELECT * FROM one.d.four").write.format("noop").mode("overwrite").save()
        found.append(len(log.new()))
    return found


def merged(spark: SparkSession) -> list[dict[str, Any]]:
    """A read of files that overlap: a few rows, and as if they were many."""
    spark.sql("CREATE TABLE one.d.m (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    for first, value in ((0, "old"), (2, "new")):
        spark.sql(f"INSERT INTO one.d.m SELECT id, '{value}' FROM range({first}, {first + 3})")
    few = reported(spark.sql("SELECT * FROM one.d.m"))
    position_filter._LEAST_FAR_ROWS = 1  # type: ignore[misc]
    position_filter._LEAST_FAR_ROWS_A_FILE = 1  # type: ignore[misc]
    return [few, reported(spark.sql("SELECT * FROM one.d.m"))]


def files_of_formats(spark: SparkSession, options: dict[str, str]) -> dict[str, list[Any]]:
    """The rows of tables of plain files in a catalog after each of their statements, read by both fronts."""
    paimon_spark.register_catalog(spark, "files", **options)
    paimon_spark.sql(spark, "CREATE DATABASE files.f", catalog="files", **options)
    found: dict[str, list[Any]] = {}
    for name in ("csv", "json", "orc", "parquet"):
        spark.sql(f"CREATE TABLE files.f.{name} (id INT, v STRING, p INT) USING {name} PARTITIONED BY (p)")
        spark.sql(f"INSERT INTO files.f.{name} VALUES (1, 'a', 1), (2, 'b', 2)")
        shown = [spark.sql(f"SELECT * FROM files.f.{name} ORDER BY id").collect()]
        spark.sql(f"INSERT OVERWRITE files.f.{name} PARTITION (p = 2) VALUES (3, 'é')")
        shown += [spark.sql(f"SELECT id, v FROM files.f.{name} WHERE p = 2").collect()]
        shown += [paimon_spark.sql(spark, f"SELECT * FROM files.f.{name} ORDER BY id").collect()]
        found[name] = [[tuple(row) for row in rows] for rows in shown]
    return found


def loaded(folder: Path) -> list[str]:
    """What the JVM has asked the store before the first statement: its client is there for the first scan."""
    for thread in threading.enumerate():
        if thread.name == "paimon-store-client":
            thread.join(60)
    return RequestLog(folder / "requests").new()


def main(jars: str, folder: Path, one: S3Server, two: S3Server) -> dict[str, Any]:
    driver_read._MOST_FAR_FILES = 0  # tables this small are read by the driver else
    spark = session(jars, folder, one)
    catalogs = {"one": one.options, "two": two.options, "odd": {**one.options, "fs.max_concurrency": "5"}}
    for name, options in catalogs.items():
        given = {**options, "s3.secret-key": SECRET}
        paimon_spark.register_catalog(spark, name, warehouse=f"s3://{BUCKET}/wh", **given)
    before = loaded(folder)
    logging.basicConfig(filename=folder / "log", level=logging.DEBUG)
    for at, name in enumerate(("one", "two")):
        spark.sql(f"CREATE DATABASE {name}.d")
        spark.sql(f"CREATE TABLE {name}.d.a AS SELECT id + {at} AS id, 'é' AS s, id % 2 AS p FROM range(6)")
    spark.sql(
        "CREATE TABLE one.d.k (k INT NOT NULL, p STRING NOT NULL) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='k,p', 'bucket'='1', 'deletion-vectors.enabled'='true')"
    )
    spark.sql("INSERT INTO one.d.k SELECT id, 'a b=ü' FROM range(6)")
    spark.sql("DELETE FROM one.d.k WHERE k < 3")
    found: dict[str, Any] = {
        "loaded": before,
        "one": reported(spark.sql("SELECT * FROM one.d.a WHERE id > 3")),
        "two": reported(spark.sql("SELECT * FROM two.d.a WHERE id > 3")),
        "ours": reported(spark.sql("SELECT * FROM one.d.a WITH (`read.spark-parquet` = 'false') WHERE id > 3")),
        "odd": reported(spark.sql("SELECT * FROM odd.d.a WHERE id > 3")),
        "vectors": reported(spark.sql("SELECT * FROM one.d.k")),
        "paths": reported(spark.sql("SELECT DISTINCT left(__paimon_file_path, 18) FROM one.d.a")),
        "session": reported(spark.read.format("paimon").load(f"s3://{BUCKET}/wh/d.db/a").where("id > 3")),
    }
    stream = spark.readStream.table("one.d.a").writeStream.format("memory").queryName("streamed")
    stream.trigger(availableNow=True).start().awaitTermination()
    found["stream"] = {"rows": sorted(tuple(row) for row in spark.table("streamed").collect())}
    found["merged"] = merged(spark)
    found["checkpoint"] = checkpointed(spark)
    found["requests"] = requests_of_reads(spark, RequestLog(folder / "requests"))
    found["migrated"] = migrated(spark)
    found["called"] = called(spark, one.store())
    logging.getLogger().handlers[0].flush()
    found["logged"] = {"hidden": "hidden" in (folder / "log").read_text(), "debug": (folder / "log").stat().st_size}
    plans = "\n".join(
        explained(spark, f"SELECT * FROM {table}") for table in ("one.d.a", "two.d.a", "one.d.k", "one.d.m")
    )
    store = one.store()
    for path in store.find(f"{BUCKET}/wh/d.db/a/bucket-0"):
        store.pipe_file(path, store.cat_file(path) + b" ")
    try:
        spark.sql("SELECT * FROM one.d.a").collect()
    except Exception as error:  # noqa: BLE001 - of whatever kind
        found["exchanged"] = {"error": str(error)[:300]}
    pages = {"explain": plans, "rest": served(spark)}
    spark.stop()
    texts = {**pages, **told(folder)}
    found["told"] = [name for name, text in texts.items() if SECRET in text]
    found["shows"] = {"java": "fs.s3a" in texts["java"], "events": NATIVE in texts["events"]}
    return found


if __name__ == "__main__":
    jars, folder, first, second = sys.argv[1:]
    one = S3Server.at(first)
    if second.startswith("{"):
        found = files_of_formats(session(jars, Path(folder), one), {**one.options, **json.loads(second)})
    else:
        found = main(jars, Path(folder), one, S3Server.at(second))
    (Path(folder) / "found.json").write_text(json.dumps(found))
