"""Append table, 5 M rows of 8 columns: our reader, the SQL catalog, `spark.read.parquet` on the same files."""

from __future__ import annotations

from pathlib import Path

from common import Ratio, append_rows, data_files, in_turn, noop, scratch, spark_session

import paimon_spark


def run() -> list[tuple[Ratio, float]]:
    """Measure all columns, by the plain source and by the catalog, and one column of eight, to the noop sink."""
    spark = spark_session()
    path = scratch("append")
    paimon_spark.register_catalog(spark, "bench", warehouse=str(Path(path).parent))
    if not Path(path).exists():
        append_rows(spark).write.format("paimon").mode("append").save(path)
    files = data_files(path)
    whole = in_turn(
        "append read, all columns ÷ spark.read.parquet",
        lambda: noop(spark.read.format("paimon").load(path)),
        lambda: noop(spark.read.parquet(*files)),
    )
    catalog = in_turn(
        "append read by the SQL catalog, all columns ÷ spark.read.parquet",
        lambda: noop(spark.table(f"bench.`{path}`")),
        lambda: noop(spark.read.parquet(*files)),
    )
    one = in_turn(
        "append read, one column ÷ all columns",
        lambda: noop(spark.read.format("paimon").option("columns", "x").load(path)),
        lambda: noop(spark.read.format("paimon").load(path)),
    )
    return [(whole, 1.0), (catalog, 1.0), (one, 0.6)]


if __name__ == "__main__":
    for ratio, limit in run():
        print(ratio.line(limit))
