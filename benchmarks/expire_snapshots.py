"""Expiring 1,000 snapshots of a table with 20,000 files ÷ listing and deleting those same files plainly.

Run: `python benchmarks/expire_snapshots.py [snapshots] [files in each]`. Each snapshot replaces all files of the one
before. Plainly is `os.scandir` and `os.unlink` of a loop in one thread (ours deletes in as many as there are cores, at
most four). CPU and wall seconds of one process, bests of runs taken in turn on copies of one table.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.table.table import load_table
from tests.support.commits import fake_file, make_table, message

REPEAT = 6


def make(path: Path, snapshots: int, files: int) -> None:
    """Write the table; the data files hold nothing that matters."""
    table = make_table(path, bucket="-1")
    (path / "bucket-0").mkdir()
    for _ in range(snapshots + 1):
        metas = [fake_file(f"data-{uuid.uuid4()}-{number}.parquet") for number in range(files)]
        for meta in metas:
            (path / "bucket-0" / meta.file_name).write_bytes(b"rows")
        commit(table, [message(table, *metas)], overwrite=OverwriteSpec.static())


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


def delete_plainly(root: Path, kept: set[str]) -> None:
    """List the table's directories and delete all but some files."""
    for directory in ("bucket-0", "manifest", "snapshot"):
        with os.scandir(root / directory) as entries:
            for entry in entries:
                if entry.name not in kept and entry.is_file():
                    os.unlink(entry.path)


def main() -> None:
    """Make the table, run both in turn, print two rows."""
    snapshots, files = (int(argument) for argument in (sys.argv[1:] or ("1000", "20")))
    best = [(float("inf"), float("inf"))] * 2
    kept: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make(root / "made", snapshots, files)
        for turn in range(REPEAT + 1):
            for which in (0, 1):
                copy = root / f"copy-{turn}-{which}"
                shutil.copytree(root / "made", copy)
                table = load_table(str(copy))
                if which == 0:
                    taken = seconds(partial(expire_snapshots, table, retain_latest_only()))
                    kept = {path.name for path in copy.rglob("*") if path.is_file()}
                else:
                    taken = seconds(partial(delete_plainly, copy, kept))
                if turn:
                    best[which] = (min(best[which][0], taken[0]), min(best[which][1], taken[1]))
                shutil.rmtree(copy)
    name = f"expire {snapshots} snapshots, {snapshots * files} data files ÷ listing and deleting them"
    for clock, ours, plain in zip(("CPU", "wall"), *best, strict=True):
        print(f"| {name} ({clock}) | {ours:.2f} | {plain:.2f} | **{ours / plain:.2f}** | 2 |")


if __name__ == "__main__":
    main()
