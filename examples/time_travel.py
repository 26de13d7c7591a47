"""Time travel: a table as it was, by number, by tag, by time, and what changed in between. In SQL and on DataFrames.

python examples/time_travel.py [directory for the table]
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
    """Change prices, and look back."""
    begin = time.monotonic()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("paimon_spark time travel")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    paimon_spark.register_catalog(spark, "paimon", warehouse=str(folder))
    spark.sql("CREATE DATABASE paimon.shop")
    spark.sql("USE paimon.shop")

    say("A table of prices, one row per article. Every statement that writes makes a snapshot; the first is number 1.")
    spark.sql(
        "CREATE TABLE prices (article STRING NOT NULL, euro INT)"
        " TBLPROPERTIES ('primary-key' = 'article', 'bucket' = '1')"
    )
    spark.sql("INSERT INTO prices VALUES ('chair', 40), ('table', 120)")

    say("The catalogue of spring goes to print: tag this state, so that it stays readable under a name.")
    spark.sql("ALTER TABLE prices CREATE TAG `spring`")
    time.sleep(1.1)  # so that the moment below lies between two snapshots
    moment = spark.sql("SELECT date_format(current_timestamp(), 'yyyy-MM-dd HH:mm:ss.SSS')").first()[0]
    time.sleep(1.1)

    say("Then the chair gets dearer, and a lamp comes in.")
    spark.sql("INSERT INTO prices VALUES ('chair', 45)")
    spark.sql("INSERT INTO prices VALUES ('lamp', 25)")
    spark.sql("SELECT * FROM prices ORDER BY article").show()

    say("What did the printed catalogue say? VERSION AS OF 'spring'.")
    spark.sql("SELECT * FROM prices VERSION AS OF 'spring' ORDER BY article").show()

    say(f"And at {moment}? TIMESTAMP AS OF takes the last snapshot before it.")
    spark.sql(f"SELECT * FROM prices TIMESTAMP AS OF '{moment}' ORDER BY article").show()

    say("Both at once: which articles cost something else today than in print?")
    spark.sql("""
        SELECT article, then.euro AS printed, now.euro AS today
        FROM prices VERSION AS OF 'spring' AS then JOIN prices AS now USING (article)
        WHERE then.euro <> now.euro
    """).show()

    say("A DataFrame travels by an option; this works without the catalog too, on Spark Connect as well.")
    path = str(folder / "shop.db" / "prices")
    spark.read.format("paimon").option("scan.snapshot-id", 2).load(path).orderBy("article").show()

    say("Every snapshot, as the table tells it:")
    spark.sql("SELECT snapshot_id, commit_kind, total_record_count FROM `prices$snapshots` ORDER BY snapshot_id").show()

    say("The new prices were a mistake: back to the printed catalogue.")
    spark.sql("CALL sys.rollback(table => 'shop.prices', version => 'spring')").show(truncate=False)
    spark.sql("SELECT * FROM prices ORDER BY article").show()
    print(f"Done in {time.monotonic() - begin:.0f} s.")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
