"""Rows of merged splits are counted without making them: as many as reading gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import DataError
from paimon_spark.read import aggregate
from paimon_spark.read.aggregate import AggregateCall, Aggregation, aggregate_snapshot, count_split
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.sections import is_unmerged
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import BigIntType, DataField, VarCharType
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.golden import golden_tables
from tests.support.plans import plan_of
from tests.support.seeds import chance

FIELDS = (
    DataField(0, "k", BigIntType(nullable=False)),
    DataField(1, "name", VarCharType(length=20, nullable=False)),
    DataField(2, "v", BigIntType()),
)
COUNT = Aggregation((AggregateCall("count"),))


def append(table: FileStoreTable, keys: np.ndarray) -> None:
    arrow = to_arrow_schema(table.schema.fields)
    values = [pa.array(keys, pa.int64()), pa.array([f"n{k % 3}" for k in keys.tolist()]), pa.array(keys, pa.int64())]
    plan = plan_write(table, overwrite=None, data_schema=arrow)
    commit(table, [write_batches(plan, iter([pa.RecordBatch.from_arrays(values, schema=arrow)]), 0)])


def read_rows(table: FileStoreTable) -> int:
    plan = plan_of(table, columns=["k"])
    return sum(batch.num_rows for s in plan.splits for batch in read_split(plan.table, s, plan.fields, plan.residual))


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@pytest.mark.parametrize("keys", [("k",), ("name", "k")], ids=["one key column", "two"])
def test_distinct_keys_of_overlapping_runs_are_counted(tmp_path: Path, engine: str, keys: tuple[str, ...]) -> None:
    """Runs of random keys, merged in pieces."""
    options = {"merge-engine": engine, "bucket": "2", "write-only": "true", "read.merge.memory-budget": "1 mb"}
    table = create_table(str(tmp_path / "t"), create_schema(FIELDS, keys, (), options, None))
    rng = np.random.default_rng(chance("count", engine, keys).randrange(1 << 32))
    for _ in range(4):
        append(table, rng.integers(0, 40_000, 15_000))
    plan = plan_of(table, columns=[])
    assert not any(is_unmerged(plan.table, split) for split in plan.splits)
    assert sum(count_split(plan.table, split) for split in plan.splits) == read_rows(table)
    assert aggregate_snapshot(table, table.snapshots.latest(), None, COUNT) is None


def test_ranges_of_keys_that_do_not_meet_are_counted_from_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is opened for a section of one run; a table of such sections alone needs no task."""
    options = {"bucket": "1", "write-only": "true"}
    table = create_table(str(tmp_path / "t"), create_schema(FIELDS, ("k",), (), options, None))
    for first in (0, 100, 200):
        append(table, np.arange(first, first + 50))
    answer = aggregate_snapshot(table, table.snapshots.latest(), None, COUNT)
    assert answer is not None
    assert answer.rows == ((150,),)
    append(table, np.arange(120, 170))
    assert aggregate_snapshot(table, table.snapshots.latest(), None, COUNT) is None
    opened: list[str] = []
    run = FileRead.run
    monkeypatch.setattr(aggregate.FileRead, "run", lambda *a: opened.extend(f.name for f in a[1]) or run(*a))
    plan = plan_of(table, columns=[])
    assert sum(count_split(plan.table, split) for split in plan.splits) == 170
    assert len(opened) == 2


def test_golden_tables_of_java_have_as_many_rows_as_are_read(golden: Path) -> None:
    """Every engine, deletes, levels, vectors, old files: each table with keys that Java wrote."""
    counted = 0
    for case in golden_tables():
        path = golden / case.name / "table"
        if not (path / "schema").exists():
            continue
        table = load_table(str(path))
        if not table.schema.primary_keys or table.snapshots.latest() is None:
            continue
        plan = plan_of(table, columns=[])
        try:
            rows = [sum(b.num_rows for b in plan.read(plan.table, split, (), plan.residual)) for split in plan.splits]
        except DataError:  # deletes that the engine does not take
            with pytest.raises(DataError):
                [count_split(plan.table, split) for split in plan.splits]
            continue
        if plan.read is read_split:
            assert [count_split(plan.table, split) for split in plan.splits] == rows, case.name
            counted += 1
    assert counted > 20
