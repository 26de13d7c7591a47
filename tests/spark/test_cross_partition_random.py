"""Random writes by us and by Java, by turns, to one table: keys that move between partitions, postponed buckets.

After each step the rows are those of a dict, for us and for Java, and each key has one row. The files keep what Paimon
relies on: no two runs above level 0 overlap, sequence numbers and deletes are as counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from paimon_spark import PaimonTable
from paimon_spark.spark.jobs import cross_partition
from tests.support import seeds
from tests.support.cross_partition import COLUMNS, Model
from tests.support.levels import check_files

pytestmark = [pytest.mark.spark, pytest.mark.peer]

STEPS = 4
CROSS_PARTITION = {"bucket": "-1", "dynamic-bucket.target-row-num": "4"}
POSTPONED = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.target-row-num-per-bucket": "5"}
TABLES: dict[str, dict[str, str]] = {
    "cross-partition, deduplicate": {**CROSS_PARTITION},
    "cross-partition, partial-update": {**CROSS_PARTITION, "merge-engine": "partial-update", "file.format": "orc"},
    "cross-partition, aggregation": {
        **CROSS_PARTITION,
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
    },
    "postponed": {**POSTPONED},
    "postponed, partial-update": {**POSTPONED, "merge-engine": "partial-update", "file.format": "avro"},
}


@pytest.mark.parametrize("kind", TABLES)
def test_writes_by_turns(spark: SparkSession, oracle: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = seeds.chance("cross-partition updates", kind)
    options, crosses = TABLES[kind], kind.startswith("cross-partition")
    name = f"turns.t{list(TABLES).index(kind)}"
    key = ["k"] if crosses else ["k", "p"]
    oracle.create(name, COLUMNS, pk=key, partition=["p"], options={**options, "write-only": "true"})
    path = str(Path(str(oracle.warehouse)) / "turns.db" / name.partition(".")[2])
    table = PaimonTable.for_path(spark, path)
    model = Model(options.get("merge-engine", "deduplicate"), cross_partition=crosses)
    for step in range(STEPS):
        keys = [chance.randrange(16) for _ in range(chance.randint(1, 8))]
        values = [(chance.choice([None, "a", "b"]), chance.choice([None, step])) for _ in keys]
        rows = [(k, chance.randrange(3), v, n) for k, (v, n) in zip(keys, values, strict=True)]
        ours = bool(step % 2) if step < 2 else chance.random() < 0.5
        if ours:
            size = chance.choice([0, 1 << 60])  # one task, or several
            monkeypatch.setattr(cross_partition, "estimated_bytes", lambda _, size=size: size)
            table.append(spark.createDataFrame(rows, "k int, p int, v string, n int").coalesce(1))
        else:
            oracle.write(name, rows)
        for row in rows:
            model.put(row)
        if not crosses or chance.random() < 0.3:
            table.compact(compact_strategy=chance.choice(["full", "minor"]))
        done = f"step {step}: {'ours' if ours else 'Java'} {rows}"
        assert sorted((tuple(row) for row in table.to_df().collect()), key=repr) == model.sorted_rows(), done
        assert sorted(oracle.rows(name), key=repr) == model.sorted_rows(), done
        check_files(path)
    if crosses:
        oracle.compact(name)
        assert sorted((tuple(row) for row in table.to_df().collect()), key=repr) == model.sorted_rows()
