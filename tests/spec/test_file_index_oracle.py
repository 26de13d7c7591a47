"""Indexes of data files as Java writes them: the same bytes, for each index type, data type, version and size."""

from __future__ import annotations

import decimal
import random
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.spec.file_index import decode_head, encode_container
from paimon_spark.spec.file_index.writer import FileIndexBuilder, index_settings, supports
from paimon_spark.spec.type_parser import parse_type_sql
from tests.support import seeds

pytestmark = pytest.mark.oracle
TYPES = {
    "bo": "BOOLEAN", "ti": "TINYINT", "si": "SMALLINT", "i": "INT", "bi": "BIGINT", "f": "FLOAT", "d": "DOUBLE",
    "da": "DATE", "tm": "TIME(3)", "t3": "TIMESTAMP(3)", "t6": "TIMESTAMP(6)", "t9": "TIMESTAMP(9)",
    "l6": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "de": "DECIMAL(12, 3)", "c": "CHAR(5)", "s": "STRING",
    "bin": "VARBINARY(2147483647)",
}  # fmt: skip
INDEXES = ("bloom-filter", "bitmap", "bsi", "range-bitmap")
EPOCH = datetime(1970, 1, 1)


def value(kind: str, chance: random.Random, spread: int) -> Any:
    """A value of a type, of about `spread` different ones."""
    n = chance.randrange(-spread, spread + 1)
    match kind:
        case "bo":
            return n % 2 == 0
        case "ti":
            return max(-128, min(127, n))
        case "si":
            return max(-(2**15), min(2**15 - 1, n))
        case "i" | "bi":
            return n if chance.random() < 0.9 else n * 100_003 % 2**31
        case "f" | "d":
            return chance.choice([n * 3.14159265358979, -0.0, 0.0, float("nan"), float("inf"), float("-inf")])
        case "da":
            return date(2000, 1, 1) + timedelta(days=n)
        case "tm":
            return (datetime(1970, 1, 1, 12) + timedelta(milliseconds=n)).time()
        case "t3":
            return EPOCH + timedelta(milliseconds=n)
        case "t6" | "t9" | "l6":
            return EPOCH + timedelta(microseconds=n * 1001)
        case "de":
            return decimal.Decimal(n) / 1000
    text = ("é" if n % 5 == 0 else "") + "x" * (abs(n) % 3) + str(n)
    return text.encode() * (1 + abs(n) % 20) if kind == "bin" else text[:5] if kind == "c" else text * (1 + abs(n) % 7)


def table_options(threshold: str = "0 b") -> dict[str, str]:
    options = {"bucket": "-1", "file-index.in-manifest-threshold": threshold, "file.format": "parquet"}
    for index in INDEXES:
        of = [name for name, sql in TYPES.items() if supports(index, parse_type_sql(sql))]
        options[f"file-index.{index}.columns"] = ",".join(of)
        for name in of if index == "bloom-filter" else ():
            options[f"file-index.bloom-filter.{name}.items"] = "1000"
            options[f"file-index.bloom-filter.{name}.fpp"] = "0.01"
    options["file-index.bitmap.i.version"] = "1"  # file-index.<type>.<field>.<option>
    options["file-index.bitmap.s.index-block-size"] = "300 b"
    options["file-index.range-bitmap.s.chunk-size"] = "200 b"
    options["file-index.range-bitmap.bi.chunk-size"] = "64 b"
    options["file-index.bitmap.columns"] += ",m[k],m[é]"
    options["file-index.bloom-filter.columns"] += ",m[k]"
    options["file-index.bloom-filter.m.items"] = "77"
    return options


@pytest.mark.parametrize(("count", "spread", "nulls"), [(1, 1, 0.0), (3000, 4, 0.001), (9000, 4000, 0.3), (40, 1, 1.0)])
def test_bytes_equal_javas(oracle: Any, count: int, spread: int, nulls: float) -> None:
    chance = seeds.chance("file index", count, spread)
    name = f"db.file_index_{count}"
    columns = [*TYPES.items(), ("m", "MAP<STRING, INT>")]
    options = table_options()
    oracle.create(name, columns, options=options)
    rows = [
        {
            **{c: None if chance.random() < nulls else value(c, chance, spread) for c in TYPES},
            "m": chance.choice([None, [], [("k", 1)], [("é", None), ("k", chance.randrange(spread))]]),
        }
        for _ in range(count)
    ]
    given = pa.Table.from_pylist(rows, schema=oracle.arrow_schema(name))
    oracle.write(name, given)
    folder = Path(oracle.location(name)) / "bucket-0"
    (index,) = folder.glob("*.index")
    data = index.read_bytes()
    schema = {c: parse_type_sql(sql) for c, sql in columns}
    builder = FileIndexBuilder(index_settings(options), schema)
    for start in range(0, count, 1000):
        builder.add(given.slice(start, 1000))
    ours = builder.finish()
    for part in decode_head(data, path=str(index)):
        body = data[part.start : part.start + part.length] if part.start is not None else None
        assert ours[part.column][part.index_type] == body, (part.column, part.index_type)
    assert encode_container(ours) == data
