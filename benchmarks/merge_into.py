"""MERGE INTO against Delta Lake on the same Spark, in the shape of Delta's own merge benchmark; and a merge by keys.

`python -m benchmarks.merge_into delta` merges into 2 M rows of 8 columns in 40 files: an upsert whose source meets 5 %
or 50 % of the files (a tenth of their rows, and as many new ones as 1 % of the table), a delete, and new rows only.
Delta Lake is taken from Maven where there is a release for the Spark that runs this (4.0: delta-spark 4.0.1). Where
there is none, the yardstick is a full outer join of DataFrames that is written as Parquet.

`python -m benchmarks.merge_into keys` merges 1 M rows into 10 M rows by the primary key (apache/paimon#6669); the
yardstick is an append of the same rows to the same table.

Seconds of the clock, and CPU seconds of all processes; each statement runs on a fresh copy, in turn with its yardstick.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from benchmarks.common import key_rows
from benchmarks.lookup_writes import cpu_of_tree

ROWS, FILES = 2_000_000, 40
TARGET_ROWS, SOURCE_ROWS = 10_000_000, 1_000_000
REPEAT = int(os.environ.get("PAIMON_BENCH_REPEAT", "3"))
AT_MOST_DELTA, AT_MOST_KEYS = 1.0, 1.3
DELTA = {"4.0": ("delta-spark_2.13", "4.0.1")}
"""By the version of Spark: the artifact and its version."""
UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
SHAPES = {
    "upsert, 5 % of files": (0.05, 0.1, 0.01, UPSERT),
    "upsert, 50 % of files": (0.5, 0.1, 0.01, UPSERT),
    "delete, 5 % of files": (0.05, 0.1, 0.0, "WHEN MATCHED THEN DELETE"),
    "insert only": (0.05, 0.0, 0.05, "WHEN NOT MATCHED THEN INSERT *"),
}
"""Share of the files that are met, of their rows, of the table's rows that are new; the clauses."""
KINDS = {"append": {}, "deletion vectors": {"deletion-vectors.enabled": "true"}}
KEYED = {"primary-key": "id", "bucket": "4"}


def delta_jars() -> list[str]:
    """The jars of Delta Lake for this Spark; none where there is no release or no Maven."""
    found = DELTA.get(".".join(pyspark.__version__.split(".")[:2]))
    if found is None:
        return []
    folder = Path(tempfile.gettempdir()) / f"{found[0]}-{found[1]}"
    for name in (found[0], "delta-storage"):
        if not list(folder.glob(f"{name}*.jar")):
            copy = ["mvn", "-q", "dependency:copy", f"-Dartifact=io.delta:{name}:{found[1]}"]
            if subprocess.run([*copy, f"-DoutputDirectory={folder}"], check=False).returncode:
                return []
    return [str(jar) for jar in folder.glob("*.jar")]


def session(jars: list[str]) -> SparkSession:
    """A session of two cores that knows Paimon, and Delta Lake where there are jars."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "5g").config("spark.sql.shuffle.partitions", "4")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.session.timeZone", "UTC")
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        builder = builder.config("spark.sql.catalog.spark_catalog", catalog)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    paimon_spark.register_catalog(spark, "paimon", warehouse=tempfile.gettempdir())
    return spark


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and CPU seconds of this process and all below it."""
    clock, cpu = time.perf_counter(), cpu_of_tree()
    run()
    return time.perf_counter() - clock, cpu_of_tree() - cpu


def source_of(spark: SparkSession, met: float, rows: float, new: float) -> DataFrame:
    """The rows of the source: some of the first files, spread over them, and new ones."""
    ids = spark.range(int(ROWS * met)).where(f"pmod(hash(id), 1000) < {int(rows * 1000)}") if rows else spark.range(0)
    if new:
        ids = ids.union(spark.range(ROWS, ROWS + int(ROWS * new)))
    return columns_of(ids, "2")


def columns_of(ids: DataFrame, value: str) -> DataFrame:
    """Rows of the eight columns of `key_rows`."""
    return ids.selectExpr(
        "id", f"CAST({value} AS BIGINT) g1", "id / 3.0D a", "concat('left-', id % 5000) b",
        f"CAST({value} AS BIGINT) g2", "id * 0.5D c", "CAST(id % 100000 AS INT) d", "concat('right-', id % 700) e",
    )  # fmt: skip


class Contest:
    """Two tables with equal rows, of which each run gets a copy."""

    def __init__(self, spark: SparkSession, root: Path, repeat: int = REPEAT) -> None:
        self.spark = spark
        self.root = root
        self.repeat = repeat
        self.numbers = count()

    def copied(self, base: Path, run: Callable[[str], object]) -> tuple[float, float]:
        """What a run takes on a copy of a table, which is removed."""
        path = self.root / f"copy{next(self.numbers)}"
        shutil.copytree(base, path)
        try:
            return timed(lambda: run(str(path)))
        finally:
            shutil.rmtree(path)

    def in_turn(
        self, name: str, ours: tuple[Path, Callable[[str], object]], other: tuple[Path, Callable[[str], object]]
    ) -> str:
        """A line of the table: the bests of some runs in turn, after one that warms up."""
        best = [[float("inf")] * 2, [float("inf")] * 2]
        for turn in range(self.repeat + 1):
            for which, (base, run) in enumerate((ours, other)):
                taken = self.copied(base, run)
                if turn:
                    best[which] = [min(one, two) for one, two in zip(best[which], taken, strict=True)]
        (clock, cpu), (others_clock, others_cpu) = best
        return (
            f"| {name} | {clock:.2f} | {others_clock:.2f} | **{clock / others_clock:.2f}** "
            f"| {cpu:.2f} | {others_cpu:.2f} | **{cpu / others_cpu:.2f}** |"
        )


def made(base: Path, save: Callable[[str], object]) -> Path:
    """A table that is written once."""
    save(str(base))
    return base


def against_delta(spark: SparkSession, root: Path, jars: list[str]) -> Iterator[str]:
    """A line for each shape and kind of table."""
    rows = key_rows(spark, 0, ROWS, FILES)
    contest = Contest(spark, root)
    theirs = {}
    for kind in KINDS:
        folder = root / f"other-{kind.replace(' ', '-')}"
        vectors = str(kind != "append").lower()
        delta = rows.write.format("delta").option("delta.enableDeletionVectors", vectors) if jars else None
        theirs[kind] = made(folder, delta.save if delta else rows.write.parquet)
    for kind, options in {**KINDS, "primary key": KEYED}.items():
        folder = root / kind.replace(" ", "-")
        given = {**options, "write-only": "true"}
        own = made(
            folder, lambda path, given=given: rows.write.format("paimon").mode("append").options(**given).save(path)
        )
        for name, (met, share, new, clauses) in SHAPES.items():
            source = source_of(spark, met, share, new)
            source.createOrReplaceTempView("source_of_merge")

            def ours(path: str, clauses: str = clauses) -> None:
                merge_ours(spark, path, clauses)

            def other(path: str, clauses: str = clauses) -> None:
                if jars:
                    statement = f"MERGE INTO delta.`{path}` t USING source_of_merge s ON t.id = s.id {clauses}"
                    spark.sql(statement).collect()
                else:
                    full_join(spark, path, clauses)

            yield contest.in_turn(f"{name}, {kind}", (own, ours), (theirs.get(kind, theirs["append"]), other))


def merge_ours(spark: SparkSession, path: str, clauses: str) -> None:
    """Merge the view into a table of ours, by the catalog or, where PAIMON_BENCH_DOOR is text, as on Connect."""
    statement = f"MERGE INTO paimon.`{path}` t USING source_of_merge s ON t.id = s.id {clauses}"
    if os.environ.get("PAIMON_BENCH_DOOR") == "text":
        paimon_spark.sql(spark, statement)
    else:
        spark.sql(statement)


def full_join(spark: SparkSession, path: str, clauses: str) -> None:
    """What a MERGE by keys comes to, by DataFrames: both sides joined in full, and written anew."""
    target, source = spark.read.parquet(path), spark.table("source_of_merge")
    names = target.columns
    both = target.selectExpr("id", "struct(*) old").join(source.selectExpr("id", "struct(*) new"), "id", "full")
    if "DELETE" in clauses:
        both = both.where("new IS NULL").selectExpr("old row")
    else:
        both = both.selectExpr("coalesce(new, old) row" if "UPDATE" in clauses else "coalesce(old, new) row")
    both.select(*(f"row.{name}" for name in names)).write.parquet(f"{path}-merged")
    shutil.rmtree(f"{path}-merged")


def by_keys(spark: SparkSession, root: Path) -> Iterator[str]:
    """Lines of 1 M rows into 10 M by the primary key, a half of them new."""
    base = root / "keys"
    for start in range(0, TARGET_ROWS, TARGET_ROWS // 4):
        rows = columns_of(spark.range(start, start + TARGET_ROWS // 4).selectExpr("id * 2 id"), "1")
        rows.write.format("paimon").mode("append").options(**KEYED).save(str(base))
    source = columns_of(spark.range(SOURCE_ROWS).selectExpr("id * 19 id"), "2").cache()
    source.createOrReplaceTempView("source_of_merge")
    assert source.count() == SOURCE_ROWS
    contest = Contest(spark, root, 2 * REPEAT)  # a JVM is warm after three runs of a form
    cases = {
        "plain upsert": UPSERT,
        "with a condition (the target's keys are read)": "WHEN MATCHED AND s.d > 10 THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
        "with a condition over the target (old rows are looked up)": "WHEN MATCHED AND t.d > 10 THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
        "delete or insert": "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
    }
    for name, clauses in cases.items():
        yield contest.in_turn(
            f"1 M into 10 M by key, {name}",
            (base, lambda path, clauses=clauses: merge_ours(spark, path, clauses)),
            (base, lambda path: source.write.format("paimon").mode("append").save(path)),
        )


def main(which: str) -> None:
    """Print the lines."""
    root = Path(tempfile.mkdtemp(prefix="paimon_merge_"))
    jars = delta_jars() if which == "delta" else []
    spark = session(jars)
    try:
        peer = "an append" if which == "keys" else "Delta Lake" if jars else "a full outer join written as Parquet"
        print(f"Spark {pyspark.__version__}, against {peer}")
        print("| merge | s | yardstick s | ratio | CPU s | yardstick CPU s | ratio |\n|---|---|---|---|---|---|---|")
        for line in by_keys(spark, root) if which == "keys" else against_delta(spark, root, jars):
            print(line, flush=True)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "delta")
