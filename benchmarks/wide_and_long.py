"""Tables of 2,001 columns and conditions of 200,000 values: CPU seconds of all processes, second run of each.

`python benchmarks/wide_and_long.py` prints what `RESULTS.md` shows. The yardstick is Spark's own reader over Parquet
files of the same rows. ``--columns`` and ``--values`` make it smaller.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from catalog_queries import cpu_seconds
from common import noop, scratch, spark_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

import paimon_spark

CATALOG = "wide"


def second_run(run: Callable[[], object]) -> float:
    """CPU seconds of the second of two runs."""
    run()
    begin = cpu_seconds()
    run()
    return cpu_seconds() - begin


def measure(title: str, cases: dict[str, Callable[[], object]]) -> None:
    """Print a table of the CPU seconds of each case."""
    print(f"\n| {title} | CPU s |\n|---|---|", flush=True)
    for name, run in cases.items():
        print(f"| {name} | {second_run(run):.1f} |", flush=True)


def wide(spark: SparkSession, root: Path, columns: int) -> None:
    """Whole reads of a table of very many columns."""
    names = [f"c{number}" for number in range(columns)]

    def rows(count: int) -> DataFrame:
        return spark.range(0, count, 1, 4).selectExpr("id", *(f"id + {n} AS {name}" for n, name in enumerate(names)))

    files, append, keyed = str(root / "files"), str(root / "d.db" / "append"), str(root / "d.db" / "keyed")
    rows(2000).write.mode("overwrite").parquet(files)
    rows(2000).write.format("paimon").mode("overwrite").save(append)
    rows(1000).write.format("paimon").option("primary-key", "id").option("bucket", "1").mode("overwrite").save(keyed)
    load = spark.read.format("paimon").load
    measure(f"{columns + 1:,} columns", {
        "Parquet files, `collect()`": lambda: spark.read.parquet(files).collect(),
        "catalog, `SELECT *`, `collect()`": lambda: spark.sql(f"SELECT * FROM {CATALOG}.d.append").collect(),
        "Parquet files, noop": lambda: noop(spark.read.parquet(files)),
        '`format("paimon")`, noop': lambda: noop(load(append)),
        'primary key, `format("paimon")`, noop': lambda: noop(load(keyed)),
        "primary key, `to_df().collect()`": lambda: paimon_spark.PaimonTable.for_path(spark, keyed).to_df().collect(),
    })  # fmt: skip


def long_lists(spark: SparkSession, root: Path, values: int) -> None:
    """Conditions of very many values, on one and a half times as many rows."""
    rows = spark.range(0, values * 3 // 2, 1, 4).selectExpr("id", "concat('v', id) AS v")
    files, append, keyed = str(root / "listed"), str(root / "d.db" / "listed"), str(root / "d.db" / "listed_keys")
    rows.write.mode("overwrite").parquet(files)
    rows.write.format("paimon").mode("overwrite").save(append)
    rows.write.format("paimon").option("primary-key", "id").option("bucket", "1").mode("overwrite").save(keyed)
    spark.read.parquet(files).createOrReplaceTempView("listed_files")
    text = f"id IN ({', '.join(map(str, range(values)))})"
    listed = col("id").isin(list(range(values)))

    def query(table: str) -> object:
        return spark.sql(f"SELECT count(v) FROM {table} WHERE {text}").collect()

    def isin(df: DataFrame) -> object:
        return df.where(listed).selectExpr("count(v)").collect()

    def delete(path: str) -> None:
        paimon_spark.PaimonTable.for_path(spark, path).rollback_to(snapshot_id=1)
        spark.sql(f"DELETE FROM {CATALOG}.d.{Path(path).name} WHERE {text}")

    keys = paimon_spark.PaimonTable.for_path(spark, keyed)
    measure(f"`id IN ({values:,} values)`", {
        "Parquet files, `isin`": lambda: isin(spark.read.parquet(files)),
        "catalog, `isin`": lambda: isin(spark.table(f"{CATALOG}.d.listed")),
        "catalog, primary key, `isin`": lambda: isin(spark.table(f"{CATALOG}.d.listed_keys")),
        "Parquet files, SQL text": partial(query, "listed_files"),
        "catalog, SQL text": partial(query, f"{CATALOG}.d.listed"),
        'option `filter` of `format("paimon")`': lambda: noop(
            spark.read.format("paimon").option("filter", text).load(append)
        ),
        "`to_df(filter=…)`, primary key": lambda: noop(keys.to_df(filter=text)),
        "catalog, `DELETE`": partial(delete, append),
        "catalog, primary key, `DELETE`": partial(delete, keyed),
    })  # fmt: skip


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=2000)
    parser.add_argument("--values", type=int, default=200_000)
    given = parser.parse_args()
    spark = spark_session()
    root = Path(scratch("wide_and_long"))
    paimon_spark.register_catalog(spark, CATALOG, warehouse=str(root))
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {CATALOG}.d")
    wide(spark, root, given.columns)
    long_lists(spark, root, given.values)


if __name__ == "__main__":
    main()
