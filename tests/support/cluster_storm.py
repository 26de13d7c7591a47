"""Statements on a standalone cluster whose tasks fail, whose executors are killed and whose slow tasks run twice.

    python -m tests.support.cluster_storm FOLDER --seed 1 --steps 9 --kinds fixed,dynamic [--front connect]

Each statement runs while one fault is due (see `cluster_faults`). After each the rows are those of a dict, once each.
At the end every file that a snapshot names exists, and removal of orphan files leaves no other data file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.table.table import load_table
from tests.support.class_archive import archive_file, java_options
from tests.support.history import table_files
from tests.support.standalone_cluster import connect_server, standalone_cluster

Row = tuple[str, int, int]
Rows = dict[int, Row]
KINDS: dict[str, dict[str, str]] = {
    "append": {},
    "append_dv": {"deletion-vectors.enabled": "true"},
    "evolution": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    "fixed": {"primary-key": "k", "bucket": "3"},
    "dynamic": {"primary-key": "k", "bucket": "-1", "dynamic-bucket.target-row-num": "60"},
    "cross": {"primary-key": "k", "bucket": "-1", "partition": "p", "dynamic-bucket.target-row-num": "40"},
    "postponed": {"primary-key": "k", "bucket": "-2"},
    "first_row": {"primary-key": "k", "bucket": "2", "merge-engine": "first-row"},
    "groups": {
        "primary-key": "k", "bucket": "2", "merge-engine": "partial-update", "fields.g.sequence-group": "v",
        "partial-update.remove-record-on-sequence-group": "g",
    },
    "dv": {"primary-key": "k", "bucket": "2", "deletion-vectors.enabled": "true"},
}  # fmt: skip
FAULTS = ("error", "kill", "slow")
SESSION = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "3",
    "spark.default.parallelism": "3",
    "spark.task.maxFailures": "6",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.excludeOnFailure.enabled": "false",
    "spark.cores.max": "2",
    "spark.executor.memory": "600m",
    "spark.driver.memory": "900m",
    "spark.ui.showConsoleProgress": "false",
}


Sql = Callable[[str], DataFrame]


@contextmanager
def session_of(front: str, folder: Path) -> Iterator[tuple[SparkSession, Sql]]:
    """A session on a standalone cluster whose executors have faults, and its way to run a statement."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    root = Path(__file__).resolve().parents[2]
    options = {
        **SESSION,
        "spark.executorEnv.PAIMON_TEST_FAULTS": str(folder),
        "spark.executorEnv.PYTHONPATH": f"{root}/tests/support/cluster_faults:{root}",
        "spark.executor.extraJavaOptions": java_options(archive_file()),
        "spark.sql.warehouse.dir": str(folder / "spark"),
    }
    with standalone_cluster(folder / "cluster") as master:
        if front == "connect":
            with connect_server(folder / "cluster", master, options) as url:
                spark = SparkSession.builder.remote(url).getOrCreate()
                paimon_spark.register(spark)

                def sql(statement: str) -> DataFrame:
                    return paimon_spark.sql(spark, statement, warehouse=str(folder / "wh"), catalog="c")

                yield spark, sql
                spark.stop()
            return
        builder = SparkSession.builder.master(master)
        for key, value in options.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        paimon_spark.register_catalog(spark, "c", warehouse=str(folder / "wh"))
        yield spark, spark.sql
        spark.stop()


class Storm:
    """One table, and what it must hold."""

    def __init__(self, spark: SparkSession, sql: Sql, folder: Path, kind: str, chance: random.Random) -> None:
        self.spark, self.sql, self.folder, self.kind, self.chance = spark, sql, folder, kind, chance
        self.name, self.path = f"c.d.{kind}", str(folder / "wh" / "d.db" / kind)
        self.rows: Rows = {}
        self.next_key = 0
        self.happened: dict[str, int] = {}
        options = dict(KINDS[kind])
        partition = options.pop("partition", None)
        self.keyed = "primary-key" in options
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        by = f"PARTITIONED BY ({partition})" if partition else ""
        properties = f"TBLPROPERTIES ({listed})" if listed else ""
        key = "NOT NULL" if self.keyed else ""
        sql(f"CREATE TABLE {self.name} (k INT {key}, p STRING, v BIGINT, g BIGINT) {by} {properties}")

    def source(self, keys: list[int], number: int) -> tuple[str, Rows]:
        """SQL of rows of keys, over three tasks, and the rows."""
        spread = f"SELECT /*+ REPARTITION(3) */ id + {keys[0]} AS id FROM range({len(keys)})"
        text = f"SELECT CAST(id AS INT) k, concat('p', id % 2) p, id * 10 + {number} v, {number}L g FROM ({spread})"
        return text, {key: (f"p{key % 2}", key * 10 + number, number) for key in keys}

    def insert(self, number: int) -> Callable[[], None]:
        """New keys, and some that are there where keys are kept."""
        first = max(0, self.next_key - 40) if self.keyed else self.next_key
        keys = list(range(first, self.next_key + 150))
        text, rows = self.source(keys, number)
        self.sql(f"INSERT INTO {self.name} {text}")

        def change() -> None:
            self.rows = {**rows, **self.rows} if self.kind == "first_row" else {**self.rows, **rows}
            self.next_key = keys[-1] + 1

        return change

    def update(self, number: int) -> Callable[[], None]:
        self.sql(f"UPDATE {self.name} SET v = v + 1000, g = {number} WHERE k % 3 = {number % 3}")

        def change() -> None:
            hit = {k: (p, v + 1000, number) for k, (p, v, g) in self.rows.items() if k % 3 == number % 3}
            self.rows = {**self.rows, **hit}

        return change

    def delete(self, number: int) -> Callable[[], None]:
        self.sql(f"DELETE FROM {self.name} WHERE k % 11 = {number % 11}")

        def change() -> None:
            self.rows = {k: row for k, row in self.rows.items() if k % 11 != number % 11}

        return change

    def merge(self, number: int) -> Callable[[], None]:
        keys = list(range(max(0, self.next_key - 60), self.next_key + 30))
        text, rows = self.source(keys, number)
        self.sql(
            f"MERGE INTO {self.name} t USING ({text}) s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET v = s.v, g = s.g WHEN NOT MATCHED THEN INSERT *"
        )

        def change() -> None:
            self.rows = {**self.rows, **rows}
            self.next_key = keys[-1] + 1

        return change

    def compact(self, number: int) -> Callable[[], None]:
        self.sql(f"CALL c.sys.compact(table => 'd.{self.kind}')")
        return lambda: None

    def rescale(self, number: int) -> Callable[[], None]:
        self.sql(f"CALL c.sys.rescale(table => 'd.{self.kind}', bucket_num => {2 + number % 3})")
        if self.kind != "postponed":
            self.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('bucket' = '{2 + number % 3}')")
        return lambda: None

    def stream(self, number: int) -> Callable[[], None]:
        """A query of files into the table, a batch a file."""
        keys = list(range(self.next_key, self.next_key + 60))
        text, rows = self.source(keys, number)
        source = self.folder / "sources" / f"{self.kind}-{number}"
        self.spark.sql(text).write.parquet(str(source))
        stream = self.spark.readStream.schema("k INT, p STRING, v BIGINT, g BIGINT")
        stream = stream.option("maxFilesPerTrigger", "1").parquet(str(source))
        if self.keyed:
            stream = stream.selectExpr("ifnull(k, 0) k", "p", "v", "g")
        writer = stream.writeStream.format("paimon").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoints" / f"{self.kind}-{number}"))
        writer.start(self.path).awaitTermination()

        def change() -> None:
            self.rows = {**self.rows, **rows}
            self.next_key = keys[-1] + 1

        return change

    def overwrite(self, number: int) -> Callable[[], None]:
        """All rows, read from the table itself."""
        self.sql(f"INSERT OVERWRITE {self.name} SELECT k, p, v + 1 AS v, {number}L AS g FROM {self.name}")

        def change() -> None:
            self.rows = {k: (p, v + 1, number) for k, (p, v, g) in self.rows.items()}

        return change

    def sort(self, number: int) -> Callable[[], None]:
        self.sql(f"CALL c.sys.compact(table => 'd.{self.kind}', order_strategy => 'zorder', order_by => 'v,g')")
        return lambda: None

    def ctas(self, number: int) -> Callable[[], None]:
        """Another table of the same rows."""
        self.sql(f"CREATE TABLE {self.name}_{number} AS SELECT k, p, v, g FROM {self.name}")
        self.look(f"{self.name}_{number}", f"{self.kind}: CTAS number {number}")
        return lambda: None

    def source_stream(self, number: int) -> Callable[[], None]:
        """A query from the table: what it reads at first is each row once."""
        out, marks = self.folder / "read" / f"{self.kind}-{number}", self.folder / "marks" / f"{self.kind}-{number}"
        stream = self.spark.readStream.format("paimon").load(self.path).select("k", "p", "v", "g")
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        writer.option("checkpointLocation", str(marks)).start(str(out)).awaitTermination()
        self.look(f"parquet.`{out}`", f"{self.kind}: stream from the table, number {number}")
        return lambda: None

    def statements(self) -> list[str]:
        """What this kind of table can do; a first insert comes before them."""
        names = ["insert", "update", "merge", "delete", "compact", "stream", "overwrite", "ctas", "source_stream"]
        if self.kind == "first_row":
            names = ["insert", "compact", "stream", "overwrite", "ctas", "source_stream"]
        if self.kind == "evolution":
            names.remove("delete")
        if not self.keyed and self.kind != "evolution":
            names.append("sort")
        if self.kind in ("fixed", "dv", "groups", "first_row", "postponed"):
            names.append("rescale")
        return names

    def run(self, name: str, number: int) -> None:
        """Run a statement while a fault is due, and look at the rows; the first statements meet one of each kind."""
        for done in self.folder.glob("done-*"):
            done.unlink()
        fault, call = self.chance.choice(FAULTS), self.chance.randrange(4)
        if number < len(FAULTS):
            fault, call = FAULTS[number], 0
        rule = {"fault": fault, "call": call, "after": self.chance.random() < 0.5, "seconds": 1.5}
        (self.folder / "rule.new").write_text(json.dumps(rule))
        os.replace(self.folder / "rule.new", self.folder / "rule")
        try:
            change = getattr(self, name)(number)
        finally:
            (self.folder / "rule").unlink()
        if list(self.folder.glob("done-*")):
            self.happened[fault] = self.happened.get(fault, 0) + 1
        change()
        print(f"{self.kind}: {name} number {number} with {rule}", flush=True)
        self.check(f"{self.kind}: {name} number {number} with {rule}")

    def check(self, what: str) -> None:
        """The table's rows are the dict's, once each."""
        if self.kind == "postponed":  # rows of streams are postponed
            self.sql(f"CALL c.sys.compact(table => 'd.{self.kind}')")
        self.look(self.name, what)

    def look(self, name: str, what: str) -> None:
        """A table's rows are those of the dict, once each."""
        text = f"SELECT k, p, v, g FROM {name}"
        found = (self.spark.sql(text) if name.startswith("parquet.") else self.sql(text)).collect()
        rows = {row.k: (row.p, row.v, row.g) for row in found}
        assert len(found) == len(rows), f"{what}: {len(found) - len(rows)} rows are doubled"
        if rows != self.rows:
            lost, more = self.rows.keys() - rows.keys(), rows.keys() - self.rows.keys()
            wrong = [(k, rows[k], self.rows[k]) for k in rows.keys() & self.rows.keys() if rows[k] != self.rows[k]]
            raise AssertionError(f"{what}: lost {sorted(lost)[:5]}, more {sorted(more)[:5]}, wrong {wrong[:5]}")

    def named_files(self) -> set[str]:
        """Data files that any snapshot's manifests name; those of the live ones exist."""
        table, named = load_table(self.path), set()
        for number in table.snapshots.ids():
            snapshot = table.snapshots.get(number)
            for entry in table.manifests.live_entries(snapshot):
                path = Path(table.paths.data_file_path(entry.partition, entry.bucket, entry.file))
                assert path.is_file(), f"snapshot {number} names {path}, which is not there"
            metas = [*table.manifests.data_manifests(snapshot), *table.manifests.changelog_manifests(snapshot)]
            for entry in (entry for meta in metas for entry in table.manifests.read_manifest(meta)):
                named |= {entry.file.file_name, *entry.file.extra_files}
        return named

    def end(self) -> None:
        """Files of lost attempts are orphans only, and all go; what the snapshots name is there."""
        self.check(f"{self.kind}: at the end")
        before = table_files(load_table(self.path))
        time.sleep(1.1)  # times of files may be whole seconds
        paimon_spark.PaimonTable.for_path(self.spark, self.path).remove_orphan_files(
            older_than=datetime.now(), dry_run=False
        )
        after = table_files(load_table(self.path))
        self.check(f"{self.kind}: after the removal of orphan files")
        left = {Path(name).name for name in after if "/bucket-" in f"/{name}"} - self.named_files()
        assert not left, f"{self.kind}: removal of orphan files left {sorted(left)[:5]}"
        snapshots = load_table(self.path).snapshots.ids()
        print(f"{self.kind}: {len(self.rows)} rows, snapshots {len(snapshots)}, faults {self.happened}, "
              f"{len(before - after)} orphans", flush=True)  # fmt: skip
        (self.folder / f"rows-{self.kind}.json").write_text(
            json.dumps(sorted([k, *row] for k, row in self.rows.items()))
        )


def storm(spark: SparkSession, sql: Sql, folder: Path, kind: str, seed: str, steps: int) -> None:
    """Run statements of one kind of table: an insert for each fault, then others at random, as far as `steps`."""
    chance = random.Random(f"{seed} {kind}")
    one = Storm(spark, sql, folder, kind, chance)
    names = ["insert"] * len(FAULTS)
    for number in range(steps):
        names = names or chance.sample(one.statements(), len(one.statements()))
        one.run(names.pop(), number)
    one.end()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--front", default="classic", choices=("classic", "connect"))
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cluster ends too
    given.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    with session_of(given.front, given.folder) as (spark, sql):
        sql("CREATE DATABASE IF NOT EXISTS c.d")
        for kind in given.kinds.split(","):
            try:
                storm(spark, sql, given.folder, kind, given.seed, given.steps)
            except Exception as error:  # noqa: BLE001 - the other kinds go on
                failed += 1
                print(f"{kind}: FAILED {type(error).__name__}: {str(error)[:3000]}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
