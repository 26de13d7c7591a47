"""Compaction of append tables with deletion vectors: deleted rows are gone, and so are the vectors."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from paimon_spark.errors import CommitConflictError, CorruptTableError
from paimon_spark.maintain.compact.compaction import compact, rewrite_here
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.table import FileStoreTable
from tests.support.vectors import change, put, rows_of, table_of, without


def vectors(table: FileStoreTable) -> dict[str, int | None]:
    return {key[2]: location.cardinality for key, location in vectors_of(table, table.snapshots.latest()).items()}


def live(table: FileStoreTable) -> dict[str, int]:
    return {e.file.file_name: e.file.row_count for e in table.manifests.live_entries(table.snapshots.latest())}


@pytest.mark.parametrize("bucketed", [None, "true"])
@pytest.mark.parametrize("full", [True, False])
def test_files_are_joined_without_deleted_rows(tmp_path: Path, bucketed: str | None, full: bool) -> None:
    table, (a, b, c) = table_of(tmp_path, bucketed=bucketed, compaction__min__file_num="3")
    put(table, change(table, {a: [1, 5], c: list(range(100))}))
    before = rows_of(table)
    assert compact(table, full=full) is not None
    assert rows_of(table) == before
    assert vectors(table) == {}
    assert sum(live(table).values()) == 198
    assert {a, c}.isdisjoint(live(table))
    assert (b in live(table)) == (bucketed is None)  # one file without vectors is no reason to join
    assert compact(table, full=full) is None


def test_vectors_of_other_files_stay(tmp_path: Path) -> None:
    """Only a file of which much is deleted is due when files are large."""
    table, (a, b, _) = table_of(tmp_path, target_file_size="1 kb", compaction__small_file_ratio="0.1")
    put(table, change(table, {a: list(range(30)), b: [7]}))
    compact(table)
    assert vectors(table) == {b: 1}
    assert rows_of(table)["0"] == list(range(30, 100))
    assert rows_of(table)["1"] == without(7)
    compact(table.with_options({"compaction.delete-ratio-threshold": "0.001"}))
    assert vectors(table) == {}
    assert rows_of(table)["1"] == without(7)


@pytest.mark.parametrize("bucketed", [None, "true"])
def test_a_deletion_meanwhile_is_not_lost(tmp_path: Path, bucketed: str | None) -> None:
    table, (a, b, _) = table_of(tmp_path, bucketed=bucketed)
    put(table, change(table, {a: [1]}))

    def rewrite_late(to: FileStoreTable, rewrites: object) -> object:
        put(table, change(table, {b: [2]}))
        return rewrite_here(to, rewrites)  # type: ignore[arg-type]

    before = set((tmp_path / "t").rglob("*-*"))
    if bucketed:
        with pytest.raises(CommitConflictError, match="File deletion conflicts"):
            compact(table, execute=rewrite_late)  # type: ignore[arg-type]
        left = {path.name for path in set((tmp_path / "t").rglob("*-*")) - before if path.parent.name != "manifest"}
        snapshot = table.snapshots.latest()
        assert snapshot is not None
        assert left == {f"snapshot-{snapshot.id}", *(e.file_name for e in table.manifests.index_entries(snapshot))}
    else:  # b is not touched: it has no vector when the compaction is planned
        compact(table, execute=rewrite_late)  # type: ignore[arg-type]
        assert vectors(table) == {b: 1}
    assert rows_of(table)["1"] == without(2)


def test_a_damaged_index_file_stops_a_compaction(tmp_path: Path) -> None:
    table, (a, b, _) = table_of(tmp_path)
    put(table, change(table, {a: [1], b: [2]}))
    (index,) = (tmp_path / "t" / "index").iterdir()
    index.write_bytes(index.read_bytes()[:20])
    with pytest.raises(CorruptTableError, match="damaged"):
        compact(table)
    assert table.snapshots.latest_id() == 2


def test_index_files_go_with_the_last_snapshot_that_names_them(tmp_path: Path) -> None:
    table, (a, b, _) = table_of(tmp_path)
    for number in range(3):
        put(table, change(table, {a: [number], b: [number]}))
    compact(table)
    folder = tmp_path / "t" / "index"
    assert len(list(folder.iterdir())) == 3
    (folder / "index-lost-0").write_bytes(b"\1")
    for path in folder.iterdir():
        os.utime(path, (1e9, 1e9))
    remove_orphan_files(table)
    assert len(list(folder.iterdir())) == 3
    expire_snapshots(table, Retention(1, 2, timedelta(days=1), 50))
    assert len(list(folder.iterdir())) == 1
    assert rows_of(table.with_options({"scan.snapshot-id": "4"}))["0"] == without(0, 1, 2)
    expire_snapshots(table, Retention(1, 1, timedelta(0), 50))
    assert not list(folder.iterdir())
    assert rows_of(table) == {"0": without(0, 1, 2), "1": without(0, 1, 2), "2": without()}
