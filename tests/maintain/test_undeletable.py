"""Files that cannot be deleted (a read-only directory): whatever deletes tells what it did, not what it meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CommitError, PaimonError
from paimon_spark.maintain.expire.snapshots import expire_all_changelogs, expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.needed_files import delete_unused_files
from paimon_spark.maintain.files.orphan_files import RemovedFiles, remove_orphan_files
from paimon_spark.maintain.refs import rollback, tags
from paimon_spark.storage import local_files
from paimon_spark.table import consumer_store
from paimon_spark.table.consumer_store import ConsumerStore
from paimon_spark.table.table import FileStoreTable
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files

LONG_AGO = 1_500_000_000


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Four snapshots, each of which replaces the one before."""
    made = make_table(tmp_path / "t", bucket="-1")
    for number in range(1, 5):
        commit(made, [message(made, data_file(made, {number: "x"}))], overwrite=OverwriteSpec.static())
    return made


def make_read_only(monkeypatch: pytest.MonkeyPatch, part: str = "") -> None:
    """Let no file be deleted whose path has this part."""
    unlink = os.unlink

    def refuse(path: str, **options: Any) -> None:
        if part in path and not path.endswith(".tmp"):
            raise PermissionError(13, "Permission denied", path)
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", refuse)  # which is not among os.supports_dir_fd, so that it is given whole paths


def test_expiry_shows_what_it_deleted(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    before = table_files(table)
    with monkeypatch.context() as patch:
        make_read_only(patch)
        assert expire_snapshots(table, retain_latest_only()) == 0
    assert table_files(table) - {"snapshot/EARLIEST"} == before
    with monkeypatch.context() as patch:
        make_read_only(patch, "/snapshot/snapshot-2")
        assert expire_snapshots(table, retain_latest_only()) == 2
    assert table.snapshots.ids() == [2, 4]
    assert table.snapshots.earliest_id() == 2
    assert expire_snapshots(table, retain_latest_only()) == 1
    assert table.snapshots.ids() == [4]
    assert rows(table) == {4: "x"}


def test_changelogs_that_stay_are_not_counted(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    decoupled = table.with_options({"changelog.num-retained.max": "100", "changelog.num-retained.min": "50"})
    with monkeypatch.context() as patch:
        make_read_only(patch, "/snapshot/snapshot-1")
        assert expire_snapshots(decoupled, retain_latest_only()) == 2
    assert table.snapshots.ids() == [1, 4]
    with monkeypatch.context() as patch:
        make_read_only(patch, "/changelog/changelog-3")
        assert expire_all_changelogs(decoupled) == 2
    assert [path.name for path in (Path(table.path) / "changelog").glob("changelog-*")] == ["changelog-3"]


def test_orphan_files_that_stay_are_not_counted(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("manifest/manifest-a", "manifest/manifest-b", "snapshot/.snapshot-9.tmp"):
        (Path(table.path) / name).write_bytes(b"0123456789")
    for path in Path(table.path).rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    with monkeypatch.context() as patch:
        make_read_only(patch, "manifest-b")
        assert remove_orphan_files(table, dry_run=True) == RemovedFiles(3, 30)
        assert remove_orphan_files(table) == RemovedFiles(2, 20)
    assert remove_orphan_files(table) == RemovedFiles(1, 10)


def test_a_tag_that_stays_keeps_its_files(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        tags.create_tag(table, f"t{number}", snapshot_id=number)
    expire_snapshots(table, retain_latest_only())
    with monkeypatch.context() as patch:
        make_read_only(patch, "/tag/tag-t1")
        with pytest.raises(PaimonError, match=r"Tag 't1' could not be deleted \(1 of 2\)"):
            tags.delete_tags(table, ["t1", "t2"])
        with pytest.raises(PaimonError, match="tag-t1 could not be deleted"):
            table.tags.rename("t1", "new")
    assert table.tags.names() == ["new", "t1"]
    assert rows(table, tag="t1") == {1: "x"}
    tags.delete_tags(table, ["t1", "new"])
    assert not list((Path(table.path) / "tag").iterdir())


def test_a_rollback_that_leaves_later_tags_says_so(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    tags.create_tag(table, "late", snapshot_id=4)
    with monkeypatch.context() as patch:
        make_read_only(patch, "/tag/tag-late")
        with pytest.raises(CommitError, match="tags of later snapshots could not be deleted: late"):
            rollback.rollback_to_snapshot(table, 2)
    rollback.rollback_to_snapshot(table, 2)
    assert table.tags.names() == []


def test_a_rollback_gives_up_snapshots_that_stay(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    delete = local_files.delete
    with monkeypatch.context() as patch:
        make_read_only(patch, "/snapshot/snapshot-4")
        patch.setattr(local_files, "delete", lambda path, **how: tried.append(path) or delete(path, **how))
        with pytest.raises(CommitError, match=r"its latest snapshot is 4 now.*or a file could not be deleted"):
            rollback.rollback_to_snapshot(table, 2)
    assert len([path for path in tried if path.endswith("/snapshot-4")]) < 10
    rollback.rollback_to_snapshot(table, 2)
    assert rows(table) == {2: "x"}


def test_a_consumer_that_stays_is_not_called_deleted(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    ConsumerStore(table.file_io, table.paths).reset("c", 2)
    with monkeypatch.context() as patch:
        make_read_only(patch, "/consumer/")
        with pytest.raises(PaimonError, match="Consumer 'c' could not be deleted"):
            consumer_store.clear_consumers(table)
    assert consumer_store.clear_consumers(table) == ["c"]


def test_unused_files_that_stay_are_not_counted(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    tags.create_tag(table, "t1", snapshot_id=1)
    first = table.snapshots.get(1)
    expire_snapshots(table, retain_latest_only())
    table.tags.delete("t1")
    with monkeypatch.context() as patch:
        make_read_only(patch, "/bucket-0/")
        assert delete_unused_files(table, [first]) == 2  # its two manifest lists; the manifest is the latest one's too
    assert local_files.delete(f"{table.path}/nothing", recursive=False)
