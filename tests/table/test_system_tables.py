"""System tables give the rows that Java gives."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.display.texts import time_text
from paimon_spark.errors import CorruptTableError, SnapshotNotFoundError, TableNotFoundError
from paimon_spark.maintain.refs.tags import create_tag
from paimon_spark.table.manifest_store import ManifestStore
from paimon_spark.table.system.history import duration_text
from paimon_spark.table.system.registry import SYSTEM_TABLES, system_table
from paimon_spark.table.table import load_table
from tests.support.commits import data_file, make_table, message
from tests.support.golden import GoldenRead, golden_tables, row_multiset

READS = [
    GoldenRead(table, read)
    for table in golden_tables()
    for read in table.expect["reads"]
    if read.get("system") in SYSTEM_TABLES
]
LATER_COLUMNS = {  # of Java 2.x; the golden tables are of 1.4
    "snapshots": {"operation", "writer_version"},
    "partitions": {"total_buckets", "done", "deleted_record_count"},
    "table_indexes": {"row_range_start", "row_range_end", "index_field_id", "index_field_name"},
}


def rows_of(case: GoldenRead) -> pa.Table:
    system = SYSTEM_TABLES[case.read["system"]]
    rows = system.read(load_table(str(case.table.path), options=case.options, branch=case.branch))
    assert rows.schema.equals(system.arrow_schema)
    later = LATER_COLUMNS.get(system.name, set())
    return rows.select(case.columns or [name for name in rows.schema.names if name not in later])


@pytest.mark.parametrize("case", READS, ids=lambda case: case.id)
def test_rows_are_those_of_java(case: GoldenRead) -> None:
    got, want = rows_of(case), case.rows()
    assert got.schema.names == want.schema.names
    assert [str(t) for t in got.schema.types] == [str(t) for t in want.schema.types]
    assert row_multiset(got) == row_multiset(want)


def test_the_cases_cover_every_system_table() -> None:
    by_others = {"file_key_ranges", "file_indexes"}  # see test_system_tables_oracle.py, and below
    assert {case.read["system"] for case in READS} == set(SYSTEM_TABLES) - by_others
    assert len(READS) > 35


def system_rows(path: Path, name: str, **options: str) -> pa.Table:
    return SYSTEM_TABLES[name].read(load_table(str(path), options=options))


def test_what_is_in_a_snapshot_travels(golden: Path) -> None:
    path = golden / "system_tables" / "table"
    assert system_rows(path, "files", **{"scan.snapshot-id": "2"}).num_rows == 8
    assert system_rows(path, "partitions", **{"scan.tag-name": "t1"})["file_count"].to_pylist() == [2, 2]
    assert system_rows(path, "manifests", **{"scan.version": "2"}).num_rows == 2
    assert system_rows(path, "buckets", **{"scan.version": "1"})["record_count"].to_pylist() == [12, 3, 7, 8]
    for watermark in ("5", "10"):
        assert system_rows(path, "files", **{"scan.watermark": watermark}).num_rows == 8
    assert system_rows(path, "buckets", **{"scan.watermark": "0"})["record_count"].to_pylist() == [12, 3, 7, 8]
    assert system_rows(path, "manifests", **{"scan.version": "watermark-10"}).num_rows == 2
    for name in ("files", "partitions", "buckets", "manifests", "table_indexes", "statistics"):
        with pytest.raises(SnapshotNotFoundError, match=r"later than or equal to watermark\[21\].*\[20\]"):
            system_rows(path, name, **{"scan.watermark": "21"})
    assert system_rows(path, "snapshots", **{"scan.version": "1"}).num_rows == 5
    stats = system_rows(path, "files", **{"scan.version": "2"})["null_value_counts"].to_pylist()
    assert set(stats) == {"{k=0, p=0, v=0}"}  # in the columns of that time


def test_consumers_and_a_table_without_snapshots(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden / "system_tables" / "table" / "schema", path / "schema")
    for name in ("snapshots", "tags", "files", "manifests", "partitions", "buckets", "branches", "consumers"):
        assert system_rows(path, name).num_rows == 0
    (path / "consumer").mkdir()
    (path / "consumer" / "consumer-me").write_text('{\n  "nextSnapshot" : 7\n}')
    assert system_rows(path, "consumers").to_pylist() == [{"consumer_id": "me", "next_snapshot_id": 7}]


def test_partitions_of_a_fallback_branch_are_listed_and_files_are_those_of_the_own_branch(golden: Path) -> None:
    path = golden / "branch_fallback" / "table"
    own = {row["partition"] for row in system_rows(path, "buckets").to_pylist()}
    assert own == {row["partition"] for row in system_rows(path, "files").to_pylist()} == {"{24}", "{25}"}
    listed = system_rows(path, "partitions")["partition"].to_pylist()
    assert set(listed) > {"p=24", "p=25"}
    assert len(listed) == len(set(listed))


def test_names() -> None:
    assert system_table("Files", of="t$Files").name == "files"
    with pytest.raises(TableNotFoundError, match=r"\$snapshotz.*\$snapshots"):
        system_table("snapshotz", of="t$snapshotz")


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(hours=36), "PT36H"),
        (timedelta(minutes=90, milliseconds=500), "PT1H30M0.5S"),
        (timedelta(), "PT0S"),
        (timedelta(seconds=61), "PT1M1S"),
    ],
)
def test_durations_are_javas(duration: timedelta, text: str) -> None:
    assert duration_text(duration) == text


def test_file_indexes(golden: Path, tmp_path: Path) -> None:
    sidecars = system_rows(golden / "file_index_sidecar" / "table", "file_indexes").to_pylist()
    inside = system_rows(golden / "file_index_embedded" / "table", "file_indexes").to_pylist()
    kinds = {(row["column_name"], row["index_type"]) for row in sidecars}
    assert kinds == {
        *(("s", kind) for kind in ("range-bitmap", "bloom-filter")),
        *(("i", kind) for kind in ("range-bitmap", "bloom-filter")),
        *((name, "bsi") for name in ("n", "de")),
        *((name, "bloom-filter") for name in ("t", "m[a]")),
        *((name, "bitmap") for name in ("c", "dt", "bo")),
    }
    assert {row["storage_type"] for row in sidecars} == {"FILE"}
    assert {row["storage_type"] for row in inside} == {"EMBEDDED"}
    for row in sidecars:
        assert row["index_container_size_in_bytes"] == Path(row["index_file_path"]).stat().st_size
        assert row["index_container_size_in_bytes"] > row["index_size_in_bytes"] > 0
        assert row["index_file_path"] == row["file_path"] + ".index"
    facts = ("column_name", "index_type", "index_size_in_bytes", "is_empty", "record_count")
    assert sorted([row[name] for name in facts] for row in sidecars) == sorted(
        [row[name] for name in facts] for row in inside
    )
    assert system_rows(golden / "system_tables" / "table", "file_indexes").num_rows == 0

    path = tmp_path / "t"
    shutil.copytree(golden / "file_index_sidecar" / "table", path)
    victim = Path(system_rows(path, "file_indexes").to_pylist()[0]["index_file_path"])
    data = victim.read_bytes()
    for damaged in (b"", data[:20], b"x" * 100, data[:8] + b"\0\0\0\7" + data[12:], data[:12] + b"\x7f\xff\xff\xff"):
        victim.write_bytes(damaged)
        with pytest.raises(CorruptTableError, match=r"\.index is no file index"):
            system_rows(path, "file_indexes")
    victim.unlink()
    with pytest.raises(CorruptTableError, match="missing"):
        system_rows(path, "file_indexes")


def test_statistics_of_the_version_that_has_them(golden: Path) -> None:
    path = golden / "statistics" / "table"
    assert system_rows(path, "statistics")["mergedRecordCount"].to_pylist() == [60]
    assert system_rows(golden / "system_tables" / "table", "statistics").num_rows == 0


@pytest.mark.parametrize("name", ["many_manifests_pk", "many_manifests_append", "overwrite_history_pk"])
def test_files_that_later_manifests_delete_are_left_out_chunk_by_chunk(golden: Path, name: str) -> None:
    table = load_table(str(golden / name / "table"))
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    live = table.manifests.live_columns(snapshot).file_names
    chunks = list(table.manifests.live_chunks(snapshot, chunk_files=2))
    assert (len(chunks) > 1) == (len(live) > 2)
    assert [name for chunk in chunks for name in chunk.file_names] == live
    assert all(map(len, chunks))


@pytest.mark.parametrize("name", ["files", "file_key_ranges", "manifests", "partitions", "buckets"])
def test_every_way_to_name_a_version_counts(golden: Path, name: str) -> None:
    path = golden / "system_tables" / "table"
    table = load_table(str(path))
    ids = table.snapshots.ids()
    expected = {i: system_rows(path, name, **{"scan.snapshot-id": str(i)}) for i in ids}
    assert len({repr(rows.to_pylist()) for rows in expected.values()}) > 2
    tags = table.tags.list()
    assert tags
    for tag, held in tags.items():
        for option in ("scan.tag-name", "scan.version"):
            assert system_rows(path, name, **{option: tag}).equals(expected[held.snapshot.id])
    for snapshot in map(table.snapshots.get, ids):
        for options in (
            {"scan.version": str(snapshot.id)},
            {"scan.timestamp-millis": str(snapshot.time_millis)},
            {"scan.mode": "from-timestamp", "scan.timestamp-millis": str(snapshot.time_millis)},
            {"scan.timestamp": datetime.fromtimestamp(snapshot.time_millis / 1000).isoformat(sep=" ")},
        ):
            assert system_rows(path, name, **options).equals(expected[snapshot.id]), options
    with pytest.raises(SnapshotNotFoundError, match="99"):
        system_rows(path, name, **{"scan.snapshot-id": "99"})


@pytest.mark.parametrize("name", ["append_dv_v1", "append_dv_bitmap64", "append_dv_bucketed"])
def test_deleted_records_of_a_partition_are_those_that_a_read_leaves_out(name: str) -> None:
    hidden, (table,) = 0, [table for table in golden_tables() if table.name == name]
    for read in table.expect["reads"]:
        if set(read["options"]) <= {"scan.snapshot-id"} and "system" not in read and "filter" not in read:
            shown = system_rows(str(table.path), "partitions", **read["options"])
            left_out = sum(shown["deleted_record_count"].to_pylist())
            assert sum(shown["record_count"].to_pylist()) - left_out == read["count"]
            hidden += left_out
    assert hidden > 0


def test_deleted_records_are_counted_by_partition_where_vectors_show(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(golden / "append_dv_v1" / "table")
    table = load_table(path)
    numbers = [n for n in table.snapshots.ids() if table.manifests.index_entries(table.snapshots.get(n))]
    at = {"scan.snapshot-id": str(numbers[-1])}
    known = system_rows(path, "partitions", **at)["deleted_record_count"].to_pylist()
    entries = table.manifests.index_entries(table.snapshots.get(numbers[-1]))
    partition = entries[0].partition
    silent = [
        replace(e, deletion_vectors=tuple(replace(v, cardinality=None) for v in e.deletion_vectors or ()))
        if e.partition == partition
        else e
        for e in entries
    ]
    monkeypatch.setattr(ManifestStore, "index_entries", lambda self, snapshot: silent)
    reported = system_rows(path, "partitions", **at)["deleted_record_count"].to_pylist()
    assert reported.count(None) == 1
    assert [count for count in reported if count is not None] == [
        count for count, now in zip(known, reported, strict=True) if now is not None
    ]
    plain = golden / "append_partitioned_plain" / "table"
    assert set(system_rows(str(plain), "partitions")["deleted_record_count"].to_pylist()) == {0}


@pytest.mark.parametrize("millis", [2**62, -(2**62)])
@pytest.mark.parametrize("name", ["snapshots", "schemas", "tags"])
def test_a_time_that_cannot_be_shown_is_an_error_that_says_so(tmp_path: Path, name: str, millis: int) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    commit(table, [message(table, data_file(table, {1: "a"}))])
    create_tag(table, "one")
    file = {
        "snapshots": table.paths.snapshot_path(1),
        "schemas": table.paths.schema_path(0),
        "tags": table.paths.tag_path("one"),
    }[name]
    held = json.loads(Path(file).read_text())
    Path(file).write_text(json.dumps({**held, "timeMillis": millis}))
    table = load_table(table.path)
    with pytest.raises(CorruptTableError, match=f"the time {millis} .* outside the years 1 to 9999") as raised:
        SYSTEM_TABLES[name].read(table)
    assert (raised.value.path, file in str(raised.value)) == (file, True)
    assert time_text(millis) == str(millis)
