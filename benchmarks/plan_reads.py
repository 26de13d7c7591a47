"""CPU seconds and memory to plan reads of a table of 20,000 data files in 400 manifests (budget: 1 s, 300 MB)."""

from __future__ import annotations

import pickle
import resource
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paimon_spark.read.plan import plan_read
from paimon_spark.spec.predicate import And, Leaf, Predicate
from paimon_spark.table.table import load_table
from tests.support.synthetic import FIRST_DAY, metadata_table


def main() -> None:
    """Print one line per kind of table and predicate."""
    predicates: dict[str, Predicate | None] = {
        "no filter": None,
        "one partition": Leaf("eq", "dt", (FIRST_DAY + timedelta(days=9),)),
        "value range": And((Leaf("gt", "n", (1_000_000,)), Leaf("lt", "name", ("name001500000",)))),
        "one key": Leaf("eq", "id", (12_345,)),
    }
    plan_read_warm_up()
    for primary_key in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "t"
            metadata_table(root, manifests=400, files=50, primary_key=primary_key, manifests_per_day=4)
            table = load_table(str(root))
            for name, predicate in predicates.items():
                start = time.process_time()
                plan = plan_read(table, predicate=predicate)
                seconds = time.process_time() - start
                files = sum(len(split.files) for split in plan.splits)
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(
                    f"{'primary key' if primary_key else 'append':12} {name:14} {seconds:6.3f} s CPU, {files} files in "
                    f"{len(plan.splits)} splits of {len(pickle.dumps(plan.splits)) // max(1, files)} bytes a file, "
                    f"peak {peak} MB"
                )


def plan_read_warm_up() -> None:
    """Import everything that a first plan imports."""
    with tempfile.TemporaryDirectory() as folder:
        table = metadata_table(Path(folder) / "t", manifests=2, files=2, primary_key=True)
        plan_read(table, predicate=Leaf("eq", "id", (1,)))


if __name__ == "__main__":
    main()
