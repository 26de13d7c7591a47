"""Races of real processes on one table: nothing is lost, every snapshot id is used once, and Java reads the result."""

import numpy as np
import pytest

from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.table.table import load_table
from tests.support.commits import all_files, make_table, referenced_files
from tests.support.history import rows as rows_of
from tests.support.racing import append_files, mixed, race, serially, upsert_and_compact, upsert_shared_keys

pytestmark = pytest.mark.oracle


def check_snapshots(path, deeds):
    """Every snapshot was made by exactly one deed, and all that they refer to is there, and nothing else."""
    table = load_table(str(path))
    assert table.snapshots.ids() == list(range(1, len(deeds) + 1))
    assert [deed.snapshot_id for deed in deeds] == table.snapshots.ids()
    assert all_files(table, "manifest", "index") == referenced_files(table)
    assert [name for name in all_files(table, "snapshot") if name.startswith(".")] == []
    return table


@pytest.mark.parametrize(("processes", "commits"), [(2, 8), (4, 6), (8, 5)])
def test_appends_of_many_processes_are_all_there(tmp_path, oracle, processes, commits):
    make_table(tmp_path / "t", bucket="-1", manifest__merge_min_count="5")
    deeds = race(append_files, str(tmp_path / "t"), processes, commits)
    assert len(deeds) == processes * commits
    check_snapshots(tmp_path / "t", deeds)
    expected = sorted(row for deed in deeds for row in deed.rows.items())
    assert sorted(oracle.rows(str(tmp_path / "t"))) == expected


@pytest.mark.parametrize("worker", [upsert_shared_keys, upsert_and_compact])
@pytest.mark.parametrize("bucket", ["2", "-1"], ids=["fixed", "dynamic"])
def test_upserts_of_shared_keys_keep_one_row_per_key(tmp_path, oracle, bucket, worker):
    path = tmp_path / "t"
    kept = {"snapshot__num_retained__min": "1000", "num_sorted_run__compaction_trigger": "3"}
    make_table(path, primary_key=["k"], bucket=bucket, manifest__merge_min_count="5", **kept)
    deeds = race(worker, str(path), 4, 5)
    table = check_snapshots(path, deeds)
    rows = sorted(oracle.rows(str(path)))
    written = {key: {deed.rows[key] for deed in deeds if key in deed.rows} for deed in deeds for key in deed.rows}
    assert [key for key, _ in rows] == sorted(written)
    assert all(value in written[key] for key, value in rows)
    if worker is upsert_and_compact:
        assert any(deed.kind == "compact" for deed in deeds)
        ours = rows_of(table)  # two writers may have given one sequence number: Java takes either row then
        compact(table)
        assert dict(oracle.rows(str(path))) == rows_of(table) == ours
        assert {entry.file.level for entry in table.manifests.live_entries(table.snapshots.latest())} == {3}
    if bucket == "-1":
        entries = table.manifests.index_entries(table.snapshots.latest())
        hashes = np.concatenate([np.fromfile(table.paths.index_path(entry.file_name), ">i4") for entry in entries])
        assert len(hashes) == len(np.unique(hashes)) == len(written)


def test_appends_overwrites_and_compactions_are_some_serial_order(tmp_path, oracle):
    path = tmp_path / "t"
    make_table(path, partition=["dt"], bucket="-1", manifest__merge_min_count="5")
    deeds = race(mixed, str(path), 4, 10)
    check_snapshots(path, deeds)
    assert sorted(oracle.rows(str(path))) == serially(deeds)
    assert len({deed.kind for deed in deeds}) >= 3
