"""Faults of the store at every call of a commit: the table is always readable and is the old one or the new one."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from paimon_spark.commit import publish
from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CommitConflictError, CommitError, CommitStateUnknownError, PaimonError
from paimon_spark.storage.file_io import FileIO, LocalFileIO
from paimon_spark.storage.store_errors import translated
from paimon_spark.table.table import load_table
from tests.support.commits import all_files, fake_file, live_names, make_table, message, referenced_files
from tests.support.faults import FaultyFileIO

QUICK = {"commit.max-retries": "2", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}


def old_table(folder: Path):
    """A dynamic-bucket table with three snapshots; its manifests merge at the next commit."""
    table = make_table(
        folder / "t", primary_key=["k", "dt"], partition=["dt"], bucket="-1", manifest__merge_min_count="3"
    )
    for number in range(3):
        commit(table, [message(table, fake_file(f"old{number}", 2), partition=str(number), hashes=[number])])
    return table


def append(table):
    return commit(table, [message(table, fake_file("new", 5), partition="1", hashes=[7])])


def stream(table):
    return commit(
        table, [message(table, fake_file("new", 5), partition="1", hashes=[7])], commit_user="s", identifier=4
    )


def overwrite(table):
    return commit(
        table, [message(table, fake_file("new", 5), partition="1", hashes=[7])], overwrite=OverwriteSpec.dynamic()
    )


def compact(table):
    old, new = fake_file("old1", 2), fake_file("new", 5, level=5)
    return commit(table, [message(table, partition="1", compact_before=(old,), compact_after=(new,))])


def rows_and_compaction(table):
    new = fake_file("new", 5)
    upgraded = new.upgraded(5)
    both = message(table, new, partition="1", hashes=[7], compact_before=(new,), compact_after=(upgraded,))
    return commit(table, [both])


DEEDS = {
    append: ["old0", "old1", "old2", "new"],
    stream: ["old0", "old1", "old2", "new"],
    overwrite: ["old0", "old2", "new"],
    compact: ["old0", "old2", "new"],
    rows_and_compaction: ["old0", "old1", "old2", "new"],
}
OLD = ["old0", "old1", "old2"]


def outcome(deed, path, io):
    """Run ``deed`` on the table at ``path`` over ``io``; return what it said."""
    table = load_table(path, file_io=FileIO.for_path(path), options=QUICK)
    object.__setattr__(table, "file_io", io)
    object.__setattr__(table.schemas, "_file_io", io)
    for store in ("snapshots", "manifests"):
        table.__dict__.pop(store, None)
    try:
        return deed(table)
    except PaimonError as error:
        return error


def check_sound(path) -> list[str]:
    """Check that everything the table refers to can be read; return its live files."""
    table = load_table(path, file_io=FileIO.for_path(path))
    ids = table.snapshots.ids()
    assert ids == list(range(1, len(ids) + 1))
    for snapshot_id in ids:
        table.manifests.live_entries(table.snapshots.get(snapshot_id))
    assert referenced_files(table) <= all_files(table, "manifest", "index")
    return sorted(live_names(table))


def calls_of(deed, path) -> int:
    io = FaultyFileIO(FileIO.for_path(path))
    assert isinstance(outcome(deed, path, io), int)
    return io.calls


@pytest.mark.parametrize("forever", [False, True], ids=["once", "for-good"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_a_fault_at_any_call_leaves_the_old_or_the_new_table(tmp_path, deed, after, forever):
    origin = old_table(tmp_path / "origin").path
    shutil.copytree(origin, tmp_path / "dry")
    calls = calls_of(deed, str(tmp_path / "dry"))
    assert calls > 15
    kinds = set()
    for number in range(calls):
        path = str(tmp_path / f"fault{number}")
        shutil.copytree(origin, path)
        io = FaultyFileIO(FileIO.for_path(path), number, after=after, forever=forever)
        said = outcome(deed, path, io)
        kinds.add(type(said))
        live = check_sound(path)
        table = load_table(path, file_io=FileIO.for_path(path))
        grown = len(table.snapshots.ids()) > 3
        if isinstance(said, int):
            assert live == sorted(DEEDS[deed]), f"call {number}: {said}"
        elif isinstance(said, CommitStateUnknownError):
            assert live == (sorted(DEEDS[deed]) if grown else OLD)
        elif grown:  # of two snapshots the second one failed
            assert deed is rows_and_compaction
            assert "The rows of this write are committed, as snapshot 4" in str(said)
        else:
            assert isinstance(said, CommitError), f"call {number}: {said!r}"
            assert not isinstance(said, CommitConflictError)
            assert "injected fault" in str(said)
            assert live == OLD
        if not forever and not isinstance(said, CommitStateUnknownError) and io.seen[number] != "delete_quietly":
            assert all_files(table, "manifest", "index") == referenced_files(table), f"call {number}: leftovers"
        assert commit(table, [message(table, fake_file("next"), partition="9")]) == len(table.snapshots.ids())
        assert "next" in check_sound(path)
        shutil.rmtree(path)
    assert int in kinds
    assert (CommitStateUnknownError in kinds) == forever


class LostAnswers(FaultyFileIO):
    """Publishing works, but says that it does not; reading back fails too until ``heal`` is called."""

    def create_exclusive(self, path, data):
        self.inner.create_exclusive(path, data)
        raise TimeoutError("no answer")


def test_a_publication_whose_answer_is_lost_is_recognised_by_its_uuid(tmp_path):
    path = old_table(tmp_path).path
    assert outcome(append, path, LostAnswers(FileIO.for_path(path))) == 4
    assert check_sound(path) == sorted(DEEDS[append])


class Silent(FaultyFileIO):
    """Publishing never works and never says so."""

    def create_exclusive(self, path, data):
        raise TimeoutError("no answer")


def test_a_publication_without_any_answer_is_unknown_and_nothing_is_deleted(tmp_path):
    path = old_table(tmp_path).path
    said = outcome(append, path, Silent(FileIO.for_path(path)))
    assert isinstance(said, CommitStateUnknownError)
    words = str(said)
    for needed in (
        "snapshot 4",
        "snapshot/snapshot-4",
        "uuid",
        "No file was deleted",
        "TimeoutError",
        "run the write again",
    ):
        assert needed in words
    assert check_sound(path) == OLD
    table = load_table(path, file_io=FileIO.for_path(path))
    assert all_files(table, "manifest") > referenced_files(table) & all_files(table, "manifest")


@pytest.mark.parametrize(("more", "attempts"), [({}, 2), ({"commit.timeout": "10 min"}, 3)])
def test_a_store_that_is_silent_is_not_asked_for_long(tmp_path, monkeypatch, more, attempts):
    """Each attempt takes most of a minute there; who gives a time himself has it."""
    path = old_table(tmp_path).path
    clock, tried = [0.0], []

    class Slow(Silent):
        def create_exclusive(self, path, data):
            tried.append(path)
            clock[0] += 20
            raise TimeoutError("no answer")

    monkeypatch.setattr(publish.time, "monotonic", lambda: clock[0])
    monkeypatch.setitem(QUICK, "commit.max-retries", "2")
    for key, value in more.items():
        monkeypatch.setitem(QUICK, key, value)
    assert isinstance(outcome(append, path, Slow(FileIO.for_path(path))), CommitStateUnknownError)
    assert len(tried) == attempts
    assert check_sound(path) == OLD


class Refusing(FaultyFileIO):
    """The snapshot directory may not be written."""

    def create_exclusive(self, path, data):
        raise PermissionError(13, "Permission denied", path)


def test_a_store_that_refuses_is_no_unknown_state(tmp_path):
    path = old_table(tmp_path).path
    said = outcome(append, path, Refusing(FileIO.for_path(path)))
    assert isinstance(said, CommitError)
    assert not isinstance(said, CommitStateUnknownError)
    assert "Permission denied" in str(said)
    table = load_table(path, file_io=FileIO.for_path(path))
    assert all_files(table, "manifest", "index") == referenced_files(table)
    assert check_sound(path) == OLD


class Overtaken(FaultyFileIO):
    """A rival publishes first, the first ``times`` times."""

    times = 1
    lost = 0

    def create_exclusive(self, path, data):
        if "/snapshot-" in path and self.lost < self.times:
            self.lost += 1
            rival = load_table(path.rpartition("/snapshot/")[0], file_io=self.inner)
            commit(rival, [message(rival, fake_file(f"rival{self.lost}"), partition="7", hashes=[100 + self.lost])])
        return self.inner.create_exclusive(path, data)


class OvertakenTwice(Overtaken):
    times = 2


class OvertakenAlways(Overtaken):
    times = 10**6


@pytest.mark.parametrize("deed", [append, stream, overwrite, compact], ids=lambda deed: deed.__name__)
def test_a_commit_that_loses_races_is_done_again_on_top(tmp_path, deed):
    path = old_table(tmp_path).path
    assert outcome(deed, path, OvertakenTwice(FileIO.for_path(path))) == 6
    assert check_sound(path) == sorted([*DEEDS[deed], "rival1", "rival2"])
    table = load_table(path, file_io=FileIO.for_path(path))
    assert all_files(table, "manifest", "index") == referenced_files(table)


def test_a_commit_that_always_loses_gives_up_cleanly(tmp_path):
    path = old_table(tmp_path).path
    said = outcome(append, path, OvertakenAlways(FileIO.for_path(path)))
    assert isinstance(said, CommitConflictError)
    assert "Commit failed after" in str(said)
    assert "with 2 retries, there may be commit conflicts between multiple jobs" in str(said)
    assert "new" not in check_sound(path)
    table = load_table(path, file_io=FileIO.for_path(path))
    assert all_files(table, "manifest", "index") == referenced_files(table)


def test_a_rival_that_takes_the_same_key_elsewhere_is_a_conflict(tmp_path):
    class TakesTheKey(Overtaken):
        def create_exclusive(self, path, data):
            if "/snapshot-" in path and not self.lost:
                self.lost = 1
                rival = load_table(path.rpartition("/snapshot/")[0], file_io=self.inner)
                commit(rival, [message(rival, fake_file("rival"), partition="1", bucket=3, hashes=[7])])
            return self.inner.create_exclusive(path, data)

    path = old_table(tmp_path).path
    said = outcome(append, path, TakesTheKey(FileIO.for_path(path)))
    assert isinstance(said, CommitConflictError)
    assert "run the write again" in str(said)
    assert check_sound(path) == sorted([*OLD, "rival"])


def test_a_rival_compaction_of_the_same_files_is_a_conflict(tmp_path):
    class CompactsFirst(Overtaken):
        def create_exclusive(self, path, data):
            if "/snapshot-" in path and not self.lost:
                self.lost = 1
                rival = load_table(path.rpartition("/snapshot/")[0], file_io=self.inner)
                old, new = fake_file("old1", 2), fake_file("theirs", 5, level=5)
                commit(rival, [message(rival, partition="1", compact_before=(old,), compact_after=(new,))])
            return self.inner.create_exclusive(path, data)

    path = old_table(tmp_path).path
    said = outcome(compact, path, CompactsFirst(FileIO.for_path(path)))
    assert isinstance(said, CommitConflictError)
    assert "File deletion conflicts detected" in str(said)
    assert check_sound(path) == ["old0", "old2", "theirs"]


def test_a_twin_of_the_stream_is_recognised(tmp_path):
    class Twin(Overtaken):
        def create_exclusive(self, path, data):
            if "/snapshot-" in path and not self.lost:
                self.lost = 1
                stream(load_table(path.rpartition("/snapshot/")[0], file_io=self.inner))
            return self.inner.create_exclusive(path, data)

    path = old_table(tmp_path).path
    assert outcome(stream, path, Twin(FileIO.for_path(path))) == 4
    assert check_sound(path) == sorted(DEEDS[stream])
    assert len(load_table(path, file_io=FileIO.for_path(path)).snapshots.ids()) == 4


def test_a_failing_hint_never_fails_a_commit(tmp_path):
    class NoHint(FaultyFileIO):
        def write_bytes(self, path, data, *, overwrite=False):
            if path.endswith("/LATEST"):
                raise RuntimeError("no hints today")
            self.inner.write_bytes(path, data, overwrite=overwrite)

    path = old_table(tmp_path).path
    assert outcome(append, path, NoHint(FileIO.for_path(path))) == 4
    assert check_sound(path) == sorted(DEEDS[append])


def test_a_full_disk_under_the_snapshot_file_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is tried again for seconds, and the outcome is known: the file is not there."""
    table = make_table(tmp_path / "t", commit__max_retries="1000")
    create = LocalFileIO.create_exclusive

    def full(self: LocalFileIO, path: str, data: bytes) -> bool:
        if "snapshot-" in path:
            raise translated(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), path)
        return create(self, path, data)

    monkeypatch.setattr(LocalFileIO, "create_exclusive", full)
    with pytest.raises(CommitError, match=r"could not be written: No space is left for .*Nothing was committed"):
        commit(table, [message(table, fake_file("a"))])
