"""CPU seconds and memory to plan reads of a table of many data files, one process per measurement.

Budgets: 20,000 files in 1 s and 300 MB, 200,000 files (`--files 200000`) in 4 s and 400 MB.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.predicate import And, Leaf, Predicate
from paimon_spark.table.table import load_table
from tests.support.synthetic import FIRST_DAY, metadata_table

PREDICATES: dict[str, Predicate | None] = {
    "no filter": None,
    "one partition": Leaf("eq", "dt", (FIRST_DAY + timedelta(days=9),)),
    "value range": And((Leaf("gt", "n", (1_000_000,)), Leaf("lt", "name", ("name001500000",)))),
    "one key": Leaf("eq", "id", (12_345,)),
}


def measure(path: str, name: str) -> None:
    """Plan one read and print CPU seconds, the plan's size and the peak memory of this process."""
    warm_up()
    table = load_table(path)
    start = time.process_time()
    plan = TableScan.of(table, ROWS).select(predicate=PREDICATES[name]).plan()
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    files = sum(len(split.files) for split in plan.splits)
    print(
        f"{Path(path).name:7} {name:14} {seconds:6.3f} s CPU, peak {peak} MB, {files} files in {len(plan.splits)} "
        f"splits of {len(pickle.dumps(plan.splits)) // max(1, files)} bytes a file"
    )


def main() -> None:
    """Print one line per kind of table and predicate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--manifests", type=int, default=400)
    parser.add_argument("--measure", nargs=2, metavar=("PATH", "PREDICATE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        for primary_key in (False, True):
            root = Path(folder) / ("keys" if primary_key else "append")
            each = given.files // given.manifests
            metadata_table(root, manifests=given.manifests, files=each, primary_key=primary_key, manifests_per_day=4)
            for name in PREDICATES:
                subprocess.run([sys.executable, __file__, "--measure", str(root), name], check=True)


def warm_up() -> None:
    """Import everything that a first plan imports."""
    with tempfile.TemporaryDirectory() as folder:
        table = metadata_table(Path(folder) / "t", manifests=2, files=2, primary_key=True)
        TableScan.of(table, ROWS).select(predicate=Leaf("eq", "id", (1,))).plan()


if __name__ == "__main__":
    main()
