"""Orphan files: what nothing names goes when it is old; whatever a snapshot, tag, branch or changelog names stays."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CorruptTableError, OptionError, PaimonError, UnsupportedError
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import RemovedFiles, remove_orphan_files
from paimon_spark.maintain.purge import purge_files
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.table import consumer_store
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files

LONG_AGO = 1_500_000_000


def grow_old(table: FileStoreTable) -> None:
    """Let all files and directories be years old."""
    for path in Path(table.path).rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Three snapshots, the first expired but for a tag, in a partition each; a branch with a snapshot of its own."""
    made = make_table(tmp_path / "t", partition=["dt"], bucket="-1")
    for number, value in enumerate("abc", start=1):
        file = data_file(made, {number: value}, partition=value)
        commit(made, [message(made, file, partition=value)], overwrite=OverwriteSpec.static())
        tags.create_tag(made, value)
    branches.create_branch(made, "b", tag="b")
    branch = load_table(made.path, branch="b")
    commit(branch, [message(branch, data_file(branch, {9: "x"}, partition="x"), partition="x")])
    tags.delete_tag(made, "b")
    expire_snapshots(made, retain_latest_only())
    return made


def test_nothing_that_is_named_goes(table: FileStoreTable) -> None:
    grow_old(table)
    before = table_files(table)
    assert remove_orphan_files(table) == RemovedFiles(0, 0)
    assert table_files(table) == before
    assert rows(table) == {3: "c"}
    assert rows(table, tag="a") == {1: "a"}
    assert rows(load_table(table.path, branch="b")) == {2: "b", 9: "x"}


LEFT = (
    "dt=a/bucket-0/data-left.parquet",
    "dt=left/bucket-0/data-left-too.parquet",
    "manifest/manifest-left",
    "manifest/manifest-list-left",
    "index/index-left",
    "statistics/stat-left",
    "snapshot/.snapshot-4.tmp",
    "changelog/.changelog-4.tmp",
    "branch/branch-b/snapshot/.snapshot-4.tmp",
    "tag/.tag-z.12345678-1234-1234-1234-123456789abc.tmp",
)


def leave(table: FileStoreTable, *names: str) -> None:
    for name in names:
        path = Path(table.path) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"0123456789")


def test_what_is_left_over_goes(table: FileStoreTable) -> None:
    before = table_files(table)
    kept = ("dt=a/notes.txt", "notes/readme.txt", "tag/.notes", "dt=a/bucket-0/x.managed.blob")
    leave(table, *LEFT, *kept)
    grow_old(table)
    expected = RemovedFiles(len(LEFT), 10 * len(LEFT))
    assert remove_orphan_files(table, dry_run=True) == expected
    assert table_files(table) == before | set(LEFT) | set(kept)
    assert remove_orphan_files(table) == expected
    assert table_files(table) == before | set(kept)
    assert not (Path(table.path) / "dt=left").exists(), "empty directories go too"
    assert remove_orphan_files(table) == RemovedFiles(0, 0)


def test_what_is_young_stays(table: FileStoreTable) -> None:
    leave(table, *LEFT)
    (Path(table.path) / "dt=empty" / "bucket-0").mkdir(parents=True)
    hours_ago = time.time() - 20 * 3600
    for name in LEFT:
        os.utime(Path(table.path) / name, (hours_ago, hours_ago))
    assert remove_orphan_files(table) == RemovedFiles(0, 0), "a day by default"
    assert (Path(table.path) / "dt=empty" / "bucket-0").is_dir()
    found = remove_orphan_files(table, older_than=datetime.now() - timedelta(hours=19))
    assert found.file_count == len(LEFT)
    with pytest.raises(OptionError, match="olderThan must be less than now"):
        remove_orphan_files(table, older_than=datetime.now() + timedelta(minutes=1))


def test_what_a_rollback_left_goes(table: FileStoreTable) -> None:
    commit(table, [message(table, data_file(table, {5: "e"}, partition="e"), partition="e")])
    before = table_files(table)
    rollback.rollback_to_snapshot(table, 3)
    grow_old(table)
    found = remove_orphan_files(table)
    gone = before - table_files(table)
    assert found.file_count == len(gone) - 1, "the snapshot file went with the rollback"
    assert any(name.startswith("dt=e/") for name in gone)
    assert rows(table) == {3: "c"}


def test_what_cannot_be_read_ends_it(table: FileStoreTable) -> None:
    leave(table, *LEFT)
    manifest = table.manifests.manifests_of(table.snapshots.get(3).delta_list)[0].name
    path = Path(table.paths.manifest_path(manifest))
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    grow_old(table)
    before = table_files(table)
    with pytest.raises(CorruptTableError, match=manifest):
        remove_orphan_files(table)
    assert table_files(table) == before
    path.write_bytes(whole)
    for schema in (Path(table.path) / "branch/branch-b/schema").iterdir():
        schema.unlink()
    with pytest.raises(PaimonError, match=r"Branches \['b'\] have no schemas. Orphan files cleaning aborted"):
        remove_orphan_files(table)


def test_a_purged_table_is_empty(table: FileStoreTable) -> None:
    consumer_store.reset_consumer(table, "c", 3)
    leave(table, "dt=a/bucket-0/data-left.parquet")
    purge_files(table)
    assert {name.rpartition("/")[0] for name in table_files(table)} == {"schema", "snapshot", "manifest"}
    assert len(table_files(table, "snapshot")) == 3, "one snapshot and two hints"
    assert rows(table) == {}
    assert not list(Path(table.path).glob("dt=*/bucket-0/*"))
    branches.create_branch(table, "z")
    with pytest.raises(UnsupportedError, match="'z' cannot be purged"):
        purge_files(load_table(table.path, branch="z"))
