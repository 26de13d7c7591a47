"""Damages that a size, a count or a checksum of the format can tell never give other rows without an error."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import rewrite_entries
from tests.support.damage import damages, files_of, make_table, read_rows


@pytest.mark.parametrize(
    ("file_format", "codec", "keyed"),
    [("parquet", "zstd", True), ("parquet", "none", False), ("orc", "zstd", False), ("avro", "null", True)],
)
def test_random_damages(tmp_path: Path, file_format: str, codec: str, *, keyed: bool) -> None:
    make_table(tmp_path / "t", file_format, codec, keyed=keyed)
    found = Counter(damages(tmp_path / "t", f"{file_format} {codec}", 150))
    silent = {case: count for case, count in found.items() if case[2] not in ("same", "error")}
    # ORC and Avro have no checksum here, Parquet's are of its pages only.
    unchecked = {case: count for case, count in silent.items() if case[0] == "data" and case[1] in ("flip", "byte")}
    assert silent.keys() - unchecked.keys() == set()
    assert sum(unchecked.values()) <= (1 if file_format == "parquet" else 15)
    assert sum(count for (_, _, outcome), count in found.items() if outcome == "error") > 80


@pytest.fixture
def table(tmp_path: Path) -> Path:
    make_table(tmp_path / "t", "parquet", "none", keyed=False)
    return tmp_path / "t"


def test_a_data_file_exchanged_for_another(table: Path) -> None:
    one, *others = files_of(table)["data"]
    other = next(path for path in others if path.stat().st_size != one.stat().st_size)
    shutil.copy(other, one)
    with pytest.raises(CorruptTableError, match=rf"bytes, but its manifest entry says.*{one.name}"):
        read_rows(table)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_data_file_with_other_rows_than_its_entry(tmp_path: Path, file_format: str) -> None:
    make_table(tmp_path / "t", file_format, "none", keyed=False)
    opened = load_table(str(tmp_path / "t"))
    rewrite_entries(opened, lambda entry: replace(entry, file=replace(entry.file, row_count=entry.file.row_count + 1)))
    snapshot = opened.snapshots.latest()
    assert snapshot is not None
    path = tmp_path / "t" / "snapshot" / f"snapshot-{snapshot.id}"
    path.write_text(path.read_text().replace('"totalRecordCount" : 600', '"totalRecordCount" : 608'))
    with pytest.raises(CorruptTableError, match="rows, but its manifest entry says"):
        read_rows(tmp_path / "t")


def test_a_flipped_bit_in_a_page_of_parquet(table: Path) -> None:
    path = files_of(table)["data"][0]
    data = bytearray(path.read_bytes())
    data[data.index(b" of ")] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptTableError, match=path.name):
        read_rows(table)


def test_manifests_of_other_sizes_and_counts(table: Path) -> None:
    manifests = files_of(table)["manifest"]
    whole = manifests[0].read_bytes()
    # A block of another manifest at the end: a valid Avro file.
    manifests[0].write_bytes(whole + whole[-1:])
    with pytest.raises(CorruptTableError, match=rf"manifest list says.*{manifests[0].name}"):
        read_rows(table)
    manifests[0].write_bytes(whole)
    opened = load_table(str(table))
    snapshot = opened.snapshots.latest()
    assert snapshot is not None
    for name, text in (("base", "manifest list"), ("delta", "manifest list")):
        path = table / "manifest" / getattr(snapshot, f"{name}_manifest_list")
        data = path.read_bytes()
        path.write_bytes(data + b"\0")
        with pytest.raises(CorruptTableError, match=rf"{text} has.*{path.name}"):
            read_rows(table)
        path.write_bytes(data)
    assert len(read_rows(table)) == 600


def test_a_list_that_counts_otherwise(table: Path) -> None:
    from paimon_spark.spec.avro_codec import decode_manifest_list, encode_manifest_list

    opened = load_table(str(table))
    snapshot = opened.snapshots.latest()
    assert snapshot is not None
    path = table / "manifest" / snapshot.delta_manifest_list
    (meta,) = decode_manifest_list(path.read_bytes())
    snapshot_path = table / "snapshot" / f"snapshot-{snapshot.id}"
    for changed, text in (
        (replace(meta, num_added_files=meta.num_added_files + 1), "entries, but its manifest list says"),
        (replace(meta, num_added_files=0, num_deleted_files=meta.num_added_files), "entries of the manifest add"),
    ):
        path.write_bytes(encode_manifest_list([changed]))
        said = json.loads(snapshot_path.read_text()) | {"deltaManifestListSize": path.stat().st_size}
        snapshot_path.write_text(json.dumps(said))
        with pytest.raises(CorruptTableError, match=text):
            read_rows(table)


def test_rows_of_the_snapshot_that_no_file_has(table: Path) -> None:
    path = files_of(table)["snapshot"][0]
    path.write_text(path.read_text().replace('"totalRecordCount" : 600', '"totalRecordCount" : 601'))
    with pytest.raises(PaimonError, match=r"600 rows, but the snapshot says 601.*snapshot-4"):
        read_rows(table)


def test_a_blob_file_of_another_size(tmp_path: Path) -> None:
    """Both blob files are whole: only the size in the manifest entry tells which is which."""
    fields = [DataField(0, "k", parse_type("INT")), DataField(1, "b", parse_type("BLOB"))]
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "b"}
    opened = create_table(str(tmp_path / "t"), create_schema(fields, (), (), options, None))
    for size in (5, 9):
        data = pa.table({"k": pa.array(range(10), pa.int32()), "b": [bytes([n] * size) for n in range(10)]})
        commit(opened, [write_batches(plan_write(opened, data_schema=data.schema), data.to_batches(), 0)])
    assert len(read_rows(tmp_path / "t")) == 20
    one, other = sorted((tmp_path / "t").rglob("*.blob"), key=lambda path: path.stat().st_size)
    shutil.copy(other, one)
    with pytest.raises(CorruptTableError, match=rf"bytes, but its manifest entry says.*{one.name}"):
        read_rows(tmp_path / "t")
