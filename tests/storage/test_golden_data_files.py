import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from paimon_spark.spec.data_types import DataField, RowType, TinyIntType
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.formats import open_data_file
from tests.support.data_files import LOCAL, data_files, multiset, read_file, schema_fields, write_file

WHOLE = ["append_types_parquet", "append_types_avro", "append_variant", "compressions_parquet", "compressions_avro"]
EVOLVED = ["schema_evolution_append_parquet", "schema_evolution_append_orc", "schema_evolution_append_avro"]


def expected(golden: Path, table: str, read: str) -> pa.Table:
    expect = json.loads((golden / table / "expect.json").read_text())
    found = next(entry for entry in expect["reads"] if entry["id"] == read)
    return pa.ipc.open_file(golden / table / found["rows"]).read_all()


@pytest.mark.parametrize("table", [*WHOLE, "mixed_formats"])
def test_files_hold_the_rows_that_java_reads(golden: Path, table: str) -> None:
    fields = schema_fields(golden / table / "table")
    files = list(data_files(golden / table / "table"))
    found = pa.concat_tables([read_file(path, fields) for path in files])
    java = expected(golden, table, "latest")
    assert found.num_rows > 0
    assert found.schema.types == java.schema.types
    assert multiset(found) == multiset(java)


@pytest.mark.parametrize("table", EVOLVED)
def test_files_of_the_first_schema_hold_the_first_snapshot(golden: Path, table: str) -> None:
    expect = json.loads((golden / table / "expect.json").read_text())
    names = [entry["file"] for entry in expect["files"] if entry["schema_id"] == 0]
    fields = schema_fields(golden / table / "table")
    found = pa.concat_tables(
        [read_file(path, fields) for path in data_files(golden / table / "table") if path.name in names]
    )
    assert multiset(found) == multiset(expected(golden, table, "snapshot_1"))


def test_every_data_file_of_every_golden_table_can_be_read(golden: Path) -> None:
    count = 0
    for folder in sorted(golden.iterdir()):
        table = folder / "table"
        expect = folder / "expect.json"
        if not expect.exists():
            continue
        schema_ids = {entry["file"]: entry["schema_id"] for entry in json.loads(expect.read_text())["files"]}
        for path in data_files(table):
            if path.name not in schema_ids or not (table / "schema" / f"schema-{schema_ids[path.name]}").exists():
                continue
            fields = schema_fields(table, schema_ids[path.name])
            with open_data_file(LOCAL, str(path), path.suffix[1:]) as reader:
                held = [field for field in fields if field.name in reader.schema.names]
                rows = sum(batch.num_rows for batch in reader.read_batches(held))
                assert rows == reader.num_rows == sum(reader.row_group_rows)
                assert held or folder.name == "data_evolution"
            count += 1
    assert count > 500


@pytest.mark.parametrize("table", ["append_types_parquet", "append_variant"])
def test_parquet_schemas_are_javas(golden: Path, table: str, tmp_path: Path) -> None:
    fields = schema_fields(golden / table / "table")
    java = next(data_files(golden / table / "table"))
    write_file(tmp_path / "x.parquet", fields, read_file(java, fields))
    schemas = [str(pq.ParquetFile(path).schema).split("\n")[1:] for path in (java, tmp_path / "x.parquet")]
    # Java repeats the map's annotation on its key_value group, for readers of before 2014.
    javas = [line.replace("key_value (Map)", "key_value") for line in schemas[0]]
    assert schemas[1] == javas
    assert "paimon_schema" in javas[0]


def test_parquet_schemas_of_key_value_files_are_javas(golden: Path, tmp_path: Path) -> None:
    table = golden / "pk_types_parquet" / "table"
    value_fields = schema_fields(table)
    key = DataField(value_fields[0].id + 2_147_483_647 // 2, "_KEY_id", value_fields[0].type)
    fields = [
        key,
        DataField(2_147_483_646, "_SEQUENCE_NUMBER", parse_type("BIGINT NOT NULL")),
        DataField(2_147_483_645, "_VALUE_KIND", TinyIntType(nullable=False)),
        *value_fields,
    ]
    java = next(data_files(table))
    write_file(tmp_path / "x.parquet", fields, read_file(java, fields))
    schemas = [str(pq.ParquetFile(path).schema).split("\n")[1:] for path in (java, tmp_path / "x.parquet")]
    assert schemas[1] == [line.replace("key_value (Map)", "key_value") for line in schemas[0]]


def test_avro_schemas_are_javas(golden: Path, tmp_path: Path) -> None:
    table = golden / "append_types_avro" / "table"
    fields = schema_fields(table)
    java = next(data_files(table))
    write_file(tmp_path / "x.avro", fields, read_file(java, fields))
    texts = []
    for path in (java, tmp_path / "x.avro"):
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            texts.append((reader.metadata["avro.schema"], reader.metadata["avro.codec"]))
            assert len(list(reader)) == read_file(path, fields).num_rows
    assert texts[0] == texts[1]


def test_orc_files_carry_field_ids(golden: Path, tmp_path: Path) -> None:
    fields = schema_fields(golden / "append_types_avro" / "table")
    rows = expected(golden, "append_types_avro", "latest").slice(0, 0)
    write_file(tmp_path / "x.orc", fields, rows)
    schema = pa.orc.ORCFile(str(tmp_path / "x.orc")).schema
    assert schema.field("map").metadata == {b"paimon.id": b"28"}
    assert schema.field("map").type.key_field.metadata == {b"paimon.id": b"536842238"}
    assert schema.field("row").type.field("b").metadata == {b"paimon.id": b"32"}
    assert schema.field("arr").type.value_field.metadata == {b"paimon.id": b"536896512"}


CODECS = ["zstd", "snappy", "gzip", "none"]


@pytest.mark.parametrize(
    ("file_format", "codec"),
    [(form, codec) for form in ("parquet", "orc", "avro") for codec in CODECS] + [("parquet", "lz4"), ("orc", "lz4")],
)
def test_golden_rows_come_back_from_our_files(golden: Path, tmp_path: Path, file_format: str, codec: str) -> None:
    source = "append_types_parquet" if file_format == "parquet" else "append_types_avro"
    fields = schema_fields(golden / source / "table")
    rows = expected(golden, source, "latest")
    if file_format == "orc":
        fields = [field for field in fields if field.name not in ("ts3", "ts6", "lz3", "lz6", "mr", "aa")]
        rows = rows.select([field.name for field in fields])
    path = tmp_path / f"x.{file_format}"
    result = write_file(path, fields, rows.slice(5, 40), rows.slice(45), rows.slice(0, 5), compression=codec)
    assert (result.size_bytes, result.row_count) == (path.stat().st_size, rows.num_rows)
    found = read_file(path, fields, batch_rows=7)
    assert found.schema.types == rows.schema.types
    assert multiset(found) == multiset(rows)
    few = [fields[3], fields[0], fields[-1]]
    assert multiset(read_file(path, few)) == multiset(rows.select([field.name for field in few]))


def test_nested_rows_lie_within_types(golden: Path) -> None:
    fields = schema_fields(golden / "append_types_parquet" / "table")
    assert any(isinstance(field.type, RowType) for field in fields), "the golden table has lost its rows"
