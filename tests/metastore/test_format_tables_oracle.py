"""Format tables that Java's REST catalog made, and ours as Java reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest

from paimon_spark.errors import CatalogServerError, UnsupportedError
from paimon_spark.spec.data_types import DataField, DateType, IntType, VarCharType
from paimon_spark.spec.schema import is_format_table
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.format_table import FormatTable, format_schema
from paimon_spark.table.metastore_catalog import open_catalog
from tests.support.rest_server import RestServer, java_of_rest, rest_database, rest_proxy

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


@pytest.mark.parametrize("status", [404, 405, 501, 500])
def test_a_server_that_registers_no_partitions_keeps_the_table_as_it_is(
    rest: RestServer, ours: FilesystemCatalog, status: int
) -> None:
    options = {"metastore.partitioned-table": "true"}
    ours.create_table("q", "kept", format_schema(FIELDS, options, format_name="csv", partition_keys=["d"]))

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        return (status, b"{}") if method == "POST" and path.endswith("/partitions") else pass_on()

    with rest_proxy(rest) as proxy:
        table = FormatTable.of(open_catalog("wh", rest.options(proxy.uri)).load_table("q", "kept"))
        place = f"{table.path}/.staged/d=2026-01-01"
        table.file_io.mkdirs(place)
        table.file_io.write_bytes(f"{place}/part-0.csv", b"1,x\n")
        proxy.fault = fault
        known = status == 500
        words = rf"failed \(HTTP {status}\)" if known else rf"does not keep partitions of q\.kept \(HTTP {status}\)"
        with pytest.raises(CatalogServerError if known else UnsupportedError, match=words):
            table.take_in(f"{table.path}/.staged", None)
        assert table.files() == []
        assert table.partitions() == []
        proxy.fault = None
        proxy.taken()
        table.take_in(f"{table.path}/.staged", None)
        at = "databases/q/tables/kept/partitions"
        assert proxy.taken() == [f"GET {at}", f"POST {at}"]  # the first one for the names of dates
        assert [each.values for each in table.partitions()] == [(date(2026, 1, 1),)]


def test_a_format_that_spark_does_not_read() -> None:
    with pytest.raises(UnsupportedError, match=r"unsupported file format: mosaic. Supported formats: \[csv, json"):
        format_schema(FIELDS, {}, format_name="mosaic")
