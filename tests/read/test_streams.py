"""Streams without Spark: where they begin, what each batch holds, limits, restarts, and what stops them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import OptionError, PaimonError, SchemaChangeError, SnapshotNotFoundError, UnsupportedError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.maintain.refs.tags import create_tag
from paimon_spark.read.stream_offset import Budget, ReadLimits, StreamOffset
from paimon_spark.spec.predicate import Leaf
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.consumer_store import ConsumerStore
from paimon_spark.table.schema_change import AddColumn, DropColumn, RenameColumn, SetOption, UpdateColumnType
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import OverwriteMode, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.golden import golden_tables
from tests.support.streams import Batch, Row, batches_of, rows_of_batch, scan_of, source_of

STREAMED = [
    pytest.param(table.name, stream, id=f"{table.name}-{stream['id']}")
    for table in golden_tables()
    for stream in table.expect.get("streams") or []
]


def write(table: FileStoreTable, *keys: int, value: str = "v", overwrite: bool = False, **more: Any) -> None:
    """One commit of rows with these keys; partitions are ``p<key % 2>``."""
    columns = {"k": pa.array(keys, pa.int32()), "v": [f"{value}{key}" for key in keys]}
    if table.schema.partition_keys:
        columns["dt"] = [f"p{key % 2}" for key in keys]
    batch = pa.RecordBatch.from_pydict(columns)
    table = load_table(table.path)
    mode = OverwriteMode.STATIC if overwrite else None
    messages = [write_batches(plan_write(table, overwrite=mode, data_schema=batch.schema), [batch], 0)]
    commit(table, messages, overwrite=OverwriteSpec(OverwriteMode.STATIC) if overwrite else None, **more)


def keys_of(batches: Sequence[Batch]) -> list[list[int]]:
    return [sorted(row["k"] for row in batch.rows) for batch in batches]


def keys(path: object, **options: str) -> list[list[int]]:
    """The keys of each batch of a stream; in names of options ``_`` stands for ``-`` and ``__`` for ``.``."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return keys_of(list(batches_of(path, given)))


@pytest.fixture
def log(tmp_path: Path) -> FileStoreTable:
    """An append table with one row in each of four snapshots."""
    table = make_table(tmp_path / "t", bucket="-1", snapshot__num_retained__min="1", snapshot__num_retained__max="99")
    for key in range(1, 5):
        write(table, key)
    return table


# What Java's streams gave


def multiset(rows: Sequence[Row]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.mark.parametrize("files", [None, 1])
@pytest.mark.parametrize(("name", "stream"), STREAMED)
def test_golden_streams(golden: Path, name: str, stream: dict[str, Any], files: int | None) -> None:
    with pa.ipc.open_file(golden / name / stream["rows"]) as source:
        wanted = source.read_all().to_pylist()
    limits = None if files is None else ReadLimits(max_files=files)
    path, found = golden / name / "table", []
    for batch in batches_of(path, stream["options"], limits=limits, kinds=True):
        found += [{"_kind": row.pop("rowkind"), **row} for row in batch.rows]
    begin = scan_of(path, stream["options"]).initial()
    if begin.full:  # the audit log shows all kinds of a state, and deletes in it, Java's rows of the table only some
        for row in (*found, *wanted):
            if row["_snapshot"] == begin.snapshot_id and row["_kind"] == "+U":
                row["_kind"] = "+I"
        found = [row for row in found if row["_snapshot"] != begin.snapshot_id or row["_kind"] == "+I"]
    assert multiset(found) == multiset(wanted)
    assert wanted


# Where a stream begins


def test_modes(log: FileStoreTable) -> None:
    path = log.path
    assert keys(path) == keys(path, scan__mode="latest-full") == keys(path, scan__mode="full") == [[1, 2, 3, 4]]
    assert keys(path, scan__mode="latest") == [[4]]
    assert keys(path, scan__mode="from-snapshot", scan__snapshot_id="3") == [[3, 4]]
    assert keys(path, scan__snapshot_id="5") == []
    assert keys(path, scan__mode="from-snapshot-full", scan__snapshot_id="2") == [[1, 2, 3, 4]]
    full = next(iter(batches_of(path, {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}))).rows
    assert sorted((row["_snapshot"], row["k"]) for row in full) == [(2, 1), (2, 2), (3, 3), (4, 4)]
    create_tag(log, "second", snapshot_id=2)
    assert keys(path, scan__tag_name="second") == keys(path, scan__version="second") == [[2, 3, 4]]
    assert keys(path, scan__version="3") == [[3, 4]]
    at = str(log.snapshots.get(3).time_millis)
    assert keys(path, scan__timestamp_millis=at) == [[3, 4]]
    assert keys(path, scan__timestamp_millis=str(int(at) + 3_600_000)) == []
    assert keys(path, scan__timestamp="2001-01-01") == [[1, 2, 3, 4]]


def test_files_created_after_a_time(log: FileStoreTable) -> None:
    times = [entry.file.creation_time_millis for entry in log.manifests.live_entries(log.snapshots.latest())]
    at = sorted(int(time_ or 0) for time_ in times)[2]
    mode = {"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": str(at)}
    assert [row["k"] for row in next(iter(batches_of(log.path, mode))).rows] == [3, 4]
    mode = {"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": str(log.snapshots.get(3).time_millis)}
    (batch,) = batches_of(log.path, mode)
    assert sorted((row["_snapshot"], row["k"]) for row in batch.rows) == [(3, 3), (4, 4)]
    mode["scan.creation-time-millis"] = "1"  # before all snapshots: the files of the latest one say it
    (batch,) = batches_of(log.path, mode)
    assert sorted((row["_snapshot"], row["k"]) for row in batch.rows) == [(4, 1), (4, 2), (4, 3), (4, 4)]


def test_compacted_full(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    write(table, 1)
    write(table, 2)
    compact(load_table(table.path), full=True)
    write(table, 3)
    assert keys(table.path, scan__mode="compacted-full") == [[1, 2, 3]]
    (batch,) = batches_of(table.path, {"scan.mode": "compacted-full"})
    assert batch.start == StreamOffset(3, full=True)


def test_a_table_without_snapshots_is_read_from_its_first(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    start = scan_of(table.path).initial()
    assert start == StreamOffset(1, full=True)
    assert keys(table.path) == []
    write(table, 1, overwrite=True)  # the state is read, so that an overwrite counts too
    assert keys_of(list(batches_of(table.path, start=start))) == [[1]]
    assert scan_of(table.path, {"scan.mode": "latest"}).initial() == StreamOffset(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"incremental-between": "1,2"}, "Cannot read incremental in streaming mode"),
        ({"scan.mode": "latest-delta"}, "Cannot read incremental in streaming mode"),
        ({"scan.watermark": "1"}, "Cannot scan from watermark in streaming mode"),
        ({"scan.mode": "from-timestamp"}, "must set only one key in .*scan.timestamp-millis"),
        ({"scan.mode": "from-snapshot-full"}, "must set only one key"),
        ({"scan.mode": "latest", "scan.snapshot-id": "1"}, "scan.snapshot-id must be null"),
        ({"scan.snapshot-id": "1", "scan.timestamp-millis": "1"}, "starts at one point"),
        ({"scan.mode": "backwards"}, "scan.mode|from-snapshot"),
        ({"read.stream.minRowsPerTrigger": "5"}, "Can't provide only one of"),
        ({"read.stream.maxFilesPerTrigger": "0"}, "a number above 0"),
    ],
)
def test_options_that_do_not_fit(log: FileStoreTable, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        scan_of(log.path, options).initial()


@pytest.mark.parametrize(
    ("table_options", "message"),
    [
        ({"primary_key": ["k"], "changelog_producer": "lookup"}, "read duplicated changes"),
        ({"primary_key": ["k"], "changelog_producer": "full-compaction"}, "read duplicated changes"),
        ({}, "Please use streaming-read-append-overwrite"),
    ],
)
def test_overwrites_are_not_streamed_where_changes_came_twice(
    tmp_path: Path, table_options: dict[str, Any], message: str
) -> None:
    """Java refuses both of a stream's own options, too (``FileStoreTable.copy`` validates)."""
    table = make_table(tmp_path / "t", bucket="1" if table_options else "-1", **table_options)
    with pytest.raises(OptionError, match=message):
        source_of(table.path, {"streaming-read-overwrite": "true"})


def test_what_does_not_stream(log: FileStoreTable) -> None:
    for name in ("snapshots", "binlog", "ro"):
        with pytest.raises(UnsupportedError, match=rf"\${name} is not supported"):
            source_of(f"{log.path}${name}", {})
    assert [field.name for field in source_of(f"{log.path}$audit_log", {}).columns] == ["rowkind", "k", "v"]
    assert [field.name for field in source_of(log.path, {"read.changelog": "true"}).columns] == ["rowkind", "k", "v"]


# Limits


def test_limits(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    for first in range(0, 30, 3):
        write(table, first, first + 1, first + 2)
    size = max(entry.file.file_size for entry in table.manifests.live_entries(table.snapshots.latest()))
    for limits, batches, files in (
        (ReadLimits(max_files=4), 3, 4),
        (ReadLimits(max_rows=7), 5, 2),
        (ReadLimits(max_rows=2), 10, 1),  # one file at least
        (ReadLimits(max_bytes=size * 5), 2, 5),
        (ReadLimits(max_files=4, max_rows=6), 5, 2),
    ):
        for options in ({}, {"scan.snapshot-id": "1"}):
            found = list(batches_of(table.path, options, limits=limits))
            assert len(found) == batches
            assert max(batch.files for batch in found) == files
            assert sorted(row["k"] for batch in found for row in batch.rows) == list(range(30))


def test_a_batch_waits_for_rows(log: FileStoreTable) -> None:
    scan = scan_of(log.path, {"read.stream.minRowsPerTrigger": "3", "read.stream.maxTriggerDelayMs": "3600000"})
    assert scan.limits == ReadLimits(min_rows=3, max_delay_millis=3_600_000)
    first = scan.latest(scan.initial(), scan.limits)
    write(log, 5, 6)
    assert scan.latest(first, scan.limits) == first
    assert scan.latest(first) == StreamOffset(6)  # Trigger.Once
    write(log, 7)
    assert scan.latest(first, scan.limits) == StreamOffset(7)
    write(log, 8)
    assert not Budget(ReadLimits(min_rows=3, max_delay_millis=1)).waits(time.monotonic() - 1)


@pytest.mark.parametrize(
    ("key", "limits"),
    [
        ("read.stream.maxFilesPerTrigger", ReadLimits(max_files=9)),
        ("read.stream.maxBytesPerTrigger", ReadLimits(max_bytes=9)),
        ("read.stream.maxRowsPerTrigger", ReadLimits(max_rows=9)),
    ],
)
def test_limits_of_options(log: FileStoreTable, key: str, limits: ReadLimits) -> None:
    assert scan_of(log.path, {key: "9"}).limits == limits


def test_units_are_not_torn_apart(tmp_path: Path) -> None:
    """Files of level 0 with one key are merged, so they come in one batch, whatever the limit."""
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="2", write_only="true")
    for turn in range(4):
        write(table, *range(8), value=f"{turn}-")
    found = list(batches_of(table.path, limits=ReadLimits(max_files=1)))
    assert [batch.files for batch in found] == [4, 4]
    assert sorted(row["v"] for batch in found for row in batch.rows) == sorted(f"3-{key}" for key in range(8))


def test_a_changelog_of_a_bucket_comes_in_one_batch(tmp_path: Path) -> None:
    """The -U of a row and the +U behind it may lie in two files."""
    options = {"changelog_producer": "input", "target_file_size": "1 b", "file__block_size": "1 kb"}
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="2", write_only="true", **options)
    write(table, *range(5000))
    write(table, *range(5000), value="w")
    found = list(batches_of(table.path, {"scan.snapshot-id": "1"}, limits=ReadLimits(max_files=1)))
    assert len(found) == 4
    assert max(batch.files for batch in found) > 1


def test_the_order_of_files_does_not_depend_on_filters(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1", partition=["dt"])
    for key in range(8):
        write(table, key)
    even = Leaf("eq", "dt", ("p0",))
    first, *_ = batches_of(table.path, limits=ReadLimits(max_files=2), predicate=even)
    assert keys_of([first]) == [[0, 2]]
    rest = list(batches_of(table.path, start=first.end))
    assert keys_of(rest) == [[1, 3, 4, 5, 6, 7]]
    none = list(batches_of(table.path, predicate=Leaf("eq", "k", (99,))))
    assert sum(batch.files for batch in none) == 0


# Changes


def test_an_overwrite_that_leaves_a_bucket_empty(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="4")
    write(table, *range(20))
    write(table, 1, overwrite=True)
    batches = batches_of(table.path, {"scan.snapshot-id": "2", "streaming-read-overwrite": "true"})
    assert [row["k"] for batch in batches for row in batch.rows] == [1]


@pytest.mark.parametrize("keyed", [False, True])
def test_overwrites(tmp_path: Path, keyed: bool) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"] if keyed else [], bucket="1" if keyed else "-1")
    write(table, 1, 2)
    write(table, 2, 3, value="w", overwrite=True)
    write(table, 4)
    option = "streaming-read-overwrite" if keyed else "streaming-read-append-overwrite"
    skipped = list(batches_of(table.path, {"scan.snapshot-id": "1"}, kinds=True))
    assert sorted((r["_snapshot"], r["k"]) for batch in skipped for r in batch.rows) == [(1, 1), (1, 2), (3, 4)]
    given = {"scan.snapshot-id": "2", option: "true"}
    read = [(r["rowkind"], r["k"], r["v"]) for b in batches_of(table.path, given, kinds=True) for r in b.rows]
    new = [("+I", 2, "w2"), ("+I", 3, "w3"), ("+I", 4, "v4")]
    assert read == [*([("-D", 1, "v1"), ("-D", 2, "v2")] if keyed else []), *new]
    plain = [row["v"] for batch in batches_of(table.path, given) for row in batch.rows]
    assert plain == ["w2", "w3", "v4"]


def test_a_delay(log: FileStoreTable) -> None:
    assert keys(log.path, scan__snapshot_id="1", streaming__read__snapshot__delay="1 h") == []
    assert keys(log.path, scan__snapshot_id="1", streaming__read__snapshot__delay="0 ms") == [[1, 2, 3, 4]]


def test_snapshots_without_rows_move_a_waiting_stream_on(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    write(table, 1)
    at = StreamOffset(2)
    for more in range(6):
        compact(load_table(table.path), full=True)
        write(table, 1, overwrite=True)
        if more == 0:
            assert scan_of(table.path).latest(at) == at, "an empty batch for each compaction would be a nuisance"
    assert scan_of(table.path).latest(at) > at


# What stops a stream, and what protects it


def test_an_expired_snapshot(log: FileStoreTable) -> None:
    scan = scan_of(log.path, {"scan.snapshot-id": "1"})
    start = scan.latest(scan.initial(), ReadLimits(max_files=1))
    assert start == StreamOffset(2)
    expire_snapshots(load_table(log.path), retain_latest_only())
    message = r"changes of snapshot 2 .* has expired. The snapshots are 4 to 4.*consumer-id.*snapshot.time-retained"
    with pytest.raises(SnapshotNotFoundError, match=message):
        scan_of(log.path).latest(start)
    with pytest.raises(SnapshotNotFoundError, match="state at snapshot 3"):
        scan_of(log.path).latest(StreamOffset(3, 1, True))
    assert keys(log.path, scan__snapshot_id="1") == [[4]]  # a new stream begins with what there is
    with pytest.raises(SnapshotNotFoundError, match="has expired"):
        scan_of(log.path).batch(StreamOffset(2), StreamOffset(3))


@pytest.mark.parametrize("kinds", [False, True])
@pytest.mark.parametrize("mode", ["from-snapshot", "from-snapshot-full"])
def test_a_snapshot_that_expires_while_a_task_reads(log: FileStoreTable, kinds: bool, mode: str) -> None:
    write(log, 9, overwrite=True)
    scan = scan_of(log.path, {"scan.mode": mode, "scan.snapshot-id": "2"}, kinds=kinds)
    start = scan.initial()
    splits = scan.batch(start, start.following()).splits
    expire_snapshots(load_table(log.path), retain_latest_only())
    with pytest.raises(SnapshotNotFoundError, match=r"(state at|changes of) snapshot \d .*has expired.*consumer-id"):
        [list(scan.plan.read(scan.table, split, scan.plan.fields, None)) for split in splits]


def test_a_table_that_was_rolled_back(log: FileStoreTable) -> None:
    rollback_to_snapshot(load_table(log.path), 2)
    with pytest.raises(SnapshotNotFoundError, match=r"next expected snapshot is too big.*latest one is 2"):
        scan_of(log.path).latest(StreamOffset(5))


def test_a_consumer(log: FileStoreTable) -> None:
    named = {"consumer-id": "me", "scan.snapshot-id": "2"}
    store = ConsumerStore(log.file_io, log.paths)
    scan = scan_of(log.path, named)
    end = scan.latest(scan.initial(), ReadLimits(max_files=1))
    scan.commit(end)
    assert store.list() == {"me": 3}
    expire_snapshots(load_table(log.path), retain_latest_only())
    assert log.snapshots.ids() == [3, 4]  # what the consumer has not read stays
    assert keys(log.path, consumer_id="me") == [[3, 4]]  # a new query goes on where it was
    scan.commit(StreamOffset(4, 1, True))
    assert store.list() == {"me": 3}, "the first state cannot be gone on with"
    assert keys(log.path, consumer_id="me", consumer__ignore_progress="true") == [[1, 2, 3, 4]]
    with pytest.raises(PaimonError, match="not allowed"):
        scan_of(log.path, {"consumer-id": "a/b"}).commit(end)


def test_offsets_of_others() -> None:
    official = {"snapshotId": 4, "index": -1, "scanSnapshot": True}
    with pytest.raises(PaimonError, match=r"another Paimon connector.*'scan.snapshot-id' = '4'"):
        StreamOffset.of_json(official)
    for wrong in ({}, {"snapshot": "4", "position": 0, "full": True}, {"snapshot": 4, "position": -1, "full": True}):
        with pytest.raises(PaimonError, match="none of a Paimon stream"):
            StreamOffset.of_json(wrong)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (UpdateColumnType("k", parse_type("BIGINT")), "column k was changed from INT NOT NULL to BIGINT NOT NULL"),
        (DropColumn("v"), "column v was dropped"),
    ],
)
def test_a_change_of_the_schema_that_cannot_be_shown(log: FileStoreTable, change: Any, reason: str) -> None:
    scan = scan_of(log.path, {"scan.snapshot-id": "4"})
    other = scan_of(log.path, columns=["v" if reason.startswith("column k") else "k"])
    start = scan.latest(scan.initial())
    alter_table(load_table(log.path), [change])
    table = load_table(log.path)
    columns = {"k": pa.array([5], table_type(table)), "v": pa.array(["x"])}
    batch = pa.RecordBatch.from_pydict({f.name: columns[f.name] for f in table.schema.fields})
    commit(table, [write_batches(plan_write(table, data_schema=batch.schema), [batch], 0)])
    end = scan.latest(start)
    with pytest.raises(SchemaChangeError, match=reason):
        scan.batch(start, end)
    assert other.batch(start, end).splits, "a column that is not read may change"
    again = scan_of(log.path)
    assert [row["k"] for row in rows_of_batch(again, start, again.latest(start))] == [5]


def table_type(table: FileStoreTable) -> pa.DataType:
    return pa.int64() if "BIGINT" in table.schema.field("k").type.sql() else pa.int32()


def test_a_stream_keeps_its_columns(log: FileStoreTable) -> None:
    scan = scan_of(log.path, {"scan.snapshot-id": "5"})
    start = scan.initial()
    alter_table(load_table(log.path), [AddColumn("w", parse_type("INT")), RenameColumn("v", "u")])
    alter_table(load_table(log.path), [SetOption("snapshot.num-retained.max", "50")])
    table = load_table(log.path)
    batch = pa.RecordBatch.from_pydict({"k": pa.array([5], pa.int32()), "u": ["x"], "w": pa.array([7], pa.int32())})
    commit(table, [write_batches(plan_write(table, data_schema=batch.schema), [batch], 0)])
    assert rows_of_batch(scan, start, scan.latest(start)) == [{"_snapshot": 5, "k": 5, "v": "x"}]
    again = scan_of(log.path)
    assert rows_of_batch(again, start, again.latest(start)) == [{"_snapshot": 5, "k": 5, "u": "x", "w": 7}]
