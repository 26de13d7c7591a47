"""Writes are followed by the compaction that they make due: when, of what, and what happens when it cannot be done."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import CommitConflictError, CommitStateUnknownError
from paimon_spark.maintain.compact import compaction, due
from paimon_spark.maintain.compact.compaction import rewrite_here
from paimon_spark.maintain.compact.rewrite import Rewrite, RewriteResult
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.manifest_store import ManifestStore
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.automatic_compaction import KEEP, write
from tests.support.commits import make_table
from tests.support.history import rows
from tests.support.seeds import chance


def kinds_of(table: FileStoreTable) -> str:
    """The kinds of all commits: A for APPEND, C for COMPACT, O for OVERWRITE."""
    return "".join(table.snapshots.get(number).commit_kind.value[0] for number in table.snapshots.ids())


def levels(table: FileStoreTable) -> list[tuple[int, int]]:
    """Level and rows of each file."""
    entries = table.manifests.live_entries(table.snapshots.latest())
    return sorted((entry.file.level, entry.file.row_count) for entry in entries)


class Reported:
    """An executor that says what it was asked for, and may fail."""

    def __init__(self, error: Exception | None = None, times: int = 10**9) -> None:
        self.asked: list[int] = []
        self._error, self._times = error, times

    def __call__(self, table: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
        self.asked.append(len(rewrites))
        if self._error is not None and len(self.asked) <= self._times:
            raise self._error
        return rewrite_here(table, rewrites)


def test_a_bucket_with_too_many_runs_is_compacted(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **{"num-sorted-run.compaction-trigger": "3"})
    for number in range(3):
        write(table, {number: "a", 9: f"{number}"})
    assert kinds_of(table) == "AAAC"
    assert levels(table) == [(3, 4)]
    users = [table.snapshots.get(number).commit_user for number in (3, 4)]
    assert users[0] == users[1], "as Java: one writer makes both"
    for number in range(40):
        write(table, {100 + number: "b"})
        assert len(levels(table)) <= 4
    assert rows(table) == {0: "a", 1: "a", 2: "a", 9: "2"} | {100 + number: "b" for number in range(40)}


def test_write_only_tables_are_left_alone(tmp_path: Path) -> None:
    for keys in (["k"], []):
        options = {"num-sorted-run.compaction-trigger": "2", "compaction.min.file-num": "2", "write-only": "true"}
        table = make_table(tmp_path / f"t{len(keys)}", primary_key=keys, bucket="1", bucket_key="k", **options)
        for number in range(6):
            write(table, {number: "a"})
        assert kinds_of(table) == "AAAAAA"


@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_append_tables_are_left_alone_where_a_table_or_write_says_so(tmp_path: Path, bucket: str) -> None:
    options = {"bucket": bucket, "compaction.min.file-num": "2"} | ({} if bucket == "-1" else {"bucket-key": "k"})
    never = {"write.compact-append-tables": "false"}
    reported = make_table(tmp_path / "reported", **options, **never)
    table = make_table(tmp_path / "table", **options)
    for number in range(6):
        write(reported, {number: "a"})
        write(table.with_options(never), {number: "a"})
    assert kinds_of(reported) == kinds_of(table) == "AAAAAA"
    write(table, {6: "a"})
    assert kinds_of(table) == "AAAAAAAC"
    write(reported.with_options({"write.compact-append-tables": "true"}), {6: "a"})
    assert kinds_of(reported) == "AAAAAAAC"
    assert rows(reported) == rows(table) == dict.fromkeys(range(7), "a")


def test_tables_with_keys_are_compacted_whatever_append_tables_are(tmp_path: Path) -> None:
    options = {"num-sorted-run.compaction-trigger": "2", "write.compact-append-tables": "false"}
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **options)
    for number in range(2):
        write(table, {number: "a"})
    assert kinds_of(table) == "AAC"


@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_small_files_of_append_tables_are_joined(tmp_path: Path, bucket: str) -> None:
    options = {"bucket": bucket, "compaction.min.file-num": "4"} | ({} if bucket == "-1" else {"bucket-key": "k"})
    table = make_table(tmp_path / "t", **options)
    for number in range(4):
        write(table, {number: "a", 10 + number: "b"})
    assert kinds_of(table) == "AAAAC"
    assert levels(table) == [(0, 8)]
    for number in range(20, 50):
        write(table, {number: "a"})
        assert len(levels(table)) < 4
    assert len(rows(table)) == 38


def test_a_row_is_written_again_a_few_times(tmp_path: Path) -> None:
    """Files of about one size are joined: a large one is not written again for each few small ones next to it."""
    options = {"compaction.min.file-num": "3", "source.split.open-file-cost": "1 kb", "target-file-size": "1 mb"}
    table = make_table(tmp_path / "t", bucket="-1", **options, **KEEP)
    rng = chance("tiers")
    for number in range(60):
        write(table, {number * 100 + at: rng.randbytes(8).hex() for at in range(100)})
        assert len(levels(table)) <= 8
    again = 0
    for number in table.snapshots.ids():
        snapshot = table.snapshots.get(number)
        if snapshot.commit_kind is CommitKind.COMPACT:
            (manifest,) = table.manifests.delta_manifests(snapshot)
            entries = table.manifests.read_manifest(manifest)
            again += sum(entry.file.row_count for entry in entries if entry.kind == FileKind.ADD)
    assert len(rows(table)) == 6000
    assert again <= 4 * 6000, "each row at most four times; were all files joined each time, it were 15 times"


@pytest.mark.parametrize("keys", [["dt", "k"], []])
def test_only_the_partitions_of_the_write_are_looked_at(tmp_path: Path, keys: list[str]) -> None:
    table = make_table(
        tmp_path / "t",
        primary_key=keys,
        partition=["dt"],
        bucket="1" if keys else "-1",
        **{"num-sorted-run.compaction-trigger": "3", "compaction.min.file-num": "3"},
    )
    patient = table.with_options({"write-only": "true"})
    for number in range(5):
        write(patient, {number: "a"}, partition="waits")
    for number in range(3):
        assert len(kinds_of(table)) == 5 + number
        write(table, {number: "b"}, partition="new")
    assert kinds_of(table)[5:] == "AAAC"
    entries = table.manifests.live_entries(table.snapshots.latest())
    assert Counter(table.paths.partition_path(entry.partition) for entry in entries) == {"dt=waits": 5, "dt=new": 1}


def test_an_early_full_compaction(tmp_path: Path) -> None:
    """`compaction.optimization-interval` and the thresholds ask for one before the trigger does."""
    for number, option in enumerate(
        (
            {"compaction.optimization-interval": "1 ms"},
            {"compaction.total-size-threshold": "1 mb"},
            {"compaction.incremental-size-threshold": "1 b"},
            {"full-compaction.delta-commits": "1"},
        )
    ):
        table = make_table(tmp_path / f"t{number}", primary_key=["k"], bucket="1", **option)
        write(table, {1: "a"})
        write(table, {1: "b", 2: "b"})
        assert levels(table) == [(5, 2)], option
        assert rows(table) == {1: "b", 2: "b"}


def test_an_overwrite_counts_only_its_own_files(tmp_path: Path) -> None:
    options = {"num-sorted-run.compaction-trigger": "3"}
    table = make_table(tmp_path / "t", primary_key=["dt", "k"], partition=["dt"], bucket="1", **options)
    write(table, {1: "a"}, partition="x")
    write(table, {1: "b"}, partition="x")
    write(table, {1: "c"}, partition="x", overwrite=True)
    assert kinds_of(table) == "AAO"


def test_files_of_a_load_that_is_cut_by_key_are_one_run(tmp_path: Path) -> None:
    """They are read one after the other, so nothing is gained by writing them again at once."""
    options = {"num-sorted-run.compaction-trigger": "3", "target-file-size": "2 kb", "write-buffer-size": "64 kb"}
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **options)
    write(table, {number: f"{number * 7919 % 99991}" for number in range(5000)})
    assert len(levels(table)) > 3
    assert kinds_of(table) == "A"
    write(table, {1: "a", 4999: "b"})
    assert kinds_of(table) == "AAC"


def test_a_check_that_finds_nothing_due_reads_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table without buckets a few entries of the newest manifests, of one with buckets no manifest at all."""
    read: list[str] = []
    whole: list[int] = []
    columns, live = ManifestStore.read_columns, ManifestStore.live_columns

    def counted(self: ManifestStore, manifests: Sequence[Any], **how: Any) -> Any:
        read.extend(meta.file_name for meta in manifests)
        return columns(self, manifests, **how)

    def counted_live(self: ManifestStore, snapshot: Any, **how: Any) -> Any:
        whole.append(snapshot.id)
        return live(self, snapshot, **how)

    table = make_table(tmp_path / "append", bucket="-1", **{"manifest.merge-min-count": "1000"})
    patient = table.with_options({"write-only": "true"})
    for number in range(30):
        write(patient, {number: "a"})
    keyed = make_table(tmp_path / "keyed", primary_key=["k"], bucket="1")
    write(keyed, {0: "a"})
    monkeypatch.setattr(due, "MOST_ENTRIES", 3)
    monkeypatch.setattr(ManifestStore, "read_columns", counted)
    monkeypatch.setattr(ManifestStore, "live_columns", counted_live)
    assert write(table, {100: "b"}) == 31
    assert (len(read), whole) == (3, [])
    write(keyed, {1: "a"})
    assert whole == [1], "the plan of the write"
    assert kinds_of(keyed) == "AA"


@pytest.mark.parametrize("keyed", [True, False])
def test_a_conflict_is_dropped_without_a_warning(tmp_path: Path, keyed: bool, caplog: pytest.LogCaptureFixture) -> None:
    options = {"num-sorted-run.compaction-trigger": "2", "compaction.min.file-num": "2", "bucket-key": "k"}
    table = make_table(tmp_path / "t", primary_key=["k"] * keyed, bucket="1", **options)
    write(table, {1: "a"})
    reported = Reported(CommitConflictError("another was first"))
    with caplog.at_level(logging.INFO):
        assert write(table, {2: "b"}, execute=reported) == 2
    assert reported.asked == [1]
    assert "another commit won" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert rows(table) == {1: "a", 2: "b"}
    write(table, {3: "c"})
    assert len(levels(table)) == (1 if keyed else 2), "the next write makes it good"


def test_beyond_the_stop_trigger_it_is_tried_again(tmp_path: Path) -> None:
    options = {"num-sorted-run.compaction-trigger": "2", "num-sorted-run.stop-trigger": "3"}
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **options)
    patient = table.with_options({"write-only": "true"})
    for number in range(3):
        write(patient, {number: "a"})
    reported = Reported(CommitConflictError("another was first"), times=4)
    write(table, {7: "b"}, execute=reported)
    assert reported.asked == [1] * 5
    assert len(levels(table)) == 1


def test_a_failure_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **{"num-sorted-run.compaction-trigger": "2"})
    write(table, {1: "a"})
    with caplog.at_level(logging.WARNING):
        assert write(table, {2: "b"}, execute=Reported(OSError("the disk is full"))) == 2
    (warning,) = caplog.records
    assert "the rows of the write are committed" in warning.getMessage()
    assert "the disk is full" in warning.getMessage()
    assert rows(table) == {1: "a", 2: "b"}


def test_the_driver_alone_compacts_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The plain source on Connect, and `open_table`, have no tasks for it. It is said once, not after each write."""
    monkeypatch.setattr("paimon_spark.maintain.compact.due._FEW_BYTES_HERE", 10)
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **{"num-sorted-run.compaction-trigger": "2"})
    write(table, {1: "a"})
    with caplog.at_level(logging.WARNING):
        write(table, {2: "b"})
        write(table, {3: "c"})
    (warning,) = caplog.records
    assert "of PaimonTable or of open_table" in warning.getMessage()
    assert kinds_of(table) == "AAA"
    write(table, {4: "d"}, execute=Reported())
    assert kinds_of(table) == "AAAAC"


def test_tables_that_cannot_be_compacted_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise CommitStateUnknownError("nobody knows")

    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **{"num-sorted-run.compaction-trigger": "2"})
    write(table, {1: "a"})
    monkeypatch.setattr(compaction, "check_compactable", refuse)
    with caplog.at_level(logging.WARNING):
        assert write(table, {2: "b"}) == 2
    assert len(caplog.records) == 1


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    """Four writers of a bucket, each followed by compactions: the rows are those of a model, the runs few."""
    options = {"num-sorted-run.compaction-trigger": "3", "commit.max-retries": "100", **KEEP}
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **options)

    def act(writer: int) -> dict[int, str]:
        rng, mine = chance("automatic", writer), dict[int, str]()
        for step in range(6):
            some = {writer * 100 + rng.randrange(9): f"{writer}-{step}" for _ in range(6)}
            write(load_table(table.path), some)
            mine |= some
        return mine

    with ThreadPoolExecutor(4) as pool:
        expected = {key: value for mine in pool.map(act, range(4)) for key, value in mine.items()}
    write(table, {1000: "last"})
    assert rows(table) == expected | {1000: "last"}
    assert len(levels(table)) <= 5
    assert CommitKind.COMPACT in {table.snapshots.get(number).commit_kind for number in table.snapshots.ids()}
