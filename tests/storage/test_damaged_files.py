"""Damaged, truncated and hostile data files: CorruptTableError with the path, never anything else, never a hang."""

import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import CorruptTableError, DataError, UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.avro_container import AvroBlocks, encode_long, write_container
from paimon_spark.storage import parquet_footer
from paimon_spark.storage.avro_encoding import FileSchema
from paimon_spark.storage.formats import open_data_file
from tests.support.data_files import LOCAL, data_files, read_file, schema_fields, write_file

FORMATS = ["parquet", "orc", "avro"]
FIELDS = [t.DataField(0, "a", t.BigIntType()), t.DataField(1, "s", t.VarCharType(t.VarCharType.MAX))]


def sample(tmp_path: Path, file_format: str) -> Path:
    path = tmp_path / f"good.{file_format}"
    write_file(path, FIELDS, pa.table({"a": pa.array(range(3000)), "s": [f"text {n % 37}" for n in range(3000)]}))
    return path


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_missing_file(tmp_path: Path, file_format: str) -> None:
    with pytest.raises(CorruptTableError, match=r"missing.*none\." + file_format) as caught:
        open_data_file(LOCAL, str(tmp_path / f"none.{file_format}"), file_format)
    assert caught.value.path == str(tmp_path / f"none.{file_format}")


@pytest.mark.parametrize("file_format", FORMATS)
def test_truncated_files(tmp_path: Path, file_format: str) -> None:
    data = sample(tmp_path, file_format).read_bytes()
    path = tmp_path / f"cut.{file_format}"
    for length in [0, 1, 3, 4, 8, 12, 40, len(data) // 2, len(data) - 17, len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(CorruptTableError, match=r"cut\." + file_format):
            read_file(path, FIELDS)


@pytest.mark.parametrize("file_format", FORMATS)
def test_another_format_or_noise(tmp_path: Path, file_format: str) -> None:
    noise = random.Random(1).randbytes(5000)
    others = [sample(tmp_path, other).read_bytes() for other in FORMATS if other != file_format]
    path = tmp_path / f"bad.{file_format}"
    for data in [*others, noise, b"\0" * 5000, b"PAR1" + noise + b"PAR1", b"Obj\x01" + noise, b"ORC" + noise]:
        path.write_bytes(data)
        with pytest.raises(CorruptTableError, match=r"bad\." + file_format):
            read_file(path, FIELDS)


@pytest.mark.parametrize("file_format", FORMATS)
def test_flipped_bytes_never_give_another_error(tmp_path: Path, file_format: str) -> None:
    data = bytearray(sample(tmp_path, file_format).read_bytes())
    path = tmp_path / f"flipped.{file_format}"
    chance = random.Random(7)
    failed = 0
    for _ in range(400):
        changed = bytearray(data)
        # Tails and headers are where the structure is: hit them more often.
        area = chance.choice([len(data), 400, -400])
        for _ in range(chance.choice([1, 1, 3])):
            at = chance.randrange(min(abs(area), len(data)))
            changed[at if area > 0 else len(data) - 1 - at] = chance.randrange(256)
        path.write_bytes(changed)
        try:
            read_file(path, FIELDS)
        except (CorruptTableError, UnsupportedError, DataError):
            failed += 1
    assert failed > 50


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_column_of_another_kind(tmp_path: Path, file_format: str) -> None:
    path = sample(tmp_path, file_format)
    for kind in (t.VarCharType(9), t.DoubleType(), t.ArrayType(t.IntType()), t.DecimalType(9, 2), t.TimestampType(3)):
        with pytest.raises(CorruptTableError, match=r"Column 'a' is .* in the table but int64"):
            read_file(path, [t.DataField(0, "a", kind)])
    with pytest.raises(CorruptTableError, match="Column 's'"):
        read_file(path, [t.DataField(0, "s", t.IntType())])
    with pytest.raises(CorruptTableError, match="not in range"):
        read_file(path, [t.DataField(0, "a", t.TinyIntType())])
    with pytest.raises(CorruptTableError, match="lacks the NOT NULL column 'z'"):
        read_file(path, [t.DataField(0, "z", t.IntType(nullable=False))])


def test_a_variant_in_another_order_of_parts(tmp_path: Path) -> None:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    pq.write_table(pa.table({"v": pa.array([None, {"metadata": b"m", "value": b"v"}], kind)}), tmp_path / "x.parquet")
    found = read_file(tmp_path / "x.parquet", [t.DataField(0, "v", t.VariantType())])
    assert found["v"].to_pylist() == [None, {"value": b"v", "metadata": b"m"}]


def avro_file(path: Path, schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> Path:
    path.write_bytes(write_container(AvroBlocks(json.dumps(schema).encode(), tuple(blocks)), codec=codec))
    return path


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def test_avro_counts_and_lengths_are_checked(tmp_path: Path) -> None:
    field = [t.DataField(0, "a", t.VarCharType(9))]
    schema = record(("a", "string"))
    for block in [
        (1, encode_long(2**60) + b"x"),
        (1, encode_long(-3) + b"x"),
        (2, encode_long(1) + b"x"),
        (1, encode_long(1) + b"xyz"),
        (1, b"\xff" * 12),
        (1, encode_long(1) + b"\xff"),
        (2**50, encode_long(1) + b"x"),
        (-1, encode_long(1) + b"x"),
    ]:
        with pytest.raises(CorruptTableError, match=r"x\.avro"):
            read_file(avro_file(tmp_path / "x.avro", schema, block), field)
    assert read_file(avro_file(tmp_path / "x.avro", schema, (1, encode_long(1) + b"x")), field).num_rows == 1


def test_avro_arrays_of_nothing_do_not_hang(tmp_path: Path) -> None:
    endless = encode_long(2**60) + b"\0"
    for items in ("null", record(), record(("n", "null"))):
        path = avro_file(tmp_path / "x.avro", record(("a", {"type": "array", "items": items})), (1, endless))
        with pytest.raises(CorruptTableError):
            read_file(path, [t.DataField(0, "a", t.ArrayType(t.IntType()))])
    path = avro_file(tmp_path / "x.avro", record(("a", {"type": "array", "items": "int"})), (1, endless))
    with pytest.raises(CorruptTableError):
        read_file(path, [t.DataField(0, "a", t.ArrayType(t.IntType()))])


def test_avro_schemas_that_lead_nowhere() -> None:
    deep: Any = "int"
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    bad: list[Any] = [
        "int",
        ["null", "int"],
        {"type": "record", "name": "r"},
        record(("a", "nosuch")),
        record(("a", ["int", "string"])),
        record(("a", ["null", ["null", "int"]])),
        record(("a", {"type": "enum", "name": "e", "symbols": ["A"]})),
        record(("a", deep)),
        record(("a", ["null", "r"])),
        {"type": "record", "name": "r", "fields": [{"name": "a"}]},
        {"type": "record", "name": "r", "fields": [7]},
        7,
    ]
    for schema in bad:
        with pytest.raises((ValueError, KeyError, TypeError)):
            FileSchema(json.dumps(schema).encode())
    with pytest.raises(ValueError, match="Expecting value"):
        FileSchema(b"")


def test_an_avro_bomb_is_refused(tmp_path: Path) -> None:
    path = avro_file(tmp_path / "x.avro", record(("a", "bytes")), (1, b"\0" * (300 << 20)), codec="zstandard")
    with pytest.raises(CorruptTableError, match=r"x\.avro"):
        read_file(path, [t.DataField(0, "a", t.VarBinaryType(9))])


def test_avro_files_with_a_union_at_the_top(tmp_path: Path) -> None:
    schema = ["null", record(("a", ["null", "long"]))]
    rows = b"".join(b"\x02\x02" + encode_long(n) for n in range(5)) + b"\x02\x00"
    found = read_file(avro_file(tmp_path / "x.avro", schema, (6, rows)), [t.DataField(0, "a", t.BigIntType())])
    assert found["a"].to_pylist() == [0, 1, 2, 3, 4, None]
    with pytest.raises(CorruptTableError):
        read_file(avro_file(tmp_path / "y.avro", schema, (1, b"\x00")), [t.DataField(0, "a", t.BigIntType())])


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz", "zstandard"])
def test_avro_codecs_of_others(tmp_path: Path, codec: str) -> None:
    if codec == "snappy":
        path = avro_file(tmp_path / "x.avro", record(("a", "int")), (1, b"\x0e"), codec="snappy")
    else:
        path = tmp_path / "x.avro"
        with path.open("wb") as out:
            fastavro.writer(out, record(("a", "int")), [{"a": 7}], codec=codec)
    assert read_file(path, [t.DataField(0, "a", t.IntType())])["a"].to_pylist() == [7]


def test_decimals_that_are_too_long(tmp_path: Path) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    field = [t.DataField(0, "a", t.DecimalType(9, 2))]
    for size in (0, 5, 16, 17, 40):
        path = avro_file(tmp_path / "x.avro", record(("a", kind)), (1, encode_long(size) + b"\x01" * size))
        if size == 0:
            assert read_file(path, field)["a"].to_pylist() == [0]
            continue
        with pytest.raises(CorruptTableError):
            read_file(path, field)


def test_an_orc_footer_that_lies_about_rows(golden: Path, tmp_path: Path) -> None:
    orc.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "x.orc", compression="uncompressed")
    data = (tmp_path / "x.orc").read_bytes()
    fields = [t.DataField(0, "a", t.BigIntType())]
    assert read_file(tmp_path / "x.orc", fields).num_rows == 3
    failed = 0
    for at in range(len(data) - 200, len(data)):
        (tmp_path / "x.orc").write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            assert read_file(tmp_path / "x.orc", fields).num_rows <= 3
        except (CorruptTableError, UnsupportedError, DataError):
            failed += 1
    assert failed > 20


def test_parquet_files_with_int96_and_a_damaged_footer(golden: Path, tmp_path: Path) -> None:
    table = golden / "append_types_parquet" / "table"
    fields = [field for field in schema_fields(table) if field.name in ("ts9", "lz9", "id")]
    data = next(data_files(table)).read_bytes()
    length = struct.unpack("<i", data[-8:-4])[0]
    chance = random.Random(3)
    for _ in range(300):
        changed = bytearray(data)
        changed[len(data) - 8 - chance.randrange(length) - 1] = chance.randrange(256)
        (tmp_path / "x.parquet").write_bytes(changed)
        try:
            read_file(tmp_path / "x.parquet", fields)
        except (CorruptTableError, UnsupportedError, DataError):
            continue


def test_thrift_comes_back_byte_for_byte(golden: Path) -> None:
    for path in data_files(golden / "append_types_parquet" / "table"):
        data = path.read_bytes()
        footer = data[-8 - struct.unpack("<i", data[-8:-4])[0] : -8]
        assert parquet_footer.encode(parquet_footer.decode(footer)) == footer
    for noise in (b"", b"\x15", b"\x1c" * 500, b"\x19\xfc\xff\xff\xff\xff\x0f", b"\x18\xff\x01", zlib.compress(b"x")):
        with pytest.raises(ValueError, match="Thrift"):
            parquet_footer.decode(noise)
