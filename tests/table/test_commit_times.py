"""Times of snapshots ascend when clocks do not, and a read of "now" sees everything."""

from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest, rollback_to_timestamp
from paimon_spark.table import time_travel
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.table.time_travel import count_until, resolve_snapshot
from tests.support.commits import fake_file, make_table, message, snapshot_json

NOON = 1_700_000_000_000
HOUR = 3_600_000


class Clock:
    """What time it is, by order of the test."""

    millis = NOON

    def time(self) -> float:
        return self.millis / 1000

    def time_ns(self) -> int:
        return self.millis * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(time_travel, "time", own)
    return own


def commits_at(table: FileStoreTable, clock: Clock, *times: int) -> None:
    for millis in times:
        clock.millis = millis
        commit(table, [message(table, fake_file(f"f{len(table.snapshots.ids())}"))])


def seen(table: FileStoreTable, millis: int) -> int | None:
    options = {"scan.timestamp-millis": str(millis)}
    snapshot = resolve_snapshot(load_table(table.path, options=options))
    return None if snapshot is None else snapshot.id


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    return make_table(tmp_path / "t", bucket="-1")


def test_times_ascend_though_the_clock_goes_back(table: FileStoreTable, clock: Clock) -> None:
    commits_at(table, clock, NOON, NOON + HOUR, NOON + 1000, NOON + 2 * HOUR, NOON)
    times = [snapshot_json(table, number)["timeMillis"] for number in range(1, 6)]
    assert times == [NOON, NOON + HOUR, NOON + HOUR, NOON + 2 * HOUR, NOON + 2 * HOUR]
    rollback_to_as_latest(table, snapshot_id=1)
    assert snapshot_json(table, 6)["timeMillis"] == NOON + 2 * HOUR


def test_now_is_everything_after_a_jump(table: FileStoreTable, clock: Clock) -> None:
    commits_at(table, clock, NOON, NOON + 1000, NOON + HOUR, NOON + 2000, NOON + 3000)
    clock.millis = NOON + 5000
    assert seen(table, NOON + 4000) == seen(table, NOON + 5000) == 5
    assert (seen(table, NOON), seen(table, NOON + 999)) == (1, 1)
    clock.millis = NOON + 2 * HOUR  # the times are past: they count as they are
    assert (seen(table, NOON + 4000), seen(table, NOON + HOUR)) == (2, 5)


def test_times_of_others_that_do_not_ascend(table: FileStoreTable, clock: Clock) -> None:
    commits_at(table, clock, NOON, NOON + 1000, NOON + HOUR, NOON + HOUR, NOON + HOUR)
    for number, millis in ((4, NOON + 2000), (5, NOON + 3000)):  # as Java writes them
        path = Path(table.paths.snapshot_path(number))
        path.write_text(path.read_text().replace(str(NOON + HOUR), str(millis)))
    clock.millis = NOON + 2 * HOUR
    assert seen(table, NOON + 4000) == 5


def test_a_table_whose_times_are_all_to_come(table: FileStoreTable, clock: Clock) -> None:
    commits_at(table, clock, NOON + HOUR, NOON + HOUR + 1)
    clock.millis = NOON
    ids = table.snapshots.ids()
    assert count_until(table.snapshots, ids, NOON - 1000) == 2
    assert count_until(table.snapshots, ids, NOON - HOUR) == 0
    assert count_until(table.snapshots, ids, NOON + HOUR) == 1  # a time to come is taken as it is
    assert count_until(table.snapshots, [], NOON) == 0


def test_going_back_to_now_loses_nothing(table: FileStoreTable, clock: Clock) -> None:
    commits_at(table, clock, NOON, NOON + HOUR, NOON + 1000)
    clock.millis = NOON + 2000
    rollback_to_timestamp(table, NOON + 2000)
    assert table.snapshots.ids() == [1, 2, 3]
