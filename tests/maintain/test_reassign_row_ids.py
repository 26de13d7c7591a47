"""Row ids of scattered partitions: Java's own test, its rows, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit import file_store_commit
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitConflictError, OptionError
from paimon_spark.maintain.compact.scope import scope_of
from paimon_spark.maintain.reassign_row_ids import reassign_row_ids
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.table import load_table
from tests.support.commits import data_file, make_table, message

DATA_EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def ids(oracle: Any, name: str) -> list[tuple[Any, ...]]:
    rows = oracle.read(f"{name}$row_tracking").to_pylist()
    return sorted((row["id"], row["pt"], row["_ROW_ID"]) for row in rows)


@pytest.mark.oracle
def test_ids_of_a_partition_lie_together(oracle: Any) -> None:
    name = oracle.fresh_name("reassigned")
    oracle.create(name, [("id", "INT"), ("pt", "STRING"), ("v", "INT")], partition=["pt"], options=DATA_EVOLUTION)
    for k, pt in enumerate("ababa"):
        oracle.write(name, [(k, pt, k)])
    assert ids(oracle, name) == [(0, "a", 0), (1, "b", 1), (2, "a", 2), (3, "b", 3), (4, "a", 4)]
    table = load_table(oracle.location(name))
    nothing = reassign_row_ids(table, scope_of(table, partitions=[{"pt": "c"}]).partitions)
    assert nothing.new_snapshot_id is None
    assert nothing.message("t").startswith("Skipped.")
    done = reassign_row_ids(table)
    assert done.message("t").startswith("Success. Reassigned row IDs for table 't': snapshot 5 -> 6, nextRowId 5 -> 10")
    assert ids(oracle, name) == [(0, "a", 5), (1, "b", 8), (2, "a", 6), (3, "b", 9), (4, "a", 7)]
    latest = table.snapshots.latest()
    assert latest is not None
    assert (latest.commit_kind, latest.next_row_id, latest.total_record_count) == (CommitKind.OVERWRITE, 10, 5)
    assert reassign_row_ids(table).new_snapshot_id is None
    oracle.write(name, [(5, "b", 5)])
    assert ids(oracle, name)[-1] == (5, "b", 10)
    # ids 8, 9 and 10 of b lie together by chance; a is as it was
    assert reassign_row_ids(table).new_snapshot_id is None


def test_what_has_no_ids_is_reported(tmp_path: Any) -> None:
    with pytest.raises(OptionError, match=r"row-tracking\.enabled=true"):
        reassign_row_ids(make_table(tmp_path / "plain"))
    with pytest.raises(OptionError, match=r"data-evolution\.enabled=true"):
        reassign_row_ids(make_table(tmp_path / "tracked", **{"row-tracking.enabled": "true"}))
    with pytest.raises(OptionError, match="empty table"):
        reassign_row_ids(make_table(tmp_path / "empty", **DATA_EVOLUTION))


@pytest.mark.parametrize("always", [False, True])
def test_rivals_may_be_faster(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    quick = {"commit.max-retries": "1", "commit.min-retry-wait": "1 ms"}
    table = make_table(tmp_path / "t", partition=["dt"], **DATA_EVOLUTION, **quick)
    for number, dt in enumerate("aba"):
        commit(table, [message(table, data_file(table, {number: "x"}, partition=dt), partition=dt)])
    publish, lost = file_store_commit.publish_snapshot, []

    def overtaken(there: Any, snapshot: Any, retries: Any, **more: Any) -> bool:
        if snapshot.commit_user.startswith("reassign") and (always or not lost):
            lost.append(snapshot.id)
            commit(table, [message(table, data_file(table, {9: "rival"}, partition="b"), partition="b")])
        return publish(there, snapshot, retries, **more)

    monkeypatch.setattr(file_store_commit, "publish_snapshot", overtaken)
    before = set(Path(table.paths.manifest_dir).iterdir())
    if always:
        with pytest.raises(CommitConflictError, match="Failed to reassign row IDs because a newer snapshot has been"):
            reassign_row_ids(table)
        assert len(set(Path(table.paths.manifest_dir).iterdir()) - before) == 3 * len(lost), "only those of rivals"
        return
    done = reassign_row_ids(table)
    assert (done.previous_snapshot_id, done.new_snapshot_id, done.files, done.next_row_id) == (4, 5, 4, 8)
    assert table.snapshots.latest().next_row_id == 8
