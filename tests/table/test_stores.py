"""Schema, snapshot and tag stores over real directories."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from paimon_spark.errors import (
    CorruptTableError,
    PaimonError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from paimon_spark.spec.schema import TableSchema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.paths import TablePaths
from paimon_spark.table.schema_store import SchemaStore
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.golden import GOLDEN


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """A copy of a golden table: snapshots 5 to 8 live, tags first (1), third (3), 7, ... exist."""
    shutil.copytree(GOLDEN / "tags_and_expired_append" / "table", tmp_path / "t")
    return load_table(str(tmp_path / "t"))


def test_snapshots_are_found_with_and_without_hints(table: FileStoreTable) -> None:
    snapshots = table.snapshots
    assert snapshots.ids() == [5, 6, 7, 8]
    assert (snapshots.earliest_id(), snapshots.latest_id()) == (5, 8)
    for hint in (table.paths.latest_hint_path, table.paths.earliest_hint_path):
        Path(hint).unlink()
    assert (snapshots.earliest_id(), snapshots.latest_id()) == (5, 8)


@pytest.mark.parametrize("lie", [b"7", b"99", b"0", b"-1", b"", b"abc", b"9" * 5000])
def test_a_lying_hint_is_not_believed(table: FileStoreTable, lie: bytes) -> None:
    Path(table.paths.latest_hint_path).write_bytes(lie)
    Path(table.paths.earliest_hint_path).write_bytes(lie)
    assert table.snapshots.latest_id() == 8
    assert table.snapshots.earliest_id() == 5


def test_a_missing_snapshot_names_those_that_exist(table: FileStoreTable) -> None:
    with pytest.raises(SnapshotNotFoundError, match=r"snapshotId 1 is out of available snapshotId range \[5, 8\]"):
        table.snapshots.get(1)
    shutil.rmtree(Path(table.paths.snapshot_dir))
    with pytest.raises(SnapshotNotFoundError, match="no snapshot yet"):
        table.snapshots.get(1)
    assert table.snapshots.latest() is None
    assert table.snapshots.earliest_id() is None


def test_a_gap_among_snapshots_is_reported(table: FileStoreTable) -> None:
    Path(table.paths.snapshot_path(6)).unlink()
    assert table.snapshots.missing_ranges() == [(6, 6)]
    assert (table.snapshots.earliest_id(), table.snapshots.latest_id()) == (5, 8)
    with pytest.raises(SnapshotNotFoundError, match=r"Snapshot 6 .* is missing, although snapshots 5 to 8 live"):
        table.snapshots.get(6)


def test_hints_are_written(table: FileStoreTable) -> None:
    table.snapshots.write_latest_hint(8)
    table.snapshots.write_earliest_hint(5)
    assert Path(table.paths.latest_hint_path).read_text() == "8"
    assert Path(table.paths.earliest_hint_path).read_text() == "5"


def test_tags_are_listed_by_snapshot(table: FileStoreTable) -> None:
    listed = table.tags.list()
    assert {name: tag.snapshot.id for name, tag in listed.items()} == {
        "first": 1, "renamed tag": 2, "third": 3, "2024-01-02": 5, "7": 5
    }  # fmt: skip
    assert [tag.snapshot.id for tag in listed.values()] == [1, 2, 3, 5, 5]
    assert listed["third"].time_retained == timedelta(days=3650)


def test_a_tag_is_created_renamed_replaced_and_deleted(table: FileStoreTable) -> None:
    snapshot = table.snapshots.get(6)
    assert table.tags.create("new", snapshot)
    assert Path(table.paths.tag_path("new")).read_bytes() == Path(table.paths.snapshot_path(6)).read_bytes()
    assert table.tags.get("new").snapshot == snapshot
    assert not table.tags.create("new", snapshot, ignore_if_exists=True)
    with pytest.raises(PaimonError, match="Tag 'new' already exists"):
        table.tags.create("new", table.snapshots.get(7))
    assert table.tags.get("new").snapshot == snapshot

    now = datetime(2026, 1, 2, 3, 4, 5)
    table.tags.create("kept", snapshot, time_retained=timedelta(hours=1), create_time=now)
    assert table.tags.get("kept").create_time == now
    assert table.tags.get("kept").time_retained == timedelta(hours=1)

    with pytest.raises(PaimonError, match="Tag 'first' already exists"):
        table.tags.rename("new", "first")
    table.tags.rename("new", "newer")
    assert not table.tags.exists("new")
    table.tags.replace("newer", table.snapshots.get(7))
    assert table.tags.get("newer").snapshot.id == 7
    table.tags.delete("newer")
    for act in (table.tags.delete, table.tags.get, lambda name: table.tags.rename(name, "x")):
        with pytest.raises(
            SnapshotNotFoundError, match=r"Tag 'newer' doesn't exist. The tags are: 2024-01-02, 7, first"
        ):
            act("newer")


def test_schemas_are_created_once_and_evolve_exclusively(tmp_path: Path, table: FileStoreTable) -> None:
    paths = TablePaths(str(tmp_path / "new"))
    store = SchemaStore(FileIO.for_path(paths.root), paths)
    assert store.latest() is None
    with pytest.raises(TableNotFoundError, match="no Paimon table"):
        store.commit_next(lambda schema: schema)
    first = table.schemas.get(0)
    store.create(first)
    with pytest.raises(SchemaError, match="creation is not allowed"):
        store.create(first)

    attempts = []

    def change(schema: TableSchema) -> TableSchema:
        if not attempts:  # another writer is faster once
            SchemaStore(FileIO.for_path(paths.root), paths).commit_next(lambda s: _next(s, "winner"))
        attempts.append(schema.id)
        return _next(schema, "ours")

    assert store.commit_next(change).id == 2
    assert attempts == [0, 1]
    assert [schema.comment for schema in store.all()] == [None, "winner", "ours"]
    assert store.commit_next(lambda schema: schema).id == 2
    assert store.ids() == [0, 1, 2]


def _next(schema: TableSchema, comment: str) -> TableSchema:
    from dataclasses import replace

    return replace(schema, id=schema.id + 1, comment=comment)


def test_a_missing_or_wrong_schema_file_is_corrupt(table: FileStoreTable) -> None:
    with pytest.raises(CorruptTableError, match="schema-9 is missing") as raised:
        table.schemas.get(9)
    assert raised.value.path == table.paths.schema_path(9)
    shutil.copy(table.paths.schema_path(0), table.paths.schema_path(1))
    with pytest.raises(CorruptTableError, match="holds the schema id 0"):
        table.schemas.get(1)
