"""ORC files with timestamps that 64-bit nanoseconds cannot hold, at every location of a row."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from paimon_spark.errors import CorruptTableError, DataError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.predicate import Leaf
from paimon_spark.storage import orc_format, orc_timestamps
from tests.support.data_files import LOCAL, data_files, multiset, read_file, schema_fields, write_file

END = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
START = datetime.datetime(1583, 1, 1)
TS, LTZ = t.TimestampType(6), t.LocalZonedTimestampType(6)
FIELDS = [
    t.DataField(0, "id", t.BigIntType()),
    t.DataField(1, "ts", TS),
    t.DataField(2, "lz", LTZ),
    t.DataField(3, "a", t.ArrayType(TS)),
    t.DataField(4, "m", t.MapType(t.VarCharType(9), LTZ)),
    t.DataField(5, "r", t.RowType((t.DataField(6, "x", t.TimestampType(3)), t.DataField(7, "y", t.ArrayType(TS))))),
    t.DataField(8, "near", TS),
]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("ts", pa.timestamp("us")),
        pa.field("lz", pa.timestamp("us", "UTC")),
        pa.field("a", pa.list_(pa.timestamp("us"))),
        pa.field("m", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
        pa.field("r", pa.struct({"x": pa.timestamp("ms"), "y": pa.list_(pa.timestamp("us"))})),
        pa.field("near", pa.timestamp("us")),
    ]
)


def rows(count: int = 200) -> pa.Table:
    """Moments at both ends of what SQL knows, ordinary ones, nulls and empty collections."""
    utc = datetime.UTC
    moments = [END, START, None, datetime.datetime(2024, 2, 29, 1, 2, 3, 456_789), datetime.datetime(1969, 1, 1)]
    made = []
    for n in range(count):
        one, two = moments[n % 5], moments[(n * 7 + 3) % 5]
        made.append(
            {
                "id": n,
                "ts": one,
                "lz": one and one.replace(tzinfo=utc),
                "a": [None, [], [one, two, one]][n % 3],
                "m": [None, [], [("k", two and two.replace(tzinfo=utc)), ("l", None)]][n % 3],
                "r": [None, {"x": one and one.replace(microsecond=0), "y": [two]}, {"x": None, "y": None}][n % 3],
                "near": datetime.datetime(2000, 1, 1, microsecond=n),
            }
        )
    return pa.Table.from_pylist(made, schema=SCHEMA)


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy", "zlib", "lz4"])
def test_far_timestamps_come_back(tmp_path: Path, codec: str) -> None:
    data = rows()
    write_file(tmp_path / "x.orc", FIELDS, data, compression=codec)
    found = read_file(tmp_path / "x.orc", FIELDS, batch_rows=64)
    assert multiset(found) == multiset(data)
    some = [FIELDS[5], FIELDS[0]]
    assert multiset(read_file(tmp_path / "x.orc", some)) == multiset(data.select(["r", "id"]))


@pytest.mark.thorough
def test_far_timestamps_of_many_stripes_and_of_the_first_version(tmp_path: Path) -> None:
    data = pa.concat_tables([rows(), rows().slice(3, 1), *[rows(2000)] * 10])
    path = tmp_path / "x.orc"
    for version in ("0.11", "0.12"):
        with orc.ORCWriter(
            path, file_version=version, stripe_size=1, compression="zlib", row_index_stride=1000
        ) as writer:
            for start in range(0, data.num_rows, 500):
                writer.write(data.take(list(range(start, min(start + 500, data.num_rows)))))
        with orc_format.OrcReader(LOCAL, str(path), None, {}) as reader:
            stripes = reader.num_row_groups
            back = [b for at in reversed(range(stripes)) for b in reader.read_batches(FIELDS, row_groups=[at])]
        assert stripes > 1
        assert multiset(pa.Table.from_batches(back)) == multiset(data)


def test_far_timestamps_by_a_predicate(tmp_path: Path) -> None:
    write_file(tmp_path / "x.orc", FIELDS, rows(1000))
    wanted = Leaf("eq", "ts", (END,))
    found = read_file(tmp_path / "x.orc", FIELDS, predicate=wanted, batch_rows=64)
    assert set(found["id"].to_pylist()) == set(range(0, 1000, 5))


def test_nanoseconds_that_do_not_fit_name_their_column(tmp_path: Path) -> None:
    write_file(tmp_path / "x.orc", FIELDS, rows())
    for field, kind in ((1, t.TimestampType(9)), (3, t.ArrayType(t.TimestampType(9)))):
        changed = t.DataField(FIELDS[field].id, FIELDS[field].name, kind)
        with pytest.raises(DataError, match=rf"{changed.name}.*2262.*TIMESTAMP\(6\)"):
            read_file(tmp_path / "x.orc", [changed])
    near = t.DataField(8, "near", t.TimestampType(9))
    assert read_file(tmp_path / "x.orc", [near])["near"].cast(pa.int64())[3].as_py() == 946_684_800_000_003_000


def test_both_ways_of_reading_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(5)
    seconds = chance.integers(-2_000_000_000, 9_000_000_000, 20_000)
    fraction = np.where(seconds < 0, 0, chance.choice([0, 1, 999_999, 500_000, 120_000, 1_000, 999], 20_000))
    data = pa.table({"a": pa.array(seconds * 1_000_000 + fraction, pa.timestamp("us"))})
    fields = [t.DataField(0, "a", TS)]
    write_file(tmp_path / "x.orc", fields, data)
    near = read_file(tmp_path / "x.orc", fields)
    monkeypatch.setattr(orc_format, "is_far", lambda *_: True)
    assert read_file(tmp_path / "x.orc", fields).equals(near)
    assert near.equals(data.cast(near.schema))


def test_a_stripe_without_statistics_is_read_with_care(tmp_path: Path) -> None:
    write_file(tmp_path / "x.orc", FIELDS, rows())
    with LOCAL.open_input(str(tmp_path / "x.orc")) as source:
        tail = orc_format.read_tail(source)
    assert orc_timestamps.is_far(tail, 0, "ts")
    assert not orc_timestamps.is_far(tail, 0, "near")
    assert not orc_timestamps.is_far(tail, 0, "id")
    assert orc_timestamps.is_far(tail, 1, "near")


@pytest.mark.thorough
def test_damaged_files_with_far_timestamps(tmp_path: Path) -> None:
    write_file(tmp_path / "x.orc", FIELDS, rows(20), compression="none")
    whole = (tmp_path / "x.orc").read_bytes()
    chance = np.random.default_rng(7)
    refused = 0
    for at in chance.integers(0, len(whole), 400):
        changed = bytearray(whole)
        changed[at] ^= int(chance.integers(1, 256))
        (tmp_path / "x.orc").write_bytes(changed)
        try:
            read_file(tmp_path / "x.orc", FIELDS)
        except (CorruptTableError, DataError):
            refused += 1
    assert refused > 100


@pytest.mark.oracle
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
def test_far_timestamps_of_java(oracle: Any, tmp_path: Path, zone: str) -> None:
    data = rows(60)
    columns = [(field.name, field.type.sql()) for field in FIELDS]
    with type(oracle)(str(tmp_path), timezone=zone) as java:
        java.create("db.t", columns, options={"file.format": "orc", "bucket": -1})
        java.write("db.t", data)
        expected = multiset(java.read("db.t"))
        table = tmp_path / "db.db" / "t"
        (path,) = data_files(table)
        assert multiset(read_file(path, schema_fields(table))) == expected
    assert expected == multiset(data)


def test_fractions_before_1970_are_refused_at_any_depth(tmp_path: Path) -> None:
    odd = [{"ts": -1_500_000}, {"lz": -1}, {"a": [0, -999_000]}, {"m": [("k", -1)]}, {"r": {"y": [-1_000_001]}}]
    for values in odd:
        (name,) = values
        data = pa.Table.from_pylist([{"id": 1, name: None}, {"id": 2, **values}], schema=SCHEMA)
        with pytest.raises(DataError, match=rf"'{name}'.*before 1970 with a fraction of a second.*parquet"):
            write_file(tmp_path / "x.orc", FIELDS, data)
        write_file(tmp_path / "x.orc", FIELDS, data.slice(0, 1))  # the refused row is in the same buffers
        assert read_file(tmp_path / "x.orc", FIELDS).num_rows == 1
