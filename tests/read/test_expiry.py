"""A file that is missing: the snapshot expired while it was read, or the table is damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paimon_spark.errors import CorruptTableError, PaimonError, SnapshotNotFoundError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import ReadPlan, TableScan
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.golden import GOLDEN
from tests.support.plans import plan_of


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Snapshots 5 to 8 live; the tags hold 1, 2, 3 and 5."""
    shutil.copytree(GOLDEN / "tags_and_expired_append" / "table", tmp_path / "t")
    return load_table(str(tmp_path / "t"))


def read(plan: ReadPlan) -> int:
    return sum(batch.num_rows for split in plan.splits for batch in read_split(plan.table, split, plan.fields))


def expire(table: FileStoreTable, snapshot_id: int) -> None:
    Path(table.paths.snapshot_path(snapshot_id)).unlink()


@pytest.mark.parametrize("expired", [True, False])
def test_a_data_file_is_gone(table: FileStoreTable, expired: bool) -> None:
    plan = plan_of(table)
    assert plan.snapshot is not None
    assert read(plan)
    gone = plan.splits[0].files[0].path
    Path(gone).unlink()
    if expired:
        expire(table, plan.snapshot.id)
    kind: type[PaimonError] = SnapshotNotFoundError if expired else CorruptTableError
    with pytest.raises(kind, match="expired while it was read.*Run the query again" if expired else "is missing") as e:
        read(plan)
    assert isinstance(e.value, CorruptTableError) is not expired
    assert gone in str(e.value)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_snapshot_that_is_being_expired(table: FileStoreTable, compacted: bool) -> None:
    """Its own file goes last: data files are deleted that the latest snapshot does not need, and it is still there."""
    plan = plan_of(table.with_options({"scan.snapshot-id": "7"}))
    if compacted:
        assert compact(table.with_options({"write-only": "false"}), full=True) == 9
    Path(plan.splits[0].files[0].path).unlink()
    kind: type[PaimonError] = SnapshotNotFoundError if compacted else CorruptTableError
    with pytest.raises(kind, match="expired while it was read" if compacted else "is missing"):
        read(plan)


@pytest.mark.parametrize(("snapshot_id", "held"), [(6, False), (5, True)])
def test_a_manifest_is_gone(table: FileStoreTable, snapshot_id: int, held: bool) -> None:
    snapshot = table.snapshots.get(snapshot_id)
    Path(table.paths.manifest_path(snapshot.delta_manifest_list)).unlink()
    expire(table, snapshot_id)
    with pytest.raises(CorruptTableError if held else SnapshotNotFoundError):
        TableScan(table, snapshot, ROWS, tuple(table.schema.fields)).plan()
