"""A stream into a table in long use: killed again and again, alongside another writer; nothing lost, memory flat.

`python -m benchmarks.stream_soak [batches] [runs]` writes micro-batches of 1,000 rows into a table of sums, where
a row that came twice shows. The query runs in a process of its own, which ends it at random moments and starts it
again; after so many runs (ten) the process is killed (``kill -9``). Meanwhile this process commits rows of its own to
the same table. It prints the sums, and as plots the memory of the Python processes and the heap of the JVM.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.common import spark_session
from benchmarks.soak import bars
from benchmarks.stream_sink import SCHEMA, feed
from paimon_spark.commit.file_store_commit import StreamBatch
from paimon_spark.read.row_views import ROWS as ALL_ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spark.source.table_write import SHUFFLED, planned
from paimon_spark.table.table import load_table

BATCHES, ROWS = 300, 1000
SUMS = {
    "primary-key": "k",
    "bucket": "2",
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "sum",
    "snapshot.num-retained.min": "200",
    "snapshot.num-retained.max": "400",
}
"""Snapshots live longer than the process needs to start again."""
_RUNS = 10
"""Of the query, before its process is killed."""
_LONGEST = 4.0
"""Seconds of a run after its first micro-batch."""
_CHILD = "from benchmarks.stream_soak import query_again_and_again as run; import sys; run(*sys.argv[1:])"


def query_again_and_again(root: str, seed: str) -> None:
    """Run the query until it has read all, ended at random moments. Prints the memory after each run."""
    spark, chance, folder = spark_session(), random.Random(int(seed)), Path(root)
    while True:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{root}/source")
        writer = stream.writeStream.format("paimon").options(**SUMS).option("checkpointLocation", f"{root}/checkpoint")
        before = committed(folder)
        query = writer.trigger(availableNow=True).start(f"{root}/t")
        while query.isActive and committed(folder) == before:
            time.sleep(0.05)
        ended = query.awaitTermination(chance.uniform(0, _LONGEST))
        query.stop()
        if error := query.exception():
            raise error
        java: Any = spark._jvm
        runtime = java.Runtime.getRuntime()
        java.System.gc()
        heap = runtime.totalMemory() - runtime.freeMemory()
        memory = {"driver": resident(os.getpid()), "workers": sum(map(resident, workers())), "heap": heap}
        print(json.dumps({"batch": committed(folder), **memory}), flush=True)
        if ended:
            return


def soak(batches: int, runs: int = _RUNS) -> None:
    """Run the query, killed again and again, alongside another writer; compare the sums."""
    root, written = Path(tempfile.mkdtemp(prefix="paimon_stream_soak_")), 0
    try:
        feed(root / "source", batches, ROWS)
        states, processes, done = list[dict[str, int]](), 0, False
        while not done:
            processes += 1
            log, command = root / f"log {processes}", [sys.executable, "-c", _CHILD, str(root), str(processes)]
            with log.open("wb") as out, (root / "errors").open("wb") as errors:
                query = subprocess.Popen(command, start_new_session=True, stdout=out, stderr=errors)
            while query.poll() is None and len(list(states_of(log))) < runs:
                time.sleep(0.25)
                if (root / "t" / "schema").exists():
                    append(str(root / "t"), written)
                    written += 1
            done = query.poll() == 0
            assert query.poll() in (None, 0), (root / "errors").read_text()[-3000:]
            if not done:
                time.sleep(random.Random(processes).uniform(0, 2))
                os.killpg(query.pid, signal.SIGKILL)
                query.wait()
            states += [{**state, "process": processes} for state in states_of(log)]
        rows, total = sums(str(root / "t"))
        expected = batches * ROWS
        right = (expected + written, sum(range(expected)) - sum(range(1, written + 1)))
        kills = f"query ended {len(states)} times and killed {processes - 1} times with its process"
        print(
            f"{batches} micro-batches, {kills}, {written} commits next to it: {rows} rows, sum {total}; {right} wanted"
        )
        print_memory(states)
        assert (rows, total) == right
    finally:
        shutil.rmtree(root, ignore_errors=True)


def print_memory(states: Sequence[dict[str, int]]) -> None:
    """Print the memory after each run of the query as bars, a gap where its process was killed."""
    for name in ("driver", "workers", "heap"):
        runs = [[state[name] for state in states if state["process"] == at] for at in range(1, len(states) + 1)]
        top = max(state[name] for state in states)
        shown = " ".join(bars(run, top) for run in runs if run)
        longest = max(runs, key=len)
        print(f"{name:<8} {shown}  at most {top >> 20} MB; longest process {longest[0] >> 20} → {longest[-1] >> 20} MB")


def states_of(log: Path) -> Iterator[dict[str, int]]:
    """What a process printed after each run of the query."""
    return (json.loads(line) for line in log.read_text().splitlines() if line.endswith("}"))


def committed(root: Path) -> int:
    """The last micro-batch that Spark knows to be committed; -1 without one."""
    return max((int(path.name) for path in (root / "checkpoint" / "commits").glob("[0-9]*")), default=-1)


def append(path: str, number: int) -> None:
    """Commit a row of a negative key, in this process, as a stream of another name."""
    key = -1 - number
    batch = pa.record_batch({"k": [key], "v": [key], "note": ["alongside"]})
    write = planned(load_table(path), batch.schema, rows=SHUFFLED)
    replace(write, stream=StreamBatch("alongside", number)).commit([write.write_task([batch], 0)])


def sums(path: str) -> tuple[int, int]:
    """Number of rows and sum of `v`."""
    plan = TableScan.of(load_table(path), ALL_ROWS).select(columns=["v"]).plan()
    values = [
        batch.column(0).to_numpy()
        for split in plan.splits
        for batch in plan.read(plan.table, split, plan.fields, plan.residual)
    ]
    return sum(map(len, values)), sum(int(part.sum()) for part in values)


def workers() -> list[int]:
    """Python processes of Spark's tasks: those below this process that run PySpark's daemon."""
    parents, daemons = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                daemons.append(int(folder.name))
        except OSError:
            continue
    return [process for process in daemons if os.getpid() in _above(process, parents)]


def _above(process: int, parents: dict[int, int]) -> Iterator[int]:
    while process := parents.get(process, 0):
        yield process


def resident(process: int) -> int:
    """Resident bytes of a process; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    soak(*map(int, sys.argv[1:3] or [str(BATCHES)]))
