"""A Hive metastore shared with Java's Hive catalog: both store the same and hold the same lock."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conftest import absent
from paimon_spark.arrow.table import open_table
from paimon_spark.errors import SchemaError
from paimon_spark.metastore.hive import HiveMetastore
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.metastore_catalog import MetastoreCatalog, open_catalog
from paimon_spark.table.schema_change import AddColumn, DropColumn, RemoveOption, SetOption
from paimon_spark.table.schema_evolution import alter_table
from tests.support.hive_server import HiveServer, java_catalog
from tests.support.java_race import check_race
from tests.support.store_tables import FIELDS, insert, rows_of

SCHEMA = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1", "commit.max-retries": "500"})
TYPES = {
    "k": "INT NOT NULL",
    "bo": "BOOLEAN",
    "ti": "TINYINT",
    "sm": "SMALLINT",
    "bi": "BIGINT",
    "fl": "FLOAT",
    "do": "DOUBLE",
    "de": "DECIMAL(12, 3)",
    "ch": "CHAR(7)",
    "lc": "CHAR(300)",
    "vc": "VARCHAR(7)",
    "lv": "VARCHAR(70000)",
    "st": "STRING",
    "bn": "BINARY(3)",
    "vb": "BYTES",
    "da": "DATE",
    "tm": "TIME(3)",
    "ts": "TIMESTAMP(6)",
    "ar": "ARRAY<ROW<a INT, b MAP<STRING, DECIMAL(10, 2)>>>",
    "mu": "MULTISET<STRING>",
}
VARYING = ("createTime", "lastAccessTime")
OF_HIVE = ("transient_lastDdlTime", "last_modified_time", "last_modified_by", "numFiles", "totalSize")
"""What the metastore adds."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def options(hive: HiveServer) -> dict[str, str]:
    return {"metastore": "hive", "uri": hive.uri, "lock.enabled": "true", "lock-check-max-sleep": "100 ms"}


@pytest.fixture(scope="module")
def java(warehouse: Path, options: dict[str, str]) -> Iterator[Any]:
    """Java's catalog over the same warehouse."""
    from tests.oracle.paimon_oracle import PaimonOracle

    try:
        bundle, jars = java_catalog()
        opened = PaimonOracle(
            str(warehouse), version="1.2.0", bundle=bundle, jars=jars, options={**options, "cache-enabled": "false"}
        )
    except (OSError, RuntimeError) as error:
        absent(f"Java's Hive catalog ({' '.join(str(error).split())[:200]})")
    with opened:
        yield opened


@pytest.fixture(scope="module")
def ours(warehouse: Path, options: dict[str, str]) -> Iterator[MetastoreCatalog]:
    found = open_catalog(str(warehouse), options)
    assert isinstance(found, MetastoreCatalog)
    yield found
    for name in found.databases():
        if name != "default":
            found.drop_database(name, cascade=True)


def _record(catalog: MetastoreCatalog, database: str, table: str) -> dict[str, Any]:
    """The fields of a table's record, but for names, times and what the metastore adds."""
    assert isinstance(catalog.metastore, HiveMetastore)
    found = catalog.metastore.table(database, table)
    shown: dict[str, Any] = eval(repr(found), dict.fromkeys(_RECORDS, dict))
    for key in VARYING:
        assert shown.pop(key) > 0
    for key in OF_HIVE:
        shown["parameters"].pop(key, None)
    shown["sd"]["location"] = shown["sd"]["location"].replace(table, "<name>")
    shown["tableName"] = "<name>"
    if "path" in shown["parameters"]:
        shown["parameters"]["path"] = shown["parameters"]["path"].replace(table, "<name>")
    return shown


_RECORDS = ("Table", "Partition", "StorageDescriptor", "FieldSchema", "SerDeInfo", "SkewedInfo")


def test_both_store_the_same(java: Any, ours: MetastoreCatalog, tmp_path: Path) -> None:
    columns = [
        DataField(number, name, parse_type(text), "of a column" if name == "st" else None)
        for number, (name, text) in enumerate(TYPES.items())
    ]
    kinds: dict[str, dict[str, str]] = {
        "plain": {"bucket": "2", "file.format": "orc"},
        "known": {"bucket": "2", "metastore.partitioned-table": "true"},
        "outside": {"bucket": "1", "path": ""},
    }
    for kind, given in kinds.items():
        keys, partition = ["k", "vc"], [] if kind == "outside" else ["vc"]
        for who in ("java", "ours"):
            table = f"{kind}_{who}"
            stored = {**given, "path": f"{tmp_path}/{table}"} if "path" in given else given
            if who == "java":
                typed = list(TYPES.items())
                java.create(f"s.{table}", typed, pk=keys, partition=partition, options=stored, comment="a table")
                java.alter(f"s.{table}", ("comment", "st", columns[12].description))
                java.alter(f"s.{table}", ("set", "snapshot.num-retained.min", "7"), ("drop", "mu"))
                java.alter(f"s.{table}", ("unset", "snapshot.num-retained.min"), ("add", "n", "INT"))
            else:
                schema = create_schema(columns, keys, partition, stored, "a table")
                ours.create_table("s", table, schema)
                alter_table(
                    ours.load_table("s", table), [SetOption("snapshot.num-retained.min", "7"), DropColumn(("mu",))]
                )
                changes = [RemoveOption("snapshot.num-retained.min"), AddColumn(("n",), IntType())]
                alter_table(ours.load_table("s", table), changes)
        assert _record(ours, "s", f"{kind}_ours") == _record(ours, "s", f"{kind}_java"), kind
        assert java.arrow_schema(f"s.{kind}_ours") == java.arrow_schema(f"s.{kind}_java")
    java.drop("s.outside_ours")
    assert (tmp_path / "outside_ours/schema/schema-0").exists()
    ours.drop_table("s", "outside_java")
    assert (tmp_path / "outside_java/schema/schema-0").exists()


def _partitions(catalog: MetastoreCatalog, table: str) -> list[dict[str, Any]]:
    assert isinstance(catalog.metastore, HiveMetastore)
    found = catalog.metastore.client.call("get_partitions", "s", table, -1)
    shown: list[dict[str, Any]] = [eval(repr(each), dict.fromkeys(_RECORDS, dict)) for each in found]
    for each in shown:
        assert each.pop("tableName") == table
        assert each.pop("createTime") > 0
        assert each.pop("lastAccessTime") > 0
        each["sd"]["location"] = each["sd"]["location"].replace(f"/{table}/", "/<name>/")
        for key in OF_HIVE:
            each["parameters"].pop(key, None)
    return shown


def test_both_show_the_metastore_of_partitions(java: Any, ours: MetastoreCatalog, options: dict[str, str]) -> None:
    stored = {"bucket": "-1", "metastore.partitioned-table": "true"}
    rows = [("a", dt.date(2026, 1, 2), 1), ("b/c", None, 2), (None, dt.date(1969, 1, 2), 3)]
    java.create("s.pj", [("p", "STRING"), ("d", "DATE"), ("v", "INT")], partition=["p", "d"], options=stored)
    fields = [DataField(0, "p", parse_type("STRING")), DataField(1, "d", parse_type("DATE"))]
    fields.append(DataField(2, "v", IntType()))
    ours.create_table("s", "po", create_schema(fields, partition_keys=["p", "d"], options=stored))
    java.write("s.pj", rows)
    columns = [pa.array([row[number] for row in rows]) for number in range(2)]
    columns.append(pa.array([row[2] for row in rows], pa.int32()))
    open_table("s.po", catalog=ours.warehouse, **options).append(pa.table(columns, names=["p", "d", "v"]))
    assert len(_partitions(ours, "po")) == 3
    assert _partitions(ours, "po") == _partitions(ours, "pj")


def test_java_reads_and_changes_what_we_make(java: Any, ours: MetastoreCatalog) -> None:
    ours.create_database("o", ignore_if_exists=True, properties={"comment": "ours"})
    insert(ours.create_table("o", "ours", SCHEMA), {1: 10, 2: 20})
    assert java.rows("o.ours") == [(1, 10), (2, 20)]
    java.write("o.ours", [(2, 21), (3, 30)])
    assert rows_of(ours.load_table("o", "ours")) == {1: 10, 2: 21, 3: 30}
    java.alter("o.ours", ("add", "w", "INT"))
    alter_table(ours.load_table("o", "ours"), [SetOption("snapshot.num-retained.min", "7")])
    assert java.describe("o.ours")["options"]["snapshot.num-retained.min"] == "7"
    ours.rename_table("o", "ours", "o", "renamed")
    assert java.rows("o.renamed")[0] == (1, 10, None)
    java.drop("o.renamed")
    assert ours.tables("o") == []
    assert not Path(ours.table_path("o", "renamed")).exists()


def test_we_read_and_change_what_java_makes(java: Any, ours: MetastoreCatalog) -> None:
    java.create("o.theirs", [("k", "INT NOT NULL"), ("v", "INT")], pk=["k"], options={"bucket": "1"})
    java.write("o.theirs", [(1, 10)])
    assert ours.tables("o") == ["theirs"]
    insert(ours.load_table("o", "theirs"), {2: 20})
    assert java.rows("o.theirs") == [(1, 10), (2, 20)]
    with pytest.raises(SchemaError):
        ours.create_table("o", "theirs", SCHEMA)
    with pytest.raises(Exception, match="already exist"):
        java.create("o.theirs", [("k", "INT")])
    ours.rename_table("o", "theirs", "o", "moved")
    assert java.rows("o.moved") == [(1, 10), (2, 20)]
    ours.drop_table("o", "moved")
    with pytest.raises(Exception, match="does not exist"):
        java.rows("o.moved")


def test_ours_and_javas_commits_race_and_none_is_lost(java: Any, ours: MetastoreCatalog) -> None:
    ours.create_database("r", ignore_if_exists=True)
    ours.create_table("r", "t", SCHEMA)
    check_race(java, ours, "r", "t", turns=6)


def test_java_waits_for_the_lock_that_we_hold(java: Any, ours: MetastoreCatalog) -> None:
    ours.create_database("r", ignore_if_exists=True)
    table = ours.create_table("r", "held", SCHEMA)
    publisher = table.file_io.publisher
    assert publisher is not None
    written = threading.Event()

    def write() -> None:
        java.write("r.held", [(1, 10)])
        written.set()

    thread = threading.Thread(target=write)
    with publisher.locked(""):
        thread.start()
        assert not written.wait(1.5)
        assert rows_of(table) == {}
    thread.join(60)
    assert written.is_set()
    assert rows_of(ours.load_table("r", "held")) == {1: 10}
