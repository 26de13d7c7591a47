"""Going back without forgetting: the state of a snapshot or tag is committed again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit import file_store_commit
from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.commit.metadata_commit import WholeState, commit_state, compact_manifests
from paimon_spark.errors import (
    CommitConflictError,
    CommitError,
    CorruptTableError,
    OptionError,
    SnapshotNotFoundError,
)
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.refs import rollback, tags
from paimon_spark.maintain.refs.rollback import RollbackAsLatest, rollback_to_as_latest
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.plans import plan_of

PREFIX = "rollback-to-as-latest-"


def rows(table: FileStoreTable, snapshot_id: int | None = None) -> dict[int, str]:
    options = {} if snapshot_id is None else {"scan.snapshot-id": str(snapshot_id)}
    plan = plan_of(load_table(table.path, options=options))
    return {
        row["k"]: row["v"]
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.fields, plan.residual)
        for row in batch.to_pylist()
    }


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Snapshots 1: {1: a}, 2: {1: a, 2: b}, 3: {3: c} (an overwrite)."""
    table = make_table(tmp_path / "t", bucket="-1")
    commit(table, [message(table, data_file(table, {1: "a"}))], watermark=10)
    commit(table, [message(table, data_file(table, {2: "b"}))], watermark=20)
    commit(table, [message(table, data_file(table, {3: "c"}))], overwrite=OverwriteSpec.static())
    return table


def test_a_snapshot_is_the_latest_again_and_all_others_stay(table: FileStoreTable) -> None:
    assert rollback_to_as_latest(table, snapshot_id=2) == RollbackAsLatest(3, 2, 4)
    assert [rows(table, number) for number in (1, 2, 3, 4)] == [
        {1: "a"},
        {1: "a", 2: "b"},
        {3: "c"},
        {1: "a", 2: "b"},
    ]
    made, two = table.snapshots.get(4), table.snapshots.get(2)
    assert (made.commit_kind, made.total_record_count, made.delta_record_count) == (CommitKind.OVERWRITE, 2, 1)
    assert (made.watermark, made.commit_identifier) == (two.watermark, 2**63 - 1)
    first, second = table.tags.list()
    assert first.startswith(f"{PREFIX}2-")
    assert second == f"{PREFIX}2-as-4"
    assert rollback_to_as_latest(table, snapshot_id=3).current_snapshot_id == 5
    assert rollback_to_as_latest(table, snapshot_id=2).current_snapshot_id == 6
    assert len(table.tags.names()) == 5
    commit(table, [message(table, data_file(table, {9: "z"}))])
    assert rows(table) == {1: "a", 2: "b", 9: "z"}


def test_a_tag_serves_also_when_its_snapshot_has_expired(table: FileStoreTable) -> None:
    tags.create_tag(table, "one", snapshot_id=1)
    Path(table.paths.snapshot_path(1)).unlink()
    assert rollback_to_as_latest(table, tag="one") == RollbackAsLatest(3, 1, 4)
    assert (rows(table), table.tags.names()) == ({1: "a"}, ["one", f"{PREFIX}1-as-4"])
    assert rollback_to_as_latest(table, snapshot_id=1).current_snapshot_id == 5


def test_what_cannot_be_rolled_back(table: FileStoreTable, tmp_path: Path) -> None:
    for given in ({}, {"snapshot_id": 1, "tag": "x"}):
        with pytest.raises(OptionError, match="exactly one"):
            rollback_to_as_latest(table, **given)
    with pytest.raises(SnapshotNotFoundError, match="'9' doesn't exist: there are 1 to 3"):
        rollback_to_as_latest(table, snapshot_id=9)
    with pytest.raises(SnapshotNotFoundError, match="'x' doesn't exist"):
        rollback_to_as_latest(table, tag="x")
    with pytest.raises(SnapshotNotFoundError, match="has no snapshot yet"):
        rollback_to_as_latest(make_table(tmp_path / "empty", bucket="-1"), snapshot_id=1)
    assert (table.snapshots.ids(), table.tags.names()) == ([1, 2, 3], [])


@pytest.mark.parametrize("always", [False, True])
def test_rivals_may_be_faster(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    publish, lost = file_store_commit.publish_snapshot, []

    def overtaken(there: FileStoreTable, snapshot: Any, retries: Any, **more: Any) -> bool:
        if snapshot.commit_user.startswith(PREFIX) and (always or not lost):
            lost.append(snapshot.id)
            commit(table, [message(table, data_file(table, {snapshot.id * 10: "rival"}))])
        return publish(there, snapshot, retries, **more)

    monkeypatch.setattr(file_store_commit, "publish_snapshot", overtaken)
    quick = table.with_options({"commit.max-retries": "1", "commit.min-retry-wait": "1 ms"})
    before = set(Path(table.paths.manifest_dir).iterdir())
    if not always:
        assert rollback_to_as_latest(quick, snapshot_id=1) == RollbackAsLatest(4, 1, 5)
        assert rows(table) == {1: "a"}
        return
    with pytest.raises(CommitConflictError, match="Failed to roll back to snapshot 1 as latest: Commit failed"):
        rollback_to_as_latest(quick, snapshot_id=1)
    assert table.tags.names() == []
    assert len(set(Path(table.paths.manifest_dir).iterdir()) - before) == 3 * len(lost)


def test_java_reads_all_of_it(oracle: Any, tmp_path: Path) -> None:
    name = f"again.{tmp_path.name}"
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2", "snapshot.num-retained.max": "100"}
    columns = [("p", "INT"), ("k", "INT NOT NULL"), ("v", "STRING")]
    oracle.create(name, columns, pk=["p", "k"], partition=["p"], options=options)
    for number in range(6):
        oracle.write(name, [{"p": number % 2, "k": number % 3, "v": f"v{number}"}])
    path = oracle.location(name).removeprefix("file:")
    wanted = {number: oracle.rows(name, options={"scan.snapshot-id": str(number)}) for number in oracle.snapshots(name)}
    for number in (2, 5, 1):
        done = rollback_to_as_latest(load_table(path), snapshot_id=number)
        assert oracle.rows(name) == wanted[number]
        assert oracle.latest(name) == done.current_snapshot_id
        assert oracle.rows(name, options={"scan.snapshot-id": "3"}) == wanted[3]
    oracle.write(name, [{"p": 1, "k": 77, "v": "after"}])
    assert len(oracle.rows(name)) == len(wanted[1]) + 1
    after = oracle.rows(name)
    oracle.expire_snapshots(name, retain_max=1, retain_min=1)
    assert oracle.rows(name) == after
    for tag in load_table(path).tags.names():
        assert oracle.rows(name, options={"scan.tag-name": tag}) == wanted[int(tag.removeprefix(PREFIX).split("-")[0])]


@pytest.mark.parametrize("fails", ["tag", "due tags"])
def test_what_took_place_is_not_advised_to_be_run_again(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def create(store: Any, name: str, *args: Any, **more: Any) -> bool:
        if name.endswith("-as-4"):
            raise OSError(28, "No space left on device")
        return bool(real(store, name, *args, **more))

    def due(_: FileStoreTable) -> None:
        raise CommitConflictError("tags: run it again")

    real = type(table.tags).create
    if fails == "tag":
        monkeypatch.setattr(type(table.tags), "create", create)
    else:
        monkeypatch.setattr(rollback, "create_due_tags", due)
    with pytest.raises(CommitError, match=r"snapshot 4 has the rows of snapshot 1; do not run it again"):
        rollback_to_as_latest(table, snapshot_id=1)
    assert (table.snapshots.ids(), rows(table)) == ([1, 2, 3, 4], {1: "a"})


@pytest.mark.oracle
@pytest.mark.parametrize("compacts", ["we", "Java"])
def test_a_file_that_goes_back_to_its_level_can_rise_again(tmp_path: Path, oracle: Any, compacts: str) -> None:
    """A manifest that said that the file left the higher level would cancel its second rise there."""
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", write_only="true", manifest__merge_min_count="99")
    commit(table, [message(table, data_file(table, {1: "a", 2: "b"}))])
    levels = [{0}]
    for turn in range(2):
        if compacts == "we":
            compact(load_table(table.path), full=True)
        else:
            oracle.compact(table.path)
        now = load_table(table.path)
        levels.append({entry.file.level for entry in now.manifests.live_entries(now.snapshots.latest())})
        assert rows(now) == dict(oracle.rows(table.path)) == {1: "a", 2: "b"}
        if not turn:
            rollback_to_as_latest(now, snapshot_id=1)
            assert rows(load_table(table.path)) == dict(oracle.rows(table.path)) == {1: "a", 2: "b"}
    assert levels[1] == levels[2] != {0}, "the file rises without being written anew"
    assert len({entry.file.file_name for entry in now.manifests.live_entries(now.snapshots.latest())}) == 1
    latest = now.snapshots.get(3)
    assert (latest.total_record_count, latest.delta_record_count) == (2, 0)


def rollback_as_java(table: FileStoreTable, snapshot_id: int) -> None:
    """Commit what Java's ``rollbackToAsLatest`` does: a file at another level has a DELETE entry too."""
    target = table.snapshots.get(snapshot_id)

    def state(latest: Snapshot) -> WholeState:
        here = {entry.identifier(): entry for entry in table.manifests.live_entries(latest)}
        there = {entry.identifier(): entry for entry in table.manifests.live_entries(target)}
        deleted = [replace(entry, kind=FileKind.DELETE) for key, entry in here.items() if key not in there]
        added = [entry for key, entry in there.items() if key not in here]
        return WholeState(target, list(here.values()), [*deleted, *added], None)

    commit_state(table, "java", state)


@pytest.mark.oracle
@pytest.mark.parametrize("merge_min_count", ["99", "2"])
def test_we_compact_after_a_rollback_of_java(tmp_path: Path, oracle: Any, merge_min_count: str) -> None:
    options = {"write_only": "true", "manifest__merge_min_count": merge_min_count}
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", **options)
    commit(table, [message(table, data_file(table, {1: "a", 2: "b"}))])
    for _ in range(2):
        compact(load_table(table.path), full=True)
        assert rows(load_table(table.path)) == dict(oracle.rows(table.path)) == {1: "a", 2: "b"}
        rollback_as_java(load_table(table.path), 1)
        assert rows(load_table(table.path)) == dict(oracle.rows(table.path)) == {1: "a", 2: "b"}


@pytest.mark.oracle
def test_a_file_that_java_raises_after_its_rollback_is_reported_and_mended(tmp_path: Path, oracle: Any) -> None:
    """Java's readers miss its rows, whatever manifests say later."""
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", write_only="true", manifest__merge_min_count="99")
    commit(table, [message(table, data_file(table, {1: "a", 2: "b"}))])
    oracle.compact(table.path)
    rollback_as_java(load_table(table.path), 1)
    oracle.compact(table.path)
    assert dict(oracle.rows(table.path)) == {}
    table = load_table(table.path)
    latest = table.snapshots.get(4)
    for refused in (
        lambda: rows(table),
        lambda: list(table.manifests.live_chunks(latest)),
        lambda: table.manifests.check_live(latest),
        lambda: compact(table, full=True),
    ):
        with pytest.raises(CorruptTableError, match=r"deleted and then added again.* sys\.compact_manifest"):
            refused()
    commit(table, [message(table, data_file(table, {3: "c"}))])
    compact_manifests(table)
    assert rows(load_table(table.path)) == dict(oracle.rows(table.path)) == {1: "a", 2: "b", 3: "c"}
    compact(load_table(table.path), full=True)
    assert rows(load_table(table.path)) == dict(oracle.rows(table.path)) == {1: "a", 2: "b", 3: "c"}
