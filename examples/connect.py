"""SQL over Paimon tables on Spark Connect, where a session cannot have a catalog of ours: `paimon_spark.sql`.

Starts a Connect server on this machine; with your own, all it takes is its address and a warehouse both can reach.

    python examples/connect.py [directory for the warehouse]
"""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's tasks run on this Python

from pyspark.sql import SparkSession

import paimon_spark

SERVER = """
import sys
from pyspark.sql import SparkSession

(
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.port", sys.argv[1]).config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
print("ready", flush=True)
sys.stdin.read()
"""


def say(text: str) -> None:
    """One step, in plain words."""
    print(f"\n>> {text}", flush=True)


def statements(spark: SparkSession, warehouse: Path) -> None:
    """Tables, tags and time travel, in SQL."""

    def show(statement: str) -> None:
        print(statement)
        paimon_spark.sql(spark, statement).show(truncate=False)

    say("The warehouse is named once; the session remembers it as the catalog `paimon`.")
    paimon_spark.sql(spark, "CREATE DATABASE shop", warehouse=str(warehouse))
    paimon_spark.sql(spark, "USE paimon.shop")
    paimon_spark.sql(
        spark, "CREATE TABLE stock (id INT, pieces INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )

    say("Rows, a tag, and more rows.")
    paimon_spark.sql(spark, "INSERT INTO stock VALUES (1, 10), (2, 20)")
    paimon_spark.sql(spark, "ALTER TABLE stock CREATE TAG monday")
    paimon_spark.sql(spark, "INSERT INTO stock SELECT id, pieces - :sold FROM stock WHERE id = 2", args={"sold": 15})

    say("Two versions of one table in one query.")
    show(
        "SELECT now.id, old.pieces AS monday, now.pieces AS today "
        "FROM stock AS now JOIN stock VERSION AS OF 'monday' AS old USING (id) ORDER BY id"
    )

    say("What happened, as the table tells it; and back to Monday.")
    show("SELECT snapshot_id, commit_kind, total_record_count FROM `stock$snapshots`")
    show("CALL sys.rollback(table => 'stock', tag => 'monday')")
    show("SELECT * FROM stock ORDER BY id")


def main(folder: Path) -> None:
    """Start a server, run the statements over it, and stop it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVER, str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        statements(spark, folder / "warehouse")
        spark.stop()
        server.communicate("")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
