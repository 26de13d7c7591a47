"""A table read as a stream: the prices as they are, then each change with its kind, also after a restart.

python examples/streams.py [directory for the table]
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's tasks run on this Python

from pyspark.sql import DataFrame, SparkSession

import paimon_spark


def run(stream: DataFrame, checkpoint: Path) -> list[tuple[object, ...]]:
    """Read what there is, from where the last run with this checkpoint ended."""
    rows: list[tuple[object, ...]] = []

    def take(batch: DataFrame, _number: int) -> None:
        rows.extend(tuple(row) for row in batch.collect())

    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return rows


def main(folder: Path) -> None:
    """Write prices, stream them, change them, stream the changes."""
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("paimon_spark streams")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    paimon_spark.register_catalog(spark, "paimon", warehouse=str(folder))
    spark.sql("CREATE DATABASE paimon.shop")
    spark.sql(
        "CREATE TABLE paimon.shop.prices (article STRING, cents INT) "
        "TBLPROPERTIES ('primary-key' = 'article', 'bucket' = '1', 'changelog-producer' = 'lookup')"
    )
    spark.sql("INSERT INTO paimon.shop.prices VALUES ('ink', 480), ('pen', 120)")
    path = str(folder / "shop.db" / "prices")
    prices = spark.readStream.format("paimon").load(path).select("article", "cents")
    print("The first run:", sorted(run(prices, folder / "checkpoint" / "prices")))

    changes = spark.readStream.format("paimon").option("read.changelog", "true").load(path)
    run(changes, folder / "checkpoint" / "changes")
    spark.sql("INSERT INTO paimon.shop.prices VALUES ('ink', 500), ('paper', 300)")
    spark.sql("DELETE FROM paimon.shop.prices WHERE article = 'pen'")
    order = ["-D", "-U", "+U", "+I"]
    found = run(changes, folder / "checkpoint" / "changes")
    print("The second run:", sorted(found, key=lambda row: order.index(str(row[0]))))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
