"""Full compaction of the key tables (2 M base rows, 3 times 200 k updates) against reading them and writing Parquet.

The yardstick does with Spark what a compaction must do: every row is read and merged, and written once, compressed by
zstd. The official connector 0.9.0 compacts the same tables in an environment of its own (`--official`).
"""

from __future__ import annotations

import os
import shutil
import sys
from itertools import count
from pathlib import Path

import official_connector
from common import KEY_TABLES, Ratio, in_turn, make_key_table, scratch, spark_session

from paimon_spark import PaimonTable

LIMIT = 0.7
COPIES = 4


def linked(path: str, target: Path) -> str:
    """A copy of a table, quickly: no data file is ever changed in place."""

    def copy(source: str, to: str) -> None:
        (os.link if Path(source).name.startswith("data-") else shutil.copyfile)(source, to)

    shutil.copytree(path, target, copy_function=copy)
    return str(target)


def run() -> list[tuple[Ratio, float]]:
    """Measure every key table; every run compacts a new copy."""
    spark = spark_session()
    root = Path(scratch("compact"))
    number = count()
    results: list[tuple[Ratio, float]] = []
    for name, options in KEY_TABLES.items():
        path = scratch(name.replace(" ", "_"))
        if not Path(path).exists():
            make_key_table(spark, path, options)
        copies = [linked(path, root / f"t{next(number)}") for _ in range(COPIES)]
        left = iter(copies)

        def ours(left=left) -> None:
            assert PaimonTable.for_path(spark, next(left)).compact() is not None

        def read_and_write(path: str = path) -> None:
            target = root / f"q{next(number)}"
            merged = spark.read.format("paimon").load(path)
            merged.write.option("compression", "zstd").parquet(str(target))
            shutil.rmtree(target)

        ratio = in_turn(f"full compaction {name} ÷ read merged, write Parquet", ours, read_and_write, COPIES - 1)
        results.append((ratio, LIMIT))
        for copy in copies:
            shutil.rmtree(copy)
    return results


def official() -> None:
    """Seconds of `CALL sys.compact` by the official connector; a JVM of its own, so no ratio is taken."""
    warehouse = Path(scratch("official"))
    names = []
    for name in (key.replace(" ", "_") for key in KEY_TABLES):
        names.append(name.replace("-", "_"))
        for turn in range(COPIES):
            linked(scratch(name), warehouse / "db.db" / f"{names[-1]}{turn}")
    seconds = official_connector.compact_seconds(str(warehouse), names, COPIES)
    shutil.rmtree(warehouse)
    print("the official connector did not compact" if seconds is None else seconds)


if __name__ == "__main__":
    for ratio, limit in run():
        print(ratio.line(limit))
    if "--official" in sys.argv:
        official()
