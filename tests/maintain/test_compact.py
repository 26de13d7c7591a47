"""Compaction without Java: rows never change, rivals, faults at every call, memory, history, and what is refused."""

from __future__ import annotations

import contextlib
import random
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    PaimonError,
)
from paimon_spark.maintain.compact.compaction import Executor, compact, compact_with_retries, rewrite_here
from paimon_spark.maintain.compact.rewrite import Rewrite, RewriteResult
from paimon_spark.maintain.compact.scope import scope_of
from paimon_spark.maintain.compact.step import AppendCompactPlanner, BucketFiles
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs import tags
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import NO_PARTITION, fake_file, make_table, message
from tests.support.faults import FaultyFileIO
from tests.support.history import rows, table_files
from tests.support.killing import ended_by_error, ended_by_exit, faulty_table
from tests.support.memory import Peak, arrow_peak
from tests.support.plans import plan_of

EVERYTHING = 2**62
LEVEL_0 = {"num-sorted-run.compaction-trigger": "3", "num-levels": "4"}


def write(table: FileStoreTable, some: dict[int, str], kinds: Sequence[int] | None = None) -> int | None:
    columns = {"k": pa.array(list(some), pa.int32()), "v": pa.array(list(some.values()))}
    if table.schema.partition_keys:
        columns["dt"] = pa.array([f"d{key % 2}" for key in some])
    if kinds is not None:
        columns["_VALUE_KIND"] = pa.array(list(kinds), pa.int8())
    batch = pa.RecordBatch.from_pydict(columns)
    plan = plan_write(table, data_schema=batch.schema)
    return commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def keyed(path: Path, versions: int = 3, **options: str) -> FileStoreTable:
    """Keys 0 to 9 and some of each version, one file of level 0 for each."""
    table = make_table(path, primary_key=["k"], **{"bucket": "1", **options})
    for version in range(versions):
        write(table, {key: f"{version}-{key}" for key in range(version, 10 + version)})
    return table


def live(table: FileStoreTable) -> list[DataFileMeta]:
    return [entry.file for entry in table.manifests.live_entries(table.snapshots.latest())]


def data_files(table: FileStoreTable) -> set[str]:
    return {name.rpartition("/")[2] for name in table_files(table) if "bucket-" in name}


def needed(table: FileStoreTable) -> set[str]:
    """Data files of all snapshots and tags."""
    snapshots = [table.snapshots.get(number) for number in table.snapshots.ids()]
    snapshots += [tag.snapshot for tag in table.tags.list().values()]
    return {e.file.file_name for snapshot in snapshots for e in table.manifests.live_entries(snapshot)}


# -- rows never change ------------------------------------------------------------------------------------------------

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "v"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
}
STEPS = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0, 0, 0, 2, 3])), min_size=1, max_size=25),
        st.sampled_from(["full", "minor", "part"]),
    ),
    min_size=3,
    max_size=14,
)


@pytest.mark.thorough
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=12)
@given(steps=STEPS)
def test_random_writes_and_compactions(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], engine: str, dynamic: bool
) -> None:
    buckets = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"} if dynamic else {"bucket": "2"}
    options = {**ENGINES[engine], **buckets, **LEVEL_0, "target-file-size": "2 kb"}
    keys = ["dt", "k"] if engine == "deduplicate" else ["k"]
    partition = ["dt"] if engine == "deduplicate" else []
    table = make_table(tmp_path_factory.mktemp("t"), primary_key=keys, partition=partition, **options)
    for number, step in enumerate(steps):
        if isinstance(step, list):
            some = dict(step)
            write(table, {key: f"{number}-{key}" for key in some}, list(some.values()))
            continue
        before, latest = rows(table), table.snapshots.latest()
        scope = scope_of(table, where="dt = 'd1'") if step == "part" and partition else None
        made = compact(table, scope, full=step != "minor")
        assert rows(table) == before
        if made is not None and latest is not None:
            assert table.snapshots.get(made).commit_kind is CommitKind.COMPACT
            assert table.snapshots.get(made).index_manifest == latest.index_manifest
            assert table.snapshots.get(made).total_record_count == sum(file.row_count for file in live(table))
            assert rows(table, snapshot_id=latest.id) == before, "the past stays"
        if step == "full":
            assert {file.level for file in live(table)} <= {3}
            assert not any(file.delete_row_count for file in live(table))


def test_deletes_stay_while_older_rows_may_be_below(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    write(table, dict.fromkeys(range(1000), "a" * 500))
    compact(table)
    for key in range(3):
        write(table, {key: "x"}, [3])
    eager = table.with_options(
        {"num-sorted-run.compaction-trigger": "3", "compaction.max-size-amplification-percent": "1000"}
    )
    assert compact(eager, full=False) == 6
    assert sorted((file.level, file.row_count, file.delete_row_count) for file in live(table)) == [
        (4, 3, 3),
        (5, 1000, 0),
    ]
    assert len(rows(table)) == 997
    assert compact(table) == 7
    assert [(file.level, file.row_count, file.delete_row_count) for file in live(table)] == [(5, 997, 0)]


def test_all_rows_deleted_leaves_no_file(tmp_path: Path) -> None:
    table = keyed(tmp_path / "t", 1)
    write(table, dict.fromkeys(range(10), "x"), [3] * 10)
    assert compact(table) == 3
    assert live(table) == []
    assert table.snapshots.get(3).total_record_count == 0
    assert compact(table) is None
    assert write(table, {1: "again"}) == 4
    assert rows(table) == {1: "again"}


def test_files_roll_at_the_target_size(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", target_file_size="20 kb", target_file_row_num="7")
    rng = random.Random(1)
    text = {key: "".join(rng.choices("abcdefghijklmnop", k=20)) for key in range(8000)}
    for part in range(2):
        columns = {"k": pa.array(range(part, 8000, 2), pa.int32())}
        batch = pa.RecordBatch.from_pydict({**columns, "v": pa.array([text[k] for k in range(part, 8000, 2)])})
        plan = plan_write(table.with_options({"target-file-row-num": "100000"}), data_schema=batch.schema)
        commit(table, [write_batches(plan, [batch], 0)])
    compact(table)
    files = sorted(live(table), key=lambda file: file.min_sequence_number)
    assert len(files) > 3
    assert max(file.row_count for file in files) > 7, "compaction does not follow target-file-row-num, as in Java"
    assert all(10_000 < file.file_size < 80_000 for file in files[:-1])
    assert {file.level for file in files} == {5}
    assert rows(table) == text
    assert compact(table) is None


# -- append tables ----------------------------------------------------------------------------------------------------


def sizes_of(table: FileStoreTable, sizes: Sequence[int], *, full: bool = True) -> list[list[int]]:
    """Sizes of the files that are joined with each other."""
    files = tuple(
        replace(fake_file(f"data-{at}-0.parquet"), file_size=size, min_sequence_number=at)
        for at, size in enumerate(sizes)
    )
    unaware = table.options.bucket == -1
    step = AppendCompactPlanner(table, full=full, unaware=unaware).step(BucketFiles(NO_PARTITION, 0, -1, files))
    return [[file.file_size for file in old] for _, old in step.rewrites]


MB = 1 << 20


def test_small_files_are_packed(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1", target_file_size="100 mb")
    assert sizes_of(table, [10, 20, 30, 40]) == [], "fewer than compaction.min.file-num"
    assert sizes_of(table, [50, 40, 30, 20, 10]) == [[10, 20, 30, 40, 50]]
    assert sizes_of(table, [66 * MB, 66 * MB, 66 * MB, 71 * MB]) == [[66 * MB] * 3], "with what opening a file costs"
    assert sizes_of(table, [66 * MB] * 7) == [[66 * MB] * 3] * 2, "one is left"
    assert sizes_of(table.with_options({"compaction.min.file-num": "1"}), [5]) == []
    assert sizes_of(table.with_options({"compaction.small-file-ratio": "1.1"}), [105 * MB] * 2) == [[105 * MB] * 2]


def test_files_of_a_bucket_are_joined_next_to_each_other(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="1", bucket_key="k", target_file_size="100 mb")
    large = 80 * MB
    assert sizes_of(table, [1, 2]) == []
    eager = table.with_options({"compaction.min.file-num": "2"})
    assert sizes_of(eager, [1, 2]) == [[1, 2]], "too few for a full compaction: what a writer would do"
    assert sizes_of(eager, [large, large, 1]) == []
    assert sizes_of(table, [large, 2, 1, 3]) == [[2, 1, 3]], "large files at the beginning stay"
    assert sizes_of(table, [2, large, 1, large, 3]) == [[2, large, 1, large, 3]]
    assert sizes_of(table, [2, large, large, 3]) == [], "not most are small"
    assert sizes_of(table, [1, 2, 3, 4], full=False) == []
    assert sizes_of(table, [1, 2, 3, 4, 5, 6], full=False) == [[1, 2, 3, 4, 5]]
    assert sizes_of(table, [large] * 3 + [1, 2, 3], full=False) == [[large, large, 1, 2, 3]]
    assert sizes_of(table.with_options({"compaction.force-rewrite-all-files": "true"}), [large]) == [[large]]


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_append_tables(tmp_path: Path, bucket: str) -> None:
    more = {} if bucket == "-1" else {"bucket_key": "k"}
    table = make_table(tmp_path / "t", partition=["dt"], bucket=bucket, **more)
    for version in range(6):
        write(table, {version * 100 + key: f"{version}" for key in range(12)})
    before, files = rows(table), len(live(table))
    assert compact(table, scope_of(table, partitions=[{"dt": "d1"}])) == 7
    assert rows(table) == before
    assert len(live(table)) < files
    assert compact(table) == 8
    assert len(live(table)) == 2 * max(1, int(bucket))
    assert {file.file_source for file in live(table)} == {1}
    assert rows(table) == before
    assert compact(table) is None
    sequences = sorted((file.min_sequence_number, file.max_sequence_number) for file in live(table))
    assert sequences == sorted((0, file.row_count - 1) for file in live(table))
    write(table, {9999: "new"})
    assert rows(table) == {**before, 9999: "new"}


# -- rivals -----------------------------------------------------------------------------------------------------------


def after_rewriting(rival: Callable[[], object]) -> Executor:
    """Rewrites, and then lets a rival commit before the compaction does."""

    def execute(table: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[tuple[DataFileMeta, ...]]:
        done = list(rewrite_here(table, rewrites))
        rival()
        return done

    return execute


@pytest.mark.parametrize("primary", [True, False], ids=["keys", "append"])
def test_rows_appended_meanwhile_stay(tmp_path: Path, *, primary: bool) -> None:
    table = keyed(tmp_path / "t") if primary else appended(tmp_path / "t")
    before = rows(table)
    made = compact(table, execute=after_rewriting(lambda: write(table, {3: "new", 77: "new"})))
    assert made == (table.snapshots.latest_id() or 0)
    assert {file.level for file in live(table)} == ({0, 5} if primary else {0})
    want = {**before, 3: "new", 77: "new"}
    assert {key: value for key, value in rows(table).items() if primary or key != 3} == (
        want if primary else {key: value for key, value in want.items() if key != 3}
    )
    compact(table)
    assert rows(table)[77] == "new"


def appended(path: Path, **options: str) -> FileStoreTable:
    table = make_table(path, bucket="-1", **options)
    for version in range(6):
        write(table, {version * 10: f"{version}"})
    return table


RIVALS: dict[str, Callable[[FileStoreTable], object]] = {
    "compaction": compact,
    "overwrite": lambda table: commit(table, [], overwrite=OverwriteSpec.truncate()),
    "deletion of a file": lambda table: commit(
        table, [replace(message(table, deleted_files=(live(table)[0],)), total_buckets=table.options.bucket)]
    ),
}


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("primary", [True, False], ids=["keys", "append"])
def test_files_taken_away_meanwhile_are_a_conflict(tmp_path: Path, rival: str, *, primary: bool) -> None:
    table = keyed(tmp_path / "t") if primary else appended(tmp_path / "t")
    seen: list[Any] = []

    def act() -> None:
        RIVALS[rival](table)
        seen.append((rows(table), table.snapshots.latest_id()))

    with pytest.raises(CommitConflictError, match="which is not previously added"):
        compact(table, execute=after_rewriting(act))
    assert (rows(table), table.snapshots.latest_id()) == seen[0]
    assert data_files(table) == needed(table), "what the loser wrote is gone"
    compact(table)
    assert rows(table) == seen[0][0]


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("kind", ["keys", "append", "evolving"])
def test_a_compaction_that_lost_is_planned_again(tmp_path: Path, rival: str, kind: str) -> None:
    """`CALL sys.compact` and the methods give no conflict while others compact or rewrite the same files once."""
    path, evolving = tmp_path / "t", {"row_tracking__enabled": "true", "data_evolution__enabled": "true"}
    table = keyed(path) if kind == "keys" else appended(path, **(evolving if kind == "evolving" else {}))
    seen: list[dict[int, str]] = []

    def act() -> None:
        if not seen:
            RIVALS[rival](table)
            seen.append(rows(table))

    compact_with_retries(table, execute=after_rewriting(act))
    assert rows(table) == seen[0]
    assert data_files(table) == needed(table), "what the lost attempts wrote is gone"
    assert len(live(table)) <= table.options.bucket or len(live(table)) <= 1
    always = after_rewriting(lambda: (compact(table), write(table, {1: "x", 2: "x"})))
    hurried = table.with_options({"commit.max-retries": "2", "commit.max-retry-wait": "1 ms"})
    if rival == "compaction" and kind != "append":  # which would join more files than two
        write(table, {1: "x", 2: "x"})
        with pytest.raises(CommitConflictError, match=r"was run 3 times .*each time another commit changed"):
            compact_with_retries(hurried, execute=always)


def test_compactions_race(tmp_path: Path) -> None:
    """Writers and compactions at once, in threads: no row is lost, each conflict is reported."""
    table = keyed(tmp_path / "t", 1, commit__max_retries="200", commit__max_retry_wait="20 ms")
    stop, errors, compacted = threading.Event(), list[BaseException](), list[int]()

    def compacting(seed: int) -> None:
        rng = random.Random(seed)
        while not stop.is_set():
            try:
                made = compact(load_table(table.path), full=rng.random() < 0.7)
                compacted.extend([made] if made else [])
            except CommitConflictError:
                pass
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

    threads = [threading.Thread(target=compacting, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(12):
            write(load_table(table.path), {number % 5: f"n{number}", 100 + number: "own"})
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert compacted
    expected = {**{key: f"0-{key}" for key in range(5, 10)}, **{100 + n: "own" for n in range(12)}}
    assert rows(table) == expected | {0: "n10", 1: "n11", 2: "n7", 3: "n8", 4: "n9"}
    compact(table)
    assert len(live(table)) == 1
    assert data_files(table) == needed(table)


# -- faults -----------------------------------------------------------------------------------------------------------


def compact_two_rounds(table: FileStoreTable) -> None:
    compact(table.with_options({"num-sorted-run.compaction-trigger": "2", "num-levels": "6"}), full=False)
    compact(table)


@pytest.mark.thorough
@pytest.mark.parametrize(("ended", "deed"), [(ended_by_error, compact), (ended_by_exit, compact_two_rounds)])
def test_it_may_end_at_any_call(tmp_path: Path, ended: Callable[..., Any], deed: Callable[..., object]) -> None:
    table = keyed(tmp_path / "t", 2)
    before = rows(table)
    for copy in ended(table.path, deed, tmp_path):
        assert rows(copy) == before
        compact(copy)
        assert [file.level for file in live(copy)] == [5]
        assert rows(copy) == before
        remove_files_before(copy, EVERYTHING)
        assert data_files(copy) == needed(copy)


@pytest.mark.parametrize("primary", [True, False], ids=["keys", "append"])
def test_one_fault_leaves_nothing_behind(tmp_path: Path, *, primary: bool) -> None:
    origin = keyed(tmp_path / "t") if primary else appended(tmp_path / "t")
    before, number, done = rows(origin), 0, False
    while not done:
        copy = tmp_path / f"fault{number}"
        shutil.copytree(origin.path, copy)
        store = FaultyFileIO(LocalFileIO(), number)
        unknown = False
        try:
            with contextlib.suppress(OSError, PaimonError):
                compact(faulty_table(str(copy), store))
        except CommitStateUnknownError:
            unknown = True
        done = store.calls <= number
        table = load_table(str(copy))
        assert rows(table) == before
        if not unknown and "delete_quietly" not in store.seen[number : number + 1]:
            assert data_files(table) == needed(table), store.seen[number : number + 1]
        shutil.rmtree(copy)
        number += 1
    assert number > 5


# -- history ----------------------------------------------------------------------------------------------------------


def test_expiry_takes_what_was_compacted_away_unless_a_tag_holds_it(tmp_path: Path) -> None:
    table = keyed(tmp_path / "t")
    tags.create_tag(table, "two", snapshot_id=2)
    tagged, latest = rows(table, tag="two"), rows(table)
    old = {file.file_name for file in live(table)}
    compact(table)
    assert rows(table, snapshot_id=3) == latest, "time travel to before"
    assert expire_snapshots(table, retain_latest_only()) == 3
    of_tag = {e.file.file_name for e in table.manifests.live_entries(table.tags.get("two").snapshot)}
    assert data_files(table) == of_tag | {file.file_name for file in live(table)}
    assert len(old - data_files(table)) == 1
    assert (rows(table, tag="two"), rows(table)) == (tagged, latest)
    tags.delete_tag(table, "two")
    assert data_files(table) == {file.file_name for file in live(table)}


def test_it_makes_no_tag_of_a_batch(tmp_path: Path) -> None:
    table = keyed(tmp_path / "t", tag__automatic_creation="batch", snapshot__num_retained__min="1")
    assert compact(table.with_options({"snapshot.num-retained.max": "1"})) == 4
    assert table.tags.names() == []
    assert table.snapshots.ids() == [4], "but expiry comes after it"


def test_what_goes_needs_no_statistics(tmp_path: Path) -> None:
    table = keyed(tmp_path / "t", manifest__delete_file_drop_stats="true")
    compact(table)
    delta = [
        entry
        for columns in table.manifests.read_columns(table.manifests.delta_manifests(table.snapshots.get(4)))
        for entry in columns
    ]
    assert [(entry.kind, len(entry.file.value_stats.null_counts)) for entry in delta] == [(1, 0)] * 3 + [(0, 2)]
    assert len(rows(table)) == 12


def test_a_lifted_file_outlives_its_old_location(tmp_path: Path) -> None:
    """Deleted at one level and added at another by the same snapshot: expiry must leave it."""
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", target_file_size="1 kb")
    for low in (0, 100):
        write(table, {low + key: "x" * 40 for key in range(50)})
    names = {file.file_name for file in live(table)}
    compact(table)
    assert {(file.file_name, file.level) for file in live(table)} == {(name, 5) for name in names}
    expire_snapshots(table, retain_latest_only())
    assert data_files(table) == names
    assert len(rows(table)) == 100


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("producer", ["none", "full-compaction"])
def test_a_section_much_larger_than_the_budget(tmp_path: Path, producer: str) -> None:
    """Four overlapping runs of 24 MB each in memory, merged within a budget of 4 MB; the last into the first."""
    small_groups = {"parquet__block__size": str(1 << 20)}  # what is read of a row group is alongside the budget
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", read__merge__memory_budget="4 mb", **small_groups)
    table = table.with_options({"changelog-producer": producer})
    count = 60_000
    for run in range(4):
        keys = np.arange(run, 4 * count, 4, dtype=np.int32)
        keys[: count // 2] -= run  # half of the keys are in every run
        random_bytes = np.random.default_rng(run).bytes(200 * count).hex()
        text = pa.array([random_bytes[at : at + 400] for at in range(0, 400 * count, 400)])
        batch = pa.RecordBatch.from_pydict({"k": pa.array(keys), "v": text})
        plan = plan_write(table, data_schema=batch.schema)
        commit(table, [write_batches(plan, [batch], 0)])
        del batch, text, random_bytes
        if run == 0 and producer != "none":
            compact(table)
    assert sum(file.row_count for file in live(table)) == 4 * count
    peaks: list[Peak] = []

    def watched(opened: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
        with arrow_peak() as peak:
            done = list(rewrite_here(opened, rewrites))
        peaks.append(peak)
        return done

    before = sum(1 for _ in rows_in_batches(table))
    assert compact(table, execute=watched) == (5 if producer == "none" else 6)
    assert sum(file.row_count for file in live(table)) == before == 4 * count - 3 * count // 2
    assert max(peak.bytes for peak in peaks) < (40 if producer == "none" else 48) << 20


def rows_in_batches(table: FileStoreTable) -> Iterable[Any]:
    plan = plan_of(table, columns=["k"])
    for split in plan.splits:
        for batch in read_split(plan.table, split, plan.fields, plan.residual):
            yield from range(batch.num_rows)
