"""A snapshot that follows one that was rolled back meanwhile is withdrawn, whoever has seen it for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from paimon_spark.commit import file_store_commit, publish
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest, rollback_to_snapshot
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.faults import FaultyFileIO
from tests.support.history import rows


class HookedFileIO(FaultyFileIO):
    """Something else is done right before or right after the first call of a name."""

    __slots__ = ("after", "before")

    def _call(self, name: str, deed: Callable[[], object]) -> object:  # type: ignore[override]
        self.before.pop(name, lambda: None)()
        answer = deed()
        self.after.pop(name, lambda: None)()
        return answer


def append(table: FileStoreTable, key: int) -> int:
    made = commit(table, [message(table, data_file(table, {key: "x"}))])
    assert made is not None
    return made


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """A table with three snapshots, of rows 1 to 3."""
    made = make_table(tmp_path / "t", bucket="-1")
    for key in (1, 2, 3):
        append(made, key)
    return made


def slow_append(table: FileStoreTable, key: int, **hooks: dict[str, Callable[[], object]]) -> int:
    store = HookedFileIO(table.file_io)
    store.before, store.after = hooks.get("before", {}), hooks.get("after", {})
    made = append(replace(load_table(table.path), file_io=store), key)
    assert not store.before
    assert not store.after
    return made


def check_whole(table: FileStoreTable) -> None:
    found = load_table(table.path)
    assert found.snapshots.missing_ranges() == []
    for snapshot_id in found.snapshots.ids():
        assert len(rows(found, snapshot_id=snapshot_id)) == found.snapshots.get(snapshot_id).total_record_count


class Beside:
    """A commit of another thread, which waits for what it may follow."""

    def __init__(self, table: FileStoreTable, key: int) -> None:
        self.made: list[int] = []
        self.thread = Thread(target=lambda: self.made.append(append(load_table(table.path), key)))

    def begin(self) -> None:
        self.thread.start()
        time.sleep(0.5)


@pytest.mark.parametrize("is_late", [False, True], ids=["its id was given again", "its hint came late"])
def test_nobody_follows_what_is_about_to_be_withdrawn(table: FileStoreTable, is_late: bool) -> None:
    beside = Beside(table, 5)

    def rolled_back() -> None:
        rollback_to_snapshot(table, 2)
        if not is_late:
            append(table, 6)

    late = {"create_exclusive": lambda: table.snapshots.announce(3)} if is_late else {}
    made = slow_append(table, 4, before={"create_exclusive": rolled_back, "delete_quietly": beside.begin}, after=late)
    beside.thread.join()
    expected = {1, 2, 4, 5} if is_late else {1, 2, 4, 5, 6}
    assert {made, *beside.made} == ({3, 4} if is_late else {4, 5})
    assert rows(load_table(table.path)).keys() == expected
    check_whole(table)


def test_a_commit_whose_withdrawn_snapshot_was_followed_stands(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival published its own right before the withdrawal, and saw nothing of it."""
    monkeypatch.setattr(file_store_commit, "_FOLLOWER_SECONDS", 0.2)
    follow, others = file_store_commit.snapshot_to_follow, []

    def rival() -> None:
        monkeypatch.setattr(file_store_commit, "snapshot_to_follow", lambda there: there.snapshots.get(4))
        others.append(append(table, 5))
        monkeypatch.setattr(file_store_commit, "snapshot_to_follow", follow)

    before = {"create_exclusive": lambda: rollback_to_snapshot(table, 2), "delete_quietly": rival}
    assert slow_append(table, 4, before=before) == 4
    assert others == [5]
    found = load_table(table.path)
    assert rows(found).keys() == {1, 2, 3, 4, 5}, "the rival took what was rolled back for the table's"
    assert found.snapshots.ids() == [1, 2, 4, 5]


def test_a_compaction_that_keeps_its_files_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves a file to another level: the snapshot that it then follows has a file of that name, too."""
    monkeypatch.setattr(file_store_commit, "_FOLLOWER_SECONDS", 0.2)
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", write_only="true")
    append(table, 1)
    rollback_to_as_latest(table, snapshot_id=1)
    assert table.snapshots.ids() == [1, 2]
    store = HookedFileIO(table.file_io)
    store.before, store.after = {"create_exclusive": lambda: rollback_to_snapshot(table, 1)}, {}
    compact(replace(load_table(table.path), file_io=store), full=True)
    assert not store.before
    found = load_table(table.path)
    assert found.snapshots.ids() == [1, 2]
    latest = found.snapshots.get(2)
    assert found.manifests.live_columns(latest, statistics=False).levels.tolist() == [5]
    append(found, 2)
    assert rows(load_table(table.path)).keys() == {1, 2}
    check_whole(table)


def test_a_commit_waits_for_a_follower_of_its_withdrawn_snapshot(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival has published its own on top, and withdraws it a moment later."""
    monkeypatch.setattr(publish, "_DOUBTFUL_SECONDS", 0)
    pauses: list[float] = []

    def rival() -> None:
        snapshot = replace(table.snapshots.get(4), id=5, uuid="rival")
        table.file_io.create_exclusive(table.paths.snapshot_path(5), snapshot.to_json().encode())
        table.snapshots.write_latest_hint(3)

        def later(seconds: float) -> None:
            pauses.append(seconds)
            publish._withdraw(table, snapshot)

        monkeypatch.setattr(time, "sleep", later)

    before = {"create_exclusive": lambda: rollback_to_snapshot(table, 2), "delete_quietly": rival}
    assert slow_append(table, 4, before=before) == 3
    assert pauses
    assert rows(load_table(table.path)).keys() == {1, 2, 4}
    check_whole(table)


def test_a_rollback_as_the_latest_snapshot_is_built_on_the_one_before_it_though_levels_change(tmp_path: Path) -> None:
    table = make_table(tmp_path / "k", primary_key=["k"], bucket="1")
    append(table, 1)
    compact(table, full=True)
    rollback_to_as_latest(table, snapshot_id=1)
    before, latest = table.snapshots.get(2), table.snapshots.get(3)
    assert publish.changes_only(table, latest, before, unread=False)
    assert publish._doubtful_seconds(table, latest) == 0
