"""Expiring 1,000 snapshots of a table with 20,000 files ÷ listing and deleting those same files plainly.

Run: `python benchmarks/expire_snapshots.py [snapshots] [files in each]`. Each snapshot replaces all files of the one
before. Both sides are CPU seconds of one process, bests of runs taken in turn on copies of one table.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.maintain.expire_snapshots import everything_but_the_latest, expire_snapshots
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import fake_file, make_table, message

REPEAT = 3


def make(path: Path, snapshots: int, files: int) -> None:
    """Write the table; the data files hold nothing that matters."""
    table = make_table(path, bucket="-1")
    (path / "bucket-0").mkdir()
    for _ in range(snapshots + 1):
        metas = [fake_file(f"data-{uuid.uuid4()}-{number}.parquet") for number in range(files)]
        for meta in metas:
            (path / "bucket-0" / meta.file_name).write_bytes(b"rows")
        commit(table, [message(table, *metas)], overwrite=OverwriteSpec.static())


def expire(table: FileStoreTable) -> float:
    """CPU seconds of expiring all but the latest snapshot."""
    start = time.process_time()
    expire_snapshots(table, everything_but_the_latest())
    return time.process_time() - start


def delete_plainly(table: FileStoreTable, kept: set[str]) -> float:
    """CPU seconds of listing the table's directories and deleting all but some files."""
    start = time.process_time()
    io = table.file_io
    for directory in ("bucket-0", "manifest", "snapshot"):
        for status in io.list_names(f"{table.path}/{directory}"):
            if status.name not in kept:
                io.delete_quietly(f"{table.path}/{directory}/{status.name}")
    return time.process_time() - start


def main() -> None:
    """Make the table, run both in turn, print one row."""
    snapshots, files = (int(argument) for argument in (sys.argv[1:] or ("1000", "20")))
    best = [float("inf"), float("inf")]
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make(root / "made", snapshots, files)
        for turn in range(REPEAT + 1):
            for which in (0, 1):
                copy = root / f"copy-{turn}-{which}"
                shutil.copytree(root / "made", copy)
                table = load_table(str(copy))
                if which == 0:
                    seconds = expire(table)
                    kept = {path.name for path in copy.rglob("*") if path.is_file()}
                else:
                    seconds = delete_plainly(table, kept)
                if turn:
                    best[which] = min(best[which], seconds)
                shutil.rmtree(copy)
    name = f"expire {snapshots} snapshots, {snapshots * files} data files ÷ listing and deleting them (CPU)"
    print(f"| {name} | {best[0]:.2f} | {best[1]:.2f} | **{best[0] / best[1]:.2f}** | 2 |")


if __name__ == "__main__":
    main()
