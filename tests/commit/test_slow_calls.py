"""A storage call that takes long: others commit, compact and expire meanwhile, and all stays right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitStateUnknownError, PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots, retain_latest_only
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.faults import FaultyFileIO
from tests.support.history import rows
from tests.support.seeds import chance

CALLS = 10


class SlowFileIO(FaultyFileIO):
    """One call takes so long that something else is done meanwhile: before its deed, or before its answer."""

    __slots__ = ("meanwhile",)

    def _call(self, name: str, deed: Callable[[], object]) -> object:  # type: ignore[override]
        number, self.calls = self.calls, self.calls + 1
        if number != self.fail_at:
            return deed()
        if not self.after:
            self.meanwhile()
            return deed()
        answer = deed()
        self.meanwhile()
        return answer


def append(table: FileStoreTable, key: int) -> dict[int, str]:
    new = {key: f"v{key}"}
    commit(table, [message(table, data_file(table, new, sequence=key))])
    return new


def compacted(table: FileStoreTable, _key: int) -> dict[int, str]:
    compact(table, full=True)
    return {}


def expired(table: FileStoreTable, _key: int) -> dict[int, str]:
    expire_snapshots(table, retain_latest_only())
    return {}


DEEDS = {"commit": append, "compact": compacted, "expire": expired}


@pytest.mark.parametrize("rival", DEEDS)
@pytest.mark.parametrize("slow", DEEDS)
@pytest.mark.parametrize("key", [(), ("k",)], ids=["append", "keyed"])
def test_others_at_work_during_any_call(tmp_path: Path, slow: str, rival: str, key: tuple[str, ...]) -> None:
    made = make_table(tmp_path / "t", bucket="1", primary_key=key, compaction__min_file_num="2")
    expected = {}
    for number in range(3):
        expected |= append(made, number)
    random = chance("slow", slow, rival, key)
    calls, next_key = 200, 100
    for after in (False, True):
        at = 0
        while at < calls:
            store = SlowFileIO(made.file_io, at, after=after)

            def meanwhile() -> None:
                nonlocal next_key, expected
                next_key += 1
                expected |= DEEDS[rival](load_table(made.path), next_key)

            store.meanwhile = meanwhile
            table = replace(load_table(made.path), file_io=store)
            next_key += 1
            with contextlib.suppress(PaimonError):  # alongside others it may have to be done again: that is said
                try:
                    expected |= DEEDS[slow](table, next_key)
                except CommitStateUnknownError:
                    pytest.fail("nothing failed here")
            assert rows(load_table(made.path)) == expected, f"call {at}, after={after}"
            calls = store.calls
            at += random.randint(1, max(1, 2 * calls // CALLS))
    snapshots = load_table(made.path).snapshots
    assert snapshots.missing_ranges() == []
    for snapshot_id in snapshots.ids():
        rows(load_table(made.path, options={"scan.snapshot-id": str(snapshot_id)}))


@pytest.mark.parametrize("after", [False, True])
def test_an_id_that_is_free_again_is_no_success(tmp_path: Path, after: bool) -> None:
    """Others commit, compact and expire all but the latest: the id of a slow commit was taken, and is free again."""
    unknown = 0
    for at in range(14):
        made = make_table(tmp_path / f"t{at}", bucket="1", compaction__min_file_num="2")
        append(made, 0)
        append(made, 1)
        store = SlowFileIO(made.file_io, at, after=after)

        def meanwhile(path: str = made.path, first: int = 1000 * (at + 1)) -> None:
            for number, deed in enumerate((append, compacted, expired)):
                deed(load_table(path), first + number)

        store.meanwhile = meanwhile
        key = 500 + at
        try:
            append(replace(load_table(made.path), file_io=store), key)
        except CommitStateUnknownError as error:
            unknown += "its id may have been given twice" in str(error)
        except PaimonError:
            assert key not in rows(load_table(made.path))
        else:
            assert key in rows(load_table(made.path)), f"call {at}"
        assert store.calls <= at or 1000 * (at + 1) in rows(load_table(made.path)), f"call {at}"
    assert unknown


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_commit_that_others_build_on_is_a_success(tmp_path: Path, kept: int) -> None:
    """The snapshot before it expires while its publication takes long, and others have committed on top of it."""
    made = make_table(tmp_path / "t", bucket="1")
    append(made, 0)
    append(made, 1)
    number = FaultyFileIO(made.file_io)
    append(replace(load_table(made.path), file_io=number), 2)
    store = SlowFileIO(made.file_io, number.seen.index("create_exclusive"), after=True)

    def meanwhile() -> None:
        append(load_table(made.path), 10)
        few = Retention.of_snapshots(made.options).with_arguments(retain_max=kept, retain_min=kept)
        expire_snapshots(load_table(made.path), few)

    store.meanwhile = meanwhile
    slow = replace(load_table(made.path), file_io=store)
    if kept == 1:  # its own snapshot is gone, too: only the rows tell
        with pytest.raises(CommitStateUnknownError, match="its id may have been given twice"):
            append(slow, 3)
    else:
        append(slow, 3)
    assert set(rows(load_table(made.path))) == {0, 1, 2, 3, 10}
