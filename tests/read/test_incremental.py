"""Changes without Java alongside: long-lived changelogs, sequence numbers, packing of updates, memory, pickling."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.arrow.table import create_table, open_table
from paimon_spark.errors import OptionError, SnapshotNotFoundError, UnsupportedError
from paimon_spark.merge.changelog import SIDE, Diff
from paimon_spark.merge.merge_engine import KeyLayout
from paimon_spark.merge.stream import merge_sorted_runs
from paimon_spark.read.audit_log import AUDIT_LOG, BINLOG, pack_updates
from paimon_spark.read.change_range import NO_CHANGES, ChangeSource, resolve_changes
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split import DiffSplit
from paimon_spark.read.table_scan import RowView
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.table.table import load_table
from tests.support.plans import plan_of


def rows_of(path: Path, view: RowView = ROWS, **options: str) -> pa.Table:
    table = load_table(str(path), options={key.replace("_", "-"): value for key, value in options.items()})
    plan = plan_of(table, view)
    splits = pickle.loads(pickle.dumps(plan.splits))
    read = pickle.loads(pickle.dumps(plan.read))
    batches = [b for split in splits for b in read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


@pytest.fixture
def decoupled(golden: Path) -> Path:
    """Snapshots 6 and 7 are there; changelogs of 1 to 5 outlived theirs."""
    return golden / "changelog_decoupled" / "table"


@pytest.mark.parametrize(("start", "end"), [(0, 7), (0, 3), (2, 6), (5, 7)])
def test_changelogs_outlive_their_snapshots(golden: Path, decoupled: Path, start: int, end: int) -> None:
    streamed = pa.ipc.open_file(golden / "changelog_decoupled" / "reads" / "stream_from_1.arrow").read_all().to_pylist()
    wanted = sorted((r["_kind"], r["k"], r["v"]) for r in streamed if start < r["_snapshot"] <= end)
    got = rows_of(decoupled, AUDIT_LOG, incremental_between=f"{start},{end}").to_pylist()
    assert sorted((row["rowkind"], row["k"], row["v"]) for row in got) == wanted
    assert wanted


def test_what_no_changelog_keeps_is_not_there(decoupled: Path) -> None:
    message = r"range \[0, 3\] is out of available snapshotId range \[6, 7\]: changes can be read from 5"
    with pytest.raises(SnapshotNotFoundError, match=message):
        rows_of(decoupled, incremental_between="0,3", incremental_between_scan_mode="delta")
    with pytest.raises(SnapshotNotFoundError, match=r"snapshotId 3 is out of available snapshotId range \[6, 7\]"):
        rows_of(decoupled, incremental_between="3,7", incremental_between_scan_mode="diff")


@pytest.mark.parametrize(
    "options", [{"deletion_vectors.enabled": True}, {"merge_engine": "first-row"}], ids=["vectors", "first-row"]
)
def test_changes_are_those_of_commits_that_batch_reads_do_not_see_yet(tmp_path: Path, options: dict[str, Any]) -> None:
    """Java 2.x; 1.4 leaves level 0 out here too, where each commit writes."""
    path = tmp_path / "d.db/t"
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
    create_table(str(path), schema, primary_keys="k", bucket=1, write_only=True, **options)
    table = open_table(str(path))
    for rows in ([(1, "a"), (2, "a")], [(2, "b"), (3, "b")]):
        table.append(pa.Table.from_pylist([{"k": k, "v": v} for k, v in rows], schema))
    assert rows_of(path).num_rows == 0
    later = [{"k": 2, "v": "b"}, {"k": 3, "v": "b"}]
    assert rows_of(path, incremental_between="1,2").sort_by("k").to_pylist() == later
    assert rows_of(path, incremental_between="0,2").num_rows == 4
    if "merge_engine" not in options:
        changed = rows_of(path, incremental_between="1,2", incremental_between_scan_mode="diff")
        assert changed.sort_by("k").to_pylist() == later


def test_sequence_numbers(golden: Path) -> None:
    path = golden / "changelog_lookup" / "table"
    numbered = {"table-read.sequence-number.enabled": "true", "incremental-between": "2,9"}
    table = load_table(str(path), options=numbered)
    assert [field.name for field in AUDIT_LOG.fields(table)] == ["rowkind", "_SEQUENCE_NUMBER", "k", "v", "n"]
    audit = rows_of(path, AUDIT_LOG, **numbered)
    assert audit.num_rows == 83
    assert audit["_SEQUENCE_NUMBER"].null_count == 0
    log = rows_of(path, BINLOG, **numbered)
    assert log.schema.names == audit.schema.names
    assert set(log["_SEQUENCE_NUMBER"].to_pylist()) <= set(audit["_SEQUENCE_NUMBER"].to_pylist())


def test_a_binlog_has_both_values_of_an_update(golden: Path) -> None:
    path = golden / "changelog_lookup" / "table"
    log = rows_of(path, BINLOG, incremental_between="2,9").to_pylist()
    audit = rows_of(path, AUDIT_LOG, incremental_between="2,9").to_pylist()
    assert {row["rowkind"] for row in log} == {"+I", "+U", "-D"}
    assert all(len(row["v"]) == (2 if row["rowkind"] == "+U" else 1) for row in log)
    assert all(row["k"][0] == row["k"][-1] for row in log)
    assert sum(len(row["v"]) for row in log) == len(audit)
    with pytest.raises(UnsupportedError, match=r"\$binlog cannot show the difference"):
        rows_of(path, BINLOG, incremental_between="2,9", incremental_between_scan_mode="diff")


KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


def packed_by_rows(kinds: list[str]) -> list[tuple[str, list[int]]]:
    """Java's ``PackChangelogReader``, row by row."""
    result, at = [], 0
    while at < len(kinds):
        last = at + 1 if kinds[at] == "-U" and at + 1 < len(kinds) else at
        result.append((kinds[last], list(range(at, last + 1))))
        at = last + 1
    return result


@pytest.mark.parametrize("seed", range(20))
def test_updates_are_packed_wherever_batches_end(seed: int) -> None:
    random = np.random.default_rng(seed)
    kinds = [list(KINDS)[i] for i in random.choice(4, size=40, p=[0.2, 0.5, 0.2, 0.1])]
    rows = pa.RecordBatch.from_pydict(
        {
            "v": pa.array(range(40), pa.int64()),
            "_SEQUENCE_NUMBER": pa.array(range(40), pa.int64()),
            "_VALUE_KIND": pa.array([KINDS[kind] for kind in kinds], pa.int8()),
        }
    )
    cuts = [0, *sorted(random.choice(40, size=6)), 40]
    batches = [rows.slice(start, end - start) for start, end in itertools.pairwise(cuts)]
    got = pa.Table.from_batches(list(pack_updates(iter(batches), pa.schema([("v", pa.list_(pa.int64()))]))))
    assert list(zip(got["rowkind"].to_pylist(), got["v"].to_pylist(), strict=True)) == packed_by_rows(kinds)
    assert got["_SEQUENCE_NUMBER"].to_pylist() == [locations[0] for _, locations in packed_by_rows(kinds)]


def side(keys: range, side_number: int, kind: int = 0, batch: int = 4096) -> Any:
    for start in range(keys.start, keys.stop, batch):
        here = np.arange(start, min(start + batch, keys.stop))
        columns = [
            pa.array(here),
            pa.array(here % 7 + (side_number if start % (batch * 2) else 0)),
            pa.repeat(pa.scalar(side_number, pa.int8()), len(here)),
            pa.array(here),
            pa.repeat(pa.scalar(kind, pa.int8()), len(here)),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["k", "v", SIDE, "_SEQUENCE_NUMBER", "_VALUE_KIND"])


def test_a_difference_needs_no_more_memory_for_more_rows() -> None:
    peaks = []
    for rows in (100_000, 800_000):
        runs = [side(range(rows), 0), side(range(rows // 10, rows + 10), 1)]
        start = pa.total_allocated_bytes()
        most, count = 0, 0
        tracemalloc.start()
        for batch in merge_sorted_runs(
            runs,
            Diff(KeyLayout(("k",)), keep_deletes=True),
            budget_bytes=1 << 20,
            drop_deletes=False,
            columns=["k", "v"],
        ):
            most = max(most, pa.total_allocated_bytes() - start)
            count += batch.num_rows
        peaks.append(most + tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count > rows // 10
    assert peaks[1] < 1.5 * peaks[0]


def test_splits_of_differences_keep_their_sides(golden: Path) -> None:
    table = load_table(
        str(golden / "changelog_none" / "table"),
        options={"incremental-between": "2,6", "incremental-between-scan-mode": "diff"},
    )
    splits = plan_of(table).splits
    assert splits
    for split in splits:
        assert isinstance(split, DiffSplit)
        again = pickle.loads(pickle.dumps(split))
        assert again == split
        assert sum(map(len, split.before)) + sum(map(len, split.after)) == len(split.files)
        names = [{file.name for files in part for file in files} for part in (split.before, split.after)]
        assert not names[0] & names[1]


def test_only_the_commits_of_the_range_are_opened(golden: Path) -> None:
    path = str(golden / "changelog_lookup" / "table")
    one = plan_of(load_table(path, options={"incremental-between": "8,10"}))
    every = plan_of(load_table(path, options={"incremental-between": "0,10"}))
    assert 0 < sum(len(s.files) for s in one.splits) < sum(len(s.files) for s in every.splits)


def test_the_latest_commit(golden: Path) -> None:
    path = golden / "changelog_append" / "table"
    table = load_table(str(path), options={"scan.mode": "latest-delta"})
    found = resolve_changes(table)
    assert (found.source, found.start_id, found.end_id) == (ChangeSource.DELTA, 5, 6)
    assert rows_of(path, **{"scan.mode": "latest-delta"}).num_rows == 0  # it was a compaction
    assert (
        resolve_changes(table.without_options(["scan.mode"]).with_options({"incremental-between": "3,3"})) == NO_CHANGES
    )
    with pytest.raises(OptionError, match="must be null when you use latest-delta"):
        rows_of(path, **{"scan.mode": "latest-delta", "incremental-between": "1,2"})
