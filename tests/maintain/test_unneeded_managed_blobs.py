"""Managed blob files that no row needs go with the orphan files; one that a row may need never does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs.branches import create_branch
from paimon_spark.maintain.refs.rollback import rollback_to_tag
from paimon_spark.maintain.refs.tags import create_tag, delete_tag
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.managed import managed_blob_names, managed_table, put, rows_of, written

LATE = 2**62


def fill(folder: Path) -> FileStoreTable:
    """A table whose first managed blob files are needed by old snapshots alone, after a compaction."""
    table = managed_table(folder)
    put(table.path, [(1, 1, b"old", None, None), (2, 1, b"stays", None, None)])
    put(table.path, [(1, 2, b"new", None, None), (3, 3, b"gone", [b"x"], None)])
    put(table.path, [(3, None, None, None, None)], kinds=[3])
    compact(load_table(table.path, options={"write-only": "false"}), full=True)
    return load_table(table.path)


def expire_all(table: FileStoreTable) -> None:
    expire_snapshots(table, retain_latest_only())


WANTED = [(1, b"new"), (2, b"stays")]


def rows(path: str) -> list[tuple[int, bytes]]:
    return [(row["k"], row["pic"]) for row in rows_of(path)]


def test_packs_that_nothing_needs_go(tmp_path: Path) -> None:
    table = fill(tmp_path)
    before = managed_blob_names(table.path)
    remove_files_before(table, LATE)
    assert managed_blob_names(table.path) == before  # of snapshots
    expire_all(table)
    assert rows(table.path) == WANTED
    young = remove_files_before(table, 1)
    assert (young.file_count, managed_blob_names(table.path)) == (0, before)
    reported = remove_files_before(table, LATE, dry_run=True)
    assert (reported.file_count, managed_blob_names(table.path)) == (
        1,
        before,
    )  # the managed blob file of the column of arrays
    assert remove_files_before(table, LATE) == reported
    assert len(managed_blob_names(table.path)) == len(before) - 1
    assert rows(table.path) == WANTED
    put(table.path, [(2, 2, b"other", None, None)])
    compact(load_table(table.path, options={"write-only": "false"}), full=True)
    expire_all(load_table(table.path))
    remove_files_before(load_table(table.path), LATE)
    assert rows(table.path) == [(1, b"new"), (2, b"other")]
    assert len(managed_blob_names(table.path)) == 2


def test_what_failed_writes_leave_goes(tmp_path: Path) -> None:
    table = fill(tmp_path)
    expire_all(table)
    remove_files_before(table, LATE)
    before = managed_blob_names(table.path)
    written(table, [(9, 9, b"never committed", [b"x"], None)])
    assert len(managed_blob_names(table.path)) == len(before) + 2
    remove_files_before(table, LATE)
    assert managed_blob_names(table.path) == before
    assert not [p for p in Path(table.path).rglob("*.blobref") if not Path(str(p).removesuffix(".blobref")).exists()]


def test_tags_and_branches_keep_blob_files(tmp_path: Path) -> None:
    table = fill(tmp_path)
    create_tag(table, "first", snapshot_id=1)
    create_tag(table, "second", snapshot_id=2)
    create_branch(table, "b", tag="first")
    before = managed_blob_names(table.path)
    delete_tag(table, "first")
    expire_all(table)
    remove_files_before(table, LATE)
    assert managed_blob_names(table.path) == before
    assert rows(f"{table.path}$branch_b") == [(1, b"old"), (2, b"stays")]
    assert rows_of(table.path, **{"scan.tag-name": "second"})[2]["many"] == [b"x"]
    rollback_to_tag(load_table(table.path), "second")
    remove_files_before(load_table(table.path), LATE)
    assert rows(table.path) == [(1, b"new"), (2, b"stays"), (3, b"gone")]
    assert managed_blob_names(table.path) == before


@pytest.mark.parametrize("damage", ["missing", "cut off", "a later version"])
def test_all_blob_files_stay_where_it_is_not_known_what_is_needed(tmp_path: Path, damage: str) -> None:
    table = fill(tmp_path)
    expire_all(table)
    before = managed_blob_names(table.path)
    (found,) = Path(table.path).rglob("*.blobref")
    data = found.read_bytes()
    if damage == "missing":
        os.remove(found)
    else:
        found.write_bytes(data[:-1] if damage == "cut off" else data[:4] + b"\x02" + data[5:])
    remove_files_before(table, LATE)
    assert managed_blob_names(table.path) == before
    assert rows(table.path) == WANTED
