"""``sequence.snapshot-ordering``: the row of the later snapshot wins, whatever the sequence numbers in the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.table.table import load_table
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

OPTIONS = {"bucket": "1", "write-only": "true", "sequence.snapshot-ordering": "true"}
COLUMNS = [("k", "INT NOT NULL"), ("a", "STRING"), ("b", "STRING")]
Row = tuple[int, str | None, str | None]


def written(path: str, *rows: Row) -> TaskMessage:
    """Files of rows that are not committed yet."""
    table = load_table(path)
    schema = to_arrow_schema(table.schema.fields)
    plan = plan_write(table, data_schema=schema)
    given = [dict(zip("kab", row, strict=True)) for row in rows]
    return write_batches(plan, [pa.RecordBatch.from_pylist(given, schema)], 0)


def rows_of(path: str) -> list[Row]:
    plan = plan_of(load_table(path))
    batches = [b for split in plan.splits for b in read_split(plan.table, split, plan.fields, plan.residual)]
    return sorted((row["k"], row["a"], row["b"]) for batch in batches for row in batch.to_pylist())


@pytest.mark.oracle
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_the_later_snapshot_wins(oracle: Any, engine: str) -> None:
    name = oracle.fresh_name("ordered")
    oracle.create(name, COLUMNS, pk=["k"], options={**OPTIONS, "merge-engine": engine})
    path = oracle.location(name).removeprefix("file:")
    early = written(path, (1, "early", "early"), (2, "early", "early"))
    late = written(path, (7, "x", "x"), (8, "x", "x"), (9, "x", "x"), (1, "late", None))  # larger sequence numbers
    commit(load_table(path), [late])
    commit(load_table(path), [early])
    wanted: list[Row] = [(1, "early", "early"), (2, "early", "early"), *((k, "x", "x") for k in (7, 8, 9))]
    assert rows_of(path) == wanted
    compact(load_table(path))
    assert rows_of(path) == wanted
    commit(load_table(path), [written(path, (9, "again", None))])
    wanted[-1] = (9, "again", "x" if engine == "partial-update" else None)
    assert rows_of(path) == wanted
    latest = load_table(path).snapshots.latest()
    assert latest is not None
    files = [entry.file for entry in load_table(path).manifests.live_entries(latest)]
    assert {(file.level, file.max_sequence_number) for file in files} == {(0, latest.id), (5, 2)}
    assert not list(Path(path, "changelog").glob("*"))
