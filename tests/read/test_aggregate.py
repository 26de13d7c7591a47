"""Counts and extremes from metadata: exact, or not given at all."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.aggregate import AggregateCall, Aggregation, aggregate_snapshot
from paimon_spark.read.metadata_columns import BUCKET, FILE_PATH, PARTITION, ROW_INDEX, read_with_metadata
from paimon_spark.read.row_views import find_view
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, DoubleType, IntType, VarCharType
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

TEXT = VarCharType(length=VarCharType.MAX)
FIELDS = (
    DataField(0, "k", IntType()),
    DataField(1, "v", DoubleType()),
    DataField(2, "s", TEXT),
    DataField(3, "p", TEXT),
)
COUNT = AggregateCall("count")


def filled(path: Path, rows: list[tuple[Any, ...]], options: dict[str, str], *, times: int = 1) -> FileStoreTable:
    schema = create_schema(FIELDS, (), ("p",), options, None)
    table = create_table(str(path / "t"), schema)
    arrow = to_arrow_schema(table.schema.fields)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    for _ in range(times):
        plan = plan_write(table, overwrite=None, data_schema=arrow)
        commit(table, [write_batches(plan, iter([pa.RecordBatch.from_arrays(columns, schema=arrow)]), 0)])
    return table


ROWS = [(1, 1.0, "a", "x"), (None, float("nan"), "b", "x"), (3, 3.0, None, "y")]


def reported(
    table: FileStoreTable, *calls: AggregateCall, where: Predicate | None = None, by: tuple[str, ...] = ()
) -> Any:
    answer = aggregate_snapshot(table, table.snapshots.latest(), where, Aggregation(calls, by))
    return None if answer is None else sorted(answer.rows)


def test_what_metadata_shows_exactly(tmp_path: Path) -> None:
    table = filled(tmp_path, ROWS, {}, times=2)
    assert reported(table, COUNT) == [(6,)]
    assert reported(table, AggregateCall("count", "k"), AggregateCall("min", "k"), AggregateCall("max", "k")) == [
        (4, 1, 3)
    ]
    assert reported(table, AggregateCall("count", "s"), AggregateCall("max", "p")) == [(4, "y")]
    assert reported(table, COUNT, AggregateCall("min", "k"), by=("p",)) == [("x", 4, 1), ("y", 2, 3)]
    assert reported(table, COUNT, AggregateCall("max", "k"), where=Leaf("eq", "p", ("x",))) == [(4, 1)]
    assert reported(table, COUNT, AggregateCall("max", "k"), where=Leaf("eq", "p", ("q",))) == [(0, None)]


@pytest.mark.parametrize(
    ("calls", "where", "by"),
    [
        ((AggregateCall("max", "v"),), None, ()),  # NaN is in no statistics
        ((AggregateCall("max", "s"),), None, ()),  # texts are cut
        ((COUNT,), Leaf("eq", "k", (1,)), ()),
        ((COUNT,), None, ("k",)),
        ((AggregateCall("count", "nope"),), None, ()),
    ],
)
def test_what_only_the_rows_show(
    tmp_path: Path, calls: tuple[AggregateCall, ...], where: Predicate | None, by: tuple[str, ...]
) -> None:
    assert reported(filled(tmp_path, ROWS, {}), *calls, where=where, by=by) is None


def test_without_statistics_extremes_are_not_reported_but_rows_are(tmp_path: Path) -> None:
    table = filled(tmp_path, ROWS, {"metadata.stats-mode": "none"})
    assert reported(table, COUNT) == [(3,)]
    assert reported(table, AggregateCall("min", "k")) is None
    assert reported(table, AggregateCall("count", "k")) is None
    assert reported(table, COUNT, AggregateCall("max", "p")) == [(3, "y")]


def test_a_table_without_snapshots_counts_nothing(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), create_schema(FIELDS, (), (), {}, None))
    assert reported(table, COUNT, AggregateCall("max", "k")) == [(0, None)]


def test_metadata_columns_with_a_predicate(tmp_path: Path) -> None:
    table = filled(tmp_path, [(i, float(i), "t", "x") for i in range(10)], {})
    predicate = Leaf("ge", "k", (7,))
    plan = plan_of(table, columns=["v"], predicate=predicate)
    names = (ROW_INDEX, PARTITION, BUCKET, FILE_PATH)
    batches = [b for s in plan.splits for b in read_with_metadata(plan.table, s, plan.fields, plan.residual, names)]
    found = pa.Table.from_batches(batches)
    path = plan.splits[0].files[0].path
    assert found.column_names == ["v", *names]
    assert found.to_pylist() == [
        {"v": float(i), ROW_INDEX: i, PARTITION: {"p": "x"}, BUCKET: 0, FILE_PATH: path} for i in (7, 8, 9)
    ]


@pytest.mark.parametrize("name", ["append_dv_v1", "append_dv_bitmap64", "append_dv_bucketed", "pk_dv_v1"])
def test_rows_that_vectors_delete_do_not_count(name: str, golden: Path) -> None:
    """In each state of a table of Java's: counts are those of its rows, extremes come where nothing is deleted."""
    table = load_table(str(golden / name / "table"))
    column = table.schema.fields[0].name
    for snapshot in map(table.snapshots.get, table.snapshots.ids()):
        plan = plan_of(table.with_options({"scan.snapshot-id": str(snapshot.id)}), find_view(None))
        batches = [batch for split in plan.splits for batch in read_split(plan.table, split, plan.fields)]
        rows = pa.Table.from_batches(batches, to_arrow_schema(plan.fields))
        counted = aggregate_snapshot(table, snapshot, None, Aggregation((COUNT,)))
        assert counted is not None
        assert counted.rows == ((rows.num_rows,),)
        extremes = aggregate_snapshot(table, snapshot, None, Aggregation((AggregateCall("max", column),)))
        deleted = any(file.deletion_vector for split in plan.splits for file in split.files)
        assert (extremes is None) == deleted
        if extremes is not None:
            assert extremes.rows == ((pc.max(rows.column(column)).as_py(),),)
