"""Rows that are put together from several files hold a part of `read.merge.memory-budget` of each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.column_update import commit_columns, plan_column_update, update_columns
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.memory import arrow_peak
from tests.support.plans import plan_of

TEXTS = ("t1", "t2", "t3", "t4")
ROWS, STEP, WIDTH = 20_000, 500, 500
BUDGET = 4 << 20
OPTIONS = {
    **{"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    **{"read.merge.memory-budget": "4 mb", "parquet.block.size": str(1 << 20)},
}


def texts(name: str, version: int, start: int) -> pa.Array:
    return pa.array([f"{name} {version} {start + at}".ljust(WIDTH) for at in range(STEP)])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> FileStoreTable:
    """Four columns of 10 MB each, of which three were written again."""
    path = str(tmp_path_factory.mktemp("evolved") / "t")
    fields = [DataField(at, name, parse_type("STRING")) for at, name in enumerate(TEXTS)]
    table = create_table(path, create_schema(fields, options=OPTIONS))
    schema = pa.schema([(name, pa.string()) for name in TEXTS])
    starts = range(0, ROWS, STEP)
    batches = (pa.RecordBatch.from_arrays([texts(n, 0, at) for n in TEXTS], schema=schema) for at in starts)
    commit(table, [write_batches(plan_write(table, data_schema=schema), batches, 0)])
    for name in TEXTS[1:]:
        latest = table.snapshots.latest()
        assert latest is not None
        update = plan_column_update(table, [name], pa.schema([(name, pa.string())]), latest.id)
        ids = (pa.array(np.arange(at, at + STEP)) for at in starts)
        new = (
            pa.RecordBatch.from_arrays([texts(name, 1, at), row_ids], names=[name, "_ROW_ID"])
            for at, row_ids in zip(starts, ids, strict=True)
        )
        message = update_columns(update, new)
        assert message is not None
        commit_columns(table, [message], latest, Operation.UPDATE)
    return load_table(path)


@pytest.mark.parametrize("system", [None, "row_tracking"])
def test_files_of_ten_times_the_budget(table: FileStoreTable, system: str | None) -> None:
    view = find_view(system)
    assert view is not None
    plan = plan_of(table, view)

    def batches() -> Iterator[pa.RecordBatch]:
        for split in plan.splits:
            yield from plan.read(plan.table, split, plan.fields, plan.residual)

    count = 0
    with arrow_peak() as peak:
        for batch in batches():
            ends = (0, batch.num_rows - 1)
            for at in ends:
                row = {name: batch.column(name)[at].as_py().split() for name in TEXTS}
                assert row == {n: [n, str(int(n != "t1")), str(count + at)] for n in TEXTS}
            count += batch.num_rows
    assert count == ROWS
    assert peak.bytes < 3 * BUDGET
