"""Rollbacks, tags, branches and expiry wait for each other; commits and readers wait for nobody."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import PaimonError, TableBusyError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files import lease as lease_module
from paimon_spark.maintain.files.lease import PREFIX, lease, waiting_at_most
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files

DEEDS: dict[str, Callable[[FileStoreTable], Any]] = {
    "rollback": lambda table: rollback.rollback_to_snapshot(table, 2),
    "rollback to a tag": lambda table: rollback.rollback_to_tag(table, "one"),
    "rollback as latest": lambda table: rollback_to_as_latest(table, tag="one"),
    "fast forward": lambda table: fast_forward(table, "b"),
    "expire": lambda table: expire_snapshots(table, retain_latest_only()),
    "create_tag": lambda table: tags.create_tag(table, "new"),
    "replace_tag": lambda table: tags.replace_tag(table, "one", snapshot_id=2),
    "rename_tag": lambda table: tags.rename_tag(table, "one", "new"),
    "delete_tag": lambda table: tags.delete_tag(table, "one"),
    "create_branch": lambda table: branches.create_branch(table, "new"),
    "rename_branch": lambda table: branches.rename_branch(table, "b", "new"),
    "delete_branch": lambda table: branches.delete_branch(table, "b"),
}


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    made = make_table(tmp_path / "t", bucket="-1")
    for number in range(1, 4):
        commit(made, [message(made, data_file(made, {number: "x"}))])
    tags.create_tag(made, "one", snapshot_id=1)
    branches.create_branch(made, "b", tag="one")
    return made


def clock(sleep: Callable[[float], object]) -> SimpleNamespace:
    """What the module of the lease takes for `time`; other threads have their own."""
    return SimpleNamespace(monotonic=time.monotonic, sleep=sleep)


def held_elsewhere(table: FileStoreTable) -> Path:
    """The lease of a process on another machine."""
    path = Path(table.paths.snapshot_dir) / f"{PREFIX}0"
    path.write_text(json.dumps({"work": "an expiry", "machine": "m", "process": 7, "beat": 3}))
    return path


def contents(table: FileStoreTable) -> dict[str, bytes]:
    return {name: (Path(table.path) / name).read_bytes() for name in table_files(table)}


@pytest.mark.parametrize("deed", DEEDS)
def test_one_operation_excludes_another(table: FileStoreTable, deed: str) -> None:
    left, before = held_elsewhere(table), contents(table)
    with (
        waiting_at_most(0),
        pytest.raises(TableBusyError, match=r"Nothing was done .* an expiry \(process 7\) is at work.*Try again"),
    ):
        DEEDS[deed](table)
    assert contents(table) == before
    left.unlink()
    DEEDS[deed](table)
    assert contents(table) != before
    assert not [name for name in os.listdir(table.paths.snapshot_dir) if name.startswith(PREFIX)]


def test_a_directory_that_cannot_be_written(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(io: object, path: str, data: bytes, *, overwrite: bool = False) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(type(table.file_io), "write_bytes", refuse)
    with pytest.raises(PaimonError, match=r"Nothing was done \(delete_tag of .*Permission denied.*files can be made"):
        tags.delete_tag(table, "one")


def test_branches_of_a_table_share_one_lease(table: FileStoreTable) -> None:
    left = held_elsewhere(table)
    branch = load_table(table.path, branch="b")
    with waiting_at_most(0), pytest.raises(TableBusyError):
        tags.create_tag(branch, "new")
    left.unlink()
    tags.create_tag(branch, "new")


def test_commits_and_reads_do_not_wait(table: FileStoreTable) -> None:
    held_elsewhere(table)
    assert commit(table, [message(table, data_file(table, {4: "x"}))]) == 4
    assert set(rows(table)) == {1, 2, 3, 4}


def test_expiry_after_a_commit_is_left_to_the_next(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "time", clock(lambda _: pytest.fail("it waits")))
    expiring = table.with_options({"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1"})
    left = held_elsewhere(table)
    for number, ids in ((4, [1, 2, 3, 4]), (5, [4, 5])):
        commit(
            expiring,
            [message(expiring, data_file(expiring, {number: "x"}))],
            after_commit=maintenance(expiring),
        )
        assert table.snapshots.ids() == ids
        left.unlink(missing_ok=True)


def test_the_tag_of_a_batch_waits(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("paimon_spark.maintain.after_commit._TAGS_WAIT_SECONDS", 0.05)
    tagging = table.with_options({"tag.automatic-creation": "batch"})
    held_elsewhere(table)
    commit(tagging, [message(tagging, data_file(tagging, {4: "x"}))], after_commit=maintenance(tagging))
    assert "the work after snapshot 4 is not done: Nothing was done (create_tag" in caplog.text


def test_threads_of_a_process_wait_for_each_other(table: FileStoreTable) -> None:
    failed = []

    def tag() -> None:
        try:
            with waiting_at_most(0):
                tags.create_tag(table, "new")
        except PaimonError as error:
            failed.append(type(error))

    with lease(table.file_io, table.paths.snapshot_dir, "a rollback", wait_seconds=0):
        thread = threading.Thread(target=tag)
        thread.start()
        thread.join()
    assert failed == [TableBusyError]


def test_a_wait_ends_with_the_work_of_the_other(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    left, waited = held_elsewhere(table), []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            left.unlink()

    monkeypatch.setattr(lease_module, "time", clock(pause))
    tags.create_tag(table, "new")
    assert len(waited) == 3
    assert "new" in table.tags.names()
    assert lease_module._HELD.places == set()


class _Elsewhere(LocalFileIO):
    """The same paths in another store."""

    @property
    def address(self) -> str:
        return "elsewhere"


def test_a_lease_of_one_path_in_another_store_is_another_one(table: FileStoreTable) -> None:
    with lease_module._alone(table, "work"), waiting_at_most(0):
        tags.create_tag(table, "new")
        with pytest.raises(TableBusyError, match="work"):
            tags.create_tag(replace(table, file_io=_Elsewhere()), "other")
    assert set(table.tags.names()) == {"one", "new"}


def test_a_tag_that_is_made_while_another_expires_its_snapshot(table: FileStoreTable) -> None:
    """Whoever is at work may not have seen the tag: it is looked at again when the other has ended."""
    left, pauses = held_elsewhere(table), []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            assert "new" in table.tags.names()
            Path(table.paths.snapshot_path(2)).unlink()
            left.unlink()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease_module, "time", clock(pause))
        with pytest.raises(PaimonError, match="snapshot #2 has expired meanwhile"):
            tags.create_tag(table, "new", snapshot_id=2)
    assert "new" not in table.tags.names()


def test_a_tag_without_rivals_takes_no_lease(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paimon_spark.maintain.files.lease.lease", None)
    tags.create_tag(table, "new", snapshot_id=2)
    assert table.tags.get("new").snapshot.id == 2
