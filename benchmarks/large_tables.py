"""Commits, overwrites, expiry, orphan removal and plans of many files: CPU seconds, seconds and memory, by size.

`python benchmarks/large_tables.py` measures each step at three sizes, a process for each, without Spark, over tables of
small files on a local disk; `--step`, `--size` measure one (such as `--step orphans --size 2000000`). Linear is when
the last column, microseconds of CPU a file, does not grow. The process needs 90 MB before it begins.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.predicate import Leaf
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import fake_file, make_table, message

FILES_A_PARTITION = 10
_FILES_A_COMMIT = 20_000
Step = Callable[[], object]


def _messages(table: FileStoreTable, files: int, each: int, name: str) -> list[object]:
    """``files`` new files, ``each`` in every partition."""
    return [
        message(table, *(fake_file(f"data-{name}-{at}-{i}.parquet") for i in range(each)), partition=f"p{at}")
        for at in range(files // each)
    ]


def _partitioned(path: Path, files: int, each: int = FILES_A_PARTITION) -> FileStoreTable:
    """A table of so many files, of commits of at most 20,000."""
    table = make_table(path, partition=["dt"], bucket="-1", **{"write_only": "true"})
    messages = _messages(table, files, each, "base")
    step = max(1, _FILES_A_COMMIT // each)
    for at in range(0, len(messages), step):
        commit(table, messages[at : at + step])
    return load_table(str(path))


def one_commit(path: Path, size: int) -> Step:
    """``size`` new files in one commit, ten in each partition."""
    table = make_table(path, partition=["dt"], bucket="-1", **{"write_only": "true"})
    return partial(commit, table, _messages(table, size, FILES_A_PARTITION, "new"))


def next_commit(path: Path, size: int) -> Step:
    """One new file in a table of ``size`` files."""
    table = _partitioned(path, size)
    return partial(commit, table, _messages(table, 1, 1, "next"))


def overwrite(path: Path, size: int) -> Step:
    """All partitions of a table of ``size`` files, ten in each, are replaced by one new file each."""
    table = _partitioned(path, size)
    new = _messages(table, size // FILES_A_PARTITION, 1, "new")
    return partial(commit, table, new, overwrite=OverwriteSpec.dynamic())


def expiry(path: Path, size: int) -> Step:
    """``size`` snapshots expire, each of which replaced the ten files of the one before."""
    table = make_table(path, bucket="-1", **{"write_only": "true"})
    folder = path / "bucket-0"
    folder.mkdir()
    for snapshot in range(size + 1):
        files = [fake_file(f"data-{snapshot}-{i}.parquet") for i in range(FILES_A_PARTITION)]
        for file in files:
            (folder / file.file_name).write_bytes(b"rows")
        commit(table, [message(table, *files)], overwrite=OverwriteSpec.static())
    return partial(expire_snapshots, table, retain_latest_only())


def orphans(path: Path, size: int) -> Step:
    """A hundredth of ``size`` files on disk, 1,000 in each partition, belong to no snapshot."""
    each = 1000
    table = _partitioned(path, size, each)
    for at in range(size // each):
        folder = path / f"dt=p{at}" / "bucket-0"
        folder.mkdir(parents=True)
        for i in range(each):
            (folder / f"data-base-{at}-{i}.parquet").touch()
        for i in range(each // 100):
            (folder / f"data-lost-{at}-{i}.parquet").touch()
    later = datetime.now(UTC) + timedelta(seconds=1)
    time.sleep(1.5)
    return partial(remove_orphan_files, table, older_than=later.astimezone())


def one_partition(path: Path, size: int) -> Step:
    """Plan the read of one of ``size`` partitions of a file each."""
    table = _partitioned(path, size, 1)
    return lambda: TableScan.of(table, ROWS).select(predicate=Leaf("eq", "dt", ("p7",))).plan()


def one_bucket(path: Path, size: int) -> Step:
    """Plan the read of one key in a table of ``size`` buckets of a file each."""
    table = make_table(path, primary_key=["k"], bucket=str(size), **{"write_only": "true"})
    commit(table, [message(table, fake_file(f"data-{at}.parquet"), bucket=at) for at in range(size)])
    table = load_table(str(path))
    return lambda: TableScan.of(table, ROWS).select(predicate=Leaf("eq", "k", (0,))).plan()


STEPS: dict[str, tuple[Callable[[Path, int], Step], tuple[int, ...]]] = {
    "one commit": (one_commit, (10_000, 100_000, 400_000)),
    "next commit": (next_commit, (10_000, 100_000, 400_000)),
    "overwrite": (overwrite, (10_000, 100_000, 400_000)),
    "expiry": (expiry, (1_000, 3_000, 10_000)),
    "orphans": (orphans, (20_000, 200_000, 2_000_000)),
    "one partition": (one_partition, (10_000, 100_000, 400_000)),
    "one bucket": (one_bucket, (1_000, 10_000, 40_000)),
}


def measure(step: str, size: int) -> None:
    """One row of the table of results."""
    with tempfile.TemporaryDirectory() as folder:
        STEPS[step][0](Path(folder) / "warm_up", 1000 if step == "orphans" else 10)()
        run = STEPS[step][0](Path(folder) / "t", size)
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts anew
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        status = Path("/proc/self/status").read_text()
        peak = next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM"))
        print(f"| {step} | {size:,} | {cpu:.2f} | {wall:.2f} | {peak} | {cpu / size * 1e6:.0f} |", flush=True)


def main() -> None:
    """Print the table, or one row of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--size", type=int)
    given = parser.parse_args()
    if given.step and given.size:
        measure(given.step, given.size)
        return
    print("| step | size | CPU s | s | peak MB | µs of CPU each |\n|---|---|---|---|---|---|", flush=True)
    for step, (_, sizes) in STEPS.items():
        for size in sizes:
            if given.step in (None, step):
                subprocess.run([sys.executable, __file__, "--step", step, "--size", str(size)], check=True)


if __name__ == "__main__":
    main()
