"""Measures ``t$files`` of a table with many files: seconds and peak memory, one process per measurement.

Metadata only: the data files do not exist, since a system table opens none.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

TABLES = ("files", "file_key_ranges", "partitions", "buckets", "manifests")


def measure(path: str, name: str) -> None:
    """Read one system table and print rows, wall and CPU seconds, and the peak memory of this process."""
    from paimon_spark.table.system.registry import SYSTEM_TABLES
    from paimon_spark.table.table import load_table

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    start, cpu = time.perf_counter(), time.process_time()
    rows = SYSTEM_TABLES[name].read(load_table(path))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"${name}: {rows.num_rows} rows in {seconds:.2f} s, {cpu:.2f} CPU s; "
        f"peak of the process {peak} MB, of which {before} MB before"
    )


def main() -> None:
    """Make the table, or measure one system table of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--manifests", type=int, default=200)
    parser.add_argument("--measure", nargs=2, metavar=("PATH", "TABLE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure)
        return
    from tests.support.synthetic import metadata_table

    with tempfile.TemporaryDirectory() as directory:
        for primary_key in (False, True):
            path = Path(directory) / ("keys" if primary_key else "append")
            path.mkdir()
            metadata_table(
                path, manifests=given.manifests, files=given.files // given.manifests, primary_key=primary_key
            )
            print("primary-key table" if primary_key else "append table", flush=True)
            for name in TABLES:
                subprocess.run([sys.executable, __file__, "--measure", str(path), name], check=True)


if __name__ == "__main__":
    main()
