"""`open_table` alongside pypaimon and pypaimon-rust, without Spark: `python benchmarks/arrow_peers.py [times]`.

All three read the same tables, which `open_table` wrote, and write to tables of their own, each in its own process,
one after the other: the best of several runs each. Peers run in the environments that
`tests/peers/make_environments.py` makes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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
PEERS = ("pypaimon", "pypaimon-rust")


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


def make_tables(warehouse: str) -> pa.Table:
    """Make the tables that are read and written; give the rows that are written."""
    written = rows_of(ROWS_OF_COMMIT, 9)
    for name, rows, keys in (
        ("append", [rows_of(ROWS, 1)], None),
        ("wide", [rows_of(ROWS // 10, 2, WIDE_COLUMNS)], None),
        ("keyed", [rows_of(ROWS_OF_COMMIT, seed) for seed in range(COMMITS)], "id"),
        *(
            (f"to_{deed}{peer}", [], "id" if deed == "upsert" else None)
            for deed in ("append", "upsert")
            for peer in ("", "_ours")
        ),
    ):
        schema = (rows or [written])[0].schema
        options: dict[str, Any] = {"bucket": 1, "write_only": "true"} if keys else {}
        more = {"primary_keys": keys} if keys else {}
        table = paimon_spark.create_table(f"{warehouse}/db.db/{name}", schema, **more, **options)
        for part in rows:
            table.append(part)
    with pa.OSFile(f"{warehouse}/rows.arrow", "wb") as sink, pa.ipc.new_file(sink, written.schema) as writer:
        writer.write_table(written)
    return written


def best(run: Callable[[], Any], times: int) -> float:
    """Return the shortest time of several runs, in seconds."""
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def ours(warehouse: str, written: pa.Table, times: int) -> dict[str, float]:
    """Time the cases with `open_table`."""

    def table(name: str) -> Any:
        return paimon_spark.open_table(f"{warehouse}/db.db/{name}")

    cases: dict[str, Callable[[], Any]] = {
        "whole": lambda: table("append").scan().to_arrow(),
        "projected": lambda: table("append").scan(columns=["id", "name"]).to_arrow(),
        "filtered": lambda: table("append").scan(where="id > 900000").to_arrow(),
        "wide": lambda: table("wide").scan().to_arrow(),
        "merged": lambda: table("keyed").scan().to_arrow(),
        "append": lambda: table("to_append_ours").append(written),
        "upsert": lambda: table("to_upsert_ours").append(written),
    }
    return {case: best(run, times) for case, run in cases.items()}


def main() -> None:
    """Print a table of seconds."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as warehouse:
        written = make_tables(warehouse)
        found: dict[str, dict[str, Any]] = {"open_table": ours(warehouse, written, times)}
        for peer in PEERS:
            program = Path(__file__).with_name("arrow_peer_program.py")
            command = [str(make_environments.ensure(peer)), str(program), peer, warehouse, str(times)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[peer] = json.loads(done.stdout.splitlines()[-1])
    print(f"| seconds, best of {times} | {' | '.join(found)} |\n|---|{'---|' * len(found)}")
    for case in found["open_table"]:
        cells = [value if isinstance(value, str) else f"{value:.3f}" for value in (by[case] for by in found.values())]
        print(f"| {case} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
