"""Upserts that do not see each other: their commits settle which row is newer, and no compaction turns it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact, rewrite_here
from paimon_spark.maintain.compact.rewrite import Rewrite, RewriteResult
from paimon_spark.read.postponed_read import by_writer
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.history import rows
from tests.support.levels import tied_values
from tests.support.racing import rows_to_change
from tests.support.seeds import chance

KINDS = {
    "plain": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation"},
    "lookup": {"changelog-producer": "lookup"},
    "dynamic": {"bucket": "-1"},
}
Written = tuple[SnapshotIdentity, TaskMessage]


def make(path: Path, kind: str) -> FileStoreTable:
    options = {"bucket": "1", "write-only": "true", "num-sorted-run.compaction-trigger": "2", **KINDS[kind]}
    return make_table(path, primary_key=["k"], **{name.replace(".", "__"): value for name, value in options.items()})


def written(table: FileStoreTable, given: dict[int, str], created: int | None = None) -> Written:
    """Plan a write of these rows and do it, but for its commit; its files have a creation time, if told."""
    batch = pa.RecordBatch.from_pydict({"k": pa.array(list(given), pa.int32()), "v": pa.array(list(given.values()))})
    plan = plan_write(table, data_schema=batch.schema)
    done = write_batches(plan, [batch], 0)
    if created is not None:
        messages = [
            replace(m, new_files=tuple(replace(f, creation_time_millis=created + n) for n, f in enumerate(m.new_files)))
            for m in done.messages
        ]
        done = replace(done, messages=tuple(messages))
    return plan.snapshot, done


def put(table: FileStoreTable, what: Written) -> None:
    commit(table, [what[1]], planned_on=what[0])


@pytest.mark.parametrize("created", [(1, 1), (1, 2), (2, 1)], ids=["at once", "in turn", "clocks differ"])
def test_the_later_commit_is_newer_whatever_is_compacted(tmp_path: Path, created: tuple[int, int]) -> None:
    for turn in range(4):
        table = make(tmp_path / f"t{turn}", "plain")
        two = (
            written(table, {0: "x", 1: "first"}, created[0]),
            written(table, {0: "y", 1: "second", 2: "y"}, created[1]),
        )
        earlier, later = two if turn % 2 else two[::-1]
        put(table, earlier)
        if turn > 1:
            compact(table, full=True)
        put(table, later)
        before = rows(table)
        assert tied_values(table, table.snapshots.ids()[-1])[1] == {"first", "second"}
        assert before[1] == ("second" if turn % 2 else "first")
        compact(table, full=True)
        assert rows(table) == before


class Writers:
    """Writers of one table that do not wait for each other, and a compaction beside them."""

    def __init__(self, table: FileStoreTable, random: Random) -> None:
        self.table, self.random = table, random
        self.waiting: list[Written] = []
        self.ties = 0
        self.expected: dict[int, str] = {}

    def rows(self) -> dict[int, str]:
        """The rows of the latest snapshot, also those that readers do not see before a compaction."""
        return rows_to_change(self.table, self.table.snapshots.get(self.table.snapshots.ids()[-1]))

    def write(self, value: str, created: int | None) -> None:
        keys = range(self.random.randint(1, 4))  # so that equal keys have equal numbers
        self.waiting.append(written(self.table, dict.fromkeys(keys, value), created))

    def commit(self) -> None:
        if self.waiting:
            put(self.table, self.waiting.pop(self.random.randrange(len(self.waiting))))
            self.ties += bool(tied_values(self.table, self.table.snapshots.ids()[-1]))
            self.expected = self.rows()

    def rewrite(self, planned: FileStoreTable, rewrites: Sequence[Rewrite]) -> list[RewriteResult]:
        if self.random.random() < 0.7:
            self.commit()  # between the plan of the compaction and its end
        return list(rewrite_here(planned, rewrites))

    def compact(self) -> None:
        if self.table.snapshots.latest() is not None:
            compact(load_table(self.table.path), full=self.random.random() < 0.5, execute=self.rewrite)
            assert self.rows() == self.expected


@pytest.mark.parametrize("kind", KINDS)
def test_no_compaction_changes_a_row(tmp_path: Path, kind: str) -> None:
    random = chance("commit order", kind)
    ties = 0
    for turn in range(3):
        writers = Writers(make(tmp_path / f"t{turn}", kind), random)
        for step in range(20):
            match random.choice(("write", "write", "commit", "compact")):
                case "write":
                    writers.write(f"by {step}", random.choice((None, 7, step)))
                case "commit":
                    writers.commit()
                case "compact":
                    writers.compact()
        ties += writers.ties
    assert ties


def test_postponed_rows_keep_the_order_of_their_commits(tmp_path: Path) -> None:
    for turn, order in enumerate(itertools.permutations(range(3))):
        table = make_table(tmp_path / f"t{turn}", primary_key=["k"], bucket="-2")
        three = [written(table, {1: f"by {number}"}, 7 - number) for number in range(3)]
        names = [what[1].messages[0].new_files[0].file_name for what in three]
        for number in order:
            put(table, three[number])
        entries = table.manifests.live_entries(table.snapshots.get(3))
        groups = by_writer(table, [(e.partition, e.file.file_name[:-9], e.file) for e in entries])
        assert [file.name for group in groups for file in group.files] == [names[number] for number in order]
