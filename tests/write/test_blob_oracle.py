"""BLOB columns: files of their own, written and read by us and by Java."""

from __future__ import annotations

import contextlib
import random
import struct
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError, DataError, OptionError, UnsupportedError
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import (
    ArrayType,
    BigIntType,
    BlobType,
    BooleanType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntType,
    MapType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.schema_validation import validate
from paimon_spark.storage.blob_descriptor import descriptor
from paimon_spark.storage.blob_format import decode_elements, encode_elements
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.golden import row_multiset
from tests.support.plans import plan_of

COLUMNS = [("k", "INT"), ("pic", "BLOB"), ("v", "STRING"), ("other", "BLOB")]
OPTIONS = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
BLOB = DataField(0, "pic", BlobType())


def values(rng: random.Random, rows: int, first: int) -> list[tuple[Any, ...]]:
    def blob() -> bytes | None:
        return None if rng.random() < 0.2 else rng.randbytes(rng.choice([0, 1, 17, 3000]))

    return [(first + i, blob(), f"v{i}", blob()) for i in range(rows)]


def ours(path: str, system: str | None = None, columns: list[str] | None = None, **options: str) -> pa.Table:
    table = load_table(path, options={key.replace("_", "-"): value for key, value in options.items()})
    view = find_view(system)
    assert view is not None
    plan = plan_of(table, view, columns=columns)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def write(path: str, rows: list[tuple[Any, ...]], **options: str) -> None:
    table = load_table(path, options=options)
    schema = to_arrow_schema(table.schema.fields)
    plan = plan_write(table, data_schema=schema)
    batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    commit(table, [write_batches(plan, [batch.slice(0, len(rows) // 2), batch.slice(len(rows) // 2)], 0)])


LISTS = ArrayType(BlobType())
KINDS: list[tuple[DataType, Any]] = [
    (LISTS, [[b"a", None, b""], None, [], [b"x" * 3000, b"y"]]),
    (MapType(IntType(), BlobType()), [[(1, b"a"), (-7, None)], [], None, [(2**31 - 1, b"")]]),
    (MapType(VarCharType(), BlobType()), [[("ü", b"a"), ("", b"b")], None]),
    (MapType(BigIntType(), BlobType()), [[(-(2**63), b"a")]]),
    (MapType(BooleanType(), BlobType()), [[(True, b"a"), (False, None)]]),
    (MapType(VarBinaryType(), BlobType()), [[(b"", b"a"), (b"k", b"b")]]),
    (MapType(DateType(), BlobType()), [[(date(1969, 12, 31), b"a"), (date(2026, 1, 1), None)]]),
    (MapType(TimeType(3), BlobType()), [[(time(0), b"a"), (time(23, 59, 59, 999000), b"")]]),
    (MapType(DecimalType(9, 2), BlobType()), [[(Decimal("-1234567.89"), b"a"), (Decimal("0.10"), b"b")]]),
    (MapType(DecimalType(22, 3), BlobType()), [[(Decimal("-0.001"), b"a"), (Decimal("9" * 19 + ".999"), b"b")]]),
]


@pytest.mark.parametrize(("kind", "rows"), KINDS, ids=[kind.sql() for kind, _ in KINDS])
def test_arrays_and_maps_of_blobs_come_back(tmp_path: Path, kind: DataType, rows: list[Any]) -> None:
    """Java 1.4.2 has no such columns: the bytes are those of its later sources."""
    field, io, path = DataField(0, "c", kind), FileIO.for_path(str(tmp_path)), str(tmp_path / "x.blob")
    writer = create_data_file(io, path, "blob", [field], compression="zstd", zstd_level=1, options={})
    given = pa.table([pa.array(rows, to_arrow_schema([field]).field(0).type)], schema=to_arrow_schema([field]))
    writer.write(given.slice(0, 1))
    writer.write(given.slice(1))
    writer.close()
    with open_data_file(io, path, "blob") as reader:
        found = pa.Table.from_batches(reader.read_batches([field], batch_rows=2), given.schema)
    assert found.column("c").to_pylist() == rows


def test_the_record_of_an_array_is_javas(tmp_path: Path) -> None:
    field, io, path = DataField(0, "c", LISTS), FileIO.for_path(str(tmp_path)), tmp_path / "x.blob"
    writer = create_data_file(io, str(path), "blob", [field], compression="zstd", zstd_level=1, options={})
    writer.write(pa.table([pa.array([[b"abc", None, b"d"]], pa.list_(pa.binary()))], schema=to_arrow_schema([field])))
    writer.close()
    payload = b"BCBA" + b"\x01" + b"\x03\0\0\0" + b"abcd" + b"\x06\x07\x04" + b"\x03\0\0\0"
    assert struct.pack("<i", 1_094_861_634) == payload[:4]
    record = path.read_bytes()
    assert record[4 : 4 + len(payload)] == payload
    assert struct.unpack_from("<q", record, 4 + len(payload)) == (len(payload) + 16,)


@pytest.mark.parametrize(
    ("kind", "key", "stored"),
    [
        (DateType(), date(1970, 1, 3), b"\2\0\0\0"),
        (TimeType(3), time(0, 0, 1), b"\xe8\3\0\0"),
        (DecimalType(5, 2), Decimal("-0.02"), b"\xfe" + b"\xff" * 7),
        (DecimalType(20, 2), Decimal("-0.02"), b"\xfe"),
        (DecimalType(20, 2), Decimal("1.28"), b"\x00\x80"),
    ],
)
def test_the_keys_of_a_map_are_javas(kind: DataType, key: Any, stored: bytes) -> None:
    of_map = MapType(kind, BlobType())
    (value,) = pa.array([[(key, b"v")]], to_arrow_schema([DataField(0, "c", of_map)]).field(0).type)
    record = b"".join(map(bytes, encode_elements("c", of_map, value)))
    assert record[9:].startswith(stored + b"v")
    for other in (TimeType(3), DecimalType(5, 2), DecimalType(20, 2)):
        with contextlib.suppress(ValueError):  # keys of another type
            decode_elements("c", MapType(other, BlobType()), record)


@pytest.mark.parametrize("kind", [LISTS, MapType(IntType(), BlobType())], ids=["array", "map"])
def test_damage_inside_a_record_is_reported(kind: DataType) -> None:
    rng = random.Random(3)
    rows = [[b"abc", None, b"d" * 20]] if kind is LISTS else [[(1, b"abc"), (2, None)]]
    (value,) = pa.array(rows, to_arrow_schema([DataField(0, "c", kind)]).field(0).type)
    whole = b"".join(map(bytes, encode_elements("c", kind, value)))
    assert decode_elements("c", kind, whole).spans
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        cut = bytes(damaged[: rng.choice([len(whole), rng.randrange(len(whole))])])
        with contextlib.suppress(ValueError):
            spans = decode_elements("c", kind, cut).spans
            assert all(span is None or 0 <= span[0] <= sum(span) <= len(cut) for span in spans)


def test_tables_with_arrays_and_maps_of_blobs(tmp_path: Path) -> None:
    fields = [DataField(0, "k", IntType()), DataField(1, "a", LISTS), DataField(2, "m", KINDS[2][0])]
    table = create_table(str(tmp_path / "t"), create_schema(fields, options=OPTIONS))
    rows = [(1, [b"x", None], [("p", b"1")]), (2, None, []), (3, [], None), (4, [b"z" * 100], [("q", None)])]
    write(table.path, rows)
    assert [tuple(row.values()) for row in ours(table.path).to_pylist()] == rows
    assert ours(table.path, columns=["m"])["m"].to_pylist() == [row[2] for row in rows]
    described = ours(table.path, columns=["a"], **{"blob-as-descriptor": "true"})["a"].to_pylist()
    (offset, length) = struct.unpack("<qq", described[3][0][-16:])
    (path,) = (p for p in (tmp_path / "t").rglob("*.blob") if p.read_bytes().find(b"z" * 100) >= 0)
    assert path.read_bytes()[offset : offset + length] == b"z" * 100
    with pytest.raises(UnsupportedError, match="map of blobs whose keys are DOUBLE"):
        create_data_file(
            table.file_io, str(tmp_path / "y.blob"), "blob", [DataField(0, "m", MapType(DoubleType(), BlobType()))],
            compression="zstd", zstd_level=1, options={},
        )  # fmt: skip


def test_columns_of_descriptors(tmp_path: Path) -> None:
    """Descriptors are kept as they are given: a file that they name is opened where the caller allows it."""
    fields = [DataField(0, "k", IntType()), DataField(1, "d", BlobType()), DataField(2, "b", BlobType())]
    options = {**OPTIONS, "blob-descriptor-field": "d"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, options=options))
    secret = descriptor("file:/etc/passwd", 0, 10)
    rows = [(1, secret, b"x"), (2, None, b"y"), (3, descriptor("s3://b/o", 5, 6), None)]
    write(table.path, rows)
    assert ours(table.path, columns=["k", "b"])["b"].to_pylist() == [b"x", b"y", None]
    with pytest.raises(UnsupportedError, match=r"names the file file:/etc/passwd, which .* is not read"):
        ours(table.path)
    found = ours(table.path, columns=["d"], **{"blob-as-descriptor": "true"})
    assert found["d"].to_pylist() == [row[1] for row in rows]
    with pytest.raises(DataError, match="takes descriptors of blobs, and a value is none"):
        write(table.path, [(4, b"no descriptor", None)])
    with pytest.raises(OptionError, match="'k' in 'blob-descriptor-field' must be a BLOB"):
        validate(create_schema(fields, options={**OPTIONS, "blob-descriptor-field": "k"}))
    keyed = create_schema(fields[:2], primary_keys=["k"], options={"bucket": "1", "blob-descriptor-field": "d"})
    table = create_table(str(tmp_path / "pk"), keyed)
    write(table.path, [(1, secret), (2, None)])
    assert ours(table.path, **{"blob-as-descriptor": "true"})["d"].to_pylist() == [secret, None]


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(3))
def test_blobs_of_both_engines(oracle: Any, seed: int) -> None:
    rng = random.Random(seed)
    name = oracle.fresh_name("blob")
    sizes = {"blob.target-file-size": "4 kb", "target-file-row-num": "40"} if seed else {}
    oracle.create(name, COLUMNS, options={**OPTIONS, **sizes})
    path = oracle.location(name).removeprefix("file:")
    first = 0
    for step in range(4):
        rows = values(rng, rng.randint(1, 90), first)
        first += len(rows)
        if step % 2:
            write(path, rows)
        else:
            oracle.write(name, rows)
        assert row_multiset(ours(path)) == row_multiset(oracle.read(name))
    assert ours(path).num_rows == first
    for columns in (["pic"], ["v", "other"], ["k"]):
        assert row_multiset(ours(path, columns=columns)) == row_multiset(oracle.read(name, columns=columns))
    assert row_multiset(ours(path, "row_tracking")) == row_multiset(oracle.read(f"{name}$row_tracking"))
    files = oracle.files(name)
    assert {tuple(f["writeCols"]) for f in files} == {("k", "v"), ("pic",), ("other",)}


@pytest.mark.oracle
def test_a_descriptor_says_where_a_value_lies(oracle: Any) -> None:
    name = oracle.fresh_name("blob")
    oracle.create(name, COLUMNS, options=OPTIONS)
    path = oracle.location(name).removeprefix("file:")
    write(path, [(1, b"first", "a", None), (2, b"second one", "b", b"x")])
    found = ours(path, columns=["k", "pic"], **{"blob-as-descriptor": "true"})
    for key, wanted in ((1, b"first"), (2, b"second one")):
        (data,) = [row["pic"] for row in found.to_pylist() if row["k"] == key]
        length = int.from_bytes(data[9:13], "little")
        uri = data[13 : 13 + length].decode()
        offset, size = (int.from_bytes(data[13 + length + 8 * i :][:8], "little") for i in range(2))
        assert Path(uri).read_bytes()[offset : offset + size] == wanted
    other = oracle.fresh_name("blob")
    oracle.create(other, COLUMNS, options=OPTIONS)
    given = [(row["k"], row["pic"], "", None) for row in found.to_pylist()]  # they stand for the values
    write(oracle.location(other).removeprefix("file:"), given, **{"blob-descriptor-paths": path})
    assert sorted(oracle.read(other)["pic"].to_pylist()) == [b"first", b"second one"]


def blob_file(path: Path, *given: bytes | None) -> None:
    writer = create_data_file(FileIO.for_path(str(path)), str(path), "blob", [BLOB])
    writer.write(pa.table({"pic": pa.array(given, pa.binary())}))
    assert writer.close().size_bytes == path.stat().st_size


def blobs_of(path: Path) -> list[bytes | None]:
    with open_data_file(FileIO.for_path(str(path)), str(path), "blob") as reader:
        return [value for batch in reader.read_batches([BLOB], batch_bytes=10) for value in batch.column(0).to_pylist()]


def test_values_come_back_in_batches(tmp_path: Path) -> None:
    given = (b"", None, b"a" * 100, b"b", None, b"c" * 5)
    blob_file(tmp_path / "x.blob", *given)
    assert blobs_of(tmp_path / "x.blob") == list(given)
    blob_file(tmp_path / "empty.blob")
    assert blobs_of(tmp_path / "empty.blob") == []


def test_a_damaged_file_is_reported_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x.blob"
    blob_file(path, b"some", None, b"values")
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        with pytest.raises(CorruptTableError, match=r"x\.blob"):
            blobs_of(path)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptTableError, match=r"x\.blob"):
            blobs_of(path)


@pytest.mark.oracle
def test_described_values_are_those_that_java_reads(oracle: Any, tmp_path: Path) -> None:
    raw = tmp_path / "raw.bin"
    raw.write_bytes(b"0123456789")
    name = oracle.fresh_name("described")
    oracle.create(name, [("k", "INT"), ("d", "BLOB")], options={**OPTIONS, "blob-descriptor-field": "d"})
    path = oracle.location(name).removeprefix("file:")
    write(path, [(1, descriptor(f"file:{raw}", 2, 3)), (2, None), (3, descriptor(f"file:{raw}", 0, 10))])
    wanted = [(1, b"234"), (2, None), (3, b"0123456789")]
    found = ours(path, **{"blob-descriptor-paths": str(tmp_path)})
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == wanted
    java = oracle.read(name)
    assert sorted(zip(*java.to_pydict().values(), strict=True)) == wanted
