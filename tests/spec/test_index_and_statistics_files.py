"""Hash index files and statistics files of golden tables: read, and written back byte for byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.avro_codec import decode_index_manifest
from paimon_spark.spec.hashing import decode_hash_index, encode_hash_index
from paimon_spark.table.statistics import Statistics


def test_golden_hash_indexes(golden: Path) -> None:
    seen = 0
    for manifest in golden.glob("pk_dynamic_bucket*/table/manifest/index-manifest-*"):
        for entry in decode_index_manifest(manifest.read_bytes(), path=str(manifest)):
            data = (manifest.parents[1] / "index" / entry.file_name).read_bytes()
            hashes = decode_hash_index(data)
            assert hashes.dtype == np.int32
            assert len(hashes) == entry.row_count
            assert len(data) == entry.file_size
            assert encode_hash_index(hashes) == data
            seen += 1
    assert seen > 5


def test_hash_index_of_known_bytes() -> None:
    assert encode_hash_index(np.array([1, -2], dtype=np.int32)) == bytes.fromhex("00000001fffffffe")
    assert decode_hash_index(b"").tolist() == []
    with pytest.raises(CorruptTableError, match="index/x"):
        decode_hash_index(b"\0\0\0\1\2", path="index/x")


def test_golden_statistics(golden: Path) -> None:
    files = list(golden.glob("*/table/statistics/*"))
    assert files
    for file in files:
        statistics = Statistics.from_json(file.read_bytes(), path=str(file))
        assert statistics.to_json().encode() == file.read_bytes()
        assert statistics.col_stats


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"snapshotId": 1}',
        '{"snapshotId": "x", "schemaId": 0}',
        '{"snapshotId":1,"schemaId":0,"colStats":[]}',
    ],
)
def test_damaged_statistics(text: str) -> None:
    with pytest.raises(CorruptTableError, match="statistics/f"):
        Statistics.from_json(text, path="statistics/f")
