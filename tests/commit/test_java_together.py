"""Java and we commit to the same tables in turn; Java reads every state."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.spec.manifest import FileSource
from paimon_spark.table.table import load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import (
    all_files,
    data_file,
    live_names,
    make_table,
    message,
    partition_bytes,
    referenced_files,
    snapshot_json,
)

pytestmark = pytest.mark.oracle


def rows(oracle, table, **options):
    return sorted(oracle.rows(table.path, **options))


def test_seventy_commits_in_turn_keep_all_rows_and_few_manifests(tmp_path, oracle):
    table = make_table(tmp_path / "t", bucket="-1", manifest__merge_min_count="10", write_only="true")
    expected = []
    for number in range(70):
        row = (number, f"v{number}")
        if number % 3 == 2:
            oracle.write(table.path, [row])
        else:
            commit(table, [message(table, data_file(table, dict([row])))])
        expected.append(row)
    assert rows(oracle, table) == expected
    latest = table.snapshots.latest()
    assert (latest.id, latest.total_record_count) == (70, 70)
    assert len(table.manifests.data_manifests(latest)) <= 10
    assert len(live_names(table)) == 70
    assert rows(oracle, table, options={"scan.snapshot-id": "33"}) == expected[:33]
    assert all_files(table, "manifest") >= referenced_files(table)


@pytest.mark.parametrize("name", ["many_manifests_append", "many_manifests_pk"])
def test_we_go_on_with_a_golden_table_whose_manifests_java_merged(tmp_path, oracle, golden, name):
    shutil.copytree(golden / name / "table", tmp_path / "t")
    table = load_table(str(tmp_path / "t"), options={"manifest.merge-min-count": "2"})
    before = rows(oracle, table)
    files = sorted(live_names(table))
    java = table.snapshots.latest()
    assert commit(table, [], ignore_empty=False) == java.id + 1  # merges what Java left, adds nothing
    assert sorted(live_names(table)) == files
    assert len(table.manifests.base_manifests(table.snapshots.latest())) == 1
    assert rows(oracle, table) == before
    oracle.write(table.path, [(10_000, "java")])
    assert rows(oracle, table) == sorted([*before, (10_000, "java")])
    assert table.snapshots.latest().total_record_count >= java.total_record_count + 1


def test_java_sees_overwrites_truncations_and_compactions(tmp_path, oracle):
    table = make_table(tmp_path / "t", partition=["dt"], bucket="-1")

    def new(key, partition, source=FileSource.APPEND):
        return data_file(table, {key: f"v{key}"}, partition=partition, source=source)

    first = {partition: new(key, partition) for key, partition in enumerate(["a", "b", None])}
    commit(table, [message(table, file, partition=partition) for partition, file in first.items()])
    assert rows(oracle, table) == [(0, "v0", "a"), (1, "v1", "b"), (2, "v2", None)]
    commit(
        table, [message(table, new(5, "b"), partition="b")], overwrite=OverwriteSpec.dynamic(), operation="OVERWRITE"
    )
    assert rows(oracle, table) == [(0, "v0", "a"), (2, "v2", None), (5, "v5", "b")]
    commit(table, [], overwrite=OverwriteSpec.static({"dt": None}))
    assert rows(oracle, table) == [(0, "v0", "a"), (5, "v5", "b")]
    oracle.write(table.path, [(7, "v7", "a")])
    live = table.manifests.live_entries(table.snapshots.latest(), partitions=[partition_bytes("a")])
    both = data_file(table, {0: "v0", 7: "v7"}, partition="a", source=FileSource.COMPACT)
    before = tuple(entry.file for entry in live)
    commit(table, [message(table, partition="a", compact_before=before, compact_after=(both,))])
    assert rows(oracle, table) == [(0, "v0", "a"), (5, "v5", "b"), (7, "v7", "a")]
    kinds = oracle.read(f"{table.path}$snapshots").sort_by("snapshot_id").column("commit_kind").to_pylist()
    assert kinds == ["APPEND", "OVERWRITE", "OVERWRITE", "APPEND", "COMPACT"]
    oracle.write(table.path, [(9, "v9", "a")], overwrite={"dt": "a"})
    assert rows(oracle, table) == [(5, "v5", "b"), (9, "v9", "a")]
    commit(table, [], overwrite=OverwriteSpec.truncate(), operation="TRUNCATE")
    assert rows(oracle, table) == []


def test_java_compacts_and_upserts_what_we_committed(tmp_path, oracle):
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    commit(table, [message(table, data_file(table, {1: "a", 2: "a", 3: "a"}, sequence=0))])
    commit(table, [message(table, data_file(table, {2: "b"}, sequence=3))])
    oracle.write(table.path, [(3, "c")])
    oracle.compact(table.path, full=True)
    assert rows(oracle, table) == [(1, "a"), (2, "b"), (3, "c")]
    levels = {entry.file.level for entry in table.manifests.live_entries(table.snapshots.latest())}
    assert levels == {5}
    commit(table, [message(table, data_file(table, {1: "d"}, sequence=10))])
    assert rows(oracle, table) == [(1, "d"), (2, "b"), (3, "c")]


def test_java_finds_our_keys_in_the_hash_index_and_we_find_java_s(tmp_path, oracle):
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="-1", dynamic_bucket__target_row_num="3")

    def upsert(keys, value):
        batch = pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int32()), "v": pa.array([value] * len(keys))})
        plan = plan_write(table, data_schema=batch.schema)
        commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)

    upsert(range(10), "ours")
    oracle.write(table.path, [(key, "java") for key in range(5, 15)])
    assert rows(oracle, table) == [(k, "ours" if k < 5 else "java") for k in range(15)]
    upsert(range(10, 20), "again")
    assert rows(oracle, table) == [(k, "ours" if k < 5 else "java" if k < 10 else "again") for k in range(20)]
    entries = table.manifests.index_entries(table.snapshots.latest())
    hashes = np.concatenate([np.fromfile(table.paths.index_path(entry.file_name), ">i4") for entry in entries])
    assert len(hashes) == len(np.unique(hashes)) == 20


def test_java_shows_the_partition_statistics_of_our_manifests_like_its_own(tmp_path, oracle):
    table = make_table(tmp_path / "t", partition=["dt"], bucket="-1")
    days = ["2024-01-02", None, "2023-12-31", "a very long name of a partition"]
    commit(table, [message(table, data_file(table, {1: "x"}, partition=day), partition=day) for day in days])
    oracle.write(table.path, [(1, "x", day) for day in days])
    manifests = oracle.read(f"{table.path}$manifests").to_pylist()
    reported = ["num_added_files", "num_deleted_files", "schema_id", "min_partition_stats", "max_partition_stats"]
    ours, theirs = ([manifest[key] for key in reported] for manifest in manifests)
    assert ours == theirs
    lists = [table.manifests.delta_manifests(table.snapshots.get(number))[0] for number in (1, 2)]
    ours, theirs = (replace(meta, file_name="", file_size=0) for meta in lists)
    assert ours == theirs


def test_a_lifted_overwrite_is_at_java_s_highest_level(tmp_path, oracle):
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    files = (data_file(table, {1: "a", 2: "a"}), data_file(table, {3: "a", 4: "a"}, sequence=2))
    commit(table, [message(table, *files)], overwrite=OverwriteSpec.static())
    assert {entry.file.level for entry in table.manifests.live_entries(table.snapshots.latest())} == {5}
    oracle.write(table.path, [(2, "b")])
    assert rows(oracle, table) == [(1, "a"), (2, "b"), (3, "a"), (4, "a")]


def test_the_fields_of_our_snapshots_are_those_of_java_s(tmp_path, oracle):
    table = make_table(tmp_path / "t", bucket="-1")
    commit(table, [message(table, data_file(table, {1: "a"}))])
    oracle.write(table.path, [(2, "b")])
    ours, theirs = (snapshot_json(table, number) for number in (1, 2))
    newer_than_1_4 = {"uuid", "writerVersion"}
    assert [key for key in ours if key not in newer_than_1_4] == [key for key in theirs if key not in newer_than_1_4]
    same = ("version", "schemaId", "commitIdentifier", "commitKind", "deltaRecordCount", "nextRowId")
    assert [ours[key] for key in same] == [theirs[key] for key in same]
