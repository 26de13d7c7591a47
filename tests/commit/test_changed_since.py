"""What a statement read and another commit changed meanwhile is a conflict: nothing is lost, and no more is refused."""

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import CommitConflictError, CommitError, CommitStateUnknownError, SnapshotNotFoundError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import fake_file, make_table, message
from tests.support.history import rows
from tests.support.racing import count_up, count_up_and_compact, race

BUCKETS = pytest.mark.parametrize("bucket", ["1", "-1"], ids=["fixed", "dynamic"])


def upsert(table: FileStoreTable, new: dict[int, str], read: SnapshotIdentity | None = None) -> int | None:
    """Write rows; with `read` they are made of rows of that snapshot."""
    columns = {"k": pa.array(list(new), pa.int32()), "v": pa.array(list(new.values()))}
    if table.schema.partition_keys:
        columns["dt"] = pa.array(["x" if key < 100 else "y" for key in new])
    batch = pa.RecordBatch.from_pydict(columns)
    plan = plan_write(table, data_schema=batch.schema, rows_of=read)
    done = write_batches(plan, [batch], 0)
    return commit(table, [done], planned_on=plan.snapshot, rows_read=plan.rows_read)


def seen(table: FileStoreTable) -> SnapshotIdentity:
    return SnapshotIdentity.of(table.snapshots.latest())


@pytest.fixture
def keyed(tmp_path: Path) -> FileStoreTable:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    upsert(table, {1: "a", 5: "e", 9: "i"})
    return table


@BUCKETS
def test_a_row_that_another_commit_changed_since_it_was_read_is_a_conflict(tmp_path: Path, bucket: str) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket=bucket)
    upsert(table, {1: "0"})
    read = seen(table)
    upsert(table, {1: "1"}, read)
    with pytest.raises(CommitConflictError, match=r"Snapshot 2 \(APPEND, by user .*\) changed rows of bucket 0 in"):
        upsert(table, {1: "1"}, read)
    assert upsert(table, {1: "2"}, seen(table)) == 3
    assert rows(table) == {1: "2"}


@pytest.mark.parametrize(
    ("between", "conflicts"),
    [
        ({5: "x"}, True),
        ({4: "new, among the keys of the other one"}, True),
        ({9: "outside its keys"}, False),
        ({100: "another partition"}, False),
    ],
)
def test_only_keys_among_those_that_change_are_a_conflict(
    tmp_path: Path, between: dict[int, str], conflicts: bool
) -> None:
    table = make_table(tmp_path / "t", primary_key=["dt", "k"], partition=["dt"], bucket="1")
    upsert(table, {1: "a", 5: "e", 9: "i"})
    read = seen(table)
    upsert(table, between)
    if conflicts:
        with pytest.raises(CommitConflictError, match=r"changed rows of bucket 0 in partition \{dt=x\}"):
            upsert(table, {1: "A", 5: "E"}, read)
    else:
        upsert(table, {1: "A", 5: "E"}, read)
        assert rows(table) == {1: "A", 5: "E", 9: "i"} | between


def test_a_compaction_between_is_no_conflict(keyed: FileStoreTable) -> None:
    read = seen(keyed)
    assert compact(keyed, full=True) == 2
    upsert(keyed, {5: "E"}, read)
    assert rows(keyed) == {1: "a", 5: "E", 9: "i"}


def test_an_overwrite_between_is_a_conflict_though_no_row_comes(keyed: FileStoreTable) -> None:
    read = seen(keyed)
    commit(keyed, [], overwrite=OverwriteSpec.truncate())
    with pytest.raises(CommitConflictError, match=r"Snapshot 2 \(OVERWRITE, by user"):
        upsert(keyed, {5: "E"}, read)
    assert rows(keyed) == {}


def test_keys_of_another_schema_are_not_compared(keyed: FileStoreTable) -> None:
    read = seen(keyed)
    commit(keyed, [message(keyed, fake_file("data-of-key-0.parquet", schema_id=7))])
    with pytest.raises(CommitConflictError, match="changed rows of bucket 0"):
        upsert(keyed, {5: "E"}, read)


def test_a_rival_that_comes_between_the_check_and_the_publishing_is_seen(
    keyed: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paimon_spark.commit import file_store_commit

    read, publish = seen(keyed), file_store_commit.publish_snapshot

    def late(*args: object, **more: object) -> bool:
        monkeypatch.setattr(file_store_commit, "publish_snapshot", publish)
        upsert(keyed, {5: "late"})
        return publish(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(file_store_commit, "publish_snapshot", late)
    with pytest.raises(CommitConflictError, match="Snapshot 2"):
        upsert(keyed, {5: "E"}, read)
    assert rows(keyed)[5] == "late"


def test_a_rollback_between_is_a_conflict_even_when_the_ids_are_used_again(keyed: FileStoreTable) -> None:
    upsert(keyed, {5: "2"})
    read = seen(keyed)
    batch = pa.RecordBatch.from_pydict({"k": pa.array([5], pa.int32()), "v": ["3"]})
    plan = plan_write(keyed, data_schema=batch.schema)
    done = write_batches(plan, [batch], 0)
    rollback_to_snapshot(keyed, 1)
    with pytest.raises(CommitConflictError, match="rolled back"):
        commit(keyed, [done], planned_on=plan.snapshot)
    upsert(keyed, {1: "A"})
    with pytest.raises(CommitConflictError, match="snapshot 2 is not the one"):
        commit(keyed, [done], planned_on=plan.snapshot)
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        upsert(keyed, {5: "3"}, read)


def test_what_an_empty_table_was_read_as_is_reported_from_what_came(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    upsert(table, {1: "first"})
    with pytest.raises(CommitConflictError, match="Snapshot 1"):
        upsert(table, {1: "second"}, SnapshotIdentity())


# -- running it again --------------------------------------------------------------------------------------------------


def test_a_statement_is_run_again_from_a_fresh_read(keyed: FileStoreTable) -> None:
    reads = []

    def attempt(latest: object) -> int | None:
        reads.append(rows(keyed)[5])
        read = seen(keyed)
        if len(reads) < 4:
            upsert(keyed, {5: f"rival {len(reads)}"})
        return upsert(keyed, {5: reads[-1] + "!"}, read)

    assert run_again(keyed, attempt) == 5
    assert reads == ["e", "rival 1", "rival 2", "rival 3"]
    assert rows(keyed)[5] == "rival 3!"


def test_rivals_that_are_always_faster_are_named_at_last(keyed: FileStoreTable) -> None:
    table = load_table(keyed.path, options={"commit.max-retries": "2", "commit.min-retry-wait": "1 ms"})

    def attempt(latest: object) -> None:
        read = seen(table)
        upsert(table, {5: "rival"})
        upsert(table, {5: "ours"}, read)

    with pytest.raises(CommitConflictError, match=r"(?s)was run 3 times.*'commit.max-retries'.*Snapshot 4 \(APPEND"):
        run_again(table, attempt)
    assert rows(table)[5] == "rival"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("other"),
        CommitError("store"),
        CommitStateUnknownError("CommitConflictError: seems so"),
        CommitConflictError("Commit failed after 10 millis with 3 retries"),
        SnapshotNotFoundError("snapshot 99 of VERSION AS OF"),
    ],
)
def test_what_a_fresh_read_would_not_mend_is_raised_at_once(keyed: FileStoreTable, error: Exception) -> None:
    calls = []

    def attempt(latest: object) -> None:
        calls.append(latest)
        raise error

    with pytest.raises(type(error)):
        run_again(keyed, attempt)
    assert len(calls) == 1


def test_a_conflict_that_spark_gives_as_text_is_one(keyed: FileStoreTable) -> None:
    calls = []

    def attempt(latest: object) -> str:
        calls.append(latest)
        if len(calls) == 1:
            raise RuntimeError("[PYTHON_DATA_SOURCE_ERROR] …\npaimon_spark.errors.CommitConflictError: File deletion")
        return "done"

    assert run_again(keyed, attempt) == "done"


@pytest.mark.thorough
@BUCKETS
def test_counters_of_several_processes_count_every_success(tmp_path: Path, bucket: str) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket=bucket)
    upsert(table, {1: "0", 2: "0"})
    deeds = race(count_up, table.path, 3, 8)
    assert rows(table) == {1: str(len(deeds)), 2: str(len(deeds))}
    assert len(deeds) == 24


@pytest.mark.thorough
@BUCKETS
@pytest.mark.parametrize("kind", ["vectors", "lookup", "vectors_and_lookup"])
def test_counters_count_every_success_during_compactions(tmp_path: Path, bucket: str, kind: str) -> None:
    vectors, lookup = {"deletion_vectors__enabled": "true"}, {"changelog_producer": "lookup"}
    options = {"vectors": vectors, "lookup": lookup, "vectors_and_lookup": vectors | lookup}[kind]
    table = make_table(tmp_path / "t", primary_key=["k"], bucket=bucket, snapshot__num_retained__min="100", **options)
    upsert(table, {1: "0", 2: "0"})
    deeds = race(count_up_and_compact, table.path, 4, 4)
    compact(table, full=True)
    assert rows(table) == {1: str(len(deeds)), 2: str(len(deeds))}
    assert len(deeds) == 16
