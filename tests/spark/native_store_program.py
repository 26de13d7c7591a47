"""A session with Hadoop's file system of a store: native reads, a checkpoint, a migration, as JSON.

Argument: a file of JSON with ``jars``, ``settings`` of the session by which it reaches the first server, ``bucket``
(the root of its paths), and ``options`` of ours by which a second server is reached, with a bucket of the same name.
The answer is written to ``found.json`` next to it.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.spark.catalog import driver_read
from tests.support.session_logs import explained, served, telling, told, without

NATIVE = "reader=spark-parquet"


def session(given: dict[str, Any], folder: Path) -> SparkSession:
    settings = {
        **telling(folder),
        "spark.driver.extraClassPath": given["jars"],
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.hadoop.{key}": value for key, value in given["settings"].items()},
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def fill(spark: SparkSession, catalog: str, first: int) -> None:
    """Two tables: rows without keys, and keys of which a deletion vector deletes some."""
    spark.sql(f"CREATE DATABASE {catalog}.d")
    spark.sql(f"CREATE TABLE {catalog}.d.a (id BIGINT, v STRING) PARTITIONED BY (v)")
    spark.sql(f"INSERT INTO {catalog}.d.a SELECT id + {first}, concat('ä b=', id % 2) FROM range(6)")
    spark.sql(f"DELETE FROM {catalog}.d.a WHERE id = {first + 3}")
    spark.sql(
        f"CREATE TABLE {catalog}.d.k (k INT NOT NULL, v STRING) TBLPROPERTIES "
        "('primary-key'='k', 'bucket'='1', 'deletion-vectors.enabled'='true')"
    )
    spark.sql(f"INSERT INTO {catalog}.d.k SELECT id + {first}, 'x' FROM range(5)")
    spark.sql(f"DELETE FROM {catalog}.d.k WHERE k < {first + 3}")


def reported(frame: DataFrame) -> dict[str, Any]:
    plan = str(frame._jdf.queryExecution().toString())
    return {"native": NATIVE in plan, "rows": sorted(tuple(row) for row in frame.collect())}


def shown(spark: SparkSession) -> str:
    """What Spark's pages would show: plans of all statements, settings but those that the session was given."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [str(executions.apply(at).physicalPlanDescription()) for at in range(executions.size())]
    assert any(NATIVE in plan for plan in plans)
    settings = [row.value for row in spark.sql("SET").collect() if not row.key.startswith("spark.hadoop.")]
    return "\n".join([*plans, *settings])


def main(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    driver_read._MOST_FAR_FILES = 0  # tables this small are read by the driver else
    spark = session(given, folder)
    bucket = given["bucket"]
    paimon_spark.register_catalog(spark, "one", warehouse=f"{bucket}/wh")
    paimon_spark.register_catalog(spark, "two", warehouse=f"{bucket}/wh", **given["options"])
    logging.basicConfig(filename=folder / "log", level=logging.DEBUG)
    fill(spark, "one", 0)
    fill(spark, "two", 10)
    found: dict[str, Any] = {
        f"{catalog}.{table}": reported(spark.sql(f"SELECT * FROM {catalog}.d.{table}"))
        for table in "ak"
        for catalog in ("one", "two")
    }
    if bucket.startswith("abfs:"):  # the older scheme of the same store, whose file system Hadoop 3.5 has no more
        older = bucket.replace("abfs:", "wasb:").replace(".dfs.", ".blob.")
        for name, options in (("one", {}), ("two", given["options"])):
            paimon_spark.register_catalog(spark, f"{name}_wasb", warehouse=f"{older}/wh", **options)
            found[f"{name}.wasb"] = reported(spark.table(f"{name}_wasb.d.a"))
    found["checkpoint"] = []
    for _ in range(2):
        stream = spark.readStream.table("one.d.a").writeStream.format("paimon").trigger(availableNow=True)
        stream = stream.option("checkpointLocation", f"{bucket}/checkpoints/one")
        stream.start(f"{bucket}/wh/d.db/streamed").awaitTermination()
        found["checkpoint"].append(spark.table("one.d.streamed").count())
        spark.sql("INSERT INTO one.d.a VALUES (100, 'x')")
    spark.range(4).write.parquet(f"{bucket}/source")
    table = paimon_spark.PaimonTable.migrate(spark, f"{bucket}/source", f"{bucket}/wh/d.db/taken")
    found["migrated"] = sorted(row.id for row in table.to_df().collect())
    logging.getLogger().handlers[0].flush()
    pages = shown(spark)
    rest = without(served(spark), given["settings"])
    tables = (f"{catalog}.d.{table}" for table in "ak" for catalog in ("one", "two"))
    plans = "\n".join(explained(spark, f"SELECT * FROM {table}") for table in tables)
    spark.stop()
    texts = {
        "pages": pages,
        "rest": rest,
        "explain": plans,
        "log": (folder / "log").read_text(),
        **told(folder, given["settings"]),
    }
    found["shows"] = {"java": "org.apache.hadoop.fs" in texts["java"], "events": NATIVE in texts["events"]}
    found["told"] = [name for secret in given["secrets"] for name, text in texts.items() if secret in text]
    return found


if __name__ == "__main__":
    program = Path(sys.argv[1])
    found = main(json.loads(program.read_text()), program.parent)
    program.with_name("found.json").write_text(json.dumps(found))
