"""Two streams of partial updates become whole rows: a Paimon table, written and read by Spark without a jar.

An order is known to two systems. The shop tells its state and amount, the payment provider when and how it was paid;
their messages come late and in the wrong order. One table takes both: every system has a *sequence group*, a column
that says which of its messages is newer, and Paimon keeps for each order the newest of each.

    python examples/quickstart.py [directory for the table]
"""

import os
import sys
import tempfile
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's tasks run on this Python

from pyspark.sql import SparkSession

import paimon_spark


def say(text: str) -> None:
    """One step, in plain words."""
    print(f"\n>> {text}", flush=True)


def main(folder: Path) -> None:
    """Create, update, tag and read back a table of orders."""
    begin = time.monotonic()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("paimon_spark quickstart")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    paimon_spark.register(spark)
    path = str(folder / "shop.db" / "orders")

    say(f"Create the table {path}: primary key order_id, merge engine partial-update, two sequence groups.")
    orders = paimon_spark.PaimonTable.create(
        spark,
        path,
        """order_id long not null,
           order_version int, state string, amount decimal(10,2),
           payment_version int, paid_by string, paid_at timestamp_ntz""",
        primary_key="order_id",
        options={
            "bucket": "2",
            "merge-engine": "partial-update",
            "fields.order_version.sequence-group": "state,amount",
            "fields.payment_version.sequence-group": "paid_by,paid_at",
        },
    )

    def append(columns: str, *rows: tuple[object, ...]) -> None:
        spark.createDataFrame(list(rows), columns).write.format("paimon").mode("append").save(path)

    say("The shop's stream. We hear that order 1 is 'shipped' (version 3) before we hear that it was 'created'.")
    shop = "order_id long, order_version int, state string, amount decimal(10,2)"
    append(shop, (1, 3, "shipped", Decimal("19.90")))
    append(shop, (1, 1, "created", Decimal("25.00")), (2, 2, "packed", Decimal("7.50")), (2, 1, "created", None))

    say("Tag this state as 'before-payments': a name under which it stays readable.")
    orders.create_tag("before-payments")

    say("The payment provider's stream: it knows nothing of states and amounts, and comes out of order too.")
    payments = "order_id long, payment_version int, paid_by string, paid_at timestamp_ntz"
    append(payments, (2, 2, "card", datetime(2024, 5, 1, 10, 30)), (1, 5, "invoice", datetime(2024, 5, 2, 8, 0)))
    append(payments, (1, 4, "voucher", datetime(2024, 5, 1, 9, 0)), (2, 1, "cash", datetime(2024, 5, 1, 10, 0)))

    say("Read the table: whole rows, each half the newest its system ever sent.")
    spark.read.format("paimon").load(path).orderBy("order_id").show(truncate=False)

    say("Read it as it was: option scan.tag-name = before-payments. The shop's half is there, the other is empty.")
    then = spark.read.format("paimon").option("scan.tag-name", "before-payments").load(path)
    then.orderBy("order_id").show(truncate=False)

    say("What happened, as the table tells it:")
    orders.snapshots().select("snapshot_id", "commit_kind", "delta_record_count", "total_record_count").show()
    print(f"Done in {time.monotonic() - begin:.0f} s. Java Paimon, Flink and pypaimon-rust read this table as well.")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
