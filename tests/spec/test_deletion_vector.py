"""Deletion vectors as bytes: what Java wrote is read, what is written is read again, damage is reported."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, DataError
from paimon_spark.spec.deletion_vector import decode_vector, encode_vector, positions_of
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX
from paimon_spark.spec.roaring import ARRAY, Bitmap32, Container
from paimon_spark.table.table import load_table

GOLDEN = ("append_dv_v1", "append_dv_bitmap64", "append_dv_bucketed", "pk_dv_v1", "pk_dv_bitmap64", "pk_dv_avro")


def decoded(data: bytes, length: int, rows: int) -> list[int]:
    return positions_of(decode_vector(data, length, rows, path="i"), rows).tolist()


@pytest.mark.parametrize("wide", [False, True])
@given(
    positions=st.sets(st.integers(0, 200_000), max_size=60),
    runs=st.lists(st.tuples(st.integers(0, 190_000), st.integers(1, 9000)), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(positions: set[int], runs: list[tuple[int, int]], wide: bool) -> None:
    every = sorted(positions.union(*(range(start, start + length) for start, length in runs)))
    data, length = encode_vector(np.array(every, np.int64), wide=wide)
    assert length == (len(data) if wide else len(data) - 8)
    assert decoded(data + b"more", length, 200_001) == every


@pytest.mark.parametrize("name", GOLDEN)
def test_vectors_of_java_are_read_and_written_to_the_byte(name: str, golden: Path) -> None:
    table = load_table(str(golden / name / "table"))
    seen = 0
    for snapshot in map(table.snapshots.get, table.snapshots.ids()):
        files = {entry.file.file_name: entry.file for entry in table.manifests.live_entries(snapshot)}
        for entry in table.manifests.index_entries(snapshot):
            assert entry.index_type == DELETION_VECTORS_INDEX
            data = Path(table.paths.index_file_path(entry)).read_bytes()
            for meta in entry.deletion_vectors or ():
                rows = files[meta.data_file_name].row_count
                found = decoded(data[meta.offset :], meta.length, rows)
                assert len(found) == meta.cardinality
                wide = table.options.value("deletion-vectors.bitmap64")
                written, length = encode_vector(np.array(found), wide=wide)
                assert data[meta.offset : meta.offset + len(written)] == written
                assert length == meta.length
                seen += 1
    assert seen


def test_positions_beyond_32_bits_need_wide_vectors() -> None:
    with pytest.raises(DataError, match="bitmap64"):
        encode_vector(np.array([2**31]), wide=False)
    data, length = encode_vector(np.array([5, 2**33 + 1]), wide=True)
    assert struct.unpack("<q", data[8:16]) == (3,)
    assert length == len(data)


DATA, LENGTH = encode_vector(np.array([1, 5, 70_000]), wide=False)
WIDE, WIDE_LENGTH = encode_vector(np.array([1, 5, 70_000]), wide=True)


@pytest.mark.parametrize(("data", "length"), [(DATA, LENGTH), (WIDE, WIDE_LENGTH)])
def test_damage_is_reported(data: bytes, length: int) -> None:
    assert decoded(data, length, 70_001) == [1, 5, 70_000]
    with pytest.raises(CorruptTableError, match="marks row 70000 of a data file with 70000 rows"):
        decoded(data, length, 70_000)
    for changed in (data[:-1], b"", data[4:], *(_flipped(data, at) for at in range(len(data)))):
        with pytest.raises(CorruptTableError, match="damaged"):
            decoded(changed, length, 70_001)
    with pytest.raises(CorruptTableError, match="Size not match"):
        decoded(data, length + 1, 70_001)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def _sealed(body: bytes) -> bytes:
    body = struct.pack(">i", 1581511376) + body
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def test_hostile_bitmaps_take_no_memory() -> None:
    full = Container(0, np.arange(65536, dtype=np.uint16))
    far = _sealed(Bitmap32(dict.fromkeys(range(65536), full)).encode())
    twice = Bitmap32({1: Container(ARRAY, np.array([1], np.uint16)), 0: Container(ARRAY, np.array([1], np.uint16))})
    for data, words in ((far, "marks row"), (_sealed(twice.encode()), "do not ascend")):
        with pytest.raises(CorruptTableError, match=words):
            decoded(data, len(data) - 8, 100_000)


def test_decoding_takes_a_bit_for_each_row() -> None:
    """40 million deleted rows: 320 MB as positions."""
    full = Container(0, np.arange(65536, dtype=np.uint16))
    keys = range(610)
    data = _sealed(Bitmap32(dict.fromkeys(keys, full)).encode())
    tracemalloc.start()
    try:
        bits = decode_vector(data, len(data) - 8, len(keys) * 65536, path="i")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bits.all()
    assert peak < 30 << 20
