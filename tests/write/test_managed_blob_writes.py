"""BLOB columns of tables with primary keys are written as Java 2.1 does: values apart, descriptors in rows."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import CorruptTableError, DataError, OptionError, SchemaError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.copy_table import copy_table
from paimon_spark.maintain.files.deletion import delete_messages
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.spec.data_types import BlobType, DataField, IntType, RowType
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.schema_validation import validate
from paimon_spark.storage.blob_descriptor import ManagedBlobName, decode_references, encode_references
from paimon_spark.storage.blob_format import BlobReader
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.table import load_table
from tests.support.managed import (
    FIELDS,
    location_of,
    managed_blob_names,
    managed_table,
    put,
    references_of,
    rows_of,
    written,
)

ONE = (1, 10, b"one", [b"a", None, b""], [("x", b"named"), ("y", None)])
TWO = (2, 20, None, None, None)
THREE = (3, 30, b"", [], [])
NAMES = [field.name for field in FIELDS]


def as_dicts(*rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


@pytest.mark.parametrize(
    ("file_format", "extra"),
    [("parquet", {}), ("orc", {}), ("avro", {}), ("parquet", {"data-file.thin-mode": "true"})],
)
def test_values_go_to_blob_files(tmp_path: Path, file_format: str, extra: dict[str, str]) -> None:
    table = managed_table(tmp_path, **{"file.format": file_format, **extra})
    put(table.path, [ONE, TWO, THREE])
    assert rows_of(table.path) == as_dicts(ONE, TWO, THREE)
    first, *others = rows_of(table.path, **{"blob-as-descriptor": "true"})
    uri, offset, length = location_of(first["pic"])
    assert Path(uri).parent == Path(table.path, "bucket-0")
    assert Path(uri).read_bytes()[offset : offset + length] == b"one"
    assert [location_of(d)[2] for d in (first["many"][0], first["many"][2], first["named"][0][1])] == [1, 0, 5]
    assert others[0]["pic"] is None
    with BlobReader(FileIO.for_path(uri), uri, None) as blob_file:
        assert blob_file.lengths.tolist() == [19, 16]
    assert len(managed_blob_names(table.path)) == 3  # one for each column
    (blob_files,) = references_of(table.path).values()
    assert blob_files == sorted(
        ManagedBlobName(f"{table.path}/bucket-0", name) for name in managed_blob_names(table.path)
    )


def test_updates_deletes_and_compactions_keep_what_rows_need(tmp_path: Path) -> None:
    table = managed_table(tmp_path)
    put(table.path, [ONE, TWO, THREE])
    before = managed_blob_names(table.path)
    put(table.path, [(2, 21, b"two", None, None), (3, 30, b"gone", None, None)], kinds=(0, 3))
    described = {row["k"]: row["pic"] for row in rows_of(table.path, **{"blob-as-descriptor": "true"})}
    (added,) = set(managed_blob_names(table.path)) - set(before)
    compact(load_table(table.path, options={"write-only": "false"}), full=True)
    assert rows_of(table.path) == as_dicts(ONE, (2, 21, b"two", None, None))
    assert {row["k"]: row["pic"] for row in rows_of(table.path, **{"blob-as-descriptor": "true"})} == described
    (blob_files,) = references_of(table.path).values()
    assert {blob_file.name for blob_file in blob_files} == {*before, added}
    assert Path(table.path, "bucket-0", added).read_bytes().count(b"gone") == 0  # a delete writes no value


def test_a_delete_has_no_values(tmp_path: Path) -> None:
    table = managed_table(tmp_path)
    put(table.path, [ONE, TWO], kinds=(3, 1))
    assert managed_blob_names(table.path) == []
    (blob_files,) = references_of(table.path).values()
    assert blob_files == []


def test_blob_files_roll(tmp_path: Path) -> None:
    table = managed_table(tmp_path, **{"blob.target-file-size": "100 kb"})
    rows = [(k, k, bytes([k]) * 30_000, None, None) for k in range(10)]
    put(table.path, rows)
    assert rows_of(table.path) == as_dicts(*rows)
    assert [Path(table.path, "bucket-0", name).stat().st_size // 30_000 for name in managed_blob_names(table.path)] in (
        [4, 4, 2],
        [4, 2, 4],
        [2, 4, 4],
    )


def test_partial_update_and_first_row(tmp_path: Path) -> None:
    part = managed_table(tmp_path / "part", **{"merge-engine": "partial-update"})
    first = managed_table(tmp_path / "first", **{"merge-engine": "first-row"})
    for table, wanted in ((part, b"new"), (first, b"one")):
        put(table.path, [ONE])
        put(table.path, [(1, None, b"new", None, None)])
        put(table.path, [(1, None, None, None, None)])
        if table is part:  # reads of the other see compacted rows alone
            assert rows_of(table.path) == as_dicts((1, 10, wanted, *ONE[3:]))
        compact(load_table(table.path, options={"write-only": "false"}), full=True)
        assert rows_of(table.path) == as_dicts((1, 10, wanted, *ONE[3:]))


def test_what_is_not_committed_goes(tmp_path: Path) -> None:
    table = managed_table(tmp_path, **{"ignore-delete": "false", "merge-engine": "first-row"})
    delete_messages(table, [written(table, [ONE])])
    assert not [path for path in Path(table.path).rglob("*") if path.is_file() and "bucket" in str(path)]
    with pytest.raises(DataError):  # first-row takes no deletes
        written(table, [ONE, ONE], kinds=(0, 3))
    assert not [path for path in Path(table.path).rglob("*") if path.is_file() and "bucket" in str(path)]


def test_a_copy_has_blob_files_of_its_own(tmp_path: Path) -> None:
    table = managed_table(tmp_path)
    put(table.path, [ONE, TWO])
    put(table.path, [THREE, (2, 22, b"two", None, None)])
    copied = copy_table(table, str(tmp_path / "copy"), {})
    remove_files_before(copied, 2**62)
    before = {name: Path(table.path, "bucket-0", name) for name in managed_blob_names(table.path)}
    for path in before.values():
        path.rename(path.with_suffix(".away"))
    wanted = as_dicts(ONE, (2, 22, b"two", None, None), THREE)
    assert rows_of(copied.path) == wanted
    assert len(managed_blob_names(copied.path)) == len(before)
    assert not set(managed_blob_names(copied.path)) & set(before)
    named = {blob_file for blob_files in references_of(copied.path).values() for blob_file in blob_files}
    assert named == {ManagedBlobName(f"{copied.path}/bucket-0", name) for name in managed_blob_names(copied.path)}
    compact(load_table(copied.path, options={"write-only": "false"}), full=True)
    assert rows_of(copied.path) == wanted


def test_a_failed_copy_leaves_nothing(tmp_path: Path) -> None:
    table = managed_table(tmp_path)
    put(table.path, [ONE])
    for name in managed_blob_names(table.path):
        Path(table.path, "bucket-0", name).unlink()
    with pytest.raises((CorruptTableError, FileNotFoundError)):
        copy_table(table, str(tmp_path / "copy"), {})
    assert not (tmp_path / "copy").exists()


def test_lists_of_blob_files_are_javas() -> None:
    """Java: ``ManagedBlobReferenceFile``: ``writeInt``, ``writeByte``, ``writeUTF``, CRC32."""
    one, two = (
        ManagedBlobName("file:/t/bucket-0", "data-b.managed.blob"),
        ManagedBlobName("file:/t/bucket-0", "data-a.managed.blob"),
    )

    def utf(text: str) -> bytes:
        return struct.pack(">H", len(text)) + text.encode()

    payload = b"\x01" + struct.pack(">i", 2) + b"".join(utf(text) for name in (two, one) for text in name)
    wanted = bytes.fromhex("50424c52") + payload + struct.pack(">I", zlib.crc32(payload))
    assert encode_references([one, two, one]) == wanted
    assert decode_references(wanted, "f") == [two, one]
    assert decode_references(encode_references([]), "f") == []
    strange = ManagedBlobName("file:/\0é😀\uffff", "ü.managed.blob")
    assert b"\xc0\x80" in encode_references([strange])
    assert b"\xed\xa0\xbd\xed\xb8\x80" in encode_references([strange])
    assert decode_references(encode_references([strange]), "f") == [strange]
    for damaged in (
        b"",
        wanted[:-1],
        wanted + b"x",
        wanted.replace(b"data-a", b"data-c"),
        wanted[:4] + b"\2" + wanted[5:],
        encode_references([ManagedBlobName("d", "../x")]),
    ):
        with pytest.raises(CorruptTableError):
            decode_references(damaged, "f")


def test_directories_of_blob_files_are_spelled_as_javas() -> None:
    for uri, directory in (
        ("file:///t/b/p.managed.blob", "file:/t/b"),
        ("file:/t//b/p.managed.blob", "file:/t/b"),
        ("/t/b/p.managed.blob", "/t/b"),
        ("s3://b/t//c/p.managed.blob", "s3://b/t/c"),
    ):
        assert ManagedBlobName.of_uri(uri) == (directory, "p.managed.blob")
    assert ManagedBlobName.of_uri("/t/b/p.blob") is None


GROUP = {"merge-engine": "partial-update", "fields.v.sequence-group": "pic"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"merge-engine": "aggregation"}, "only support the deduplicate"),
        ({"changelog-producer": "input"}, "changelog-producer 'none'"),
        ({"data-file.external-paths": "file:///x", "data-file.external-paths.strategy": "round-robin"}, "external"),
        ({"pk-clustering-override": "true"}, "pk-clustering-override"),
        ({"sequence.field": "pic"}, "cannot be sequence fields"),
        ({"blob-descriptor-field": "pic", "blob-view-field": "pic"}, "can not also be in"),
        ({**GROUP, "fields.pic.aggregate-function": "first_value"}, "not retained in retract messages"),
    ],
)
def test_tables_that_java_refuses(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        validate(create_schema(FIELDS, ["k"], [], {"bucket": "1", **options}))


def test_tables_that_java_takes() -> None:
    for options in (
        {**GROUP, "fields.pic.aggregate-function": "last_value"},
        {**GROUP, "fields.pic.aggregate-function": "first_value", "fields.pic.ignore-retract": "true"},
        {"blob-descriptor-field": "pic", "merge-engine": "first-row"},
    ):
        validate(create_schema(FIELDS, ["k"], [], {"bucket": "1", **options}))
    nested = DataField(5, "r", RowType((DataField(6, "b", BlobType()),)))
    with pytest.raises(SchemaError, match="nested BLOB"):
        validate(create_schema([DataField(0, "k", IntType(nullable=False)), nested], ["k"], [], {"bucket": "1"}))
