"""Rows that wait in level 0, where readers do not look yet, come along when a table is copied or forwarded to a branch.

Java compacts the result and reads from it what it reads from the source, compacted likewise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.copy_table import copy_table
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.levels import check_files

pytestmark = pytest.mark.oracle

VECTORS = {"deletion-vectors.enabled": "true"}
KINDS = {
    "deduplicate": VECTORS,
    "partial-update": {**VECTORS, "merge-engine": "partial-update"},
    "aggregation": {**VECTORS, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
}
Row = tuple[int | None, ...]
SHOWN: dict[str, set[Row]] = {
    "deduplicate": {(1, 10, None), (2, None, 2), (3, 31, None), (4, None, 4)},
    "partial-update": {(1, 10, 1), (2, None, 2), (3, 31, 3), (4, None, 4)},
    "aggregation": {(1, 11, 1), (2, None, 2), (3, 61, 3), (4, None, 4)},
    "first-row": {(1, 1, 1), (2, None, 2), (3, 30, 3), (4, None, 4)},
}
"""What a compaction of `filled` shows."""


def write(table: FileStoreTable, rows: list[Row]) -> None:
    columns = zip(*rows, strict=True)
    batch = pa.RecordBatch.from_arrays([pa.array(column, pa.int32()) for column in columns], names=["k", "v", "s"])
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def made(path: Path, kind: str) -> FileStoreTable:
    fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", IntType()), DataField(2, "s", IntType())]
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "100", **KINDS[kind]}
    return create_table(str(path), create_schema(fields, ("k",), (), options, None))


def fill(table: FileStoreTable) -> None:
    """Write rows that are compacted, then rows that are not: some of known keys, some of new ones."""
    write(table, [(1, 1, 1), (3, 30, 3)])
    compact(table, full=True)
    write(table, [(1, 10, None), (2, None, 2)])
    write(table, [(3, 31, None), (4, None, 4)])


def shown(oracle: Any, path: str) -> set[Row]:
    """Check that rows are hidden; let Java compact them and read all."""
    hidden = oracle.rows(path)
    assert {row[0] for row in hidden} == {1, 3}
    oracle.compact(path)
    found = oracle.rows(path)
    assert len(found) == len(set(found))
    check_files(path)
    return set(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy(tmp_path: Path, oracle: Any, kind: str) -> None:
    source, path = made(tmp_path / "t", kind), str(tmp_path / "copy")
    write(source, [(7, 7, 7)])
    copy_table(source, path, {})
    assert set(oracle.rows(path)) == set(oracle.rows(source.path))
    source = made(tmp_path / "u", kind)
    fill(source)
    copy_table(source, path, {})  # in place of the rows that are there
    copy_table(source, str(tmp_path / "new"), {})
    for target in (path, str(tmp_path / "new")):
        copied = load_table(target)
        assert shown(oracle, target) == SHOWN[kind]
        write(copied, [(4, 5, 6), (9, 9, 9)])
        compact(load_table(target), full=True)
        assert {row[0] for row in oracle.rows(target)} == {1, 2, 3, 4, 9}
    assert shown(oracle, source.path) == SHOWN[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fast_forward(tmp_path: Path, oracle: Any, kind: str) -> None:
    table = made(tmp_path / "t", kind)
    branches.create_branch(table, "empty")
    fill(load_table(table.path, branch="empty"))
    fast_forward(table, "empty")
    assert shown(oracle, table.path) == SHOWN[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_branch_of_a_tag_and_going_back_to_it(tmp_path: Path, oracle: Any, kind: str) -> None:
    table = made(tmp_path / "t", kind)
    fill(table)
    tags.create_tag(table, "hidden")
    compact(table, full=True)
    write(table, [(9, 9, 9)])
    compact(table, full=True)
    branches.create_branch(table, "b", tag="hidden")
    rollback_to_as_latest(table, tag="hidden")
    assert shown(oracle, table.path) == SHOWN[kind]
    fast_forward(table, "b")
    assert shown(oracle, table.path) == SHOWN[kind]
