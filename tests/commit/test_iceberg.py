"""Iceberg metadata alongside Paimon's: pyiceberg reads the same rows after every kind of commit."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import paimon_spark
from paimon_spark.arrow import ArrowTable
from paimon_spark.commit.iceberg_metadata import republish_renamed
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.maintain.refs.branches import create_branch
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest, rollback_to_snapshot
from paimon_spark.maintain.refs.tags import delete_tag, rename_tag
from paimon_spark.spec.data_types import BigIntType
from paimon_spark.spec.iceberg.manifests import IcebergEntry, IcebergManifest
from paimon_spark.table.iceberg_files import IcebergFiles
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.schema_change import AddColumn, DropColumn, RenameColumn, SetOption, UpdateColumnType
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import load_table
from tests.support.iceberg import (
    SCHEMA,
    SHARED,
    assert_same,
    avro_files,
    iceberg,
    live_entries,
    metadata_path,
    named_files,
    new_table,
    row,
    rows,
    store_table,
)


def test_appends_are_seen_and_add_one_manifest_each(tmp_path: Path) -> None:
    table = new_table(tmp_path, partition_keys="p")
    for number in range(4):
        table.append([row(number, f"v{number}", "ab"[number % 2])])
        assert len(assert_same(table)) == number + 1
    found = iceberg(table)
    assert [each.snapshot_id for each in found.snapshots()] == [1, 2, 3, 4]
    assert [each.parent_snapshot_id for each in found.snapshots()] == [None, 1, 2, 3]
    assert [len(each.manifests(found.io)) for each in found.snapshots()] == [1, 2, 3, 4]
    assert [path.name for path in (Path(table.path) / "metadata").glob("v*")].count("v4.metadata.json") == 1
    assert avro_files(table) == named_files(table)
    assert rows(found.scan(snapshot_id=2).to_arrow()) == [(0, "v0", "a"), (1, "v1", "b")]
    assert rows(found.scan(row_filter="p = 'b' and k > 1").to_arrow()) == [(3, "v3", "b")]


def test_overwrites_and_deletes_are_seen(tmp_path: Path) -> None:
    table = new_table(tmp_path, partition_keys="p")
    table.append([row(1, "a", "a"), row(2, None, "b"), row(3, "c", "c")])
    table.overwrite([row(9, "new", "b")], where="p = 'b'")
    assert_same(table)
    assert iceberg(table).current_snapshot().summary.operation.value == "overwrite"
    table.delete("k = 3")
    assert assert_same(table) == [(1, "a", "a"), (9, "new", "b")]
    table.delete()
    assert assert_same(table) == []
    table.append([row(5, "e", "a")])
    assert assert_same(table) == [(5, "e", "a")]
    assert avro_files(table) == named_files(table)


KEYED: dict[str, dict[str, Any]] = {
    "keys": {"bucket": 2},
    "keys, partitions": {"primary_keys": ["k", "p"], "partition_keys": "p", "bucket": 1},
    "keys, dynamic buckets": {},
    "first-row": {"bucket": 1, "merge_engine": "first-row"},
    "partial-update": {"bucket": 1, "merge_engine": "partial-update"},
}


def test_refused_tables_say_why(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int32()), ("ts", pa.timestamp("ns"))])
    for words, given, columns in [
        ("see deleted rows", {"deletion_vectors_enabled": True}, SCHEMA),
        ("data-evolution", {"row_tracking_enabled": True, "data_evolution_enabled": True}, SCHEMA),
        ("precision from 3 to 6", {}, schema),
        ("must be 2 or 3", {"metadata.iceberg.format-version": 4}, SCHEMA),
        ("must be one of", {"metadata.iceberg.manifest-compression": "lzo"}, SCHEMA),
    ]:
        table = paimon_spark.create_table("d.t", columns, catalog=str(tmp_path / words), **given)
        table = paimon_spark.open_table(table.path, **{**SHARED, **given})
        with pytest.raises((UnsupportedError, OptionError), match=words):
            table.append(pa.Table.from_pylist([], columns))
        assert table.snapshots().num_rows == 0


@pytest.mark.parametrize("kind", KEYED)
def test_the_top_level_of_keys_is_seen(tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path, **{"primary_keys": "k", "write_only": True, **KEYED[kind]})
    table.append([row(1, "a"), row(2, "b"), row(3, "c")])
    assert len(assert_same(table)) == (0 if kind == "first-row" else 3), "a bucket of one file has each key once"
    table.append([row(2, "new"), row(4, "d")])
    seen = rows(iceberg(table).scan().to_arrow())
    assert seen[:1] == ([] if kind == "first-row" else [(1, "a", "x")]), "readers never fail, but see no merge"
    table.compact()
    assert len(assert_same(table)) == 4
    summary = iceberg(table).current_snapshot().summary
    assert (summary["total-records"], summary.operation.value) == ("4", "append" if kind == "first-row" else "replace")
    table.append([row(5, "e")])
    table.compact()
    assert len(assert_same(table)) == 5
    assert avro_files(table) == named_files(table)


def test_a_file_that_only_changes_its_level_is_listed_once(tmp_path: Path) -> None:
    table = new_table(tmp_path, primary_keys="k", bucket=1, write_only=True)
    table.append([row(1, "a")])
    table.append([row(7, "b")])
    table.compact()
    table.append([row(3, "c")])
    table.compact()
    assert len(assert_same(table)) == 3


WIDE = {"metadata.iceberg.format-version": "3", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}


@pytest.mark.parametrize("keys", [{}, {"primary_keys": "k", "bucket": 1}])
def test_deletion_vectors_are_reported_in_version_3(tmp_path: Path, keys: dict[str, Any]) -> None:
    table = new_table(tmp_path, **WIDE, **keys)
    table.append([row(number, "a") for number in range(10)])
    table.delete("k in (3, 4)")
    table.append([row(11, "b")])
    assert len(rows(table.scan().to_arrow())) == 9
    (vector,) = [entry.data_file for entry in live_entries(table) if entry.data_file.content.value == 1]
    data = {entry.data_file.file_path: entry.data_file for entry in live_entries(table) if entry.data_file != vector}
    assert (vector.record_count, vector.file_format.value) == (2, "PUFFIN")
    found = json.loads(metadata_path(table).read_text())
    assert found["format-version"] == 3
    assert found["next-row-id"] >= sum(file.record_count for file in data.values())
    assert [each["first-row-id"] for each in found["snapshots"]] == sorted(
        each["first-row-id"] for each in found["snapshots"]
    )
    blob = Path(vector.file_path).read_bytes()[vector_range(table)]
    assert int.from_bytes(blob[:4], "big") == len(blob) - 8, "length, magic and bitmap, and a CRC, as Iceberg has them"
    assert blob[4:8] == bytes.fromhex("d1d33964")


def vector_range(table: ArrowTable) -> slice:
    store = IcebergFiles(load_table(table.path))
    current = json.loads(metadata_path(table).read_text())["snapshots"][-1]
    files = [e.file for m in store.manifests(current["manifest-list"]) for e in store.entries(m) if m.content == 1]
    (file,) = files
    assert file.referenced_data_file in {entry.data_file.file_path for entry in live_entries(table)}
    return slice(file.content_offset, file.content_offset + file.content_size)


TYPES = pa.schema(
    [
        pa.field("k", pa.int32(), False),
        ("b", pa.bool_()),
        ("t", pa.int8()),
        ("s", pa.int16()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("n", pa.decimal128(10, 2)),
        ("w", pa.decimal128(38, 10)),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("z", pa.timestamp("us", "UTC")),
        ("x", pa.binary()),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("row", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))])),
    ]
)


def values(k: int, sign: int) -> dict[str, Any]:
    at = datetime(2024, 2, 3, 4, 5, 6, 789012)
    return {
        "k": k, "b": sign > 0, "t": sign, "s": 300 * sign, "l": 2**40 * sign, "f": 1.5 * sign, "d": -2.25 * sign,
        "n": Decimal("1.28") * sign, "w": Decimal("12345678901234567890.0123456789") * sign, "day": date(2024, 2, 3),
        "ts": at, "z": at.replace(tzinfo=UTC), "x": bytes([k, 0, 255]), "list": [1, None, 3],
        "map": [("a", 1), ("b", None)], "row": {"a": 1, "b": [{"c": "deep"}, {"c": None}]},
    }  # fmt: skip


def test_all_types_are_read_alike_and_bounds_are_right(tmp_path: Path) -> None:
    table = new_table(tmp_path, TYPES)
    table.append(pa.Table.from_pylist([values(1, 1), values(2, -1), {"k": 3}], TYPES))
    table.append(pa.Table.from_pylist([values(9, 1)], TYPES))
    assert len(assert_same(table)) == 4
    found = iceberg(table)
    for condition, expected in [
        ("l < 0", [2]), ("f > 1", [1, 9]), ("n < -1.27", [2]), ("w > 1", [1, 9]), ("k = 9", [9]), ("s < 0", [2]),
        ("day = '2024-02-03'", [1, 2, 9]), ("ts > '2024-02-03T00:00:00'", [1, 2, 9]), ("b = false", [2]),
        ("t is null", [3]),
    ]:  # fmt: skip
        assert sorted(found.scan(row_filter=condition).to_arrow()["k"].to_pylist()) == expected, condition
    files = found.inspect.files().select(["readable_metrics"]).to_pylist()[0]["readable_metrics"]
    assert (files["n"]["lower_bound"], files["n"]["upper_bound"]) == (Decimal("-1.28"), Decimal("1.28"))
    assert (files["l"]["null_value_count"], files["l"]["lower_bound"]) == (1, -(2**40))


@pytest.mark.parametrize(
    ("kind", "partitions"),
    [
        (pa.int32(), [1, -5, None]),
        (pa.string(), ["b", "a", None]),
        (pa.date32(), [date(2024, 1, 2), date(1969, 1, 1), None]),
        (pa.bool_(), [True, False, None]),
        (pa.int64(), [2**40, -1, None]),
        (pa.decimal128(10, 2), [Decimal("1.28"), Decimal("-1.28"), None]),
        (pa.float64(), [1.5, float("-inf"), None]),
        (pa.timestamp("us"), [datetime(2024, 1, 2, 3, 4, 5), datetime(1969, 1, 1), None]),
    ],
)
def test_partitions_of_every_type(tmp_path: Path, kind: pa.DataType, partitions: list[Any]) -> None:
    table = new_table(tmp_path, pa.schema([("k", pa.int32()), ("part-é", kind)]), partition_keys="part-é")
    schema = pa.schema([("k", pa.int32()), ("part-é", kind)])
    for number, value in enumerate(partitions):
        table.append(pa.Table.from_pylist([{"k": number, "part-é": value}], schema))
    assert len(assert_same(table)) == 3
    table.delete("k = 1")
    assert len(assert_same(table)) == 2
    table.append(pa.Table.from_pylist([{"k": 7, "part-é": partitions[0]}], schema))
    table.compact()
    assert len(assert_same(table)) == 3


def test_schema_changes_are_seen_with_the_next_commit(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append([row(1, "a")])
    fields = [
        AddColumn(("extra",), BigIntType()),
        RenameColumn(("v",), "text"),
        UpdateColumnType(("k",), BigIntType(nullable=False)),
    ]
    for change in fields:
        alter_table(store_table(table), [change])
    again = paimon_spark.open_table(table.path)
    again.append([{"k": 2**40, "text": "b", "p": "x", "extra": 5}])
    assert assert_same(again) == [(1, "a", "x", None), (2**40, "b", "x", 5)]
    found = json.loads(metadata_path(table).read_text())
    assert [each["schema-id"] for each in found["schemas"]] == [0, 1, 2, 3]
    assert (found["current-schema-id"], found["last-column-id"]) == (3, 3)
    assert [each["schema-id"] for each in found["snapshots"]] == [0, 3]
    alter_table(store_table(table), [DropColumn(("extra",))])
    again = paimon_spark.open_table(table.path)
    again.append([{"k": 3, "text": "c", "p": "y"}])
    assert len(assert_same(again)) == 3
    assert json.loads(metadata_path(table).read_text())["last-column-id"] == 3


def test_rollback_takes_back_what_readers_see(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(4):
        table.append([row(number, "a")])
    uuid = iceberg(table).metadata.table_uuid
    rollback_to_snapshot(store_table(table), 2)
    assert len(assert_same(table)) == 2
    assert sorted(path.name for path in (Path(table.path) / "metadata").glob("v*.json")) == ["v2.metadata.json"]
    table.append([row(9, "other")])
    assert assert_same(table)[-1] == (9, "other", "x")
    assert iceberg(table).metadata.table_uuid == uuid
    assert [each.snapshot_id for each in iceberg(table).snapshots()] == [2, 3]
    assert avro_files(table) == named_files(table)
    rollback_to_as_latest(store_table(table), snapshot_id=2)
    assert len(assert_same(table)) == 2


def test_expired_snapshots_leave_the_metadata(tmp_path: Path) -> None:
    kept = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 3, "snapshot.time-retained": "1 ms"}
    table = new_table(tmp_path, **kept)
    for number in range(8):
        table.append([row(number, "a")])
    assert len(assert_same(table)) == 8
    assert [each.snapshot_id for each in iceberg(table).snapshots()] == table.snapshots()["snapshot_id"].to_pylist()
    assert avro_files(table) == named_files(table)
    expire_snapshots(store_table(table), retain_latest_only())
    assert [each.snapshot_id for each in iceberg(table).snapshots()] == [table.snapshots()["snapshot_id"][-1].as_py()]
    assert avro_files(table) == named_files(table)
    assert len(assert_same(table)) == 8


def test_tags_are_refs(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append([row(1, "a")])
    table.append([row(2, "b")])
    table.tag("one", snapshot=1)
    table.tag("main")
    assert {name: ref.snapshot_id for name, ref in iceberg(table).refs().items()} == {"main": 2, "one": 1}
    assert iceberg(table).refs()["main"].snapshot_ref_type.value == "branch"
    assert len(iceberg(table).scan(snapshot_id=iceberg(table).snapshot_by_name("one").snapshot_id).to_arrow()) == 1
    rename_tag(store_table(table), "one", "first")
    table.append([row(3, "c")])
    assert "first" in iceberg(table).refs()
    assert "one" not in iceberg(table).refs()
    delete_tag(store_table(table), "first")
    assert set(iceberg(table).refs()) == {"main"}
    assert len(assert_same(table)) == 3


def test_small_manifests_are_merged(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"metadata.iceberg.compaction.min.file-num": 3, **{MOST: 4}})
    for number in range(6):
        table.append([row(number, "a")])
        assert len(assert_same(table)) == number + 1
    found = iceberg(table)
    assert len(found.current_snapshot().manifests(found.io)) < 4
    assert avro_files(table) == named_files(table)
    table.delete("k = 2")
    assert len(assert_same(table)) == 5


MOST = "metadata.iceberg.compaction.max.file-num"


@pytest.mark.parametrize("codec", ["snappy", "zstd", "none", "gzip"])
def test_settings_of_manifests(tmp_path: Path, codec: str) -> None:
    legacy = {"metadata.iceberg.manifest-legacy-version": True, "metadata.iceberg.manifest-compression": codec}
    table = new_table(tmp_path, **legacy, **{"metadata.iceberg.delete-after-commit.enabled": False})
    table.append([row(1, "a")])
    table.append([row(2, "b")])
    table.delete("k = 1")
    assert len(assert_same(table)) == 1
    assert len(list((Path(table.path) / "metadata").glob("v*.json"))) == 3
    (name,) = list((Path(table.path) / "metadata").glob("snap-*"))[:1]
    assert b"added_data_files_count" in name.read_bytes()


def test_the_catalog_of_a_warehouse_has_the_metadata(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"metadata.iceberg.storage": "hadoop-catalog"})
    table.append([row(1, "a")])
    table.append([row(2, "b")])
    assert not (Path(table.path) / "metadata").exists()
    directory = tmp_path / "wh" / "iceberg" / "d" / "t" / "metadata"
    found = StaticTable.from_metadata(str(directory / "v2.metadata.json"))
    assert len(found.scan().to_arrow()) == 2
    remove_orphan_files(store_table(table), older_than=datetime.now() - timedelta(milliseconds=1))
    assert len(found.scan().to_arrow()) == 2
    (directory / "notes.txt").write_text("mine")
    catalog = open_catalog(str(tmp_path / "wh"), {})
    catalog.drop_table("d", "t")
    assert [path.name for path in directory.iterdir()] == ["notes.txt"]
    again = new_table(tmp_path, **{"metadata.iceberg.storage": "hadoop-catalog"})
    again.append([row(5, "new")])
    found = StaticTable.from_metadata(str(directory / "v1.metadata.json"))
    assert rows(found.scan().to_arrow()) == [(5, "new", "x")]
    flat = paimon_spark.create_table(str(tmp_path / "flat"), SCHEMA, **{"metadata.iceberg.storage": "hadoop-catalog"})
    with pytest.raises(UnsupportedError, match="storage-location"):
        flat.append([row(1, "a")])
    assert flat.snapshots().num_rows == 0
    flat.append([row(1, "a")], **{"metadata.iceberg.storage-location": "table-location"})
    assert len(assert_same(flat)) == 1


def test_orphan_removal_leaves_the_metadata_and_a_rename_takes_it_along(tmp_path: Path) -> None:
    table = new_table(tmp_path, partition_keys="p")
    table.append([row(1, "a")])
    remove_orphan_files(store_table(table), older_than=datetime.now() - timedelta(milliseconds=1))
    assert len(assert_same(table)) == 1
    open_catalog(str(tmp_path / "wh"), {}).rename_table("d", "t", "d", "u")
    moved = paimon_spark.open_table(str(tmp_path / "wh" / "d.db" / "u"))
    republish_renamed(open_catalog(str(tmp_path / "wh"), {}), "d", "u")
    assert len(assert_same(moved)) == 1
    moved.append([row(2, "b")])
    assert len(assert_same(moved)) == 2
    assert iceberg(moved).location() == moved.path
    assert all("/u/" in entry.data_file.file_path for entry in live_entries(moved))


def test_branches_have_no_metadata(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append([row(1, "a")])
    create_branch(store_table(table), "b", tag=None)
    branch = paimon_spark.open_table(table.path + "$branch_b")
    branch.append([row(2, "b")])
    assert len(iceberg(table).scan().to_arrow()) == 1
    fast_forward(store_table(table), "b")
    assert len(assert_same(table)) >= 1


def test_a_commit_reads_only_the_manifests_that_it_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, partition_keys="p", write_only=True)
    for p in "abcdef":
        table.append([row(1, "v", p), row(2, "v", p)])
    read = list[str]()
    entries = IcebergFiles.entries

    def counted(files: IcebergFiles, manifest: IcebergManifest) -> list[IcebergEntry]:
        read.append(manifest.path)
        return entries(files, manifest)

    monkeypatch.setattr(IcebergFiles, "entries", counted)
    table.append([row(3, "v", "a")])
    assert read == []
    table.delete("p = 'c' and k = 1")
    assert len(read) == 1
    assert len(assert_same(table)) == 12


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_formats_are_named(tmp_path: Path, file_format: str) -> None:
    table = new_table(tmp_path, file_format=file_format)
    table.append([row(1, "a")])
    (entry,) = live_entries(table)
    assert entry.data_file.file_format.value == file_format.upper()


def test_a_store_without_directories_has_the_metadata() -> None:
    path = f"memory://iceberg-{uuid4()}/wh/d.db/t"
    table = paimon_spark.create_table(path, SCHEMA, **SHARED)
    table.append([row(1, "a")])
    table.append([row(2, "b")])
    opened = store_table(table)
    found = json.loads(opened.file_io.read_bytes(f"{path}/metadata/v2.metadata.json"))
    assert opened.file_io.read_bytes(f"{path}/metadata/version-hint.text") == b"2"
    assert [each["snapshot-id"] for each in found["snapshots"]] == [1, 2]
    store = IcebergFiles(opened)
    files = [e.file for m in store.manifests(found["snapshots"][-1]["manifest-list"]) for e in store.entries(m)]
    assert all(opened.file_io.file_exists(file.path) for file in files)
    assert len(files) == 2


def test_metadata_begins_when_the_option_is_set_and_anew_with_another_version(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"metadata.iceberg.storage": "disabled"})
    table.append([row(1, "a")])
    assert not (Path(table.path) / "metadata").exists()
    alter_table(store_table(table), [SetOption("metadata.iceberg.storage", "table-location")])
    table = paimon_spark.open_table(table.path)
    table.append([row(2, "b")])
    assert len(assert_same(table)) == 2
    alter_table(store_table(table), [SetOption("metadata.iceberg.format-version", "3")])
    table = paimon_spark.open_table(table.path)
    table.append([row(3, "c")])
    assert len(assert_same(table)) == 3
    assert iceberg(table).metadata.format_version == 3
    table.delete("k = 1")
    assert len(assert_same(table)) == 2
    assert avro_files(table) == named_files(table)
