"""Changelogs: what they add to a write and to a full compaction, in CPU seconds of one process, without a session.

The tables are those of `merge_on_read.py`: 2 M base rows at the top level, then updates of 200 k rows, half of their
columns null, in 4 buckets.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches

BASE, UPDATE = 2_000_000, 200_000
LIMITS = {"input": 2.0, "full-compaction": 1.5}
COLUMNS = {
    **{"id": "BIGINT NOT NULL", "g1": "BIGINT", "a": "DOUBLE", "b": "STRING"},
    **{"g2": "BIGINT", "c": "DOUBLE", "d": "INT", "e": "STRING"},
}
ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "sequence groups": {
        "merge-engine": "partial-update",
        "fields.g1.sequence-group": "a,b",
        "fields.g2.sequence-group": "c,d,e",
    },
}


def rows(which: int) -> pa.Table:
    """Base rows (0: every key once) or an update (1 to 3)."""
    count = BASE if which == 0 else UPDATE
    ids = np.arange(count, dtype=np.int64)
    keys = ids if which == 0 else (ids * (BASE // UPDATE) + which * 3) % BASE
    halves = [np.zeros(count, bool)] * 2 if which == 0 else [(ids + which) % 2 == half for half in (0, 1)]

    def masked(values: np.ndarray, half: int) -> pa.Array:
        return pa.array(values, mask=halves[half])

    def text(prefix: str, numbers: np.ndarray, half: int) -> pa.Array:
        return pc.binary_join_element_wise(prefix, masked(numbers, half).cast(pa.string()), "")

    return pa.table(
        {
            "id": keys,
            "g1": masked(np.full(count, which + 1), 0),
            "a": masked(keys / 3.0, 0),
            "b": text("left-", keys % 5000, 0),
            "g2": masked(np.full(count, which + 1), 1),
            "c": masked(keys * 0.5, 1),
            "d": masked((keys % 100_000).astype(np.int32), 1),
            "e": text("right-", keys % 700, 1),
        }
    )


def make(path: Path, options: dict[str, str]) -> FileStoreTable:
    """An empty table of 4 buckets."""
    fields = [DataField(number, name, parse_type(kind)) for number, (name, kind) in enumerate(COLUMNS.items())]
    return create_table(str(path), create_schema(fields, ("id",), (), {"bucket": "4", **options}, None))


def write(table: FileStoreTable, data: pa.Table) -> None:
    """One commit of one task."""
    plan = plan_write(table, data_schema=data.schema, shuffled=True)
    commit(table, [write_batches(plan, data.to_batches(max_chunksize=65_536), 0)])


def cpu_seconds(run: Callable[[], object]) -> float:
    """CPU time of this process, all threads."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measure(
    prepare: Callable[[], Callable[[], object]], other: Callable[[], Callable[[], object]]
) -> tuple[float, float]:
    """The best of five runs of each, taken in turn."""
    best = [float("inf")] * 2
    for _ in range(5):
        for which, make_run in enumerate((prepare, other)):
            best[which] = min(best[which], cpu_seconds(make_run()))
    return best[0], best[1]


def main() -> None:
    """Print a Markdown table."""
    root = Path(tempfile.mkdtemp(prefix="paimon-bench-"))
    print("| measured (CPU seconds) | with | without | ratio | at most |\n|---|---|---|---|---|")
    updates = [rows(which) for which in (1, 2, 3)]
    number = 0

    def writing(options: dict[str, str]) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            nonlocal number
            number += 1
            table = make(root / f"w{number}", options)
            return lambda: write(table, updates[0])

        return prepare

    line("`input`: write of 200 k rows", measure(writing({"changelog-producer": "input"}), writing({})), "input")
    for name, options in ENGINES.items():
        base = make(root / "base", options)
        write(base, rows(0))
        compact(base)
        for update in updates:
            write(base, update)

        def compacting(extra: dict[str, str], base: FileStoreTable = base) -> Callable[[], Callable[[], object]]:
            def prepare() -> Callable[[], object]:
                copy = root / "copy"
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(base.path, copy)
                table = load_table(str(copy), options=extra)
                return lambda: compact(table)

            return prepare

        full = {"changelog-producer": "full-compaction"}
        line(
            f"`full-compaction`: full compaction of 2 M rows and 3 x 200 k updates, {name}",
            measure(compacting(full), compacting({})),
            "full-compaction",
        )
        shutil.rmtree(base.path)
    shutil.rmtree(root)


def line(name: str, seconds: tuple[float, float], limit: str) -> None:
    """Print one row of the table."""
    print(f"| {name} | {seconds[0]:.2f} | {seconds[1]:.2f} | **{seconds[0] / seconds[1]:.2f}** | {LIMITS[limit]:g} |")


if __name__ == "__main__":
    main()
