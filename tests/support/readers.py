"""Workers of the reader tests: a process writes, one compacts, expires and removes orphans, the others read meanwhile.

Each commit writes all keys of its range with its own number as their value, so that a read that is a committed state is
known by its rows alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitConflictError, SnapshotNotFoundError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of
from tests.support.racing import PATIENT, Deed
from tests.support.seeds import chance
from tests.support.streams import batches_of, scan_of

KEYS = 40
_END = "written"
_PATIENCE_SECONDS = 240.0


def read_concurrently(path: str, number: int, commits: int) -> list[Deed]:
    """Do the part of one process; the first writes, the second keeps house, the third follows, the others read."""
    end = Path(path).parent / _END
    match number:
        case 0:
            try:
                return [_write(path, value) for value in range(1, commits + 1)]
            finally:
                end.touch()
        case 1:
            return [deed for _ in _until(end) for deed in _keep_house(path)]
        case 2:
            return list(_follow(path, end))
        case _:
            return [_read(path, number, turn) for turn in _until(end)]


def _until(end: Path) -> Iterator[int]:
    """Count turns until the writer has ended, and one more."""
    last = time.monotonic() + _PATIENCE_SECONDS
    turn = 0
    while not end.exists():
        if time.monotonic() > last:
            raise TimeoutError("the writer does not end")
        yield turn
        turn += 1
    yield turn


def _write(path: str, value: int) -> Deed:
    table = load_table(path, options=PATIENT)
    keyed = bool(table.schema.primary_keys)
    low = KEYS * value if table.options.merge_engine == "first-row" or not keyed else 0
    rows = {"k": pa.array(range(low, low + KEYS), pa.int32()), "v": [f"{value:09}"] * KEYS}
    batch = pa.RecordBatch.from_pydict(rows)
    plan = plan_write(table, data_schema=batch.schema)
    made = commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)
    assert made is not None
    return Deed(made, "write", {0: f"{value:09}"})


def _keep_house(path: str) -> Iterator[Deed]:
    table = load_table(path, options=PATIENT)
    try:
        made = compact(table, full=True)
    except CommitConflictError:
        made = None
    if made is not None:
        yield Deed(made, "compact", {})
    if expire_snapshots(table, retain_latest_only()):
        yield Deed(0, "expire", {})
    remove_orphan_files(table, older_than=datetime.now(UTC) - timedelta(minutes=1))


def _read(path: str, number: int, turn: int) -> Deed:
    """Read the newest state slowly; what it holds must be a committed one."""
    slow = chance("reader", number, turn)
    table = load_table(path)
    try:
        plan = plan_of(table)
        rows: list[tuple[int, str]] = []
        for split in plan.splits:
            time.sleep(slow.random() * 0.05)
            for batch in plan.read(plan.table, split, plan.fields, plan.residual):
                rows += zip(*(batch[name].to_pylist() for name in ("k", "v")), strict=True)
    except SnapshotNotFoundError:
        return Deed(0, "expired", {})
    check_state(table, rows)
    return Deed(plan.snapshot.id if plan.snapshot else 0, "read", {})


def check_state(table: FileStoreTable, rows: list[tuple[int, str]]) -> None:
    """Check that rows are those of some commits in order, none left out, none twice."""
    assert len({key for key, _ in rows}) == len(rows)
    values = Counter(value for _, value in rows)
    assert set(values.values()) <= {KEYS}, values
    if not table.schema.primary_keys or table.options.merge_engine == "first-row":
        assert sorted(values) == [f"{value:09}" for value in range(1, len(values) + 1)]
    else:
        assert len(values) <= 1


def _follow(path: str, end: Path) -> Iterator[Deed]:
    """Read the changes as a stream whose consumer keeps snapshots from expiry: each of them once."""
    if load_table(path).options.merge_engine == "first-row":
        return
    options = {"consumer-id": "follower", "scan.snapshot-id": "1"}
    scan_of(path, options).commit(scan_of(path, options).initial())
    seen: list[tuple[int, str]] = []
    for _ in _until(end):
        for batch in batches_of(path, options):
            seen += [(row["k"], row["v"]) for row in batch.rows]
            scan_of(path, options).commit(batch.end)
    values = Counter(value for _, value in seen)
    assert set(values.values()) <= {KEYS}, values
    assert sorted(values) == [f"{value:09}" for value in range(1, len(values) + 1)]
    yield Deed(len(values), "follow", {})
