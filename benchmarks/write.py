"""Writing append rows, and key rows into dynamic and into fixed buckets, against `df.write.parquet` (zstd)."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

from common import BUCKETS, ROWS_APPEND, ROWS_BASE, Ratio, append_rows, in_turn, key_rows, scratch, spark_session


def run() -> list[tuple[Ratio, float]]:
    """Measure both kinds; every run writes a new table and removes it."""
    spark = spark_session()
    root = Path(scratch("write"))
    number = count()
    results: list[tuple[Ratio, float]] = []
    cases = [
        ("append write", append_rows(spark), {}, 1.6),
        ("bulk load of 5 M rows into a default table", key_rows(spark, 0, ROWS_APPEND), {"primary-key": "id"}, 2.2),
        ("primary-key write", key_rows(spark, 0, ROWS_BASE), {"primary-key": "id", "bucket": str(BUCKETS)}, 2.2),
    ]
    for name, rows, options, limit in cases:
        rows = rows.cache()
        rows.count()

        def ours(rows=rows, options=options) -> None:
            path = root / f"p{next(number)}"
            rows.write.format("paimon").mode("append").options(**options).save(str(path))
            shutil.rmtree(path)

        def parquet(rows=rows) -> None:
            path = root / f"q{next(number)}"
            rows.write.option("compression", "zstd").parquet(str(path))
            shutil.rmtree(path)

        results.append((in_turn(f"{name} ÷ df.write.parquet (zstd)", ours, parquet, repeat=3), limit))
        rows.unpersist()
    return results


if __name__ == "__main__":
    for ratio, limit in run():
        print(ratio.line(limit))
