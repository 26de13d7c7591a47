"""BLOB columns: files of their own, written and read by us and by Java."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import BlobType, DataField
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file
from paimon_spark.table.table import load_table
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


def write(path: str, rows: list[tuple[Any, ...]]) -> None:
    table = load_table(path)
    schema = to_arrow_schema(table.schema.fields)
    plan = plan_write(table, data_schema=schema)
    batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    commit(table, [write_batches(plan, [batch.slice(0, len(rows) // 2), batch.slice(len(rows) // 2)], 0)])


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
    with pytest.raises(UnsupportedError, match="'blob-as-descriptor'"):
        plan_write(load_table(path, options={"blob-as-descriptor": "true"}), data_schema=pa.schema([("k", pa.int32())]))


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


def test_a_damaged_file_is_told_by_its_name(tmp_path: Path) -> None:
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
