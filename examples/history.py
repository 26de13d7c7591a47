"""A table's past, as easy to use as its present: tags, time travel, changes, a branch, rollback, expiry.

Prices change every day. Somebody wants to know what a price was, what changed since, to try new prices next to the old
ones, and to take a mistake back.

    python examples/history.py [directory for the table]
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's tasks run on this Python

from pyspark.sql import DataFrame, SparkSession

import paimon_spark


def say(text: str) -> None:
    """One step, in plain words."""
    print(f"\n>> {text}", flush=True)


def show(rows: DataFrame) -> None:
    """Rows by article, whole."""
    rows.orderBy("article").show(truncate=False)


def main(folder: Path) -> None:
    """Write, tag, travel, compare, branch, roll back and expire."""
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("paimon_spark history")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    prices = paimon_spark.PaimonTable.create(
        spark,
        str(folder / "shop.db" / "prices"),
        "article string not null, cents int",
        primary_key="article",
        options={"bucket": "1"},
    )
    path = prices.path

    def append(*rows: tuple[str, int]) -> None:
        prices.append(spark.createDataFrame(list(rows), "article string, cents int"))

    say("Monday's prices, under a name that stays.")
    append(("pen", 120), ("ink", 480))
    prices.create_tag("monday")

    say("On Tuesday the pen gets dearer, and paper is new.")
    append(("pen", 150), ("paper", 300))
    prices.create_tag("tuesday")

    say("What was it on Monday? By tag; a snapshot's number or a time will do as well.")
    show(prices.to_df(scan_tag_name="monday"))

    say("What has changed since? Only that is read.")
    show(spark.read.format("paimon").option("incremental-between", "monday,tuesday").load(path))

    say("Try new prices on a branch: the table itself stays as it is.")
    prices.create_branch("sale", tag="tuesday")
    sale = paimon_spark.PaimonTable.for_path(spark, f"{path}$branch_sale")
    sale.append(spark.createDataFrame([("ink", 240)], "article string, cents int"))
    ink = "article = 'ink'"
    print("on the branch:", sale.to_df(filter=ink).first(), "in the table:", prices.to_df(filter=ink).first())

    say("A mistake goes in, and is taken back.")
    append(("pen", 1), ("ink", 1), ("paper", 1))
    prices.rollback_to(tag="tuesday")
    show(prices.to_df())

    say("Keep one snapshot. Tags keep what they name: Monday can still be read.")
    append(("pen", 155))
    print("Snapshots that went:", prices.expire_snapshots(retain_max=1, retain_min=1))
    show(prices.to_df(scan_tag_name="monday"))

    say("The table says what it is, what happened to it, and how its files lie.")
    print(prices)
    prices.history().select("snapshot_id", "commit_kind", "delta_record_count", "total_record_count").show()
    print(prices.lsm())
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
