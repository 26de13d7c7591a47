"""Micro-batches that are written again: what their replay wrote goes, and finding out reads few snapshots."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import StreamBatch, uncommitted
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.spark.source.table_write import TaskRows, planned
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.write.message import INLINE_HASHES
from paimon_spark.write.packed_rows import pack_rows
from paimon_spark.write.plan import plan_write
from tests.support.commits import all_files, live_names, make_table, referenced_files


def numbers(count):
    return pa.record_batch({"k": pa.array(range(count), pa.int32()), "v": pa.array(["x"] * count)})


def written(table, batch, rows):
    """A micro-batch that its tasks have written."""
    write = replace(planned(table, rows.schema), stream=batch)
    return write, [write.write_task([rows], 0)]


def test_a_replay_leaves_no_file(tmp_path):
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="-1")
    rows = numbers(INLINE_HASHES + 1)  # too many key hashes for a message: they are in a file
    (first, of_first), (replay, of_replay) = (written(table, StreamBatch("query", 0), rows) for _ in range(2))
    assert len(all_files(table, "index")) == 4, "key hashes and placements"
    assert first.commit(of_first) == 1
    assert replay.commit(of_replay) is None
    assert all_files(table, "bucket-0") == set(live_names(table))
    assert all_files(table, "index") <= referenced_files(table)


def test_a_shuffled_replay_leaves_no_assignments(tmp_path):
    table, rows = make_table(tmp_path / "t", primary_key=["k"], bucket="-1"), numbers(10)
    writes = []
    for _ in range(2):
        assignment = plan_write(table, data_schema=rows.schema)
        packed = list(pack_rows(assignment, [rows], 0, range(2)))
        write = planned(table, rows.schema, rows=TaskRows(shuffled=True, assignment=assignment))
        write = replace(write, packed=True, stream=StreamBatch("query", 0))
        writes.append((write, [write.write_task(packed, 0)]))
    assert len(all_files(table, "index")) == 2, "assignments"
    assert [write.commit(messages) for write, messages in writes] == [1, None]
    assert all_files(table, "bucket-0") == set(live_names(table))
    assert all_files(table, "index") <= referenced_files(table)


@pytest.mark.parametrize("asked_first", [True, False], ids=["sink", "plain_sink"])
def test_the_first_micro_batch_reads_each_snapshot_once(tmp_path, monkeypatch, asked_first):
    table, found = make_table(tmp_path / "t", write_only="true"), Counter()
    for _ in range(12):
        write = planned(table, numbers(1).schema)
        write.commit([write.write_task([numbers(1)], 0)])
    find = SnapshotStore.find
    monkeypatch.setattr(SnapshotStore, "find", lambda self, number: found.update([number]) or find(self, number))
    batch = StreamBatch("query", 0)
    write, messages = written(table, uncommitted(table, batch) if asked_first else batch, numbers(1))
    assert write.commit(messages) == 13
    assert {found[number] for number in range(1, 12)} == {1}


def test_a_rollback_is_no_reason_to_overlook_a_micro_batch(tmp_path):
    table = make_table(tmp_path / "t")
    for number in range(3):
        write, messages = written(table, StreamBatch("other", number), numbers(1))
        write.commit(messages)
    late = uncommitted(table, StreamBatch("query", 0))
    rollback_to_snapshot(table, 1)
    for number in range(2):
        write, messages = written(table, StreamBatch("query", number), numbers(1))
        assert write.commit(messages) == number + 2
    assert uncommitted(table, late) is None
    write, messages = written(table, late, numbers(1))
    assert write.commit(messages) is None


def test_a_log_shows_that_nobody_knows_whether_a_micro_batch_is_a_replay(tmp_path, caplog):
    table = make_table(tmp_path / "t", write_only="true")
    for user, number in (("query", 0), ("query", 1), ("other", 0)):
        write, messages = written(table, StreamBatch(user, number), numbers(1))
        write.commit(messages)
    assert uncommitted(table, StreamBatch("query", 1)) is None
    assert "no snapshot of query" not in caplog.text
    expire_snapshots(table, retain_latest_only())
    assert uncommitted(table, StreamBatch("new", 0)) is not None
    assert "no snapshot of query" not in caplog.text, "its first micro-batch"
    assert uncommitted(table, StreamBatch("query", 2)) is not None
    assert "no snapshot of query query lives any more" in caplog.text
