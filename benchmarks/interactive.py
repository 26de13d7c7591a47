"""What a person waits for at a prompt: short statements, warm, and how many py4j calls each takes.

`python benchmarks/interactive.py` prints what `RESULTS.md` shows: best and median seconds of each statement by the SQL
catalog and by ``format("paimon")``. The yardstick is the official connector over the same tables, in a process of its
own, where its jar is given: `PAIMON_OFFICIAL_JAR` (and `PAIMON_OFFICIAL_PYTHON`, an interpreter with the PySpark that
the jar is made for, else this one). Without it the yardstick is Spark's own reader over the same rows as Parquet.
`--calls` prints where the py4j calls of each statement go, `--only <part of a name>` measures some of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

from pyspark.sql import SparkSession

APPEND_ROWS = 5_000_000
KEY_ROWS = 2_000_000
ENGINES = {"deduplicate": {}, "partial_update": {"merge-engine": "partial-update"}}
REPEAT = 5
ROUNDS = 5
WARM_UP = 15
ANSWER = "answer: "
JAR = os.environ.get("PAIMON_OFFICIAL_JAR")
PEER_PYTHON = os.environ.get("PAIMON_OFFICIAL_PYTHON", sys.executable)

Statements = dict[str, Callable[[SparkSession], object]]


def session(**options: str) -> SparkSession:
    """A local session with two task slots and little noise."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
        **options,
    }
    builder = SparkSession.builder.master("local[2]").appName("interactive")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_tables(spark: SparkSession, folder: Path) -> None:
    """The tables in `<folder>/wh/db.db`, and the rows of each as Parquet in `<folder>/parquet`."""
    warehouse = folder / "wh" / "db.db"
    if (folder / "made").exists():
        return
    warehouse.mkdir(parents=True, exist_ok=True)
    rows = spark.range(0, APPEND_ROWS, 1, 8).selectExpr(
        "id",
        "cast(id % 1000 as int) k",
        "rand(3) price",
        "concat('name_', id) name",
        "substr(md5(cast(id as string)), 1, 12) code",
    )
    rows.write.format("paimon").mode("append").save(str(warehouse / "append"))
    for engine, options in ENGINES.items():
        for turn in range(4):
            count = KEY_ROWS if turn == 0 else KEY_ROWS // 10
            key = "id" if turn == 0 else f"id * 10 + {turn * 3}"
            batch = spark.range(0, count, 1, 1).selectExpr(
                f"{key} id", f"cast({turn} as bigint) g", "id / 3.0D a", "concat('left-', id % 5000) b", "rand(5) c"
            )
            table_options = {"primary-key": "id", "bucket": "4", "write-only": "true", **options}
            batch.write.format("paimon").mode("append").options(**table_options).save(str(warehouse / engine))
    for table in ("append", *ENGINES):
        spark.read.format("paimon").load(str(warehouse / table)).write.parquet(str(folder / "parquet" / table))
    (folder / "made").touch()


def paimon_statements(folder: Path) -> Statements:
    """The statements as both connectors take them; the catalog is ``p``."""
    path = folder / "wh" / "db.db"

    def sql(text: str) -> Callable[[SparkSession], object]:
        return lambda spark: spark.sql(text).collect()

    def load(table: str) -> Any:
        return lambda spark: spark.read.format("paimon").load(str(path / table))

    return {
        "SELECT * WHERE id = 77, append": sql("SELECT * FROM p.db.append WHERE id = 77"),
        "SELECT * WHERE id = 77, primary key": sql("SELECT * FROM p.db.deduplicate WHERE id = 77"),
        "SELECT * LIMIT 10, append": sql("SELECT * FROM p.db.append LIMIT 10"),
        "SELECT * LIMIT 10, primary key": sql("SELECT * FROM p.db.deduplicate LIMIT 10"),
        "count(*), append": sql("SELECT count(*) FROM p.db.append"),
        "count(*), deduplicate": sql("SELECT count(*) FROM p.db.deduplicate"),
        "count(*), partial-update": sql("SELECT count(*) FROM p.db.partial_update"),
        "sum(one column), deduplicate": sql("SELECT sum(a) FROM p.db.deduplicate"),
        "`$snapshots`": sql("SELECT * FROM p.db.`deduplicate$snapshots`"),
        "`$files`": sql("SELECT * FROM p.db.`deduplicate$files`"),
        "DESCRIBE": sql("DESCRIBE p.db.deduplicate"),
        "SHOW TABLES": sql("SHOW TABLES IN p.db"),
        "load of format('paimon')": load("append"),
        "format('paimon').where('id = 77'), append": lambda spark: load("append")(spark).where("id = 77").collect(),
        "format('paimon').where('id = 77'), primary key": lambda spark: (
            load("deduplicate")(spark).where("id = 77").collect()
        ),
        "format('paimon').count(), append": lambda spark: load("append")(spark).count(),
    }


def parquet_statements(folder: Path) -> Statements:
    """The same of Spark's own reader, by the names of `paimon_statements`; metadata is a Parquet file of few rows."""

    def load(table: str) -> Any:
        return lambda spark: spark.read.parquet(str(folder / "parquet" / table))

    def row(table: str) -> Callable[[SparkSession], object]:
        return lambda spark: load(table)(spark).where("id = 77").collect()

    def total(table: str, column: str) -> Callable[[SparkSession], object]:
        return lambda spark: load(table)(spark).selectExpr(column).collect()

    def described(spark: SparkSession) -> object:
        load("deduplicate")(spark).createOrReplaceTempView("parquet_rows")
        return spark.sql("DESCRIBE parquet_rows").collect()

    return {
        "SELECT * WHERE id = 77, append": row("append"),
        "SELECT * WHERE id = 77, primary key": row("deduplicate"),
        "SELECT * LIMIT 10, append": lambda spark: load("append")(spark).limit(10).collect(),
        "SELECT * LIMIT 10, primary key": lambda spark: load("deduplicate")(spark).limit(10).collect(),
        "count(*), append": total("append", "count(*)"),
        "count(*), deduplicate": total("deduplicate", "count(*)"),
        "count(*), partial-update": total("partial_update", "count(*)"),
        "sum(one column), deduplicate": total("deduplicate", "sum(a)"),
        "`$snapshots`": lambda spark: load("deduplicate")(spark).limit(4).collect(),
        "`$files`": lambda spark: load("deduplicate")(spark).limit(4).collect(),
        "DESCRIBE": described,
        "SHOW TABLES": lambda spark: spark.sql("SHOW TABLES").collect(),
        "load of format('paimon')": load("append"),
        "format('paimon').where('id = 77'), append": row("append"),
        "format('paimon').where('id = 77'), primary key": row("deduplicate"),
        "format('paimon').count(), append": lambda spark: load("append")(spark).count(),
    }


def seconds_of(run: Callable[[SparkSession], object], spark: SparkSession, count: int) -> list[float]:
    """Seconds of each of some runs."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        run(spark)
        seconds.append(time.perf_counter() - start)
    return seconds


def serve(folder: str) -> None:
    """The official connector, in a process of its own: runs the statement of each line as often as it says."""
    spark = session(
        **{
            "spark.jars": str(JAR),
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.p": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.p.warehouse": f"{folder}/wh",
        }
    )
    statements = paimon_statements(Path(folder))
    print(ANSWER, flush=True)
    for line in sys.stdin:
        name, count = json.loads(line)
        print(ANSWER + json.dumps(seconds_of(statements[name], spark, count)), flush=True)


@contextmanager
def official(folder: Path) -> Iterator[Callable[[str, int], list[float]]]:
    """A function that runs a statement some times in the process of the official connector."""
    command = [PEER_PYTHON, __file__, "--serve", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=peer_env()) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        answers = (line.removeprefix(ANSWER) for line in peer.stdout if line.startswith(ANSWER))
        next(answers)

        def run(name: str, count: int) -> list[float]:
            print(json.dumps([name, count]), file=peer.stdin, flush=True)
            found: list[float] = json.loads(next(answers))
            return found

        try:
            yield run
        finally:
            peer.stdin.close()


def in_turn(
    spark: SparkSession, statements: Statements, theirs: Callable[[str, int], list[float]], only: str, repeat: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of each statement here and at the peer, some runs each in turn, after some runs to warm up."""
    found = {}
    for name, run in statements.items():
        if only not in name:
            continue
        seconds_of(run, spark, WARM_UP)
        theirs(name, WARM_UP)
        ours: list[float] = []
        others: list[float] = []
        for _ in range(ROUNDS):
            ours += seconds_of(run, spark, repeat)
            others += theirs(name, repeat)
        found[name] = (ours, others)
    return found


def register_seconds(warehouse: str) -> float:
    """Seconds of the first ``register`` and ``register_catalog`` of a process with a session that has run something."""
    spark = session()
    spark.range(3).collect()
    start = time.perf_counter()
    import paimon_spark

    paimon_spark.register(spark)
    paimon_spark.register_catalog(spark, "p", warehouse=warehouse)
    return time.perf_counter() - start


def peer_env() -> dict[str, str]:
    """The environment of another interpreter."""
    if sys.executable == PEER_PYTHON:
        return dict(os.environ)
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK", "PYTHON"))}


def in_own_process(*arguments: str) -> Any:
    """What this file prints last when it is started anew."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


@contextmanager
def counted(spark: SparkSession) -> Iterator[Counter[str]]:
    """Count py4j calls: ``> what`` from Python into the JVM, ``< method`` from the JVM into Python."""
    from py4j.clientserver import ClientServerConnection

    calls: Counter[str] = Counter()
    client = spark.sparkContext._gateway._gateway_client
    send, call_proxy = client.send_command, ClientServerConnection._call_proxy

    def counting_send(command: str, *arguments: Any, **named: Any) -> Any:
        if not command.startswith("m\nd\n"):  # releases of objects go along with garbage collection
            parts = command.split("\n")
            call = f".{parts[2]}" if parts[0] == "c" else " ".join(parts[:3])
            calls[f"> {call[:60]}"] += 1
        return send(command, *arguments, **named)

    class Named:
        """The command of a call as it is read: the method's name comes first."""

        def __init__(self, target: str, stream: Any) -> None:
            self.stream = stream
            pool = spark.sparkContext._gateway.gateway_property.pool
            self.target = type(pool[target]).__name__ if target in pool else target

        def readline(self) -> bytes:
            line: bytes = self.stream.readline()
            if self.target:
                calls[f"< {self.target}.{line.decode().strip()}"] += 1
                self.target = ""
            return line

    def counting_call(self: Any, target: str, stream: Any) -> Any:
        return call_proxy(self, target, Named(target, stream))

    client.send_command, ClientServerConnection._call_proxy = counting_send, counting_call
    try:
        yield calls
    finally:
        del client.send_command
        ClientServerConnection._call_proxy = call_proxy


def calls_of(spark: SparkSession, statements: Statements, only: str) -> dict[str, Counter[str]]:
    """The py4j calls of each statement, warm."""
    found = {}
    for name, run in statements.items():
        if only in name:
            for _ in range(3):
                run(spark)
            with counted(spark) as calls:
                run(spark)
            found[name] = calls
    return found


def print_table(found: dict[str, tuple[list[float], list[float]]], calls: dict[str, Counter[str]], title: str) -> None:
    """One row for each statement."""
    print(f"| statement | best s | median s | {title}: best s | median s | ratio of medians | calls: into + from |")
    print("|---|---|---|---|---|---|---|")
    for name, (ours, theirs) in found.items():
        back = sum(count for call, count in calls[name].items() if call.startswith("<"))
        into = calls[name].total() - back
        shown = " | ".join(f"{value:.4f}" for value in (min(ours), median(ours), min(theirs), median(theirs)))
        print(f"| {name} | {shown} | **{median(ours) / median(theirs):.2f}** | {into} + {back} |")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="part of a statement's name")
    parser.add_argument("--repeat", type=int, default=REPEAT, help="runs of each of the rounds")
    parser.add_argument("--calls", action="store_true", help="also print which py4j calls there are")
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--register", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    if given.register:
        print(json.dumps(register_seconds(f"{given.register}/wh")))
        return
    import paimon_spark

    folder = Path(os.environ.get("PAIMON_BENCH_DIR") or tempfile.mkdtemp(prefix="paimon_bench_")) / "interactive"
    folder.mkdir(parents=True, exist_ok=True)
    spark = session()
    paimon_spark.register_catalog(spark, "p", warehouse=str(folder / "wh"))
    make_tables(spark, folder)
    statements = paimon_statements(folder)
    if JAR:
        with official(folder) as theirs:
            found = in_turn(spark, statements, theirs, given.only, given.repeat)
    else:
        yardstick = parquet_statements(folder)
        found = in_turn(
            spark, statements, lambda name, count: seconds_of(yardstick[name], spark, count), given.only, given.repeat
        )
    calls = calls_of(spark, statements, given.only)
    print(f"PySpark {spark.version}")
    print_table(found, calls, Path(JAR).name if JAR else "spark.read.parquet")
    if given.calls:
        for name, counts in calls.items():
            print(name, dict(counts.most_common()))
    spark.stop()
    seconds = [in_own_process("--register", str(folder)) for _ in range(3)]
    print("\n`register(spark)` and `register_catalog`, in fresh processes: " + ", ".join(f"{s:.2f} s" for s in seconds))


if __name__ == "__main__":
    main()
