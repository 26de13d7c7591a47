"""Storms on one table by several processes: its history stays whole, and Java reads the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows
from tests.support.levels import check_files
from tests.support.racing import race, rows_to_change
from tests.support.storms import SECONDS, commit_during_drops, storm, told, write

pytestmark = [pytest.mark.oracle, pytest.mark.thorough]


def live(table: FileStoreTable, snapshot_id: int) -> set[Any]:
    return {entry.identifier() for entry in table.manifests.live_entries(table.snapshots.get(snapshot_id))}


def check_history(table: FileStoreTable) -> None:
    """Each snapshot holds the files of the one before it, but for its own changes; all its files are there."""
    ids = table.snapshots.ids()
    assert ids == list(range(ids[0], ids[-1] + 1))
    for snapshot_id in ids:
        files = live(table, snapshot_id)
        assert len(rows(table, snapshot_id=snapshot_id)) == table.snapshots.get(snapshot_id).total_record_count
        if snapshot_id > ids[0]:
            manifests = table.manifests.delta_manifests(table.snapshots.get(snapshot_id))
            changed = {e.identifier() for meta in manifests for e in table.manifests.read_manifest(meta)}
            assert files ^ live(table, snapshot_id - 1) <= changed


def all_rows(table: FileStoreTable, snapshot_id: int) -> dict[int, str]:
    """The rows of a snapshot, also those that readers do not see before a compaction."""
    return rows_to_change(table, table.snapshots.get(snapshot_id))


def check_history_by_rows(table: FileStoreTable) -> None:
    """Each snapshot holds the files of the one before it, but for its own changes; compactions keep all rows."""
    ids = table.snapshots.ids()
    assert ids == list(range(ids[0], ids[-1] + 1))
    before: dict[int, str] = {}
    for snapshot_id in ids:
        snapshot = table.snapshots.get(snapshot_id)
        found = all_rows(table, snapshot_id)
        if snapshot_id > ids[0]:
            manifests = table.manifests.delta_manifests(snapshot)
            changed = {e.identifier() for meta in manifests for e in table.manifests.read_manifest(meta)}
            moved = live(table, snapshot_id) ^ live(table, snapshot_id - 1)
            assert {file.file_name for file in moved} <= {file.file_name for file in changed}
            assert snapshot.commit_kind is not CommitKind.COMPACT or found == before
        before = found


@pytest.mark.parametrize("turn", range(2))
def test_a_storm_leaves_a_whole_history(tmp_path: Path, oracle: Any, turn: int) -> None:
    table = make_table(tmp_path / f"t{turn}", bucket="-1", write_only="true", manifest__merge_min_count="4")
    commit(table, [message(table, data_file(table, {-1: "first"}))])
    deeds = race(storm, table.path, 4, 15, timeout_seconds=300 + SECONDS)
    assert len(told("append, 4 processes", deeds)) >= 4
    table = load_table(table.path)
    check_history(table)
    before = rows(table)
    for name, tag in table.tags.list().items():
        assert len(rows(table, tag=name)) == tag.snapshot.total_record_count
    commit(table, [message(table, data_file(table, {10**9: "last"}))])
    check_history(table)
    assert dict(oracle.rows(table.path)) == rows(table) == before | {10**9: "last"}


VECTORS = {"deletion-vectors.enabled": "true"}
DATA_EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
APPENDS = {"append": {"bucket": "-1", **VECTORS}, "data_evolution": {"bucket": "-1", **DATA_EVOLUTION}}
KEYED = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "20"},
    "vectors": {"bucket": "2", **VECTORS},
    "partial-update": {"bucket": "1", **VECTORS, "merge-engine": "partial-update"},
    "aggregation": {"bucket": "2", "merge-engine": "aggregation"},
    "postponed": {"bucket": "-2"},
    "first-row": {"bucket": "2", "merge-engine": "first-row"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
}


@pytest.mark.parametrize("kind", [*KEYED, *APPENDS])
def test_a_storm_by_kind(tmp_path: Path, oracle: Any, kind: str) -> None:
    options = {"write-only": "true", "manifest.merge-min-count": "4", **KEYED.get(kind, {}), **APPENDS.get(kind, {})}
    key = ["k"] if kind in KEYED else []
    table = make_table(tmp_path / kind, primary_key=key, **{name.replace(".", "__"): v for name, v in options.items()})
    write(table, {-1: "first"})
    deeds = race(storm, table.path, 3, 9, timeout_seconds=300 + SECONDS)
    assert len(told(kind, deeds)) >= 3
    table = load_table(table.path)
    check_history_by_rows(table)
    check_files(table.path)
    for name in table.tags.list():  # of two writers that gave one sequence number Java takes either
        assert rows(table, tag=name).keys() == dict(oracle.rows(table.path, options={"scan.tag-name": name})).keys()
    everything = all_rows(table, table.snapshots.ids()[-1])
    assert everything[-1] == "first"
    write(table, {10**9: "last"})
    compact(load_table(table.path), full=True)
    check_history_by_rows(table)
    check_files(table.path)
    assert dict(oracle.rows(table.path)) == rows(table) == everything | {10**9: "last"}


def test_commits_during_drops_leave_no_foreign_snapshot(tmp_path: Path, oracle: Any) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    deeds = race(commit_during_drops, table.path, 3, 25, timeout_seconds=300 + SECONDS)
    told("dropped and made anew", deeds)
    table = load_table(table.path)
    commit(table, [message(table, data_file(table, {10**9: "last"}))])
    check_history(table)
    assert dict(oracle.rows(table.path)) == rows(table)
