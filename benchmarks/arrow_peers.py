"""`open_table` alongside pypaimon and pypaimon-rust, without Spark: `python benchmarks/arrow_peers.py [times [case]]`.

All three read the same tables, which `open_table` wrote, and write to tables of their own. Each has a process, and they
take turns case by case, run by run: the shortest run of each counts, by the clock and by the seconds of its cores.
Peers run in the environments that `tests/peers/make_environments.py` makes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import paimon_spark
from tests.peers import make_environments

ROWS = 1_000_000
COMMITS = 3
ROWS_OF_COMMIT = 360_000
WIDE_COLUMNS = 60
LIBRARIES = ("open_table", "pypaimon", "pypaimon-rust")
WRITES = {"": ROWS_OF_COMMIT, "_thousand": 1000, "_one": 1}
"""What a case of writing ends with, and how many rows it writes."""
CASES = (
    "whole",
    "projected",
    "filtered",
    "wide",
    "merged",
    *(deed + end for deed in ("append", "upsert") for end in WRITES),
)
MOST_SECONDS = 12.0
"""A library that has taken so long for a case is not run once more."""


def rows_of(count: int, seed: int, columns: int = 0) -> pa.Table:
    """Rows with a key, and so many more columns of numbers."""
    random = np.random.default_rng(seed)
    ids = random.permutation(count).astype("int64")
    data = {
        "id": ids,
        "name": pa.array([f"name {value % 1000}" for value in ids.tolist()]),
        "price": random.random(count),
        "n": random.integers(0, 1000, count).astype("int32"),
        "dt": pa.array(np.datetime64("2024-01-01") + (ids % 365)),
    }
    return pa.table(data | {f"c{at}": random.random(count) for at in range(columns)})


def make_tables(warehouse: str) -> None:
    """Make the tables that are read and written, and a file with the rows that are written."""
    written = rows_of(ROWS_OF_COMMIT, 9)
    for name, rows, keys in (
        ("append", [rows_of(ROWS, 1)], None),
        ("wide", [rows_of(ROWS // 10, 2, WIDE_COLUMNS)], None),
        ("keyed", [rows_of(ROWS_OF_COMMIT, seed) for seed in range(COMMITS)], "id"),
        *(
            (f"to_{deed}{end}_{library}", [], "id" if deed == "upsert" else None)
            for deed in ("append", "upsert")
            for end in WRITES
            for library in LIBRARIES
        ),
    ):
        schema = (rows or [written])[0].schema
        options: dict[str, Any] = {"bucket": 1, "write_only": "true"} if keys else {}
        more = {"primary_keys": keys} if keys else {}
        table = paimon_spark.create_table(f"{warehouse}/db.db/{name}", schema, **more, **options)
        for part in rows:
            table.append(part)
    for end, count in WRITES.items():
        with pa.OSFile(f"{warehouse}/rows{end}.arrow", "wb") as sink, pa.ipc.new_file(sink, written.schema) as writer:
            writer.write_table(written.slice(0, count))


class Library:
    """One of those that are compared, in its own process."""

    def __init__(self, name: str, warehouse: str) -> None:
        python = sys.executable if name == "open_table" else str(make_environments.ensure(name))
        command = [python, str(Path(__file__).with_name("arrow_peer_program.py")), name, warehouse]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, case: str) -> dict[str, Any]:
        """Run a case once."""
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("the process has pipes")
        print(case, file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def in_turn(libraries: dict[str, Library], case: str, times: int) -> dict[str, list[dict[str, Any]]]:
    """Run a case with each library in turn."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in libraries}
    for _ in range(times):
        for name, library in libraries.items():
            if sum(run.get("seconds", MOST_SECONDS) for run in found[name]) < MOST_SECONDS:
                found[name].append(library.run(case))
    return found


def cell(runs: list[dict[str, Any]]) -> str:
    """What is shown of the runs of a case: the shortest by the clock, and by its cores."""
    errors = [run["error"] for run in runs if "error" in run]
    return errors[0] if errors else " / ".join(f"{min(run[what] for run in runs):.3f}" for what in ("seconds", "cores"))


def main() -> None:
    """Print a table of seconds."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    cases = sys.argv[2:] or CASES
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as warehouse:
        make_tables(warehouse)
        libraries = {name: Library(name, warehouse) for name in LIBRARIES}
        try:
            for library in libraries.values():
                library.run("whole")  # not counted: it imports what is imported late
            print(f"| clock s / cores s, best of {times} | {' | '.join(libraries)} |\n|---|{'---|' * len(libraries)}")
            for case in cases:
                found = in_turn(libraries, case, times)
                rows = {run["rows"] for runs in found.values() for run in runs if run.get("rows") is not None}
                if len(rows) > 1:
                    sys.exit(f"{case}: the numbers of rows differ: {rows}")
                print(f"| {case} | {' | '.join(map(cell, found.values()))} |", flush=True)
        finally:
            for library in libraries.values():
                library.close()


if __name__ == "__main__":
    main()
