"""BinaryRow bytes, hashes and buckets of the golden cases, by the scalar and the column encoder."""

from __future__ import annotations

import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row import decode_row, encode_row
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.binary_row_encoder import encode_rows
from paimon_spark.spec.data_types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    RowType,
    VarBinaryType,
)
from paimon_spark.spec.hashing import bucket_ids, key_hashes, murmur_hash_rows
from paimon_spark.spec.type_parser import parse_type_sql


@pytest.fixture(scope="module")
def cases(golden: Path) -> list[tuple[dict[str, Any], list[DataType]]]:
    loaded = json.loads((golden / "hashing" / "cases.json").read_text())
    assert len(loaded) == 120
    return [(case, [parse_type_sql(t) for t in case["types"]]) for case in loaded]


def plain(value: Any, data_type: DataType) -> Any:
    """The value of a case as the encoders take it: temporals stay integers."""
    if value is None:
        return None
    if isinstance(data_type, DecimalType):
        return decimal.Decimal(value)
    if isinstance(data_type, FloatType | DoubleType):
        return float(value)
    if isinstance(data_type, BinaryType | VarBinaryType):
        return bytes.fromhex(value)
    if isinstance(data_type, ArrayType):
        return [plain(v, data_type.element) for v in value]
    if isinstance(data_type, MapType):
        return [(plain(k, data_type.key), plain(v, data_type.value)) for k, v in value]
    if isinstance(data_type, RowType):
        return {f.name: plain(value[f.name], f.type) for f in data_type.fields}
    return value


def test_bytes_of_both_encoders_and_hash(cases: list[tuple[dict[str, Any], list[DataType]]]) -> None:
    for case, types in cases:
        values = [plain(v, t) for v, t in zip(case["values"], types, strict=True)]
        columns = [pa.array([v], to_arrow_type(t)) for v, t in zip(values, types, strict=True)]
        assert encode_row(values, types).hex() == case["row"], case
        rows = encode_rows(columns, types)
        assert rows.row(0).hex() == case["row"], case
        assert murmur_hash_rows(rows).tolist() == [case["hash"]], case
        assert bucket_ids(columns, types, 7).tolist() == [case["bucket_of_7"]], case


def test_decoders_give_the_row_back(cases: list[tuple[dict[str, Any], list[DataType]]]) -> None:
    for case, types in cases:
        row = bytes.fromhex(case["row"])
        assert encode_row(decode_row(row, types), types) == row, case
        assert encode_rows(decode_rows([row, row], types), types).to_bytes_list() == [row, row], case


def test_mod_buckets(cases: list[tuple[dict[str, Any], list[DataType]]]) -> None:
    seen = 0
    for case, types in cases:
        columns = [pa.array([plain(v, t)], to_arrow_type(t)) for v, t in zip(case["values"], types, strict=True)]
        if "bucket_of_7_mod" in case:
            assert bucket_ids(columns, types, 7, "mod").tolist() == [case["bucket_of_7_mod"]], case
            seen += 1
        elif [t.sql() for t in types] not in (["INT"], ["BIGINT"]):
            with pytest.raises(OptionError, match="mod bucket function"):
                bucket_ids(columns, types, 7, "mod")
    assert seen > 10


def test_hive_buckets(cases: list[tuple[dict[str, Any], list[DataType]]]) -> None:
    seen = 0
    for case, types in cases:
        columns = [pa.array([plain(v, t)], to_arrow_type(t)) for v, t in zip(case["values"], types, strict=True)]
        if "hive_error" in case:
            with pytest.raises(UnsupportedError, match="Unsupported type as bucket key type"):
                bucket_ids(columns, types, 7, "hive")
        elif "TIMESTAMP" not in str(case["types"]):  # we refuse the type, Java only its values that are not null
            assert bucket_ids(columns, types, 7, "hive").tolist() == [case["bucket_of_7_hive"]], case
            seen += 1
    assert seen > 80


def test_many_rows_are_hashed_as_single_ones(cases: list[tuple[dict[str, Any], list[DataType]]]) -> None:
    """Cases of the same types in one call, repeated over the internal chunk size."""
    groups: dict[str, list[tuple[dict[str, Any], list[DataType]]]] = {}
    for case, types in cases:
        groups.setdefault(str(case["types"]), []).append((case, types))
    for members in groups.values():
        types = members[0][1]
        columns = [
            pa.array([plain(case["values"][i], t) for case, _ in members], to_arrow_type(t))
            for i, t in enumerate(types)
        ]
        expected = [case["hash"] for case, _ in members]
        repeat = 40_000 // len(members) if len(members) > 5 and "<" not in str(members[0][0]["types"]) else 1
        chunked = [pa.chunked_array([c] * repeat) for c in columns]
        assert np.array_equal(key_hashes(chunked, types), np.tile(np.array(expected, dtype=np.int32), repeat))
