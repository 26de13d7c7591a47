"""What every benchmark shares: a quiet local session, the data sets, and timing of two things in turn.

The machine is noisy, so nothing here prints a bare time as a result: each figure is a ratio of two bests taken in turn
(A B A B …) in one run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession

import paimon_spark

ROWS_APPEND = 5_000_000
ROWS_BASE = 2_000_000
ROWS_UPDATE = 200_000
BUCKETS = 4


def spark_session(cores: int = 2) -> SparkSession:
    """A local session with `cores` task slots and little noise."""
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("paimon-spark-benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    paimon_spark.register(spark)
    return spark


@dataclass(frozen=True)
class Ratio:
    """Best seconds of a measured thing and of its yardstick, taken in turn."""

    name: str
    seconds: float
    yardstick_seconds: float

    @property
    def value(self) -> float:
        """How many times the yardstick's time the measured thing takes."""
        return self.seconds / self.yardstick_seconds

    def line(self, limit: float | None = None) -> str:
        """One Markdown table row."""
        bound = "" if limit is None else f"{limit:g}"
        return f"| {self.name} | {self.seconds:.2f} | {self.yardstick_seconds:.2f} | **{self.value:.2f}** | {bound} |"


def in_turn(name: str, measured: Callable[[], object], yardstick: Callable[[], object], repeat: int = 8) -> Ratio:
    """Run both once for warm-up, then `repeat` times in turn, and keep the best of each."""
    best = [float("inf"), float("inf")]
    for turn in range(repeat + 1):
        for which, run in enumerate((measured, yardstick)):
            start = time.perf_counter()
            run()
            seconds = time.perf_counter() - start
            if turn:
                best[which] = min(best[which], seconds)
    return Ratio(name, best[0], best[1])


def noop(df: DataFrame) -> None:
    """Compute every row and column of `df` and throw it away."""
    df.write.format("noop").mode("overwrite").save()


def append_rows(spark: SparkSession, rows: int = ROWS_APPEND, partitions: int = 4) -> DataFrame:
    """`rows` rows of 8 columns: three integers, a double, two strings of many values, a timestamp, a boolean."""
    return spark.range(0, rows, 1, partitions).selectExpr(
        "id",
        "cast(rand(1) * 1000000 as int) k",
        "cast(rand(2) * 1e12 as bigint) x",
        "rand(3) price",
        "concat('name_', id) name",
        "substr(md5(cast(id as string)), 1, 12) code",
        "timestamp_ntz'2024-01-01' + make_dt_interval(0, 0, 0, rand(4) * 86400) ts",
        "id % 3 = 0 flag",
    )


def key_rows(spark: SparkSession, which: int, rows: int, partitions: int = 4) -> DataFrame:
    """Base rows (`which` 0: every key once) or an update batch (1-3: spread keys, half of the columns null)."""
    ids = spark.range(0, rows, 1, partitions)
    if which == 0:
        key, blank_left, blank_right = "id", "id < 0", "id < 0"
    else:
        key = f"(id * {ROWS_BASE // ROWS_UPDATE} + {which * 3})"
        blank_left, blank_right = f"(id + {which}) % 2 = 0", f"(id + {which}) % 2 = 1"
    return ids.selectExpr(
        f"{key} id",
        f"if({blank_left}, null, cast({which + 1} as bigint)) g1",
        f"if({blank_left}, null, {key} / 3.0D) a",
        f"if({blank_left}, null, concat('left-', cast({key} % 5000 as string))) b",
        f"if({blank_right}, null, cast({which + 1} as bigint)) g2",
        f"if({blank_right}, null, {key} * 0.5D) c",
        f"if({blank_right}, null, cast({key} % 100000 as int)) d",
        f"if({blank_right}, null, concat('right-', cast({key} % 700 as string))) e",
    )


KEY_TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        **{f"fields.{name}.aggregate-function": "sum" for name in ("a", "c", "d")},
        **{f"fields.{name}.aggregate-function": "max" for name in ("g1", "g2")},
    },
    "sequence groups": {
        "merge-engine": "partial-update",
        "fields.g1.sequence-group": "a,b",
        "fields.g2.sequence-group": "c,d,e",
    },
}


def make_key_table(spark: SparkSession, path: str, options: dict[str, str]) -> None:
    """2 M base rows and three updates of 200 k rows in 4 buckets, one file per bucket and commit."""
    table_options = {"primary-key": "id", "bucket": str(BUCKETS), **options}
    for which in range(4):
        rows = ROWS_BASE if which == 0 else ROWS_UPDATE
        df = key_rows(spark, which, rows, partitions=1)
        df.write.format("paimon").mode("append").options(**table_options).save(path)


def data_files(path: str) -> list[str]:
    """All Parquet data files below a table (tables here are never compacted, so all of them live)."""
    return sorted(str(f) for f in Path(path).rglob("bucket-*/data-*.parquet"))


def scratch(name: str) -> str:
    """A folder for this run's tables: `$PAIMON_BENCH_DIR` (kept between runs) or a fresh temporary one."""
    root = os.environ.get("PAIMON_BENCH_DIR")
    if root is None:
        return str(Path(tempfile.mkdtemp(prefix="paimon-bench-")) / name)
    Path(root).mkdir(parents=True, exist_ok=True)
    return str(Path(root) / name)
