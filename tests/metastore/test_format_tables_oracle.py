"""Format tables that Java's REST catalog made, and ours as Java reads them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.data_types import DataField, DateType, IntType, VarCharType
from paimon_spark.spec.schema import is_format_table
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.format_table import FormatTable, format_schema
from tests.support.rest_server import RestServer, java_of_rest, rest_database

FIELDS = (DataField(0, "k", IntType()), DataField(1, "v", VarCharType(VarCharType.MAX)), DataField(2, "d", DateType()))


@pytest.fixture(scope="module")
def java(rest: RestServer) -> Iterator[Any]:
    with java_of_rest(rest.options()) as opened:
        yield opened


@pytest.fixture
def ours(rest: RestServer) -> Iterator[FilesystemCatalog]:
    with rest_database(rest, "q") as found:
        yield found


@pytest.mark.parametrize("values_only", ["false", "true"])
def test_each_finds_the_partitions_of_the_other(java: Any, ours: FilesystemCatalog, values_only: str) -> None:
    layout = {"format-table.partition-path-only-value": values_only}
    java.create(
        "q.java",
        [("k", "INT"), ("v", "STRING"), ("d", "DATE")],
        partition=["d"],
        options={"type": "format-table", "file.format": "csv", **layout},
    )
    ours.create_table("q", "ours", format_schema(FIELDS, layout, format_name="csv", partition_keys=["d"]))
    for name in ("java", "ours"):
        described = java.describe(f"q.{name}")
        assert described["partition_keys"] == ["d"]
        assert described["options"]["file.format"] == "csv"
        opened = ours.load_table("q", name)
        assert is_format_table(opened.schema)
        table = FormatTable.of(opened)
        for number, folder in enumerate(("d=2026-01-01", "d=__HIVE_DEFAULT_PARTITION__")):
            table.file_io.mkdirs(f"{table.path}/.staged/{folder}")
            table.file_io.write_bytes(f"{table.path}/.staged/{folder}/part-{number}.csv", f"{number},x\n".encode())
        table.take_in(f"{table.path}/.staged", lambda _: [])
        assert [each.values for each in table.partitions()] == [(date(2026, 1, 1),), (None,)]
        null = [] if values_only == "true" else [(1, "x", None)]  # Java takes such a directory for a hidden one
        assert sorted(java.rows(f"q.{name}"), key=str) == [(0, "x", date(2026, 1, 1)), *null]


def test_a_format_that_spark_does_not_read() -> None:
    with pytest.raises(UnsupportedError, match=r"unsupported file format: mosaic. Supported formats: \[csv, json"):
        format_schema(FIELDS, {}, format_name="mosaic")
