"""A rollback alongside a commit: a hint that comes late or cannot be written blocks no table and loses no file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitError, CorruptTableError, SnapshotNotFoundError
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files import lease
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files
from tests.support.interrupting import with_a_rival


def add(table: FileStoreTable, number: int) -> int | None:
    return commit(table, [message(table, data_file(table, {number: "x"}))])


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    made = make_table(tmp_path / "t", bucket="-1")
    for number in range(1, 6):
        add(made, number)
    tags.create_tag(made, "third", snapshot_id=3)
    return made


def latest_hint(table: FileStoreTable) -> int:
    return int(Path(table.paths.latest_hint_path).read_text())


BACK: dict[str, Callable[[FileStoreTable], Any]] = {
    "snapshot": lambda table: rollback.rollback_to_snapshot(table, 3),
    "tag": lambda table: rollback.rollback_to_tag(table, "third"),
    "timestamp": lambda table: rollback.rollback_to_timestamp(table, table.snapshots.get(3).time_millis),
}


@pytest.mark.parametrize("way", BACK)
def test_a_rollback_between_a_commit_and_its_hint(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    write_hint = SnapshotStore.write_latest_hint
    late = []

    def hinted(store: SnapshotStore, snapshot_id: int) -> None:
        if not late:
            late.append(snapshot_id)
            BACK[way](table)
        write_hint(store, snapshot_id)

    monkeypatch.setattr(SnapshotStore, "write_latest_hint", hinted)
    assert add(table, 6) == 6  # committed, and taken back by the rollback right after
    assert late == [6]
    assert (latest_hint(table), table.snapshots.ids()) == (3, [1, 2, 3])
    assert add(table, 7) == 4


def test_a_late_hint_of_another_writer_does_not_block_the_table(table: FileStoreTable) -> None:
    """Java and writers that were killed do not look at their hint again."""
    rollback.rollback_to_snapshot(table, 2)
    Path(table.paths.latest_hint_path).write_text("5")
    assert table.snapshots.latest_id() == 2
    expire_snapshots(table, retain_latest_only())
    assert add(table, 6) == 3
    assert latest_hint(table) == 3


def test_a_snapshot_that_is_lost_after_a_rollback_is_still_reported(table: FileStoreTable) -> None:
    rollback.rollback_to_snapshot(table, 2)
    for number in (6, 7):
        add(table, number)
    Path(table.paths.snapshot_path(4)).unlink()
    with pytest.raises(CorruptTableError, match="a commit is lost"):
        add(table, 8)


def test_a_late_hint_after_a_fast_forward(table: FileStoreTable) -> None:
    branches.create_branch(table, "br", tag="third")
    fast_forward(table, "br")
    Path(table.paths.latest_hint_path).write_text("5")
    assert add(table, 6) == 4


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("way", BACK)
def test_a_rollback_deletes_nothing_before_the_hint_is_written(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, way: str, written: bool
) -> None:
    """No space, an I/O error; or the write answers as if it had worked."""
    before = table_files(table)
    kind, real = type(table.file_io), type(table.file_io).write_bytes

    def fails(io: Any, path: str, data: bytes, *, overwrite: bool = False) -> None:
        if not path.endswith("/LATEST"):
            real(io, path, data, overwrite=overwrite)
        elif not written:
            raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(kind, "write_bytes", fails)
    with pytest.raises(CommitError, match="is not rolled back to snapshot 3, and nothing was deleted"):
        BACK[way](table)
    assert table_files(table) == before
    monkeypatch.undo()
    assert BACK[way](table).current_snapshot_id == 3
    assert add(table, 6) == 4


def test_a_commit_after_a_deleted_snapshot_goes_though_its_id_was_taken_again(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One commit follows snapshot 4 just before that is deleted; another takes the id 4 right after."""
    real, made = type(table.file_io).delete_quietly, []

    def deleted(io: Any, path: str) -> bool:
        if path != table.paths.snapshot_path(4) or made:
            return real(io, path)
        made.append(add(table, 6))
        Path(table.paths.latest_hint_path).write_text("3")  # the hint of that commit comes later
        done = real(io, path)
        made.append(add(table, 7))
        return done

    monkeypatch.setattr(type(table.file_io), "delete_quietly", deleted)
    with pytest.raises(CommitError, match=r"its latest snapshot is 4 now\. Another writer has committed meanwhile"):
        rollback.rollback_to_snapshot(table, 3)
    monkeypatch.undo()
    assert made == [5, 4]
    assert set(rows(table)) == {1, 2, 3, 7}
    assert table.snapshots.ids() == [1, 2, 3, 4]
    assert add(table, 8) == 5


def test_a_rollback_to_an_expired_tag_leaves_no_snapshot_of_it_when_it_fails(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire_snapshots(table, retain_latest_only())
    before = table_files(table)
    kind, real = type(table.file_io), type(table.file_io).write_bytes

    def fails(io: Any, path: str, data: bytes, *, overwrite: bool = False) -> None:
        if path.endswith("/LATEST"):
            raise OSError(5, "Input/output error", path)
        real(io, path, data, overwrite=overwrite)

    monkeypatch.setattr(kind, "write_bytes", fails)
    with pytest.raises(CommitError, match="nothing was deleted"):
        rollback.rollback_to_tag(table, "third")
    assert table_files(table) == before


def before_creating(monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object]) -> None:
    """Do something when a commit has built its snapshot and is about to create the file; once."""
    kind, real, done = type(FileIO.for_path("/")), type(FileIO.for_path("/")).create_exclusive, []

    def late(io: Any, path: str, data: bytes) -> bool:
        if "/snapshot-" in path and not done:
            done.append(True)
            deed()
        return real(io, path, data)

    monkeypatch.setattr(kind, "create_exclusive", late)


@pytest.mark.parametrize("later", [0, 1, 2, 4])
def test_a_commit_brings_back_nothing_that_was_rolled_back(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """The commit was built on snapshot 5; what others committed after the rollback stays."""

    def rival() -> None:
        rollback.rollback_to_snapshot(table, 3)
        for number in range(later):
            add(table, 10 + number)

    before_creating(monkeypatch, rival)
    made = add(table, 7)
    assert made == 4 + later
    assert table.snapshots.ids() == list(range(1, made + 1))
    assert sorted(rows(table)) == [1, 2, 3, 7, *range(10, 10 + later)]
    assert latest_hint(table) == made


def test_a_snapshot_that_has_expired_meanwhile_was_not_rolled_back(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SnapshotStore.find

    def find(store: SnapshotStore, snapshot_id: int) -> Any:
        if snapshot_id == 5 and store.exists(6):
            for expired in range(1, 6):
                Path(table.paths.snapshot_path(expired)).unlink(missing_ok=True)
        return real(store, snapshot_id)

    monkeypatch.setattr(SnapshotStore, "find", find)
    assert add(table, 7) == 6
    assert sorted(rows(table)) == [1, 2, 3, 4, 5, 7]


def test_a_commit_that_comes_while_a_rollback_deletes_is_rolled_back_too(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, real, made = type(table.file_io), type(table.file_io).delete_quietly, []

    def delete(io: Any, path: str, **more: Any) -> bool:
        if path.endswith("/snapshot-5") and not made:
            made.append(0)
            made.append(add(table, 7))
        return bool(real(io, path, **more))

    monkeypatch.setattr(kind, "delete_quietly", delete)
    assert rollback.rollback_to_snapshot(table, 3).current_snapshot_id == 3
    assert made == [0, 6]
    assert (latest_hint(table), table.snapshots.ids()) == (3, [1, 2, 3])
    monkeypatch.undo()
    for number in range(8, 12):
        add(table, number)
    assert sorted(rows(table)) == [1, 2, 3, *range(8, 12)]


@pytest.mark.parametrize(("target", "other"), [(4, 2), (2, 4)])
def test_a_rollback_during_another_at_every_call(
    table: FileStoreTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: int, other: int
) -> None:
    """A rival that comes before the first beat of the lease waits until the lease counts as dead."""
    monkeypatch.setattr(lease, "_BEAT_SECONDS", 0.1)
    monkeypatch.setattr(lease, "_DEAD_SECONDS", 1.0)
    (origin := tmp_path / "origin").mkdir()
    Path(table.path).rename(origin / "t")

    def back(directory: Path, to: int) -> None:
        rollback.rollback_to_snapshot(load_table(str(directory / "t")), to)

    def rival(directory: Path) -> None:
        with contextlib.suppress(CommitError, SnapshotNotFoundError):
            back(directory, other)

    blocked = []
    for number, (copy, _) in enumerate(with_a_rival(origin, lambda at: back(at, target), rival, tmp_path)):
        left = load_table(str(copy / "t"))
        if left.snapshots.lost_id() is not None or add(left, 7) != len(left.snapshots.ids()):
            blocked.append((number, left.snapshots.ids(), latest_hint(left)))
    assert not blocked
