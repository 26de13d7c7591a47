"""A job on a cluster of one machine: rows a second by the number of executors, and what passes the driver.

`python -m benchmarks.cluster` runs the same statements on a standalone master with workers of one core each, one of
them and then as many as there are cores, and with `--local-cluster` in Spark's `local-cluster`. Each statement is run
twice, the second time counts. Rows a second grow with executors until the disk, or the machine's cores, are busy: an
executor and its Python worker take two cores. So `--share 0.3 --workers 1 2 4` gives each worker three tenths of a core
(a control group of Linux; root only), and leaves the rest to the driver.

Of each statement it shows the largest task and the largest broadcast, as Spark's own log gives them; in the end the
most memory that the driver's JVM and Python had. None of these may grow with the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
COLUMNS = "id BIGINT NOT NULL, g BIGINT, a DOUBLE, b STRING"
VALUES = "id, id % 1000 AS g, id / 3.0D AS a, concat('left-', md5(cast(id AS STRING))) AS b"
KINDS = {
    "append": "",
    "deduplicate": "'primary-key'='id', 'bucket'='8', ",
    "partial-update": "'primary-key'='id', 'bucket'='8', 'merge-engine'='partial-update', ",
}
_LOG = """\
rootLogger.level = warn
logger.tasks.name = org.apache.spark.scheduler
logger.tasks.level = info
logger.blocks.name = org.apache.spark.storage
logger.blocks.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""
"""Spark's own default shows no more than warnings, whatever the level that a session sets."""
_MARK = "#step "
_TASK = re.compile(r"Starting task .* (\d+) bytes")
_BROADCAST = re.compile(r"Block broadcast_(\d+)_piece\d+ stored as bytes .*?estimated size ([\d.]+) (\w+)")
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
Row = dict[str, float]


def steps(spark: Any, rows: int) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """The statements: a name, how many rows, what runs it."""

    def source(start: int, count: int) -> str:
        return f"SELECT {VALUES} FROM range({start}, {start + count}, 1, 8)"

    def written(kind: str) -> Callable[[], object]:
        def write() -> None:
            spark.sql(f"DROP TABLE IF EXISTS c.d.`{kind}`")
            spark.sql(f"CREATE TABLE c.d.`{kind}` ({COLUMNS}) TBLPROPERTIES ({KINDS[kind]}'write-only'='true')")
            spark.sql(f"INSERT INTO c.d.`{kind}` {source(0, rows)}")

        return write

    def read(kind: str) -> Callable[[], object]:
        return lambda: spark.table(f"c.d.`{kind}`").write.format("noop").mode("overwrite").save()

    for kind in KINDS:
        yield f"{kind}: INSERT", rows, written(kind)
        if kind != "append":
            for turn in range(2):
                spark.sql(f"INSERT INTO c.d.`{kind}` {source(turn * rows // 2, rows // 5)}")
        yield f"{kind}: read", rows, read(kind)
    update = "MERGE INTO c.d.append t USING (SELECT id * 7 AS id, 'x' AS b FROM range(1000)) s ON t.id = s.id"
    yield "append: MERGE of 1,000 rows", rows, lambda: spark.sql(f"{update} WHEN MATCHED THEN UPDATE SET b = s.b")
    yield "partial-update: full compaction", rows, lambda: _compacted(spark, rows, source)


def _compacted(spark: Any, rows: int, source: Callable[[int, int], str]) -> None:
    spark.sql(f"INSERT INTO c.d.`partial-update` {source(0, rows // 5)}")
    spark.sql("CALL c.sys.compact(table => 'd.partial-update', compact_strategy => 'full')").collect()


def _peak_bytes(process: int) -> int:
    text = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmHWM"))) << 10


def work(master: str, cores: int, rows: int, warehouse: str) -> None:
    """Be the driver: a line of JSON for each step; Spark's log goes to standard error."""
    from pyspark.sql import SparkSession

    import paimon_spark

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("cluster").config("spark.cores.max", str(cores))
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    log = Path(warehouse, "log4j2.properties")
    log.write_text(_LOG)
    builder = builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log}")
    spark = builder.config("spark.executorEnv.PYTHONPATH", str(ROOT)).getOrCreate()
    paimon_spark.register_catalog(spark, "c", warehouse=warehouse)
    spark.sql("CREATE DATABASE IF NOT EXISTS c.d")
    for name, count, run in steps(spark, rows):
        run()
        print(f"{_MARK}{name}", file=sys.stderr, flush=True)
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        print(f"{_MARK}", file=sys.stderr, flush=True)
        print(json.dumps([name, {"rows": count, "seconds": seconds}]), flush=True)
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    peaks = {"JVM": _peak_bytes(java), "Python": _peak_bytes(os.getpid())}
    print(json.dumps(["driver", peaks]), flush=True)
    spark.stop()


def measured(master: str, cores: int, rows: int, warehouse: str) -> dict[str, Row]:
    """What each step took, and the largest task and broadcast of it in Spark's log."""
    command = [sys.executable, "-m", "benchmarks.cluster", "--worker", master, "--cores", str(cores)]
    command += ["--rows", str(rows), "--warehouse", warehouse]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, Row] = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    name = ""
    for line in done.stderr.splitlines():
        if line.startswith(_MARK):
            name = line.removeprefix(_MARK)
        elif name:
            task, broadcast = _TASK.search(line), _BROADCAST.search(line)
            if task:
                found[name]["tasks"] = found[name].get("tasks", 0) + 1
                found[name]["task"] = max(found[name].get("task", 0), int(task[1]))
            if broadcast:
                size = float(broadcast[2]) * _UNITS[broadcast[3]]
                found[name]["broadcast"] = max(found[name].get("broadcast", 0), size)
    return found


@contextmanager
def _master(cores: int, local: bool, share: float) -> Iterator[str]:
    if local:
        yield f"local-cluster[{cores},1,1024]"
        return
    sys.path.insert(0, str(ROOT))
    from tests.support.standalone_cluster import standalone_cluster

    with (
        tempfile.TemporaryDirectory() as folder,
        standalone_cluster(Path(folder), workers=cores, memory="1400m") as master,
        _limited([_process_of(f"{folder}/work-{number}") for number in range(cores)] if share else [], share),
    ):
        yield master


def _process_of(argument: str) -> int:
    """The process that was started with an argument."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in entry.read_bytes().split(b"\0"):
                return int(entry.parent.name)
        except OSError:  # it has ended
            continue
    raise SystemExit(f"no process has the argument {argument}")


@contextmanager
def _limited(processes: Sequence[int], share: float) -> Iterator[None]:
    """Give each process, and those that it starts, a share of a core: a control group, of version 1 or 2."""
    root = Path("/sys/fs/cgroup/cpu")
    first = root.is_dir()
    groups = [(root if first else root.parent) / f"paimon-benchmark-{process}" for process in processes]
    period = 20_000
    try:
        for group, process in zip(groups, processes, strict=True):
            group.mkdir()
            if first:
                (group / "cpu.cfs_period_us").write_text(str(period))
                (group / "cpu.cfs_quota_us").write_text(str(int(share * period)))
            else:
                (group / "cpu.max").write_text(f"{int(share * period)} {period}")
            (group / "cgroup.procs").write_text(str(process))
        yield
    finally:
        for group in filter(Path.is_dir, groups):
            for process in (group / "cgroup.procs").read_text().split():
                (group.parent / "cgroup.procs").write_text(process)
            group.rmdir()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--local-cluster", action="store_true", help="Spark's, in place of a standalone master")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 2], help="how many executors")
    parser.add_argument("--share", type=float, default=0, help="of a core, for each worker of the standalone master")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--warehouse", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.cores, given.rows, given.warehouse)
        return
    found = {}
    for count in given.workers:
        with tempfile.TemporaryDirectory() as warehouse, _master(count, given.local_cluster, given.share) as master:
            found[count] = measured(master, count, given.rows, warehouse)
    _print(found)


def _print(found: dict[int, dict[str, Row]]) -> None:
    first, last = (next(iter(found.values())), list(found.values())[-1])
    counts = " | ".join(f"{count} executor{'s' * (count > 1)}" for count in found)
    print(f"| statement | rows/s, {counts} | last ÷ first | tasks | largest task | largest broadcast |")
    print(f"|---|{'---|' * len(found)}---|---|---|---|")
    for name, row in last.items():
        if name == "driver":
            continue
        speeds = [part[name]["rows"] / part[name]["seconds"] for part in found.values()]
        growth = first[name]["seconds"] / row["seconds"]
        sizes = [f"{row.get(what, 0) / 1024:.0f} KB" for what in ("task", "broadcast")]
        cells = [*(f"{speed:,.0f}" for speed in speeds), f"**{growth:.2f}**", f"{row.get('tasks', 0):.0f}", *sizes]
        print(f"| {name} | {' | '.join(cells)} |")
    for count, part in found.items():
        peaks = ", ".join(f"{name} {value / (1 << 20):.0f} MB" for name, value in part["driver"].items())
        print(f"\nThe driver's memory at most, {count} executors: {peaks}.")


if __name__ == "__main__":
    main()
