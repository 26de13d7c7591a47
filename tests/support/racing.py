"""Workers of the race tests: each is a process of its own that commits to one shared table as fast as it can."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import CommitConflictError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.manifest import FileSource
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import data_file, message, partition_bytes

PATIENT = {"commit.max-retries": "500", "commit.max-retry-wait": "100 ms"}
"""Rivals on a loaded machine may win often; giving up is tested elsewhere."""


@dataclass(frozen=True)
class Deed:
    """One successful commit: which snapshot it made and what it did."""

    snapshot_id: int
    kind: str
    rows: dict[int, str]
    partition: str | None = None


Worker = Callable[[str, int, int], list[Deed]]


def race(worker: Worker, path: str, processes: int, commits: int, *, timeout_seconds: float = 300) -> list[Deed]:
    """Run ``worker`` in several processes at once; return what they did, ordered by snapshot."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(processes) as pool:
        start = time.time() + 0.5
        work = [(worker, path, number, commits, start) for number in range(processes)]
        done = pool.map_async(_run, work, chunksize=1).get(timeout=timeout_seconds)
    return sorted((deed for deeds in done for deed in deeds), key=lambda deed: deed.snapshot_id)


def _run(work: tuple[Worker, str, int, int, float]) -> list[Deed]:
    worker, path, number, commits, start = work
    time.sleep(max(0.0, start - time.time()))
    return worker(path, number, commits)


def _open(path: str) -> FileStoreTable:
    return load_table(path, options=PATIENT)


def _committed(deed: Callable[[], int | None]) -> int:
    """Do it again after each conflict, as the message says; return the snapshot's id."""
    while True:
        try:
            snapshot_id = deed()
        except CommitConflictError as error:
            if "run the write again" not in str(error):
                raise
            continue
        assert snapshot_id is not None
        return snapshot_id


def append_files(path: str, number: int, commits: int) -> list[Deed]:
    """Append one small file per commit."""
    table, deeds = _open(path), []
    for turn in range(commits):
        key = number * 1000 + turn
        rows = {key: f"w{number}", key + 500: "x"}
        made = commit(table, [message(table, data_file(table, rows))])
        assert made is not None
        deeds.append(Deed(made, "append", rows))
    return deeds


def upsert_shared_keys(path: str, number: int, commits: int) -> list[Deed]:
    """Write keys that all workers share, and one of its own, with the real writer."""
    deeds = []
    for turn in range(commits):
        rows = dict.fromkeys((*range(5), 100 + number * 50 + turn), f"w{number}t{turn}")

        def write(rows: dict[int, str] = rows) -> int | None:
            table = _open(path)
            batch = pa.RecordBatch.from_pydict(
                {"k": pa.array(list(rows), pa.int32()), "v": pa.array(list(rows.values()))}
            )
            plan = plan_write(table, data_schema=batch.schema)
            task = write_batches(plan, [batch], 0)
            return commit(table, [task], planned_on=plan.snapshot)

        deeds.append(Deed(_committed(write), "upsert", rows))
    return deeds


def upsert_and_compact(path: str, number: int, commits: int) -> list[Deed]:
    """As `upsert_shared_keys`, with a compaction of the whole table, full or not, after each write."""
    chance, deeds = random.Random(number), []
    for turn in range(commits):
        (deed,) = upsert_shared_keys(path, number * commits + turn, 1)
        deeds.append(deed)
        try:
            made = compact(_open(path), full=chance.random() < 0.5)
        except CommitConflictError as error:
            if "conflicts detected" not in str(error):
                raise
            continue
        deeds += [Deed(made, "compact", {})] if made is not None else []
    return deeds


def mixed(path: str, number: int, commits: int) -> list[Deed]:
    """Append, overwrite dynamically or statically, and compact: chosen at random."""
    chance, deeds = random.Random(number), []
    for turn in range(commits):
        kind = chance.choice(["append", "append", "dynamic", "static", "compact"])
        partition = chance.choice("ab")
        rows = {number * 1000 + turn: f"w{number}t{turn}"}
        spec = {"dynamic": OverwriteSpec.dynamic(), "static": OverwriteSpec.static({"dt": partition})}.get(kind)
        table = _open(path)
        if kind == "compact":
            snapshot_id = _compact(table, partition)
            if snapshot_id is not None:
                deeds.append(Deed(snapshot_id, kind, {}, partition))
            continue
        file = data_file(table, rows, partition=partition)
        made = commit(table, [message(table, file, partition=partition)], overwrite=spec)
        assert made is not None
        deeds.append(Deed(made, kind, rows, partition))
    return deeds


def _compact(table: FileStoreTable, partition: str) -> int | None:
    """Rewrite the live files of a partition as one; None when a rival changed them or there are none."""
    location = partition_bytes(partition)
    live = table.manifests.live_entries(table.snapshots.latest(), partitions=[location])
    if not live:
        return None
    directory = Path(table.paths.bucket_dir(table.paths.partition_path(location), 0))
    rows: dict[int, str] = {}
    for entry in live:
        columns = pq.read_table(directory / entry.file.file_name, partitioning=None).to_pydict()
        rows.update(zip(columns["k"], columns["v"], strict=True))
    new = data_file(table, rows, partition=partition, source=FileSource.COMPACT)
    before = tuple(entry.file for entry in live)
    try:
        return commit(table, [message(table, partition=partition, compact_before=before, compact_after=(new,))])
    except CommitConflictError as error:
        if "File deletion conflicts detected" not in str(error):
            raise
        return None


def serially(deeds: Sequence[Deed]) -> list[tuple[Any, ...]]:
    """Return the rows of a partitioned append table after ``deeds`` one by one."""
    rows: dict[int, tuple[str, str | None]] = {}
    for deed in deeds:
        if deed.kind in ("dynamic", "static"):
            rows = {key: row for key, row in rows.items() if row[1] != deed.partition}
        rows.update({key: (value, deed.partition) for key, value in deed.rows.items()})
    return sorted((key, value, partition) for key, (value, partition) in rows.items())


def rows_to_change(table: FileStoreTable, snapshot: Snapshot) -> dict[int, str]:
    """Return the rows (k, v) of a snapshot that a statement changes."""
    plan = TableScan.of(table, ROWS, snapshot_id=snapshot.id).plan()
    batches = [b for split in plan.splits for b in read_split(plan.table, split, plan.fields, plan.residual)]
    return {row["k"]: row["v"] for batch in batches for row in batch.to_pylist()}


def count_up(path: str, number: int, commits: int) -> list[Deed]:
    """Add one to all values (counters as text), as an UPDATE does: what is written is made of what was read."""
    deeds = []
    for _ in range(commits):
        table = _open(path)

        def attempt(latest: Snapshot | None, table: FileStoreTable = table) -> int | None:
            assert latest is not None
            old = rows_to_change(table, latest)
            batch = pa.RecordBatch.from_pydict(
                {"k": pa.array(list(old), pa.int32()), "v": [str(int(value) + 1) for value in old.values()]}
            )
            plan = plan_write(table, data_schema=batch.schema, rows_of=SnapshotIdentity.of(latest))
            done = write_batches(plan, [batch], 0)
            return commit(table, [done], planned_on=plan.snapshot, rows_read=plan.rows_read)

        made = run_again(table, attempt)
        assert made is not None
        deeds.append(Deed(made, "count", {}))
    return deeds


def count_up_and_compact(path: str, number: int, commits: int) -> list[Deed]:
    """As `count_up`, with a compaction of its own after most updates, as writes of tables with vectors have it."""
    chance, deeds = random.Random(number), []
    for _ in range(commits):
        deeds += count_up(path, number, 1)
        if chance.random() < 0.7:
            with contextlib.suppress(CommitConflictError):
                compact(_open(path), full=chance.random() < 0.3)
    return deeds
