"""Names of partition directories: equal to Java's, and back."""

import struct
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.avro_codec import decode_manifest
from paimon_spark.spec.binary_row import deserialize_row
from paimon_spark.spec.file_names import (
    FileNameSequence,
    bucket_name,
    check_file_name,
    data_file_extension,
    data_file_format,
    numbered_name_id,
)
from paimon_spark.spec.java_text import (
    DEFAULT_PARTITION_NAME,
    double_text,
    escape_path_name,
    float_text,
    partition_path,
    partition_value_text,
    unescape_path_name,
)
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.type_parser import parse_type

PARTITIONED = (
    *("append_bucketed_partitioned", "append_partitioned_legacy", "append_partitioned_plain"),
    *("append_partitioned_types_plain", "pk_cross_partition_dedup", "pk_dedup_partitioned"),
)


@pytest.mark.parametrize("name", PARTITIONED)
def test_golden_directories(golden: Path, name: str) -> None:
    table = golden / name / "table"
    schema = TableSchema.from_json((table / "schema" / "schema-0").read_bytes())
    options = schema.core_options
    types = [f.type for f in schema.partition_fields]
    assert types
    paths = set()
    for manifest in table.glob("manifest/manifest-*-*"):
        if manifest.name.startswith("manifest-list"):
            continue
        for entry in decode_manifest(manifest.read_bytes()):
            values = deserialize_row(entry.partition, types)
            path = partition_path(
                schema.partition_keys,
                types,
                values,
                legacy=options.partition_legacy_name,
                default_name=options.value("partition.default-name"),
            )
            paths.add(path)
            assert (table / path).is_dir(), path
    on_disk = {f"{f.parent.relative_to(table).as_posix()}/" for f in table.rglob("bucket-*")}
    assert paths == on_disk


# Numbers of few digits: Java before 19 writes some others with a digit more than needed (see `double_text`).
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [0, -128],
    "SMALLINT": [1, -32768],
    "INT": [1, -(2**31)],
    "BIGINT": [2**63 - 1],
    "FLOAT": [
        0.0,
        -0.0,
        1.5,
        0.1,
        1e10,
        3.4e38,
        1e-3,
        9.99e-4,
        1e7,
        9999999.0,
        float("nan"),
        float("-inf"),
    ],
    "DOUBLE": [0.1, 1e300, 123456789.0, 1e-3, 5e-5, 1e7, 9999999.999, -2.5, float("inf"), 1 / 3],
    "DECIMAL(10, 2)": [Decimal("1.50"), Decimal("-0.01"), Decimal("0.00")],
    "DECIMAL(38, 18)": [Decimal("0.000000000000000001"), Decimal("-12345678901234567890.000000000000000001")],
    "STRING": [
        "x",
        "",
        " ",
        "\t\u2003",
        "\u00a0",
        "a/b",
        "a=b",
        "%41",
        "äöü𝄞",
        "a b",
        "{}[]^",
        "#?:*'\"\\",
        "\x01\x7f",
        "null",
    ],
    "CHAR(3)": ["abc"],
    "DATE": [date(2024, 2, 29), date(1969, 12, 31), date(1, 1, 1)],
    "TIME(0)": [time(0), time(23, 59, 59, 999000)],
    "TIME(3)": [time(12, 30, 1, 120000), time(1)],
    "TIMESTAMP(0)": [datetime(2024, 1, 1), datetime(1969, 12, 31, 23, 59, 59)],
    "TIMESTAMP(3)": [datetime(2024, 1, 1, 0, 0, 1), datetime(2024, 1, 1, 12, 0, 0, 120000)],
    "TIMESTAMP(6)": [
        datetime(2024, 1, 1, 0, 0, 0, 1),
        datetime(2024, 1, 1, 12, 34),
        datetime(1900, 1, 1, 1, 1, 1, 123456),
    ],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [datetime(2024, 1, 1, 0, 0, 0, 5, tzinfo=UTC)],
}


@pytest.mark.oracle
@pytest.mark.parametrize("legacy", [True, False])
def test_java_names(oracle: Any, legacy: bool) -> None:
    """One table per type with a row per value; Java's directories are ours."""
    for number, (text, values) in enumerate(VALUES.items()):
        data_type = parse_type(text)
        name = f"db.part_{number}_{legacy}"
        options = {"partition.legacy-name": str(legacy).lower(), "file.format": "avro"}
        oracle.create(name, [("id", "INT"), ("p", text)], partition=["p"], options=options)
        column = pa.array([*values, None], to_arrow_type(data_type))
        oracle.write(name, pa.table({"id": pa.array(range(len(column)), pa.int32()), "p": column}))
        java = {path.split("/")[-3] for path in oracle_paths(oracle, name)}
        ours = {
            partition_path(["p"], [data_type], [value], legacy=legacy, time_zone=UTC).rstrip("/")
            for value in [*column.to_pylist()]
        }
        assert ours == java, text


def oracle_paths(oracle: Any, name: str) -> list[str]:
    return [row["file_path"] for row in oracle.read(f"{name}$files", columns=["file_path"]).to_pylist()]


@given(st.text(st.characters(codec="utf-8")))
def test_escape_round_trip(text: str) -> None:
    escaped = escape_path_name(text)
    assert unescape_path_name(escaped) == text
    assert not set(escaped) & set("\"#'*/:=?\\{}[]^\x00\x1f\x7f")


@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"))),
        min_size=1,
        unique_by=lambda x: x[0],
    )
)
def test_path_round_trip(parts: list[tuple[str, str]]) -> None:
    keys = [key for key, _ in parts]
    string = parse_type("STRING")
    path = partition_path(keys, [string] * len(keys), [value for _, value in parts], legacy=True)
    assert path.count("/") == len(keys)
    for part, (key, value) in zip(path.split("/"), parts, strict=False):
        name, _, text = part.partition("=")
        assert unescape_path_name(name) == key
        assert unescape_path_name(text) in (value, DEFAULT_PARTITION_NAME)
        assert (unescape_path_name(text) == DEFAULT_PARTITION_NAME) == (
            partition_value_text(value, string, legacy=True) == DEFAULT_PARTITION_NAME
        )


def test_unescape_leaves_what_is_no_escape() -> None:
    assert unescape_path_name("100%") == "100%"
    assert unescape_path_name("%zz%4") == "%zz%4"
    assert unescape_path_name("%2f%2F") == "//"


@given(st.floats())
def test_double_text_is_exact_and_shaped_like_java(value: float) -> None:
    text = double_text(value)
    if value == value and abs(value) != float("inf"):
        assert struct.pack("<d", float(text)) == struct.pack("<d", value)
        assert "." in text
        assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)


@given(st.floats(width=32))
def test_float_text_is_exact(value: float) -> None:
    text = float_text(value)
    if value == value and abs(value) != float("inf"):
        assert struct.unpack("<f", struct.pack("<f", float(text)))[0] == value


def test_local_zone_of_plain_names() -> None:
    data_type = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    value = datetime(2024, 1, 1, tzinfo=UTC)
    zone = timezone(timedelta(hours=2))
    assert partition_value_text(value, data_type, legacy=False, time_zone=zone) == "2024-01-01 02:00:00.000"
    assert partition_value_text(value, data_type, legacy=True, time_zone=zone) == "2024-01-01T00:00"
    nanos = parse_type("TIMESTAMP(9)")
    assert partition_value_text(1_000_000_001, nanos, legacy=True) == "1970-01-01T00:00:01.000000001"


def test_binary_partitions_have_no_stable_name() -> None:
    with pytest.raises(UnsupportedError):
        partition_value_text(b"x", parse_type("BYTES"), legacy=True)
    assert partition_value_text(b"x", parse_type("BYTES"), legacy=False) == "x"


def test_file_names() -> None:
    assert data_file_format("data-u-0.parquet") == "parquet"
    assert data_file_format("data-u-0.zst.parquet") == "parquet"
    assert data_file_format("data-u-0.csv.gz") == "csv"
    assert data_file_extension("parquet", "zstd") == ".parquet"
    assert data_file_extension("parquet", "zstd", include_compression=True) == ".zst.parquet"
    assert data_file_extension("csv", "gzip") == ".csv.gz"
    assert data_file_extension("avro", "none", include_compression=True) == ".avro"
    with pytest.raises(CorruptTableError):
        data_file_format("data")
    assert bucket_name(3) == "bucket-3"
    assert bucket_name(-2) == "bucket-postpone"
    assert numbered_name_id("snapshot-12", "snapshot-") == 12
    assert [
        numbered_name_id(name, "snapshot-") for name in ("snapshot-", "snapshot-x", "LATEST", "snapshot-\u0663")
    ] == [None] * 4
    names = FileNameSequence.start("data-", ".parquet")
    first, second = names.next(), names.next()
    assert first.removesuffix("-0.parquet") == second.removesuffix("-1.parquet")
    assert FileNameSequence.start("data-").next() != FileNameSequence.start("data-").next()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\\b", "a\0"])
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(CorruptTableError):
        check_file_name(name)
