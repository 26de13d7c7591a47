"""Statements on a store with S3's protocol that is 30 ms away: requests, seconds and bytes of each.

`python -m benchmarks.stores` starts moto in a process of its own (`store_server.py`), which counts and delays, and runs
the statements of a person at a prompt, warm, and a job's over `--rows` rows. `--official JAR` runs the same by the
official connector through s3a, in a session and on a server of its own, statement by statement in turn, so that both
meet the same load (`--official-python`: an interpreter with the PySpark that the jar is made for; start this one with
the same). Both have Hadoop's s3a (Maven fetches `hadoop-aws` once).
"alone s" is how long at least one request was under way without moto's own work: moto is slow with large objects.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.store_server import BUCKET, DELAY_SECONDS, Server, running

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

ROOT = Path(__file__).parent.parent
KEYED = "(k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='4')"
JOB_KEYED = (
    "(id BIGINT NOT NULL, g BIGINT, a DOUBLE, b STRING) "
    "TBLPROPERTIES ('primary-key'='id', 'bucket'='4', 'write-only'='true')"
)
VALUES = "id % 1000, id / 3.0D, concat('left-', md5(cast(id as string)))"

Row = dict[str, float]


def session(catalog: str, server: Server, official: str | None) -> Any:
    """A session with a catalog ``c``, ours or the official one's."""
    from pyspark.sql import SparkSession

    sys.path.insert(0, str(ROOT))
    from tests.support.hadoop_aws import hadoop_aws_jars

    s3a = {
        "endpoint": server.url,
        "access.key": "key",
        "secret.key": "hidden",
        "path.style.access": "true",
        "endpoint.region": "us-east-1",
        "connection.ssl.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("stores")
    settings = {
        "spark.jars": ",".join([*hadoop_aws_jars(), *([official] if official else [])]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "2g",
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in s3a.items()},
    }
    root = f"s3a://{BUCKET}/{catalog}"
    if official:
        settings["spark.sql.extensions"] = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
        settings["spark.sql.catalog.c"] = "org.apache.paimon.spark.SparkCatalog"
        settings["spark.sql.catalog.c.warehouse"] = root
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if not official:
        import paimon_spark

        paimon_spark.register(spark)
        paimon_spark.register_catalog(spark, "c", warehouse=root, **server.options)
    return spark


def measure(server: Server, name: str, run: Callable[[], object], found: dict[str, Row]) -> None:
    """Run something, and note what it took."""
    server.counted()
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    counted = server.counted()
    found[name] = {
        "requests": counted.number,
        "seconds": seconds,
        "in a row": counted.waves,
        "server": counted.server_seconds,
        "sent": counted.sent_bytes,
        "received": counted.received_bytes,
    }
    print(json.dumps([name, found[name]]), flush=True)
    sys.stdin.readline()  # the other one's turn


def statements(spark: Any, server: Server) -> dict[str, Row]:
    """The short statements, warm."""
    found: dict[str, Row] = {}

    def sql(text: str) -> Callable[[], object]:
        return lambda: spark.sql(text).collect()

    spark.sql("CREATE DATABASE IF NOT EXISTS c.d")
    spark.sql(f"CREATE TABLE c.d.t {KEYED}")
    spark.sql("INSERT INTO c.d.t SELECT cast(id as int), 'a' FROM range(1000)")
    spark.sql("CREATE TABLE c.d.four (k INT, v STRING)")
    for n in range(4):
        spark.sql(f"INSERT INTO c.d.four VALUES ({n}, 'x')")
    spark.sql("INSERT INTO c.d.t VALUES (5, 'b')")
    for turn, number in enumerate((100, 200)):
        spark.sql("SELECT * FROM c.d.t").collect()
        spark.sql("SELECT * FROM c.d.four").collect()
        for name, text in {
            "point look-up": "SELECT * FROM c.d.t WHERE k = 5",
            "second read of 4 small files": "SELECT * FROM c.d.four",
            "INSERT of one row": f"INSERT INTO c.d.t VALUES ({number}, 'c')",
            "create_tag": f"CALL c.sys.create_tag(table => 'd.t', tag => 'tag{turn}')",
            "DESCRIBE": "DESCRIBE TABLE c.d.t",
            "SHOW TABLES": "SHOW TABLES IN c.d",
            "DELETE of a key": f"DELETE FROM c.d.t WHERE k = {number}",
            "CREATE TABLE": f"CREATE TABLE c.d.u{turn} {KEYED}",
            "compact of 4 buckets": "CALL c.sys.compact(table => 'd.t', compact_strategy => 'full')",
        }.items():
            if name.startswith("compact"):
                spark.sql("INSERT INTO c.d.t SELECT cast(id as int), 'c' FROM range(1000)")
            measure(server, name, sql(text), found)  # the second turn counts
    return found


def job(spark: Any, server: Server, rows: int) -> dict[str, Row]:
    """Many rows: written, read, merged, compacted, streamed."""
    found: dict[str, Row] = {}

    def insert(table: str, count: int, start: int = 0) -> Callable[[], object]:
        source = f"SELECT id, {VALUES} FROM range({start}, {start + count}, 1, 4)"
        return lambda: spark.sql(f"INSERT INTO c.d.{table} {source}")

    def read(table: str) -> Callable[[], object]:
        return lambda: spark.table(f"c.d.{table}").write.format("noop").mode("overwrite").save()

    spark.sql("CREATE TABLE c.d.plain (id BIGINT, g BIGINT, a DOUBLE, b STRING)")
    spark.sql(f"CREATE TABLE c.d.keyed {JOB_KEYED}")
    measure(server, "write of an append table", insert("plain", rows), found)
    spark.sql("CREATE TABLE c.d.again (id BIGINT, g BIGINT, a DOUBLE, b STRING)")
    measure(server, "write of another one", insert("again", rows), found)
    measure(server, "read of it", read("plain"), found)
    measure(server, "read of it, again", read("plain"), found)
    measure(server, "write of a table with keys", insert("keyed", rows), found)
    for turn in range(3):
        insert("keyed", rows // 10, turn * rows // 5)()
    measure(server, "read of it and 3 updates, merged", read("keyed"), found)
    measure(server, "the same, again", read("keyed"), found)
    compact = "CALL c.sys.compact(table => 'd.keyed', compact_strategy => 'full')"
    measure(server, "full compaction", lambda: spark.sql(compact).collect(), found)
    measure(server, "read of it, compacted", read("keyed"), found)

    def stream(table: str) -> Callable[[], object]:
        source = spark.readStream.table(f"c.d.{table}").writeStream.format("noop").trigger(availableNow=True)
        checkpoint = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"stores-{time.time_ns()}")
        return lambda: source.option("checkpointLocation", checkpoint).start().awaitTermination()

    measure(server, "stream of the append table", stream("plain"), found)
    measure(server, "stream of the other one", stream("again"), found)
    return found


def _work(url: str, rows: int, official: str | None) -> None:
    """Measure one connector: a line of JSON for each statement, a line of input before the next."""
    sys.stdin.readline()
    server = Server(url)
    spark = session("official" if official else "ours", server, official)
    try:
        statements(spark, server)
        if rows:
            job(spark, server, rows)
    finally:
        spark.stop()


@contextmanager
def worker(python: str, arguments: list[str], official: str | None) -> Iterator[subprocess.Popen[str]]:
    """A process that measures one connector, and waits for its turn before each statement; `in_turn` gives it."""
    command = [python, "-m", *arguments, *(["--official", official] if official else [])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def _worker(python: str, rows: int, official: str | None) -> Iterator[subprocess.Popen[str]]:
    with running() as server:
        arguments = ["benchmarks.stores", "--worker", server.url, "--rows", str(rows)]
        with worker(python, arguments, official) as process:
            yield process


def in_turn(workers: list[subprocess.Popen[str]]) -> list[dict[str, Row]]:
    """What each worker found, one statement of each at a time."""
    found: list[dict[str, Row]] = [{} for _ in workers]
    at_work = list(range(len(workers)))
    while at_work:
        for n in list(at_work):
            answers, turns = workers[n].stdout, workers[n].stdin
            assert answers is not None
            assert turns is not None
            turns.write("\n")
            turns.flush()
            line = next((line for line in answers if line.startswith("[")), "")
            if not line:
                at_work.remove(n)
                continue
            name, row = json.loads(line)
            found[n][name] = row
            print(f"  {('ours', 'official')[n]}: {name}: {row}", file=sys.stderr, flush=True)
    return found


def _cell(row: Row | None) -> str:
    if row is None:
        return "- | - | - | -"
    alone = max(0.0, row["in a row"] * DELAY_SECONDS - row["server"])
    size = (row["sent"] + row["received"]) / (1 << 20)
    return f"{row['requests']:.0f} | {row['seconds']:.2f} | {alone:.2f} | {size:.1f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the job; 0 leaves it out")
    parser.add_argument("--official", help="the official connector's jar")
    parser.add_argument("--official-python", default=sys.executable)
    parser.add_argument("--worker", help="the URL of a server: measure one connector, by the turns of standard input")
    given = parser.parse_args()
    if given.worker:
        _work(given.worker, given.rows, given.official)
        return
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(sys.executable, given.rows, None))]
        if given.official:
            workers.append(stack.enter_context(_worker(given.official_python, given.rows, given.official)))
        ours, theirs = [*in_turn(workers), {}][:2]
    print("| statement | requests | s | alone s | MB | official: requests | s | alone s | MB | ratio of s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, row in ours.items():
        other = theirs.get(name)
        ratio = f"**{row['seconds'] / other['seconds']:.2f}**" if other else "-"
        print(f"| {name} | {_cell(row)} | {_cell(other)} | {ratio} |")


if __name__ == "__main__":
    main()
