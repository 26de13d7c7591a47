"""A warehouse directory as an SQL catalog: tables, changes of their columns, overwrites, and what each query reads.

python examples/sql_catalog.py [directory for the warehouse]
"""

import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's tasks run on this Python

from pyspark.sql import SparkSession

import paimon_spark


def say(text: str) -> None:
    """One step, in plain words."""
    print(f"\n>> {text}", flush=True)


def main(folder: Path) -> None:
    """Create, fill, alter, overwrite and query a table, in SQL only."""
    begin = time.monotonic()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("paimon_spark SQL catalog")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def run(statement: str) -> None:
        print(statement)
        result = spark.sql(statement)
        if result.columns:
            result.show(truncate=False)

    say(f"One call makes {folder} a catalog named paimon. From here on it is SQL.")
    paimon_spark.register_catalog(spark, "paimon", warehouse=str(folder))
    run("CREATE DATABASE paimon.depot")
    run("USE paimon.depot")

    say("A table of goods that move in and out, a partition for each day.")
    run("CREATE TABLE moves (article STRING, pieces INT, day DATE) PARTITIONED BY (day)")
    run(
        "INSERT INTO moves VALUES ('chair', 10, DATE'2024-05-01'), ('table', 4, DATE'2024-05-01'),"
        " ('chair', -3, DATE'2024-05-02'), ('lamp', 7, DATE'2024-05-02')"
    )
    run("SHOW PARTITIONS moves")

    say("A new column for what comes from now on; older rows have NULL there, and no file is written anew.")
    run("ALTER TABLE moves ADD COLUMN reason STRING COMMENT 'why it moved' AFTER pieces")
    run("INSERT INTO moves (article, pieces, day) VALUES ('lamp', -1, DATE'2024-05-03')")
    run("INSERT INTO moves BY NAME SELECT 'sold' AS reason, 'table' AS article, -1 AS pieces, DATE'2024-05-03' AS day")
    run("SELECT * FROM moves WHERE day = DATE'2024-05-03' ORDER BY article")

    say("The second of May was counted wrong: replace that day, nothing else.")
    run("INSERT OVERWRITE moves PARTITION (day = DATE'2024-05-02') VALUES ('chair', -2, 'sold'), ('lamp', 7, 'bought')")
    run("SELECT article, sum(pieces) AS in_stock FROM moves GROUP BY article ORDER BY article")

    say("What a query reads: one file of the day asked for, and two columns of it.")
    plan = spark.sql("SELECT pieces FROM moves WHERE day = DATE'2024-05-01' AND article = 'chair'")
    scan = next(
        line for line in plan._jdf.queryExecution().executedPlan().toString().splitlines() if "columns=" in line
    )
    print(scan[scan.index("columns=") :])

    say("A count needs no data file at all: the table's metadata know it.")
    run("SELECT count(*), max(day) FROM moves")

    say("The table about itself: its files, and the statement that makes such a table.")
    run("SELECT partition, record_count, file_format FROM `moves$files` ORDER BY partition")
    run("SHOW CREATE TABLE moves")
    print(
        f"Done in {time.monotonic() - begin:.0f} s. Java Paimon and Flink find this catalog under the same directory."
    )
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
