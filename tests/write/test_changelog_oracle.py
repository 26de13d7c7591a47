"""One history of a table with a changelog, by Java and by us: the same data files, changelog files and snapshots."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.changelogs import FORMATS, changelog_facts, changes, shape
from tests.support.golden import row_multiset
from tests.support.seeds import chance
from tests.support.twins import COLUMNS, KEEP, MINOR, Twins, facts, file_rows, in_order, maybe, ours, theirs
from tests.support.twins import ENGINES as MERGING

pytestmark = pytest.mark.oracle
NUMBERS = count()
KINDS = ("+I", "-U", "+U", "-D")
Row = tuple[Any, ...]
AGGREGATION = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "listagg",
    "fields.g.aggregate-function": "last_value",
    "fields.s.aggregate-function": "max",
}
IGNORING = {"fields.b.ignore-retract": "true", "fields.s.ignore-retract": "true"}
ENGINES = {
    **MERGING,
    "aggregation": {**AGGREGATION, **IGNORING},
    "removing_aggregation": {**AGGREGATION, "aggregation.remove-record-on-delete": "true"},
}
RETRACTING = ("groups", "aggregation")


class History:
    """A table that Java writes and an equal one that we write."""

    def __init__(self, oracle: Any, folder: Path, options: dict[str, str], *, partitioned: bool = False) -> None:
        self.oracle, self.partitioned = oracle, partitioned
        columns = [*COLUMNS, ("p", "STRING NOT NULL")] if partitioned else COLUMNS
        keys = ["k", "p"] if partitioned else ["k"]
        self.name = oracle.fresh_name("changelog")
        made = {"bucket": "2", "write-only": "true", **KEEP, **options}
        oracle.create(self.name, columns, pk=keys, partition=["p"] if partitioned else [], options=made)
        self.java = oracle.location(self.name).removeprefix("file:")
        self.mine = str(folder / f"mine{next(NUMBERS)}")
        shutil.copytree(self.java, self.mine)

    def write(self, rows: Sequence[Row], kinds: Sequence[str]) -> None:
        """Write the same rows to both."""
        data = [(*row, f"p{row[0] % 3}") for row in rows] if self.partitioned else list(rows)
        self.oracle.write(self.java, data, kinds=list(kinds))
        write_rows(self.mine, data, kinds)

    def random_write(self, rng: random.Random, kinds: str, rows: int = 8, keys: int = 12) -> None:
        values = [
            (rng.randrange(keys), maybe(rng, 5), maybe(rng, 3, "x{}"), maybe(rng, 4), maybe(rng, 9), maybe(rng, 4))
            for _ in range(rows)
        ]
        self.write(values, [rng.choice(kinds.split(",")) for _ in values])

    def compact(self, *, full: bool = True) -> None:
        """Compact both."""
        given = {"write-only": "false"}
        self.oracle.compact(self.java, full=full, options=given)
        compact(load_table(self.mine, options=given), full=full)

    def check(self, views: Sequence[str] = ("audit_log", "binlog")) -> int:
        """Compare every snapshot and every changelog; return how many rows the changelogs have."""
        java, mine = load_table(self.java), load_table(self.mine)
        assert mine.snapshots.ids() == java.snapshots.ids()
        assert facts(mine) == facts(java)
        rows = 0
        for number in mine.snapshots.ids():
            of_mine, of_java = mine.snapshots.get(number), java.snapshots.get(number)
            assert shape(of_mine) == shape(of_java)
            found = changelog_facts(mine, number)
            assert found == changelog_facts(java, number)
            rows += sum(len(fact[-1]) for fact in found)
            if of_mine.commit_kind is CommitKind.COMPACT:
                at = {"scan.snapshot-id": str(number)}
                assert ours(mine, **at) == theirs(self.oracle, java, **at)
            assert of_mine.changelog_record_count in (None, sum(len(fact[-1]) for fact in found))
        self._check_reads(mine, views)
        return rows

    def check_reported(self) -> None:
        """The changelog of each compaction is exactly what it changes in the rows that readers see."""
        mine = load_table(self.mine)
        options, before = mine.options, dict[Row, Row]()
        ignored = (options.value("changelog-producer.row-deduplicate-ignore-fields") or "").split(",")
        deduplicated = options.value("changelog-producer.row-deduplicate")
        names = [field.name for field in mine.schema.fields]
        compared = [at for at, name in enumerate(names) if name not in ignored]
        for number in mine.snapshots.ids():
            found = changes(mine, "audit_log", incremental_between=f"{number - 1},{number}")
            if mine.snapshots.get(number).commit_kind is not CommitKind.COMPACT:
                assert not found.num_rows
                continue
            after = {self.key(row): row for row in ours(mine, **{"scan.snapshot-id": str(number)})}
            expected = []
            for key in self.pending(mine, number):
                old, new = before.get(key), after.get(key)
                reported = self.merged_alone(new) if new and key in self.lifted(mine, number) else new
                if (
                    old
                    and reported
                    and deduplicated
                    and [old[at] for at in compared] == [reported[at] for at in compared]
                ):
                    continue
                if old:
                    expected.append(("-U" if reported else "-D", *old))
                if reported:
                    expected.append(("+U" if old else "+I", *reported))
            assert sorted(in_order(found), key=repr) == sorted(expected, key=repr)
            before = after

    def key(self, row: Row) -> Row:
        return (row[0], row[-1]) if self.partitioned else row[:1]

    def pending(self, table: FileStoreTable, compaction: int) -> set[Row]:
        """The keys of the files at level 0 that a compaction finds; all have a key as their first column."""
        return self.keys_of(table, compaction - 1, {file.file.file_name for file in level_0(table, compaction - 1)})

    def lifted(self, table: FileStoreTable, compaction: int) -> set[Row]:
        """The keys of the files at level 0 that a compaction moves to a level above as they are."""
        names = {entry.file.file_name for entry in live_at(table, compaction)}
        names &= {entry.file.file_name for entry in level_0(table, compaction - 1)}
        return self.keys_of(table, compaction, names)

    def keys_of(self, table: FileStoreTable, snapshot: int, names: set[str]) -> set[Row]:
        entries = [entry for entry in live_at(table, snapshot) if entry.file.file_name in names]
        width = len(table.schema.fields)
        return {self.key(row[:width]) for entry in entries for row in in_order(file_rows(table, entry))}

    def merged_alone(self, row: Row) -> Row:
        """What Java's lookup reports a row that is its key's only one, in a file that keeps the row as it is.

        The changelog's row has gone through the merge function, the file's has not, and a read takes the only row
        of a key as it is (``LookupChangelogMergeFunctionWrapper``, ``ReducerMergeFunctionWrapper``; full-compaction
        tells it as it is, too). They differ in the columns of a sequence group that has no sequence: the merge does
        not take them.
        """
        options = load_table(self.mine).schema.options
        if options["changelog-producer"] != "lookup" or "fields.g.sequence-group" not in options:
            return row
        a, b, g, s, h = row[1:6]
        return (row[0], *((None, None) if g is None else (a, b)), g, None if h is None else s, h, *row[6:])

    def _check_reads(self, mine: FileStoreTable, views: Sequence[str]) -> None:
        latest = mine.snapshots.latest_id()
        options = {"incremental-between": f"0,{latest}"}
        for view in views:
            want = row_multiset(self.oracle.read(f"{self.java}${view}", options=options))
            assert row_multiset(self.oracle.read(f"{self.mine}${view}", options=options)) == want
            assert row_multiset(changes(mine, view, **options)) == want
        assert ours(mine) == theirs(self.oracle, mine) == theirs(self.oracle, load_table(self.java))


def live_at(table: FileStoreTable, snapshot: int) -> list[ManifestEntry]:
    return table.manifests.live_entries(table.snapshots.get(snapshot))


def level_0(table: FileStoreTable, snapshot: int) -> list[ManifestEntry]:
    return [entry for entry in live_at(table, snapshot) if entry.file.level == 0]


def write_rows(path: str, rows: Sequence[Row], kinds: Sequence[str]) -> None:
    table = load_table(path)
    schema = to_arrow_schema(table.schema.fields)
    data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
    data = data.append_column("_VALUE_KIND", pa.array([KINDS.index(kind) for kind in kinds], pa.int8()))
    plan = plan_write(table, data_schema=data.schema, shuffled=True)
    commit(table, [write_batches(plan, data.to_batches(), 0)])


def kinds_for(engine: str) -> str:
    return "+I,+U,-U" if engine in RETRACTING else "+I,+I,+U,-D"


@pytest.mark.parametrize("engine", ENGINES)
def test_incoming_rows_are_the_changelog_that_java_writes(oracle: Any, tmp_path: Path, engine: str) -> None:
    rng = chance("input", engine)
    options = {"changelog-producer": "input", "file.format": rng.choice(FORMATS), **ENGINES[engine]}
    history = History(oracle, tmp_path, options, partitioned=rng.random() < 0.5)
    for _ in range(3):
        history.random_write(rng, kinds_for(engine))
    history.compact(full=rng.random() < 0.5)
    history.random_write(rng, kinds_for(engine))
    # a -U that no +U follows is packed with whatever comes next
    assert history.check(("audit_log",) if "-U" in kinds_for(engine) else ("audit_log", "binlog")) > 20


DEDUPLICATED = [
    {},
    {"changelog-producer.row-deduplicate": "true"},
    {"changelog-producer.row-deduplicate": "true", "changelog-producer.row-deduplicate-ignore-fields": "a,s"},
]


@pytest.mark.parametrize("engine", ENGINES)
def test_full_compactions_show_what_java_show(oracle: Any, tmp_path: Path, engine: str) -> None:
    """Rows of three states: untouched, merged anew without a change, changed; and files that are only upgraded."""
    rng = chance("full-compaction", engine)
    options = {"changelog-producer": "full-compaction", "file.format": rng.choice(FORMATS), **ENGINES[engine]}
    options |= rng.choice(DEDUPLICATED)
    options |= rng.choice([{}, MINOR, {"target-file-size": "100 b"}, {"file.format.per.level": "0:avro"}])
    history = History(oracle, tmp_path, options, partitioned=rng.random() < 0.5)
    for keys in (12, 30, 5):
        for _ in range(rng.randrange(1, 4)):
            history.random_write(rng, kinds_for(engine), keys=keys)
        history.compact()
    assert history.check() > 1
    history.check_reported()


@pytest.mark.parametrize("engine", ENGINES)
def test_compactions_with_lookup_show_what_java_show(oracle: Any, tmp_path: Path, engine: str) -> None:
    """Some compactions upgrade level 0 over rows that stay above; both compact after each write."""
    rng = chance("lookup", engine)
    options = {"changelog-producer": "lookup", "file.format": rng.choice(FORMATS), **ENGINES[engine]}
    options |= rng.choice(DEDUPLICATED)
    history = History(oracle, tmp_path, options, partitioned=rng.random() < 0.5)
    history.random_write(rng, "+I", rows=40)
    history.compact()
    for keys in (12, 30, 5):
        for _ in range(rng.randrange(1, 4)):
            history.random_write(rng, kinds_for(engine), keys=keys)
        history.compact()
    assert history.check() > 10
    history.check_reported()


@pytest.mark.parametrize("engine", ["sequence", "aggregation"])
def test_only_compactions_to_the_top_level_show_something(oracle: Any, tmp_path: Path, engine: str) -> None:
    """Both compact copies of one table, since what a minor compaction picks depends on the bytes of files."""
    rng = chance("minor", engine)
    options = {"changelog-producer": "full-compaction", **ENGINES[engine], **MINOR}
    twins = Twins(oracle, tmp_path, options)
    reported = 0
    for _ in range(5):
        for _ in range(rng.randrange(1, 4)):
            twins.write(rng, rows=rng.choice([1, 3, 40]), keys=60, kinds=kinds_for(engine))
        java, mine = twins.both(full=rng.random() < 0.3)
        assert mine.snapshots.latest_id() == java.snapshots.latest_id()
        latest = mine.snapshots.latest_id()
        assert latest is not None
        assert facts(mine) == facts(java)
        found = changelog_facts(mine, latest)
        assert found == changelog_facts(java, latest)
        reported += bool(found)
    assert reported


FILES: dict[str, dict[str, str]] = {
    "format": {"changelog-file.format": "avro"},
    "thin": {"data-file.thin-mode": "true", "changelog-file.stats-mode": "counts"},
    "names": {
        "changelog-file.prefix": "cl-",
        "changelog-file.compression": "snappy",
        "file.suffix.include.compression": "true",
    },
    "level": {"file.format.per.level": "0:orc,5:avro", "metadata.stats-mode.per.level": "0:none,5:counts"},
}


@pytest.mark.parametrize("options", FILES.values(), ids=FILES)
@pytest.mark.parametrize("producer", ["input", "full-compaction"])
def test_changelog_files_follow_their_options(
    oracle: Any, tmp_path: Path, producer: str, options: dict[str, str]
) -> None:
    history = History(oracle, tmp_path, {"changelog-producer": producer, **options})
    rng = chance(producer, *options)
    for _ in range(2):
        history.random_write(rng, "+I,+U,-D")
    history.compact()
    assert history.check() > 1
