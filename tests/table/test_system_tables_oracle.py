"""System tables without golden rows, and those of a catalog, give the rows that Java gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE_TABLES, FilesystemCatalog
from paimon_spark.table.system.registry import GLOBAL_TABLES, SYSTEM_TABLES
from paimon_spark.table.table import load_table

DAY = 19723
TWO_BRANCHES = ("sysb.falls_back", "sysb.other_first")


@pytest.fixture(scope="module")
def warehouse(oracle: Any) -> Iterator[str]:
    """Tables with and without keys and partitions, odd texts among their values."""
    columns = [("k", "INT NOT NULL"), ("dt", "DATE NOT NULL"), ("s", "STRING NOT NULL")]
    oracle.create("sysa.t", columns, pk=["k", "dt", "s"], partition=["dt", "s"], options={"bucket": "2", "owner": "me"})
    oracle.create("sysa.plain", [("k", "INT"), ("v", "STRING")])
    oracle.create(
        "sysb.days", [("k", "INT"), ("dt", "DATE")], partition=["dt"], options={"partition.legacy-name": "false"}
    )
    oracle.write("sysa.t", [(1, DAY, "a/b c"), (2, DAY + 1, "x=y"), (3, DAY + 1, " ")])
    oracle.write("sysa.t", [(1, DAY, "a/b c"), (9, DAY, "a/b c")])
    oracle.write("sysa.plain", [(1, "x")])
    oracle.write("sysb.days", [(1, DAY), (2, None)])
    for name, option in (("sysb.falls_back", "scan.fallback-branch"), ("sysb.other_first", "scan.primary-branch")):
        _two_branches(oracle, name, option)
    yield oracle.location("sysa.t").removeprefix("file:").rsplit("/", 2)[0]
    for name in ("sysa.t", "sysa.plain", "sysb.days", *TWO_BRANCHES):
        oracle.drop(name)


def _two_branches(oracle: Any, name: str, option: str) -> None:
    """A table that reads branch b too: partition 1 in both, 3 first in its own and then in both, 2 and 4 in b alone."""
    columns = [("k", "INT NOT NULL"), ("v", "STRING"), ("dt", "STRING NOT NULL")]
    oracle.create(name, columns, pk=["dt", "k"], partition=["dt"], options={"bucket": "1"})
    oracle.create_branch(name, "b")
    oracle.write(f"{name}$branch_b", [(1, "b1", "1"), (2, "b2", "2")])
    oracle.write(name, [(1, "m1", "1")])
    oracle.write(name, [(1, "m1x", "1"), (3, "m3", "3")])
    oracle.write(f"{name}$branch_b", [(1, "b3", "3"), (4, "b4", "4")])
    oracle.alter(name, ("set", option, "b"))


def row_counts(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.parametrize("name", GLOBAL_TABLES)
def test_tables_of_a_catalog(oracle: Any, warehouse: str, name: str) -> None:
    ours, java = GLOBAL_TABLES[name].read(FilesystemCatalog(warehouse)), oracle.read(f"sys.{name}")
    mine = {"sysa", "sysb"}
    if "database_name" in ours.schema.names:  # other tests share the warehouse
        ours, java = (
            pa.Table.from_pylist([row for row in rows.to_pylist() if row["database_name"] in mine], rows.schema)
            for rows in (ours, java)
        )
    assert ours.schema.names == java.schema.names
    assert [(field.type, field.nullable) for field in ours.schema] == [
        (field.type, field.nullable) for field in java.schema
    ]
    assert ours.num_rows > 0
    assert row_counts(ours) == row_counts(java)


@pytest.mark.parametrize("table", ["sysa.t", "sysa.plain", "sysb.days"])
@pytest.mark.parametrize("name", ["file_key_ranges", "files", "partitions", "buckets", "aggregation_fields"])
def test_tables_of_a_table(oracle: Any, warehouse: str, table: str, name: str) -> None:
    ours = SYSTEM_TABLES[name].read(load_table(f"{warehouse}/{table.replace('.', '.db/')}"))
    java = oracle.read(f"{table}${name}")
    assert set(java.schema.names) <= set(ours.schema.names)
    assert row_counts(ours.select(java.schema.names)) == row_counts(java)


@pytest.mark.parametrize("options", [{}, {"scan.snapshot-id": "1"}], ids=["latest", "earlier"])
@pytest.mark.parametrize("table", TWO_BRANCHES)
@pytest.mark.parametrize(
    "name", ["files", "file_key_ranges", "partitions", "buckets", "manifests", "snapshots", "table_indexes", "tags"]
)
def test_tables_of_a_table_that_reads_two_branches(
    oracle: Any, warehouse: str, table: str, name: str, options: dict[str, str]
) -> None:
    ours = SYSTEM_TABLES[name].read(load_table(f"{warehouse}/{table.replace('.', '.db/')}", options=options))
    java = oracle.read(f"{table}${name}", options={} if name == "buckets" else options)  # which does not travel in 1.4
    if name == "buckets" and options:
        assert ours["partition"].to_pylist() == ["{1}"]
        return
    assert row_counts(ours.select(java.schema.names)) == row_counts(java)
    if name == "partitions":
        listed = ["dt=1", "dt=2"] if options else ["dt=1", "dt=2", "dt=3", "dt=4"]
        assert ours["partition"].to_pylist() == listed


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    options = {"s3.access-key": "AKIA", "s3.secret-key": "hush", "s3.endpoint": "https://store"}
    rows = GLOBAL_TABLES["catalog_options"].read(FilesystemCatalog(str(tmp_path), options)).to_pylist()
    assert {row["key"]: row["value"] for row in rows} == {
        "warehouse": str(tmp_path),
        "s3.access-key": "******",
        "s3.secret-key": "******",
        "s3.endpoint": "https://store",
    }


def test_the_catalog_lists_them() -> None:
    assert sorted(SYSTEM_DATABASE_TABLES) == sorted(GLOBAL_TABLES)
