"""Merge-on-read of 2 M base rows and 3 times 200 k updates against `spark.read.parquet` and pypaimon's pure reader.

pypaimon runs in its own environment (`python tests/peers/make_environments.py`), all columns into Arrow; it is measured
once per table after ours, since it takes minutes where ours takes seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from common import KEY_TABLES, Ratio, data_files, in_turn, make_key_table, noop, scratch, spark_session

from paimon_spark import PaimonTable

LIMITS = {
    "deduplicate": 1.2,
    "partial-update": 1.5,
    "sequence groups": 2.5,
    "aggregation": 1.6,
    "first-row": 1.1,
}
COMPACTED = {"first-row": {"merge-engine": "first-row"}}
"""Tables of which a read does not see level 0: they are compacted first."""
PYPAIMON = Path(__file__).parent.parent / ".venvs" / "pypaimon" / "bin" / "python"
PYPAIMON_READ = """
import json, sys, time
from pypaimon.table.file_store_table import FileStoreTable
table = FileStoreTable.from_path(sys.argv[1])
builder = table.new_read_builder()
start = time.perf_counter()
splits = builder.new_scan().plan().splits()
rows = builder.new_read().to_arrow(splits).num_rows
print(json.dumps({"seconds": time.perf_counter() - start, "rows": rows}))
"""


def pypaimon_seconds(path: str) -> float | None:
    """Seconds that pypaimon's pure reader takes for the whole table, or None where it refuses the table."""
    if not PYPAIMON.exists():
        raise SystemExit(f"no pypaimon environment at {PYPAIMON}: run `python tests/peers/make_environments.py`")
    done = subprocess.run([str(PYPAIMON), "-c", PYPAIMON_READ, path], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"pypaimon refuses {Path(path).name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return float(json.loads(done.stdout.strip().splitlines()[-1])["seconds"])


def run(*, with_pypaimon: bool = True) -> list[tuple[Ratio, float]]:
    """Measure every key table; pypaimon's row is ours ÷ theirs, to be at most 1/15."""
    spark = spark_session()
    results: list[tuple[Ratio, float]] = []
    for name, options in {**KEY_TABLES, **COMPACTED}.items():
        path = scratch(name.replace(" ", "_"))
        if not Path(path).exists():
            make_key_table(spark, path, options)
            if name in COMPACTED:
                PaimonTable.for_path(spark, path).compact()
        live = {row.file_path.rsplit("/", 1)[-1] for row in PaimonTable.for_path(spark, path).files().collect()}
        files = [file for file in data_files(path) if Path(file).name in live]

        def ours(path: str = path) -> None:
            noop(spark.read.format("paimon").load(path))

        def parquet(files: list[str] = files) -> None:
            noop(spark.read.parquet(*files))

        ratio = in_turn(f"merge-on-read {name} ÷ spark.read.parquet", ours, parquet)
        results.append((ratio, LIMITS[name]))
        if with_pypaimon and (seconds := pypaimon_seconds(path)) is not None:
            results.append((Ratio(f"merge-on-read {name} ÷ pypaimon", ratio.seconds, seconds), 1 / 15))
    return results


if __name__ == "__main__":
    for ratio, limit in run(with_pypaimon="--no-pypaimon" not in sys.argv):
        print(ratio.line(limit))
