"""One row at a time: INSERT, UPDATE, DELETE and MERGE of one key in small tables of some kinds, warm.

`python benchmarks/one_row.py` prints, for each kind of table and each statement, best and median milliseconds, the py4j
calls (into the JVM + from it) and Spark's jobs, as `RESULTS.md` shows them. Each statement runs both ways in turn, each
on a table of its own: by the driver, as it is, and by tasks, as where a Spark does not let the driver do it. With
`PAIMON_OFFICIAL_JAR` the same of the official connector, in a process of its own (see `interactive.py`). `--only <part
of a kind or statement>` measures some of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import TYPE_CHECKING
from unittest import mock

from interactive import JAR, PEER_PYTHON, counted, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {
    "primary key, one bucket": "'primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true'",
    "primary key, dynamic buckets": "'primary-key' = 'id', 'write-only' = 'true'",
    "append": "'bucket' = '-1', 'write-only' = 'true'",
    "append, deletion vectors": "'bucket' = '-1', 'deletion-vectors.enabled' = 'true', 'write-only' = 'true'",
}
STATEMENTS = {
    "INSERT": "INSERT INTO {table} VALUES ({new}, 'a')",
    "UPDATE": "UPDATE {table} SET v = concat(v, 'b') WHERE id = {key}",
    "DELETE": "DELETE FROM {table} WHERE id = {key}",
    "MERGE": "MERGE INTO {table} t USING (SELECT {key} AS id, 'm' AS v) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = concat(s.v, 'x') WHEN NOT MATCHED THEN INSERT *",
}
ROWS, WARM_UP, REPEAT = 1000, 8, 20


@contextmanager
def by_tasks(spark: SparkSession) -> Iterator[None]:
    """Let tasks do what the driver would do."""
    from paimon_spark.spark.catalog import driver_read, row_write
    from paimon_spark.spark.session import rows_at_hand

    with (
        mock.patch.object(rows_at_hand, "FINDERS", {}),
        mock.patch.object(driver_read, "is_changed_here", return_value=False),
        mock.patch.object(row_write, "missing_of", return_value=["not now"]),
    ):
        yield


def jobs(spark: SparkSession, statement: str) -> int:
    """Run a statement; return how many jobs it has started."""
    context = spark.sparkContext
    context.setJobGroup(statement, statement)
    spark.sql(statement)
    context.setLocalProperty("spark.jobGroup.id", None)
    return len(context.statusTracker().getJobIdsForGroup(statement))


def measure(spark: SparkSession, kind: str, name: str, ways: list[str]) -> None:
    """Print a line for each way."""
    tables = {way: f"p.d.t_{'_'.join((kind, name, way)).replace(',', '').replace(' ', '_')}" for way in ways}
    for table in tables.values():
        options = KINDS[kind]
        spark.sql(f"CREATE TABLE {table} (id INT NOT NULL, v STRING) USING paimon TBLPROPERTIES ({options})")
        spark.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), 'v' FROM range(0, {ROWS}, 1, 1)")
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for run in range(WARM_UP + REPEAT + 1):
        for way in ways if run % 2 else ways[::-1]:
            statement = STATEMENTS[name].format(table=tables[way], new=ROWS + run, key=run * 7)
            with by_tasks(spark) if way == "tasks" else nullcontext():
                if run < WARM_UP + REPEAT:
                    begun = time.perf_counter()
                    spark.sql(statement)
                    taken[way].append((time.perf_counter() - begun) * 1000)
                    continue
                with counted(spark) as calls:
                    started = jobs(spark, statement)
            back = sum(count for call, count in calls.items() if call.startswith("<"))
            own = taken[way][WARM_UP:]
            figures = f"{way} | {min(own):.0f}, {median(own):.0f} ms | {calls.total() - back} + {back} | {started}"
            print(f"| {kind} | {name} | {figures} |", flush=True)


def main(*, official: bool, only: str) -> None:
    """Print all lines."""
    with tempfile.TemporaryDirectory() as warehouse:
        if official:
            extensions = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
            catalog = {"spark.sql.catalog.p": "org.apache.paimon.spark.SparkCatalog"}
            location = {"spark.sql.catalog.p.warehouse": warehouse}
            spark = session(**{"spark.jars": str(JAR), "spark.sql.extensions": extensions, **catalog, **location})
        else:
            import paimon_spark

            spark = session()
            paimon_spark.register_catalog(spark, "p", warehouse=warehouse)
        spark.sql("CREATE DATABASE IF NOT EXISTS p.d")
        for kind in KINDS:
            for name in STATEMENTS:
                if only in f"{kind} {name}":
                    measure(spark, kind, name, ["official"] if official else ["driver", "tasks"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", action="store_true", help="measure the official connector")
    parser.add_argument("--only", default="", help="part of a kind or statement")
    given = parser.parse_args()
    main(official=given.official, only=given.only)
    if JAR and not given.official:
        again = [PEER_PYTHON, __file__, "--official", "--only", given.only]
        subprocess.run(again, check=True, env=dict(os.environ))
