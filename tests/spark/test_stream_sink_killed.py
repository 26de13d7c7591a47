"""A micro-batch that is killed at any call of the store, and comes again, is in the table once. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import StreamBatch
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.read.row_views import ROWS
from paimon_spark.spark.source.table_write import SHUFFLED, planned
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import make_table
from tests.support.history import rows
from tests.support.interrupting import killed_at_random
from tests.support.killing import IMPATIENT, Operation, ended_by_error, ended_by_exit
from tests.support.levels import check_files
from tests.support.plans import plan_of

KINDS: dict[str, dict[str, str]] = {
    "append": {"bucket": "-1"},
    "keyed": {"bucket": "1"},
    "dynamic": {"bucket": "-1"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "postponed": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
    "tracked": {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"},
}
BATCHES = ({1: "a", 2: "b"}, {2: "B", 3: "c"})


def write(table: FileStoreTable, number: int) -> None:
    """Write one of the micro-batches of a query."""
    given = (
        BATCHES[number] if table.schema.primary_keys else {key + 10 * number: v for key, v in BATCHES[number].items()}
    )
    batch = pa.record_batch([pa.array(list(given), pa.int32()), pa.array(list(given.values()))], names=["k", "v"])
    planned_write = planned(table, batch.schema, rows=SHUFFLED)
    message = planned_write.write_task([batch], 0)
    replace(planned_write, stream=StreamBatch("the-query", number)).commit([message])


def merged(table: FileStoreTable) -> dict[int, str]:
    """The rows of a table, postponed ones too."""
    plan = plan_of(load_table(table.path, options={"postpone.merge-on-read": "true"}), ROWS)
    read = (batch for split in plan.splits for batch in plan.read(plan.table, split, plan.fields, plan.residual))
    return {row["k"]: row["v"] for batch in read for row in batch.to_pylist()}


def second(table: FileStoreTable) -> None:
    write(table, 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "ended"),
    [*((kind, ended_by_error) for kind in KINDS), ("keyed", ended_by_exit)],
)
def test_killed_and_replayed(
    tmp_path: Path, kind: str, ended: Callable[[str, Operation, Path], Iterator[FileStoreTable]]
) -> None:
    keys = () if kind in ("append", "tracked") else ("k",)
    options = {key.replace("-", "_").replace(".", "__"): value for key, value in KINDS[kind].items()}
    made = make_table(tmp_path / kind, primary_key=keys, **options)
    write(load_table(made.path), 0)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    seen = set()
    for table in ended(made.path, second, scratch):
        seen.add(table.snapshots.latest_id())
        second(load_table(table.path))
        second(load_table(table.path))
        table = load_table(table.path)
        if kind == "postponed":
            assert table.snapshots.latest().total_record_count == 4
            assert merged(table) == {1: "a", 2: "B", 3: "c"}
        elif keys:
            assert rows(table) == {1: "a", 2: "B", 3: "c"}
        else:
            assert rows(table) == {1: "a", 2: "b", 12: "B", 13: "c"}
            assert table.snapshots.latest().total_record_count == 4
        commits = [table.snapshots.get(number) for number in table.snapshots.ids()]
        assert [c.commit_identifier for c in commits if c.commit_kind.value == "APPEND"] == [0, 1]
    assert len(seen) > 1, "it was killed before and after the commit"


def micro_batches(directory: Path) -> None:
    """One micro-batch, then its number in the checkpoint, as Spark does."""
    checkpoint = directory / "checkpoint"
    number = int(checkpoint.read_text()) if checkpoint.exists() else 0
    batch = pa.record_batch([pa.array([number], pa.int32()), pa.array(["x"])], names=["k", "v"])
    write_of = planned(load_table(str(directory / "t"), options=IMPATIENT), batch.schema, rows=SHUFFLED)
    message = write_of.write_task([batch], 0)
    replace(write_of, stream=StreamBatch("the-query", number)).commit([message])
    aside = directory / "aside"
    aside.write_text(str(number + 1))
    aside.rename(checkpoint)


def append(table: FileStoreTable, key: int) -> None:
    """Commit a row alongside the query."""
    batch = pa.record_batch([pa.array([key], pa.int32()), pa.array(["other"])], names=["k", "v"])
    other = planned(table, batch.schema, rows=SHUFFLED)
    other.commit([other.write_task([batch], 0)])


@pytest.mark.parametrize("keyed", [False, True])
def test_micro_batches_during_commits(tmp_path: Path, *, keyed: bool) -> None:
    """Each is in the table once, though the query stopped between its commit and its checkpoint."""
    options = {"bucket": "1" if keyed else "-1", "snapshot__num_retained__min": "1000"}
    table = make_table(tmp_path / "t", primary_key=["k"] if keyed else [], **options)
    others = 0
    for wait in killed_at_random(micro_batches, tmp_path):
        for _ in range(3):
            others += 1
            append(load_table(table.path, options=IMPATIENT), -others)
            wait()
    micro_batches(tmp_path)
    count = int((tmp_path / "checkpoint").read_text())
    assert count > 3
    found = load_table(table.path, options=IMPATIENT)
    assert set(rows(found)) == {*range(count), *(-number for number in range(1, others + 1))}
    latest = found.snapshots.latest()
    assert latest is not None
    if not keyed:
        assert latest.total_record_count == count + others
    of_query = [s for s in map(found.snapshots.get, found.snapshots.ids()) if s.commit_user == "the-query"]
    assert [s.commit_identifier for s in of_query if s.commit_kind.value == "APPEND"] == list(range(count))
    remove_files_before(found, 2**62)
    check_files(table.path)
