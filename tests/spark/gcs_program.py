"""A session with Hadoop's file system of Google Cloud Storage: native reads, a checkpoint, a migration, as JSON.

Arguments: the jars, a file for the answer, and the address of the server.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import paimon_spark
from tests.support.store_server import BUCKET

NATIVE = "reader=spark-parquet"


def session(jars: str, url: str) -> SparkSession:
    settings = {
        "spark.driver.extraClassPath": jars,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        "spark.hadoop.fs.gs.storage.root.url": url,
        "spark.hadoop.fs.gs.project.id": "p",
        # Hadoop's defaults of these are texts such as 64m, which this connector does not take
        "spark.hadoop.fs.gs.block.size": str(64 << 20),
        "spark.hadoop.fs.gs.rewrite.max.chunk.size": str(512 << 20),
        "spark.hadoop.fs.gs.outputstream.buffer.size": str(8 << 20),
        "spark.hadoop.fs.gs.inputstream.inplace.seek.limit": str(8 << 20),
        "spark.hadoop.fs.gs.inputstream.min.range.request.size": str(2 << 20),
        "spark.hadoop.fs.gs.auth.type": "UNAUTHENTICATED",
        "spark.hadoop.fs.gs.auth.null.enable": "true",
        "spark.hadoop.fs.gs.auth.service.account.enable": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(jars: str, url: str) -> dict[str, Any]:
    spark = session(jars, url)
    spark.sparkContext.setLogLevel("OFF")
    root = f"gs://{BUCKET}/wh"
    paimon_spark.register_catalog(spark, "g", warehouse=root)
    spark.sql("CREATE DATABASE g.d")
    spark.sql("CREATE TABLE g.d.a (id BIGINT, v STRING) PARTITIONED BY (v)")
    spark.sql("INSERT INTO g.d.a SELECT id, concat('ä b=', id % 2) FROM range(6)")
    spark.sql("DELETE FROM g.d.a WHERE id = 3")
    frame = spark.sql("SELECT * FROM g.d.a WHERE id > 1")
    found: dict[str, Any] = {
        "native": NATIVE in str(frame._jdf.queryExecution().toString()),
        "rows": sorted(tuple(row) for row in frame.collect()),
        "checkpoint": [],
    }
    for _ in range(2):
        stream = spark.readStream.table("g.d.a").writeStream.format("paimon").trigger(availableNow=True)
        stream = stream.option("checkpointLocation", f"gs://{BUCKET}/checkpoints/one")
        stream.start(f"{root}/d.db/streamed").awaitTermination()
        found["checkpoint"].append(spark.table("g.d.streamed").count())
        spark.sql("INSERT INTO g.d.a VALUES (100, 'x')")
    spark.range(4).write.parquet(f"gs://{BUCKET}/source")
    table = paimon_spark.PaimonTable.migrate(spark, f"gs://{BUCKET}/source", f"{root}/d.db/taken")
    found["migrated"] = sorted(row.id for row in table.to_df().collect())
    return found


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(sys.argv[1], sys.argv[3])))
