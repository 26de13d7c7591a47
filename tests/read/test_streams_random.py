"""Random histories: the batches of a stream, applied to an empty table, give the table at each offset.

Each batch is read by a scan of its own, with limits, parallelism and sizes of splits that change from batch to batch.
"""

from __future__ import annotations

import random
from collections.abc import Container
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.due import compact_after_write
from paimon_spark.read.split_read import read_split
from paimon_spark.read.stream_offset import ReadLimits
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import OverwriteMode, new_user, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.plans import plan_of
from tests.support.seeds import chance
from tests.support.streams import Row, rows_of_batch, scan_of, through_json

KINDS = ("+I", "-U", "+U", "-D")
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"},
    "first-row": {"merge-engine": "first-row"},
}
PRODUCERS: dict[str, dict[str, str]] = {
    "": {},
    " input": {"changelog-producer": "input"},
    " lookup": {"changelog-producer": "lookup"},
    " full": {"changelog-producer": "full-compaction"},
}
VECTORS = {"deletion-vectors.enabled": "true"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
TABLES: dict[str, dict[str, str]] = {
    "append": {"bucket": "-1"},
    "append buckets": {"bucket": "2", "bucket-key": "k"},
    "append data evolution": {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    **{
        f"{engine}{producer}": {**of_engine, **of_producer}
        for engine, of_engine in ENGINES.items()
        for producer, of_producer in PRODUCERS.items()
        if engine != "first-row" or producer in ("", " lookup")
    },
    **{f"{engine} vectors": {**VECTORS, **of_engine} for engine, of_engine in ENGINES.items() if engine != "first-row"},
    **{
        f"{engine} vectors{producer}": {**VECTORS, **of_engine, **PRODUCERS[producer]}
        for engine, of_engine in ENGINES.items()
        for producer in (" input", " lookup")
        if engine != "first-row"
    },
    **{f"{engine} dynamic lookup": {**DYNAMIC, **PRODUCERS[" lookup"], **ENGINES[engine]} for engine in ENGINES},
    "deduplicate dynamic": DYNAMIC,
    "deduplicate overwritten": {"streaming-read-overwrite": "true"},
    "append overwritten": {"bucket": "-1", "streaming-read-append-overwrite": "true"},
}


def write(table: FileStoreTable, rows: list[tuple[int, str | None, int]], *, overwrite: bool = False) -> None:
    columns: dict[str, Any] = {"k": pa.array([row[0] for row in rows], pa.int32()), "v": [row[1] for row in rows]}
    columns["v"] = pa.array(columns["v"], pa.string())
    if table.schema.primary_keys:
        columns["_VALUE_KIND"] = pa.array([row[2] for row in rows], pa.int8())
    batch = pa.RecordBatch.from_pydict(columns)
    table, mode = load_table(table.path), OverwriteMode.STATIC if overwrite else None
    plan, user = plan_write(table, overwrite=mode, data_schema=batch.schema), new_user(table.options)
    messages = [write_batches(plan, [batch], 0)]
    commit(table, messages, commit_user=user, overwrite=OverwriteSpec(mode) if mode else None)
    if table.options.compacts_writes:
        compact_after_write(table, messages, commit_user=user)


def shows_overwrites(table: FileStoreTable) -> bool:
    keyed = bool(table.schema.primary_keys)
    return bool(table.options.value("streaming-read-overwrite" if keyed else "streaming-read-append-overwrite"))


def make_history(rng: random.Random, table: FileStoreTable) -> None:
    engine, keyed = table.options.merge_engine, bool(table.schema.primary_keys)
    kinds = (0, 0, 0, 2, 3) if keyed and engine == "deduplicate" else (0,)
    for turn in range(rng.randrange(6, 11)):
        deed = rng.random()
        if deed < 0.25 and keyed and turn:
            compact(load_table(table.path), full=rng.random() < 0.6)
            continue
        overwrites = bool(turn) and rng.random() < 0.3 and shows_overwrites(table)
        keys = [rng.randrange(12) for _ in range(rng.randrange(1, 7))]
        if "input" in table.options.changelog_producer:
            keys = list(dict.fromkeys(keys))
        rows = [(key, f"{rng.randrange(1000):03}", 0 if overwrites else rng.choice(kinds)) for key in keys]
        write(table, rows, overwrite=overwrites)
    if keyed:
        compact(load_table(table.path), full=True)


def state(table: FileStoreTable, snapshot_id: int) -> list[tuple[Any, ...]]:
    plan = plan_of(load_table(table.path, options={"scan.snapshot-id": str(snapshot_id)}))
    batches = [b for split in plan.splits for b in read_split(plan.table, split, plan.fields, plan.residual)]
    return sorted((row["k"], row["v"]) for batch in batches for row in batch.to_pylist())


def is_comparable(table: FileStoreTable, snapshot_id: int) -> bool:
    """Whether a batch read of a snapshot sees what the stream has given: nothing waits for a compaction."""
    if not table.schema.primary_keys:
        return True
    producer = table.options.changelog_producer
    levels = {entry.file.level for entry in table.manifests.live_entries(table.snapshots.get(snapshot_id))}
    if producer == "full-compaction":
        return levels <= {table.options.num_levels - 1}
    if producer == "lookup" or table.options.batch_scan_skips_level_0:
        return 0 not in levels
    return True


class Replay:
    """Applies rows of a stream: to a map where their kinds say all, else to a table of the same engine."""

    def __init__(self, table: FileStoreTable, folder: Path) -> None:
        options = table.options
        self.keyed = bool(table.schema.primary_keys)
        says_all = options.changelog_producer in ("lookup", "full-compaction") or options.merge_engine == "deduplicate"
        self.twin: FileStoreTable | None = None
        if self.keyed and not says_all:
            own = {k: v for k, v in options.to_dict().items() if k.startswith(("merge-engine", "fields."))}
            self.twin = make_table(folder, primary_key=["k"], bucket="1", **_named(own))
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.log: list[tuple[Any, ...]] = []
        self.at = 0

    def apply(self, rows: list[Row], overwrites: Container[int]) -> None:
        if self.twin is not None:
            if rows:
                write(self.twin, [(row["k"], row["v"], KINDS.index(row["rowkind"])) for row in rows])
            return
        for row in rows:
            if not self.keyed:
                if row["_snapshot"] in overwrites and row["_snapshot"] != self.at:
                    self.log.clear()  # what an overwrite of an append table deleted is not reported
                self.at = row["_snapshot"]
                self.log.append((row["k"], row["v"]))
            elif row["rowkind"] in ("+I", "+U"):
                self.rows[row["k"]] = (row["k"], row["v"])
            else:
                self.rows.pop(row["k"], None)

    def result(self) -> list[tuple[Any, ...]]:
        if self.twin is not None:
            latest = self.twin.snapshots.latest_id()
            if latest is None:
                return []
            if self.twin.options.batch_scan_skips_level_0:
                compact(load_table(self.twin.path), full=True)
            return state(self.twin, self.twin.snapshots.latest_id() or latest)
        return sorted(self.rows.values() if self.keyed else self.log)


def _named(options: dict[str, str]) -> dict[str, str]:
    return {key.replace("-", "_").replace(".", "__"): value for key, value in options.items()}


def in_order(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((row["_snapshot"], row["k"], row["v"]) for row in rows)


@pytest.mark.parametrize("kind", TABLES)
def test_batches_give_the_table(tmp_path: Path, kind: str) -> None:
    rng = chance("streams", kind)
    keyed = "append" not in kind
    given = {"bucket": "2", "num-sorted-run.compaction-trigger": "3", "num-levels": "4", "target-file-size": "1 kb"}
    options = _named({**given, **TABLES[kind]} if keyed else TABLES[kind])
    table = make_table(tmp_path / "t", primary_key=["k"] if keyed else [], **options)
    make_history(rng, table)
    last = table.snapshots.latest_id()
    assert last is not None
    commits = map(table.snapshots.get, table.snapshots.ids())
    overwrites = {commit.id for commit in commits if commit.commit_kind is CommitKind.OVERWRITE}
    replay = Replay(table, tmp_path / "twin")
    start = rng.choice(["1", str(rng.randrange(1, last + 1))])
    mode = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": start} if rng.random() < 0.7 else {}
    at = scan_of(table.path, mode).initial()
    while True:
        more = {**mode, "source.split.target-size": rng.choice(["1 b", "128 mb"])}
        limits = rng.choice([None, ReadLimits(max_files=rng.randrange(1, 5)), ReadLimits(max_rows=rng.randrange(1, 9))])
        end = scan_of(table.path, more, kinds=True).latest(at, limits)
        if end == at:
            break
        scan = scan_of(table.path, more, kinds=True)
        rows = rows_of_batch(scan, through_json(at), through_json(end), rng.choice([1, 4]))
        plain = rows_of_batch(scan_of(table.path, more), at, end)
        merged = overwrites | ({at.snapshot_id} if at.full else set())
        shown = [row for row in rows if row["rowkind"] != "-D" or row["_snapshot"] not in merged]
        assert in_order(plain) == in_order(shown), "without kinds: all rows but deletes of a state or an overwrite"
        replay.apply(rows, overwrites)
        at = end
        here = at.snapshot_id - 1
        if at.position == 0 and not at.full and is_comparable(table, here):
            assert replay.result() == state(table, here), (here, table.snapshots.get(here).commit_kind)
    assert is_comparable(table, last)
    assert replay.result() == state(table, last), "compactions that end the history change no row"
    assert CommitKind.APPEND in {table.snapshots.get(number).commit_kind for number in table.snapshots.ids()}
