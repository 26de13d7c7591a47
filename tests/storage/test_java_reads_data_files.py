"""Java reads tables whose data files were replaced by ours: the same rows, also by filters over our statistics."""

import dataclasses
import datetime
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.spec.avro_codec import decode_manifest, decode_manifest_list, encode_manifest, encode_manifest_list
from paimon_spark.spec.data_types import DataField
from tests.support.data_files import (
    data_files,
    multiset,
    read_file,
    schema_fields,
    whole_seconds_before_1970,
    write_file,
)

pytestmark = pytest.mark.oracle

FILTERS = [("id", "=", 5), ("i", ">", 100), ("s", "=", "a"), ("dt", "<", 0), ("bi", ">=", 0), ("bo", "=", True)]
CASES = [
    *(("parquet", codec) for codec in ("zstd", "snappy", "gzip", "lz4", "none")),
    *(("orc", codec) for codec in ("zstd", "snappy", "zlib", "lz4", "none")),
    *(("avro", codec) for codec in ("zstd", "snappy", "deflate", "null")),
]


def replace_file(table: Path, path: Path, fields: list[DataField], compression: str) -> None:
    """Put a file of ours in the place of Java's, and its size into the metadata."""
    rows = read_file(path, fields)
    parts = [rows.slice(start, 37) for start in range(0, rows.num_rows, 37)]
    result = write_file(path, fields, *parts, compression=compression)
    manifest = next(p for p in (table / "manifest").glob("manifest-*-0") if not p.name.startswith("manifest-list"))
    entries = [
        dataclasses.replace(entry, file=dataclasses.replace(entry.file, file_size=result.size_bytes))
        for entry in decode_manifest(manifest.read_bytes())
    ]
    assert [entry.file.file_name for entry in entries] == [path.name]
    manifest.write_bytes(encode_manifest(entries))
    size = manifest.stat().st_size
    snapshot = table / "snapshot" / "snapshot-1"
    delta = table / "manifest" / json.loads(snapshot.read_text())["deltaManifestList"]
    manifests = [dataclasses.replace(meta, file_size=size) for meta in decode_manifest_list(delta.read_bytes())]
    delta.write_bytes(encode_manifest_list(manifests))
    text = re.sub(r'("deltaManifestListSize" : )\d+', rf"\g<1>{delta.stat().st_size}", snapshot.read_text())
    snapshot.write_text(text)


@pytest.mark.parametrize(("file_format", "codec"), CASES)
def test_java_reads_our_files(oracle: Any, golden: Path, tmp_path: Path, file_format: str, codec: str) -> None:
    source = "append_types_parquet" if file_format == "parquet" else "append_types_avro"
    rows = pa.ipc.open_file(next((golden / source / "reads").glob("latest.arrow"))).read_all()
    if file_format == "orc":
        rows = pa.Table.from_pylist([whole_seconds_before_1970(row) for row in rows.to_pylist()], schema=rows.schema)
    columns = [(field.name, field.type.sql()) for field in schema_fields(golden / source / "table")]
    name = f"db.{file_format}_{codec}"
    oracle.create(name, columns, options={"file.format": file_format, "bucket": -1})
    oracle.write(name, rows)
    made = next(Path(oracle.warehouse).glob(f"db.db/{file_format}_{codec}"))
    # Another place, because Java keeps manifests in memory by their path.
    table = tmp_path / "copy"
    shutil.copytree(made, table)
    fields = schema_fields(table)
    (path,) = data_files(table)
    assert multiset(read_file(path, fields)) == multiset(rows), "we read Java's file wrongly"
    replace_file(table, path, fields, codec)
    assert multiset(oracle.read(str(table))) == multiset(rows)
    for condition in FILTERS:
        kept = oracle.read(str(table), filter=[condition])
        assert multiset(kept) == multiset(oracle.read(name, filter=[condition]))
    few = ["s", "nest", "id"]
    assert multiset(oracle.read(str(table), columns=few)) == multiset(rows.select(few))


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York"])
def test_orc_files_of_java_in_other_time_zones(oracle: Any, golden: Path, tmp_path: Path, zone: str) -> None:
    names = ["id", "ts0", "ts6", "lz0", "lz3", "lz6", "c"]
    rows = pa.ipc.open_file(golden / "append_types_avro" / "reads" / "latest.arrow").read_all().select(names)
    # Where zones were not yet zones, or a moment lies between two epochs, Java and ORC's C++ reader disagree.
    times = rows["lz6"].cast(pa.timestamp("us")).to_pylist()
    plain = [
        value is not None
        and value.year > 1901
        and not datetime.datetime(1969, 12, 30) < value < datetime.datetime(1970, 1, 3)
        for value in times
    ]
    rows = rows.filter(pa.array(plain))
    assert rows.num_rows > 30
    columns = {field.name: field.type.sql() for field in schema_fields(golden / "append_types_avro" / "table")}
    with type(oracle)(str(tmp_path), timezone=zone) as java:
        java.create("db.t", [(name, columns[name]) for name in names], options={"file.format": "orc", "bucket": -1})
        java.write("db.t", rows)
        assert multiset(java.read("db.t")) == multiset(rows)
    table = tmp_path / "db.db" / "t"
    (path,) = data_files(table)
    assert multiset(read_file(path, schema_fields(table))) == multiset(rows)
