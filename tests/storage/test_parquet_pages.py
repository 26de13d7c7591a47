"""Pages that a predicate rules out are not decoded, and no row is lost: Java's files and ours."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import And, Leaf, Not, Or, Predicate, fields
from paimon_spark.storage import parquet_pages
from paimon_spark.storage.data_file import DataFileReader
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file
from tests.support.seeds import chance

_FIELDS = [
    t.DataField(0, "id", t.BigIntType(nullable=False)),
    t.DataField(1, "small", t.TinyIntType()),
    t.DataField(2, "name", t.VarCharType(1 << 20)),
    t.DataField(3, "day", t.DateType()),
    t.DataField(4, "at", t.TimestampType(6)),
    t.DataField(5, "price", t.DecimalType(12, 2)),
    t.DataField(6, "rate", t.DoubleType()),
    t.DataField(7, "raw", t.VarBinaryType(1 << 20)),
    t.DataField(8, "wide", t.VarCharType(1 << 20)),
]
_ROWS = 60_000


def _rows(rng: np.random.Generator, rows: int) -> pa.Table:
    """Rows sorted by `id`, other columns in an order of their own, each with stretches of nulls."""
    number = np.sort(rng.integers(0, 2 * rows, rows))
    empty = (np.arange(rows) // (rows // 12)) % 3 == 1

    def column(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=empty & (rng.random(rows) < rng.choice([0.0, 0.5, 1.0])))

    return pa.table(
        [
            pa.array(number, pa.int64()),
            column((number // 1000 % 100).astype(np.int8), pa.int8()),
            column([f"n{n:07d}" for n in number], pa.string()),
            column((number // 500).astype(np.int32), pa.int32()).cast(pa.date32()),
            column(number * 1_000_000, pa.int64()).cast(pa.timestamp("us")),
            column([Decimal(int(n)).scaleb(-2) for n in number], pa.decimal128(12, 2)),
            column(np.where(number % 7 == 0, np.nan, number / 3), pa.float64()),
            column([n.to_bytes(8, "big") for n in number.tolist()], pa.binary()),
            column([f"{n}" * 12 for n in number], pa.string()),
        ],
        schema=to_arrow_schema(_FIELDS),
    )


def _literal(rng: np.random.Generator, name: str) -> Any:
    number = int(rng.integers(-10, 2 * _ROWS + 10))
    made: dict[str, Any] = {
        "id": number,
        "small": number // 1000 % 100,
        "name": f"n{number:07d}",
        "day": datetime.date(1970, 1, 1) + datetime.timedelta(number // 500),
        "at": datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=number),
        "price": Decimal(number).scaleb(-2),
        "rate": number / 3,
        "raw": max(number, 0).to_bytes(8, "big"),
    }
    return made[name]


def _predicate(rng: np.random.Generator, depth: int = 0) -> Predicate:
    kind = rng.integers(0, 8 if depth < 2 else 5)
    if kind >= 5:
        parts = tuple(_predicate(rng, depth + 1) for _ in range(2))
        return Not(parts[0]) if kind == 7 else (And if kind == 5 else Or)(parts)
    name = str(rng.choice(["id", "id", "id", "small", "name", "day", "at", "price", "rate", "raw"]))
    op = str(rng.choice(["eq", "eq", "in", "lt", "ge", "between", "is_null", "is_not_null", "ne"]))
    count = {"in": 3, "between": 2, "is_null": 0, "is_not_null": 0}.get(op, 1)
    literals = [_literal(rng, name) for _ in range(count)]
    return Leaf(op, name, tuple(sorted(literals) if op == "between" else literals))


def _read(reader: DataFileReader, columns: list[t.DataField], predicate: Predicate, *, pages: bool) -> pa.Table:
    batches = reader.read_batches(
        columns,
        predicate=predicate,
        pages=predicate if pages else None,
        batch_rows=20_000,
    )
    rows = pa.Table.from_batches(batches, to_arrow_schema(columns))
    if "rate" in rows.schema.names:  # NaN equals nothing
        rate = pc.if_else(pc.is_nan(rows.column("rate")), -1.0, rows.column("rate"))
        rows = rows.set_column(rows.schema.get_field_index("rate"), "rate", rate)
    return rows


@pytest.mark.parametrize("page_bytes", [None, "20000"], ids=["pages of 20,000 rows", "pages of 20 kB"])
def test_pages_that_cannot_match_are_left_out(tmp_path: Path, page_bytes: str | None) -> None:
    """Random predicates over nine types give the rows of the whole file, and many of them decode less."""
    rng = np.random.default_rng(chance("pages", page_bytes).randrange(1 << 32))
    io, path = FileIO.for_path(str(tmp_path)), str(tmp_path / "data.parquet")
    options = {"parquet.block.row.count.limit": "50000"} | ({"parquet.page.size": page_bytes} if page_bytes else {})
    writer = create_data_file(io, path, "parquet", _FIELDS, options=options)
    writer.write(_rows(rng, _ROWS))
    writer.close()
    less = 0
    with open_data_file(io, path, "parquet") as reader:
        for _ in range(50):
            predicate = _predicate(rng)
            asked = fields(predicate)
            columns = [f for f in _FIELDS if f.name in asked or rng.random() < 0.5]
            expected = _read(reader, columns, predicate, pages=False)
            assert _read(reader, columns, predicate, pages=True).equals(expected), predicate
            decoded = reader.read_batches(columns, pages=predicate)
            less += sum(batch.num_rows for batch in decoded) < _ROWS // 2
    assert less


def test_a_row_by_its_key_decodes_one_page(tmp_path: Path) -> None:
    """A key of a file of 200,000 rows: 20,000 rows are decoded, of all columns."""
    io, path = FileIO.for_path(str(tmp_path)), str(tmp_path / "data.parquet")
    writer = create_data_file(io, path, "parquet", _FIELDS)
    writer.write(_rows(np.random.default_rng(7), 200_000))
    writer.close()
    with open_data_file(io, path, "parquet") as reader:
        rows = sum(b.num_rows for b in reader.read_batches(_FIELDS, pages=Leaf("eq", "id", (77_777,))))
        assert 0 < rows <= 40_000
        assert list(reader.read_batches(_FIELDS, pages=Leaf("eq", "id", (-1,)))) == []
        in_two = list(reader.read_batches(_FIELDS[:1], pages=Leaf("in", "id", (5, 390_000))))
        assert 0 < sum(b.num_rows for b in in_two) <= 80_000


def test_java_files_by_pages(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Parquet file that Java wrote gives the same rows by its pages, one value of each column as the predicate."""
    monkeypatch.setattr(parquet_pages, "_LEAST_ROWS", 1)
    monkeypatch.setattr(parquet_pages, "_LEAST_PART", 1)
    rng = chance("pages of Java")
    chosen = 0
    paths = [p for p in sorted(golden.rglob("data-*.parquet")) if p.stat().st_size]
    for path in rng.sample(paths, min(len(paths), 80)):
        table = pq.read_table(path, partitioning=None)
        flat = [name for name in table.schema.names if not pa.types.is_nested(table.schema.field(name).type)]
        file = pq.ParquetFile(path)
        reader = parquet_pages.PageReader(pa.OSFile(str(path)), file, str(path))
        for name in flat:
            value = table.column(name)[rng.randrange(table.num_rows)].as_py() if table.num_rows else None
            if value is None or isinstance(value, float | datetime.time):
                continue
            found = reader.matching(0, flat, Leaf("eq", name, (value,)), 1 << 30)
            if found is None:
                continue
            chosen += 1
            condition = pc.equal(table.column(name), pa.scalar(value, table.schema.field(name).type))
            again = pc.equal(found.column(name), pa.scalar(value, table.schema.field(name).type))
            expected = table.select(flat).filter(condition)
            assert str(found.filter(again).to_pydict()) == str(expected.to_pydict()), (path, name)
    assert chosen > 20


def test_values_too_large_for_a_batch_are_not_decoded_by_pages(tmp_path: Path) -> None:
    """A text of 100 kB that each row repeats is one dictionary entry: batches stay below their bytes."""
    io, path = FileIO.for_path(str(tmp_path)), str(tmp_path / "data.parquet")
    wide = t.DataField(1, "text", t.VarCharType(1 << 20))
    writer = create_data_file(io, path, "parquet", [_FIELDS[0], wide])
    for start in range(0, 40_000, 1000):
        numbers = pa.array(range(start, start + 1000), pa.int64())
        writer.write(pa.table([numbers, pa.repeat("x" * 1000, 1000)], schema=to_arrow_schema([_FIELDS[0], wide])))
    writer.close()
    with open_data_file(io, path, "parquet") as reader:
        wanted = Leaf("eq", "id", (39_000,))
        sizes = [b.nbytes for b in reader.read_batches([_FIELDS[0], wide], pages=wanted, batch_bytes=2 << 20)]
        assert max(sizes) < 5 << 20


def test_a_wrong_index_is_reported_or_passed_over(tmp_path: Path) -> None:
    """Damage of the index of any byte: the rows, or an error of ours, never another one."""
    io, path = FileIO.for_path(str(tmp_path)), tmp_path / "data.parquet"
    writer = create_data_file(io, str(path), "parquet", _FIELDS)
    writer.write(_rows(np.random.default_rng(7), 40_000))
    writer.close()
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    last_page = max(
        column.data_page_offset + column.total_compressed_size
        for column in (pq.read_metadata(path).row_group(0).column(at) for at in range(len(_FIELDS)))
    )
    rng = random.Random(11)
    predicate = Leaf("eq", "id", (50_000,))
    for _ in range(100):
        at = rng.randrange(last_page - 64, len(whole) - 8 - footer)
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            with open_data_file(io, str(path), "parquet") as reader:
                _read(reader, _FIELDS, predicate, pages=True)
        except CorruptTableError:
            pass
