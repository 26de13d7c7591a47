"""Compaction with lookup without Java: a model of rows and changelog, invariants of levels, rivals, faults, memory."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CommitConflictError, DataError
from paimon_spark.maintain.compact.compaction import compact, rewrite_here
from paimon_spark.maintain.compact.due import compact_after_write
from paimon_spark.maintain.compact.rewrite import Rewrite, RewriteResult
from paimon_spark.merge.changelog import LookupMerge
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.split import SplitFile
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import new_user, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.faults import IMPATIENT, FaultyFileIO
from tests.support.history import rows
from tests.support.lookup import changes, check_levels, logged, write
from tests.support.memory import arrow_peak
from tests.support.seeds import chance

VECTORS = {"deletion-vectors.enabled": "true"}
CHANGELOG = {"changelog-producer": "lookup"}
KINDS: dict[str, dict[str, str]] = {
    "changelog": CHANGELOG,
    "vectors": VECTORS,
    "both": {**VECTORS, **CHANGELOG},
    "wide vectors": {**VECTORS, "deletion-vectors.bitmap64": "true"},
    "first-row": {"merge-engine": "first-row"},
    "first-row log": {"merge-engine": "first-row", **CHANGELOG},
}
LEVELS = {"num-sorted-run.compaction-trigger": "4", "num-levels": "4", "target-file-size": "3 kb"}


def live(table: FileStoreTable) -> list[DataFileMeta]:
    return [entry.file for entry in table.manifests.live_entries(table.snapshots.latest())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_rows_and_changelog_follow_a_model(tmp_path: Path, kind: str, seed: int) -> None:
    rng = chance("lookup model", kind, seed)
    deduplicated = rng.random() < 0.5
    options = {**KINDS[kind], **LEVELS, "bucket": "2", "changelog-producer.row-deduplicate": str(deduplicated).lower()}
    table = make_table(tmp_path / "t", primary_key=["k"], **options)
    first_row, logs = "first-row" in kind, "changelog-producer" in KINDS[kind]
    model: dict[int, str] = {}
    for step in range(10):
        since, before = table.snapshots.latest_id() or 0, dict(model)
        some = {rng.randrange(60): rng.choice("abc") for _ in range(rng.choice([1, 4, 30]))}
        kinds = [0 if first_row else rng.choice([0, 0, 2, 3]) for _ in some]
        write(table, some, kinds)
        for (key, value), row_kind in zip(some.items(), kinds, strict=True):
            if row_kind == 3:
                model.pop(key, None)
            elif not first_row or key not in model:
                model[key] = value
        assert rows(table) == model
        assert not any(file.level == 0 for file in live(table)), "the write is compacted"
        check_levels(table, model)
        if logs:
            assert logged(table, since) == changes(before, model, set() if deduplicated else set(some), first_row)
        if step % 3 == 2:
            latest = table.snapshots.latest_id()
            compact(table, full=rng.random() < 0.6)
            assert rows(table) == model
            check_levels(table, model)
            assert not logs or latest == table.snapshots.latest_id() or logged(table, latest or 0) == []
    assert {table.snapshots.get(n).commit_kind for n in table.snapshots.ids()} == {
        CommitKind.APPEND,
        CommitKind.COMPACT,
    }


@pytest.mark.parametrize("engine", ["partial-update", "first-row", "aggregation"])
def test_rows_that_no_compaction_takes_are_refused_by_the_write(tmp_path: Path, engine: str) -> None:
    """Once committed, such a row would keep all rows of its bucket from readers."""
    options = {"merge-engine": engine, "bucket": "1", **({} if engine == "first-row" else VECTORS)}
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "max"
    table = make_table(tmp_path / "t", primary_key=["k"], **options)
    write(table, {1: "a"})
    with pytest.raises(DataError, match=r"can not accept DELETE|can not accept delete|not support retract"):
        write(table, {1: "a"}, [3])
    assert rows(table) == {1: "a"}
    assert table.snapshots.latest_id() == 2


def test_a_write_only_table_waits_for_its_compaction(tmp_path: Path) -> None:
    options = {**KINDS["both"], "bucket": "1", "write-only": "true"}
    table = make_table(tmp_path / "t", primary_key=["k"], **options)
    write(table, {1: "a", 2: "b"})
    write(table, {2: "c"})
    assert rows(table) == {}, "level 0 is hidden"
    compact(table.with_options({"write-only": "false"}), full=False)
    assert rows(table) == {1: "a", 2: "c"}
    assert logged(table, 0) == [("+I", 1, "a"), ("+I", 2, "c")]


def test_gentle_lookups_leave_a_few_files(tmp_path: Path) -> None:
    options = {**KINDS["changelog"], "bucket": "1", "lookup-compact": "gentle"}
    table = make_table(tmp_path / "t", primary_key=["k"], **options)
    for number in range(4):
        write(table, {number: "a"})
    assert [file.level for file in live(table)] == [0, 0, 0, 0]
    write(table, {9: "a"})
    assert not any(file.level == 0 for file in live(table))


RIVALS: dict[str, Callable[[FileStoreTable], object]] = {
    "a write": lambda table: write(table, {1: "rival", 60: "rival"}),
    "a compaction": compact,
    "an overwrite": lambda table: commit(table, [], overwrite=OverwriteSpec.truncate()),
}


@pytest.mark.parametrize("rival", RIVALS)
def test_a_rival_makes_the_compaction_start_anew(tmp_path: Path, rival: str) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **KINDS["both"])
    write(table, dict.fromkeys(range(50), "old"))
    started = 0

    def execute(opened: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
        nonlocal started
        started += 1
        done = list(rewrite_here(opened, rewrites))
        if started == 1:
            RIVALS[rival](table)
        return done

    write(table, {1: "new", 2: "new"}, execute=execute)
    expected = dict.fromkeys(range(50), "old") | {1: "new", 2: "new"}
    expected |= {1: "rival", 60: "rival"} if rival == "a write" else {}
    assert rows(table) == ({} if rival == "an overwrite" else expected)
    assert not any(file.level == 0 for file in live(table))
    check_levels(table, rows(table))


def test_a_conflict_is_tried_again(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **KINDS["vectors"])
    tries = []

    def execute(opened: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
        tries.append(len(rewrites))
        if len(tries) < 3:
            raise CommitConflictError("another was first")
        return rewrite_here(opened, rewrites)

    write(table, {1: "a"})
    write(table, {1: "b", 2: "b"}, execute=execute)
    assert tries == [1, 1, 1]
    assert rows(table) == {1: "b", 2: "b"}


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    """Four writers of their own keys in one bucket: rows and folded changelog are what they wrote."""
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **KINDS["both"], **LEVELS)

    def act(writer: int) -> dict[int, str]:
        rng, mine = random.Random(writer), {}
        for step in range(4):
            some = {writer * 100 + rng.randrange(9): f"{writer}-{step}" for _ in range(6)}
            write(load_table(table.path), some)
            mine |= some
        return mine

    with ThreadPoolExecutor(4) as pool:
        expected = {key: value for mine in pool.map(act, range(4)) for key, value in mine.items()}
    write(table, {1000: "last"})
    assert rows(table) == expected | {1000: "last"}
    check_levels(table, rows(table))
    folded: dict[int, str] = {}
    for number in table.snapshots.ids()[1:]:
        for kind, key, value in logged(table, number - 1, number):
            if kind in ("-U", "-D"):
                assert folded.pop(key) == value
            else:
                assert key not in folded
                folded[key] = value
    assert folded == rows(table)


@pytest.mark.parametrize("kind", ["both", "changelog"])
def test_dynamic_buckets(tmp_path: Path, kind: str) -> None:
    options = {**KINDS[kind], "bucket": "-1", "dynamic-bucket.target-row-num": "5"}
    table = make_table(tmp_path / "t", primary_key=["k"], **options)
    write(table, dict.fromkeys(range(20), "a"))
    write(table, dict.fromkeys(range(10, 30), "b"))
    assert rows(table) == dict.fromkeys(range(10), "a") | dict.fromkeys(range(10, 30), "b")
    assert len({entry.bucket for entry in table.manifests.live_entries(table.snapshots.latest())}) > 3
    assert len(logged(table, 2)) == 30
    assert not any(file.level == 0 for file in live(table))


@pytest.mark.parametrize("kind", ["both", "first-row log"])
def test_a_fault_in_the_compaction_leaves_the_write(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At whatever call it fails: the write is there, and the next one makes good what was not compacted."""
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **KINDS[kind])
    write(table, dict.fromkeys(range(20), "old"))
    first_row = "first" in kind
    for at in (0, 3, 6, 10, 15, 21, 28, 36, 45):
        key = 100 + at
        columns = pa.RecordBatch.from_pydict({"k": pa.array([key, 3], pa.int32()), "v": [f"{at}", f"{at}"]})
        plan, user = plan_write(table, data_schema=columns.schema), new_user(table.options)
        messages = [write_batches(plan, [columns], 0)]
        commit(table, messages, commit_user=user)
        store = FaultyFileIO(table.file_io, forever=at % 2 == 0)
        faulty = load_table(table.path, file_io=store, options=IMPATIENT)
        store.calls, store.fail_at = 0, at
        with caplog.at_level(logging.WARNING):
            compact_after_write(faulty, messages, commit_user=user)
        write(table, {key + 1: "after"})
        found = rows(table)
        assert found[3] == ("old" if first_row else f"{at}")
        assert (found[key], found[key + 1]) == (f"{at}", "after")
        check_levels(table, found)
    assert "committed, but not compacted" in caplog.text


def test_the_driver_alone_leaves_large_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **KINDS["vectors"])
    monkeypatch.setattr("paimon_spark.maintain.compact.due._MOST_BYTES_HERE", 10)
    write(table, {1: "a"})
    assert rows(table) == {1: "a"}, "nothing is written anew"
    with caplog.at_level(logging.WARNING):
        write(table, {1: "b"})
    assert rows(table) == {1: "a"}
    assert "PaimonTable.compact()" in caplog.text
    write(table, {2: "b"}, execute=rewrite_here)
    assert rows(table) == {1: "b", 2: "b"}


def test_a_lookup_merges_no_row_of_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**CHANGELOG, "parquet.block.size": str(64 << 10)}
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **options)
    write(table, dict.fromkeys(range(100_000), "old"))
    seen: list[int] = []
    merge = LookupMerge.merge

    def watched(self: LookupMerge, higher: pa.Table | None, rows: pa.Table, above_zero: int) -> Any:
        seen.append(0 if higher is None else higher.num_rows)
        return merge(self, higher, rows, above_zero)

    monkeypatch.setattr(LookupMerge, "merge", watched)
    decoded = 0
    batches = FileRead.batches

    def counted(self: FileRead, file: SplitFile, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        nonlocal decoded
        for batch in batches(self, file, predicate):
            decoded += batch.num_rows
            yield batch

    monkeypatch.setattr(FileRead, "batches", counted)
    write(table, {50_000: "new", 50_100: "new"})
    assert sum(seen) == 2, "of 100,000 rows"
    assert decoded < 20_000, "row groups of other keys are not read"
    assert logged(table, 2) == [
        *(("-U", 50_000, "old"), ("+U", 50_000, "new")),
        *(("-U", 50_100, "old"), ("+U", 50_100, "new")),
    ]


@pytest.mark.parametrize("kind", ["both", "first-row log"])
def test_a_lookup_much_larger_than_the_budget(tmp_path: Path, kind: str) -> None:
    """A top level of 48 MB in memory, looked up within a budget of 4 MB."""
    options = {**KINDS[kind], "parquet.block.size": str(1 << 20), "read.merge.memory-budget": "4 mb"}
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **options)
    count = 120_000
    random_text = random.Random(1).randbytes(200 * count).hex()
    text = [random_text[at : at + 400] for at in range(0, 400 * count, 400)]
    write(table, dict(enumerate(text)))
    with arrow_peak() as peak:
        write(table, dict.fromkeys(range(0, count, 400), "new") | {count: "new"})
    assert peak.bytes < 40 << 20, f"{peak.bytes >> 20} MB"
    changed = logged(table, 2)
    if kind == "both":
        assert len(changed) == 2 * len(range(0, count, 400)) + 1
        assert [row for row in changed if row[1] == 400] == [("-U", 400, text[400]), ("+U", 400, "new")]
    else:
        assert changed == [("+I", count, "new")]
    check_levels(table, dict.fromkeys(range(count + 1), ""))
