"""Compaction with lookup by us and by Java: the same files, changelog and rows; each goes on with the other's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.deletion_vectors import FileKey, vectors_of
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.changelogs import FORMATS, changelog_facts, changes, shape
from tests.support.commits import make_table
from tests.support.golden import row_multiset
from tests.support.history import rows
from tests.support.lookup import changes as model_changes
from tests.support.lookup import check_levels, logged, write
from tests.support.plans import plan_of
from tests.support.seeds import chance
from tests.support.twins import GROUPS, KEEP, Twins, facts, ours, theirs

pytestmark = pytest.mark.oracle

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "g"},
    "partial_update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "groups": GROUPS,
    "removing_group": {**GROUPS, "partial-update.remove-record-on-sequence-group": "g"},
}
AGGREGATION = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "last_non_null_value",
    "fields.b.ignore-retract": "true",
    "fields.g.aggregate-function": "max",
    "fields.g.ignore-retract": "true",
    "fields.default-aggregate-function": "last_value",
}
ENGINES["aggregation"] = AGGREGATION
LOOKUPS: dict[str, dict[str, str]] = {
    "changelog": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "both": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "forced": {"force-lookup": "true"},
}
LEVELS = {"num-sorted-run.compaction-trigger": "4", "num-levels": "4"}
"""So that files' sizes, which differ a little from Java's, decide nothing after the first pick."""
CASES = [
    *((engine, lookup) for engine in ENGINES for lookup in ("changelog", "vectors", "both")),
    ("aggregation", "forced"),
    ("first_row", "forced"),
    ("first_row", "changelog"),
]
ENGINES["first_row"] = {"merge-engine": "first-row"}
KINDS = {"groups": "+I,+U,-U", "first_row": "+I,+I,+U"}
LEVEL_0_TOO = {"batch-scan-mode": "compact"}
"""With it Java 1.4 reads what each commit wrote; without, it leaves out level 0, which Java 2.x reads."""


@pytest.mark.parametrize(("engine", "lookup"), CASES)
@pytest.mark.parametrize("seed", range(1))
def test_lookup_compaction_makes_what_java_makes(
    oracle: Any, tmp_path: Path, engine: str, lookup: str, seed: int
) -> None:
    """Runs of many sizes on several levels; both compact the files that Java has."""
    rng = chance("lookup", engine, lookup, seed)
    options = {**LOOKUPS[lookup], **ENGINES[engine], **LEVELS, "file.format": rng.choice(FORMATS)}
    if rng.random() < 0.5:
        options["changelog-producer.row-deduplicate"] = "true"
        options |= rng.choice([{}, {"changelog-producer.row-deduplicate-ignore-fields": "a,g"}])
    if rng.random() < 0.5:
        options["target-file-size"] = rng.choice(["1 kb", "100 b"])
    twins = Twins(oracle, tmp_path, options, partitioned=rng.random() < 0.3)
    kinds = KINDS.get(engine, "+I,+I,+U,-D")
    for step in range(5):
        for _ in range(rng.randrange(1, 3)):
            twins.write(rng, rows=rng.choice([1, 3, 40]), keys=60, kinds=kinds)
        java, mine = twins.both(full=step == 3)
        latest = mine.snapshots.latest()
        assert latest is not None
        assert shape(latest) == shape(java.snapshots.get(latest.id))
        assert latest.id == java.snapshots.latest_id()
        assert facts(mine) == facts(java)
        assert changelog_facts(mine, latest.id) == changelog_facts(java, latest.id)
        assert theirs(oracle, mine) == ours(mine) == theirs(oracle, java)
    between = {"incremental-between": f"0,{latest.id}"}
    want = row_multiset(oracle.read(f"{java.path}$audit_log", options=between | LEVEL_0_TOO))
    assert row_multiset(oracle.read(f"{mine.path}$audit_log", options=between | LEVEL_0_TOO)) == want
    assert row_multiset(changes(mine, "audit_log", **between)) == want
    if "group" in engine or engine == "sequence":
        return  # Java's difference is not that of its reads of the two states
    between |= {"incremental-between-scan-mode": "diff", "incremental-between": f"3,{latest.id}"}
    want = row_multiset(oracle.read(mine.path, options=between | LEVEL_0_TOO))
    assert row_multiset(changed_rows(mine, between)) == want


def changed_rows(table: FileStoreTable, options: dict[str, str]) -> pa.Table:
    plan = plan_of(load_table(table.path, options=options))
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


@pytest.mark.parametrize("kind", ["changelog", "both", "vectors", "first_row"])
def test_java_and_we_go_on_after_each_other(oracle: Any, tmp_path: Path, kind: str) -> None:
    """Either writes (and compacts what it wrote) or compacts; rows and changelog are those of a model after each."""
    rng = chance("lookup together", kind)
    first_row = kind == "first_row"
    options = {**LOOKUPS.get(kind, {}), **(ENGINES["first_row"] if first_row else {}), **LEVELS, "bucket": "2"}
    if first_row:
        options["changelog-producer"] = "lookup"
    table = make_table(tmp_path / "t", primary_key=["k"], **options, **KEEP)
    model: dict[int, str] = {}
    vectors = VectorsOfFilesThatAreGone(table)
    for step in range(10):
        since, before = table.snapshots.latest_id() or 0, dict(model)
        some = {rng.randrange(40): f"{step}{rng.choice('ab')}" for _ in range(rng.choice([1, 5, 25]))}
        kinds = [0 if first_row else rng.choice([0, 0, 2, 3]) for _ in some]
        java = rng.random() < 0.5
        if java:
            oracle.write(table.path, list(some.items()), kinds=kinds)
        else:
            write(table, some, kinds)
        vectors.check(by_java=java)
        for (key, value), row_kind in zip(some.items(), kinds, strict=True):
            if row_kind == 3:
                model.pop(key, None)
            elif not first_row or key not in model:
                model[key] = value
        found = sorted(tuple(row.values()) for row in oracle.read(table.path).to_pylist())
        assert dict(found) == rows(table) == model
        assert len(found) == len(model)
        check_levels(table, model, gone=vectors.left)
        if "changelog-producer" in options:
            expected = model_changes(before, model, set(some), first_row)
            between = {"incremental-between": f"{since},{table.snapshots.latest_id()}"}
            of_java = [
                tuple(row.values()) for row in oracle.read(f"{table.path}$audit_log", options=between).to_pylist()
            ]
            assert sorted(of_java, key=lambda row: row[1]) == logged(table, since) == expected
        if rng.random() < 0.3:
            java = rng.random() < 0.5
            oracle.compact(table.path) if java else compact(load_table(table.path))
            vectors.check(by_java=java)


class VectorsOfFilesThatAreGone:
    """Which vectors of files that are gone a table has, commit by commit.

    Only one commit leaves any: a full compaction by Java 1.4 of a bucket that has files of the highest level only. It
    writes the files with vectors anew, but no new index file (``FileRewriteCompactTask``; later versions do). Java
    copies what it left into each later index file of the bucket; we leave it out of the next one that we write.
    """

    def __init__(self, table: FileStoreTable) -> None:
        self.table, self.left = table, set[FileKey]()
        self.seen = table.snapshots.latest_id() or 0

    def check(self, *, by_java: bool) -> None:
        """Look at the commits since the last look, all of them by one side."""
        snapshots = self.table.snapshots
        for number in range(self.seen + 1, (snapshots.latest_id() or 0) + 1):
            before, after = snapshots.get(number - 1) if number > 1 else None, snapshots.get(number)
            if by_java:
                self.left |= self.forgotten(before, after)
            else:
                self.left -= {key for key in self.left if self.index_files(before, key) != self.index_files(after, key)}
            assert vectors_of(self.table, after).keys() - self.levels(after).keys() == self.left
        self.seen = snapshots.latest_id() or 0

    def forgotten(self, before: Snapshot | None, after: Snapshot) -> set[FileKey]:
        old, new = self.levels(before), self.levels(after)
        lower = {key[:2] for key, level in old.items() if level < self.table.options.num_levels - 1}
        gone = vectors_of(self.table, before).keys() & (old.keys() - new.keys())
        return {key for key in gone if key[:2] not in lower and new.keys() - old.keys()}

    def levels(self, snapshot: Snapshot | None) -> dict[FileKey, int]:
        entries = self.table.manifests.live_entries(snapshot) if snapshot else []
        return {(entry.partition, entry.bucket, entry.file.file_name): entry.file.level for entry in entries}

    def index_files(self, snapshot: Snapshot | None, key: FileKey) -> set[str]:
        entries = self.table.manifests.index_entries(snapshot) if snapshot else []
        return {entry.file_name for entry in entries if (entry.partition, entry.bucket) == key[:2]}


def test_vectors_that_java_leaves_of_files_that_are_gone(oracle: Any, tmp_path: Path) -> None:
    """Java's compaction of files of the highest level alone leaves their vectors: our next compaction takes them."""
    table = make_table(tmp_path / "t", primary_key=["k"], **{**LOOKUPS["vectors"], **LEVELS, "bucket": "1"}, **KEEP)
    model = dict.fromkeys(range(12), "a")
    vectors = VectorsOfFilesThatAreGone(table)
    write(table, model, [0] * 12)
    compact(load_table(table.path), full=True)
    write(table, {3: "gone"}, [3])
    del model[3]
    vectors.check(by_java=False)
    oracle.compact(table.path)
    vectors.check(by_java=True)
    assert len(vectors.left) == 1
    oracle.write(table.path, [(5, "c")])
    model[5] = "c"
    vectors.check(by_java=True)
    assert len(vectors.left) == 1
    assert len(vectors_of(table, table.snapshots.latest())) == 2, "the index file is another"
    check_levels(table, model, gone=vectors.left)
    write(table, {4: "b"}, [0])
    model[4] = "b"
    vectors.check(by_java=False)
    assert not vectors.left
    assert dict(oracle.rows(table.path)) == rows(table) == model
    check_levels(load_table(table.path), model)
