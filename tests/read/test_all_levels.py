"""What a statement changes it reads of every level, also where other readers see no level 0 before it is compacted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read.key_lookup import KeyLookup
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import ReadPlan, TableScan
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.routing import NO_PARTITION
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of
from tests.support.seeds import chance

VECTORS = {"deletion-vectors.enabled": "true"}
TABLES = {
    "deduplicate": VECTORS,
    "sequence": {**VECTORS, "sequence.field": "s"},
    "partial-update": {**VECTORS, "merge-engine": "partial-update"},
    "aggregation": {**VECTORS, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
}
Row = tuple[int | None, ...]


def make(path: Path, kind: str) -> FileStoreTable:
    fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", IntType()), DataField(2, "s", IntType())]
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "100", **TABLES[kind]}
    return create_table(str(path), create_schema(fields, ("k",), (), options, None))


def write(table: FileStoreTable, rows: list[Row]) -> None:
    columns = zip(*rows, strict=True)
    batch = pa.RecordBatch.from_arrays([pa.array(column, pa.int32()) for column in columns], names=["k", "v", "s"])
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def found(plan: ReadPlan, predicate: Predicate | None = None) -> Counter[Row]:
    batches = [b for s in plan.splits for b in read_split(plan.table, s, plan.fields, predicate or plan.residual)]
    return Counter((row["k"], row["v"], row["s"]) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("kind", TABLES)
def test_a_statement_reads_what_a_compaction_will_show(tmp_path: Path, kind: str) -> None:
    table, random = make(tmp_path / "t", kind), chance("all levels", kind)
    hidden = 0
    for step in range(8):
        keys = random.sample(range(30), random.randint(1, 12))
        write(table, [(key, random.choice([None, random.randint(0, 9)]), random.randint(0, 5)) for key in keys])
        if random.random() < 0.4:
            compact(table, full=random.random() < 0.3)
        latest = table.snapshots.latest()
        assert latest is not None
        scan = TableScan.of(table, ROWS, snapshot_id=latest.id)
        before, shown = found(scan.plan()), found(plan_of(table))
        most = random.randint(0, 9)
        narrow = found(scan.select(predicate=Leaf("le", "v", (most,))).plan())
        look = KeyLookup.planned(table, latest, ("v", "s"))
        sought = pa.table({"k": pa.array(range(30), pa.int32())})
        looked_up = look.find(NO_PARTITION, 0, sought)
        if step % 3 == 2:
            compact(table, full=True)
            assert found(plan_of(table)) == before
        assert narrow == Counter(row for row in before if row[1] is not None and row[1] <= most)
        assert [sought.column("k")[row].as_py() for row in looked_up.rows] == sorted(k for k, _, _ in before)
        assert looked_up.columns.to_pylist() == [{"v": v, "s": s} for _, v, s in sorted(before, key=lambda row: row[0])]
        hidden += shown != before
    assert hidden > 1


def test_files_above_level_0_are_read_as_they_are(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "deduplicate")
    for value in range(3):
        write(table, [(1, value, 0), (10 + value, 0, 0)])
        compact(table)
    latest = table.snapshots.latest()
    assert latest is not None
    plan = TableScan.of(table, ROWS, snapshot_id=latest.id).plan()
    assert all(split.raw_convertible for split in plan.splits)
