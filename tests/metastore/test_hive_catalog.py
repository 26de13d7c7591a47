"""A catalog whose names are in Hive's metastore: what is in it, where its files lie, and whose lock commits hold."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.arrow.table import create_table, open_table
from paimon_spark.cli.main import main
from paimon_spark.errors import (
    CommitError,
    OptionError,
    PaimonError,
    SchemaError,
    TableBusyError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_spark.maintain.after_commit import mark_partitions_done
from paimon_spark.maintain.refs.branches import create_branch
from paimon_spark.maintain.row_level import delete_partitions
from paimon_spark.metastore.hive import HiveHome, HiveMetastore
from paimon_spark.spec.data_types import DataField, IntType, VarCharType
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.filesystem_catalog import FilesystemCatalog, check_catalog_options
from paimon_spark.table.metastore_catalog import MetastoreCatalog, open_catalog
from paimon_spark.table.new_schema import undo_create
from paimon_spark.table.schema_change import AddColumn, DropColumn, RemoveOption, SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import load_table, table_exists
from tests.support.hive_server import IS_HIVE_4, LOCK_SECONDS, HiveProxy, HiveServer, hive_proxy
from tests.support.store_tables import FIELDS, insert, rows_of

SCHEMA = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1"})
TRANSLATED = {"EXTERNAL": "TRUE", "TRANSLATED_TO_EXTERNAL": "TRUE", "external.table.purge": "TRUE"}
"""What Hive 4 adds to the record of a managed table, which it makes an external one."""


@pytest.fixture
def proxy(hive: HiveServer) -> Iterator[HiveProxy]:
    """A way to the metastore that can be broken."""
    with hive_proxy(hive) as found:
        yield found


@pytest.fixture
def options(proxy: HiveProxy) -> dict[str, str]:
    return {"metastore": "hive", "uri": proxy.uri}


@pytest.fixture
def catalog(tmp_path: Path, options: dict[str, str], proxy: HiveProxy) -> Iterator[MetastoreCatalog]:
    """A warehouse with the database d and its table t."""
    check_catalog_options(options)
    found = open_catalog(str(tmp_path / "wh"), options)
    assert isinstance(found, MetastoreCatalog)
    found.create_database("d")
    found.create_table("d", "t", SCHEMA)
    proxy.taken()
    yield found
    proxy.is_gone = False
    for name in found.databases():
        if name != "default":
            for table in [*found.tables(name), *found.metastore.views(name), *found.metastore.others(name)]:
                found.metastore.drop_table(name, table)
            found.metastore.drop_database(name)


def _metastore(catalog: MetastoreCatalog) -> HiveMetastore:
    assert isinstance(catalog.metastore, HiveMetastore)
    return catalog.metastore


def _record(catalog: MetastoreCatalog, table: str = "t") -> Any:
    return _metastore(catalog).table("d", table)


def test_names_are_those_of_the_metastore(catalog: MetastoreCatalog) -> None:
    FilesystemCatalog(catalog.warehouse).create_table("d", "alongside", SCHEMA)
    assert catalog.databases() == ["d", "default"]
    assert catalog.tables("d") == ["t"]
    assert not catalog.table_exists("d", "alongside")
    with pytest.raises(TableNotFoundError, match="metastore does not have it"):
        catalog.load_table("d", "alongside")
    assert not table_exists(catalog.table_path("d", "alongside"), options=catalog.options)
    with pytest.raises(SchemaError, match="a table already"):
        catalog.create_table("d", "alongside", SCHEMA)
    assert catalog.tables("d") == ["t"]
    assert catalog.repair("d") == ["d.alongside"]
    assert catalog.tables("d") == ["alongside", "t"]
    assert catalog.repair() == []


def test_what_the_metastore_has_of_a_table(catalog: MetastoreCatalog) -> None:
    found = _record(catalog)
    for of_hive in ("transient_lastDdlTime", "numFiles", "totalSize", *["numFilesErasureCoded"][: int(IS_HIVE_4)]):
        assert found.parameters.pop(of_hive).isdigit()
    assert found.parameters == {
        **(TRANSLATED if IS_HIVE_4 else {}),
        "table_type": "PAIMON",
        "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
        "bucket": "1",
        "primary-key": "k",
        "bucket-key": "k",
    }
    assert [(column.name, column.type) for column in found.sd.cols] == [("k", "int"), ("v", "int")]
    assert found.sd.location == f"file:{catalog.table_path('d', 't')}"
    assert found.sd.inputFormat == "org.apache.paimon.hive.mapred.PaimonInputFormat"
    assert found.sd.serdeInfo.serializationLib == "org.apache.paimon.hive.PaimonSerDe"
    assert (found.tableType, found.partitionKeys) == ("EXTERNAL_TABLE" if IS_HIVE_4 else "MANAGED_TABLE", [])


@pytest.mark.parametrize("left_out", ["", "TRANSLATED_TO_EXTERNAL", "external.table.purge"])
def test_a_managed_table_that_the_metastore_made_external_goes_with_its_files(
    catalog: MetastoreCatalog, left_out: str
) -> None:
    found = _record(catalog)
    found.tableType = "EXTERNAL_TABLE"
    found.parameters |= TRANSLATED
    found.parameters.pop(left_out, None)
    _metastore(catalog).client.call("alter_table", "d", "t", found)
    assert _record(catalog).tableType == "EXTERNAL_TABLE"
    catalog.drop_table("d", "t")
    assert Path(catalog.table_path("d", "t")).exists() == bool(left_out)


def test_a_renamed_table_keeps_its_rows_and_a_dropped_one_its_name_no_longer(catalog: MetastoreCatalog) -> None:
    insert(catalog.load_table("d", "t"), {1: 10})
    catalog.create_database("e")
    catalog.rename_table("d", "t", "e", "u")
    assert (catalog.tables("d"), catalog.tables("e")) == ([], ["u"])
    assert rows_of(catalog.load_table("e", "u")) == {1: 10}
    assert not Path(catalog.table_path("d", "t")).exists()
    catalog.create_table("e", "w", SCHEMA)
    with pytest.raises(SchemaError, match=r"e\.w already exists"):
        catalog.rename_table("e", "u", "e", "w")
    catalog.drop_table("e", "u")
    assert catalog.tables("e") == ["w"]
    assert not Path(catalog.table_path("e", "u")).exists()
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("e", "u")
    with pytest.raises(TableNotFoundError):
        catalog.rename_table("e", "u", "e", "x")
    catalog.create_table("e", "u", SCHEMA)


def test_databases_have_properties(catalog: MetastoreCatalog, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    catalog.create_database("e", properties={"comment": "c", "a": "1", "owner": "me", "location": elsewhere})
    catalog.alter_database("e", {"b": "2"}, ["a"])
    assert catalog.database_properties("e") == {"comment": "c", "b": "2", "owner": "me", "location": elsewhere}
    assert catalog.database_properties("nowhere") is None
    with pytest.raises(PaimonError, match="Database nowhere does not exist"):
        catalog.alter_database("nowhere", {"b": "2"}, [])
    table = catalog.create_table("e", "t", SCHEMA)
    assert table.path == f"{elsewhere}/t"
    assert table.address == catalog.table_path("e", "t")
    insert(load_table(table.address, options=catalog.options), {1: 10})
    assert rows_of(catalog.load_table("e", "t")) == {1: 10}
    assert table_exists(table.address, options=catalog.options)
    with pytest.raises(PaimonError, match="not empty"):
        catalog.drop_database("e")
    catalog.drop_database("e", cascade=True)
    assert catalog.databases() == ["d", "default"]
    assert not Path(elsewhere).exists()


def test_names_have_no_upper_case(catalog: MetastoreCatalog) -> None:
    insert(catalog.load_table("D", "T"), {1: 10})
    assert rows_of(catalog.load_table("d", "t")) == {1: 10}
    with pytest.raises(SchemaError, match="already exists"):
        catalog.create_table("d", "T", SCHEMA)
    catalog.create_table("d", "Upper", SCHEMA)
    assert catalog.tables("d") == ["t", "upper"]
    assert Path(catalog.table_path("d", "upper")).exists()


def test_tables_of_others_are_not_shown_and_not_touched(catalog: MetastoreCatalog) -> None:
    from pymetastore.hive_metastore import ttypes

    client = _metastore(catalog).client
    directory = f"{catalog.database_path('d')}/theirs"
    Path(directory).mkdir()
    sd = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("a", "int", None)],
        location=directory,
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serdeInfo=ttypes.SerDeInfo(),
    )
    of_hive = ttypes.Table(
        tableName="theirs", dbName="d", sd=sd, partitionKeys=[], parameters={}, tableType="MANAGED_TABLE"
    )
    client.call("create_table", of_hive)
    view = ttypes.Table(
        tableName="v",
        dbName="d",
        sd=ttypes.StorageDescriptor(cols=[ttypes.FieldSchema("a", "int", None)], serdeInfo=ttypes.SerDeInfo()),
        partitionKeys=[],
        parameters={},
        viewOriginalText="SELECT 1",
        viewExpandedText="SELECT 1",
        tableType="VIRTUAL_VIEW",
    )
    client.call("create_table", view)
    assert catalog.tables("d") == ["t"]
    assert not catalog.table_exists("d", "theirs")
    with pytest.raises(TableNotFoundError):
        catalog.load_table("d", "theirs")
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("d", "theirs")
    with pytest.raises(TableNotFoundError):
        catalog.rename_table("d", "theirs", "d", "x")
    with pytest.raises(SchemaError, match="not a paimon table"):
        catalog.create_table("d", "theirs", SCHEMA)
    with pytest.raises(SchemaError, match="a view has its name"):
        catalog.create_table("d", "v", SCHEMA)
    with pytest.raises(SchemaError, match="already exists"):
        catalog.rename_table("d", "t", "d", "theirs")
    with pytest.raises(PaimonError, match=r"no Paimon table: theirs\."):
        catalog.drop_database("d", cascade=True)
    assert catalog.tables("d") == ["t"]
    assert client.call("get_table", "d", "theirs").sd.location == f"file:{directory}"
    assert Path(directory).exists()


def test_an_external_table_leaves_its_files_and_is_taken_in_again(catalog: MetastoreCatalog, tmp_path: Path) -> None:
    directory = f"{tmp_path}/files/of_mine"
    external = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1", "path": directory})
    table = catalog.create_table("d", "x", external)
    assert table.path == directory
    insert(table, {1: 10})
    found = _record(catalog, "x")
    assert (found.tableType, found.parameters["EXTERNAL"]) == ("EXTERNAL_TABLE", "TRUE")
    catalog.rename_table("d", "x", "d", "y")
    assert rows_of(catalog.load_table("d", "y")) == {1: 10}
    catalog.drop_table("d", "y")
    assert rows_of(load_table(directory)) == {1: 10}
    for keys, bucket, message in ((["k"], "2", "'bucket' = '2', and 1"), (["k", "v"], "1", "other columns")):
        other = create_schema(FIELDS, primary_keys=keys, options={"bucket": bucket, "path": directory})
        with pytest.raises(SchemaError, match=message):
            catalog.create_table("d", "y", other)
    catalog.create_table("d", "y", external)
    assert rows_of(catalog.load_table("d", "y")) == {1: 10}


def test_options_are_copied_at_creation_and_after_changes(catalog: MetastoreCatalog) -> None:
    alter_table(catalog.load_table("d", "t"), [SetOption("snapshot.num-retained.min", "5")])
    assert _record(catalog).parameters["snapshot.num-retained.min"] == "5"
    alter_table(catalog.load_table("d", "t"), [RemoveOption("snapshot.num-retained.min")])
    assert "snapshot.num-retained.min" not in _record(catalog).parameters


def test_a_creation_that_is_undone_leaves_no_name(catalog: MetastoreCatalog, tmp_path: Path) -> None:
    catalog.create_table("d", "u", SCHEMA)
    undo_create(catalog.table_path("d", "u"), catalog.options)
    assert catalog.tables("d") == ["t"]
    catalog.create_table("d", "u", SCHEMA)
    external = create_schema(FIELDS, options={"path": f"{tmp_path}/there"})
    catalog.create_table("d", "x", external)
    catalog.drop_table("d", "x")
    catalog.create_table("d", "x", external)  # it was there before
    undo_create(catalog.table_path("d", "x"), catalog.options)
    assert catalog.tables("d") == ["t", "u"]
    assert Path(f"{tmp_path}/there/schema/schema-0").exists()


def test_a_table_that_travels_keeps_its_metastore(catalog: MetastoreCatalog) -> None:
    table = pickle.loads(pickle.dumps(catalog.load_table("d", "t")))
    assert table.file_io.publisher is not None
    assert table.with_latest_schema().file_io.publisher == table.file_io.publisher
    assert pickle.loads(pickle.dumps(catalog)).tables("d") == ["t"]
    assert load_table(catalog.table_path("d", "t")).file_io.publisher is None


def _asked(catalog: MetastoreCatalog, table: str = "t") -> int:
    """Take the lock of a table as a client that dies does; return its number."""
    from pymetastore.hive_metastore import ttypes

    part = ttypes.LockComponent(
        type=ttypes.LockType.EXCLUSIVE, level=ttypes.LockLevel.TABLE, dbname="d", tablename=table
    )
    request = ttypes.LockRequest(component=[part], user="dead", hostname="h")
    answer = _metastore(catalog).client.call("lock", request)
    assert answer.state == ttypes.LockState.ACQUIRED
    return int(answer.lockid)


def _locks(catalog: MetastoreCatalog) -> list[Any]:
    from pymetastore.hive_metastore import ttypes

    return list(_metastore(catalog).client.call("show_locks", ttypes.ShowLocksRequest(dbname="d")).locks or ())


@pytest.mark.parametrize("named_by", [{"metastore": "hive"}, {"metastore": "filesystem", "lock.type": "hive"}])
def test_a_commit_waits_for_the_lock_of_its_table(
    catalog: MetastoreCatalog, options: dict[str, str], named_by: dict[str, str]
) -> None:
    """Of the catalog, and of a directory that takes the catalog's lock."""
    hasty = {**options, "lock.enabled": "true", "lock-acquire-timeout": "1 s", "lock-check-max-sleep": "50 ms"}
    hasty |= named_by
    locking = open_catalog(catalog.warehouse, hasty)
    table = locking.load_table("d", "t")
    insert(table, {1: 10})
    assert _locks(catalog) == []
    number = _asked(catalog)
    with pytest.raises(PaimonError, match=r"lock d\.t of the catalog was held by others for 1 seconds"):
        insert(table, {2: 20})
    with pytest.raises(TableBusyError):
        alter_table(table, [SetOption("snapshot.num-retained.min", "5")])
    assert [each.lockid for each in _locks(catalog)] == [number]
    assert rows_of(locking.load_table("d", "t")) == {1: 10}
    patient = open_catalog(catalog.warehouse, {**hasty, "lock-acquire-timeout": "1 min"})
    insert(patient.load_table("d", "t"), {3: 30})  # the dead client's lock has timed out
    assert rows_of(locking.load_table("d", "t")) == {1: 10, 3: 30}
    assert _locks(catalog) == []


def test_a_lock_that_is_held_for_long_is_kept_alive(catalog: MetastoreCatalog, options: dict[str, str]) -> None:
    found = open_catalog(catalog.warehouse, {**options, "lock.enabled": "true"})
    assert isinstance(found, MetastoreCatalog)
    object.__setattr__(_metastore(found), "beat_seconds", 1.0)
    with found.metastore.locked("d", "t"):
        (before,) = _locks(catalog)
        time.sleep(LOCK_SECONDS + 2)
        (after,) = _locks(catalog)
        assert (after.lockid, after.state) == (before.lockid, before.state)
    assert _locks(catalog) == []


def test_four_writers_hold_the_lock_one_after_another(catalog: MetastoreCatalog, options: dict[str, str]) -> None:
    found = open_catalog(catalog.warehouse, {**options, "lock.enabled": "true", "lock-check-max-sleep": "50 ms"})
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(3):
                insert(found.load_table("d", "t").with_options({"commit.max-retries": "200"}), {10 * number + turn: 1})
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(rows_of(found.load_table("d", "t"))) == 12
    assert _locks(catalog) == []


def test_a_lost_answer_neither_loses_nor_doubles(
    catalog: MetastoreCatalog, options: dict[str, str], proxy: HiveProxy
) -> None:
    locking = open_catalog(catalog.warehouse, {**options, "lock.enabled": "true", "lock-acquire-timeout": "3 s"})
    for key, lost in enumerate(("get_table_req" if IS_HIVE_4 else "get_table", "lock", "unlock")):
        proxy.lost = lost
        insert(locking.load_table("d", "t"), {key: 1})
        assert proxy.lost is None
    assert rows_of(locking.load_table("d", "t")) == {0: 1, 1: 1, 2: 1}
    assert _locks(catalog) == []
    proxy.lost = "create_table"
    catalog.create_table("d", "u", SCHEMA)
    assert rows_of(catalog.load_table("d", "u")) == {}
    proxy.lost = "create_database"
    catalog.create_database("e")
    proxy.lost = "alter_table"
    catalog.rename_table("d", "t", "e", "t")
    assert rows_of(catalog.load_table("e", "t")) == {0: 1, 1: 1, 2: 1}
    proxy.lost = "drop_table"
    catalog.drop_table("d", "u")
    proxy.lost = "drop_database"
    catalog.drop_database("d")
    assert catalog.databases() == ["default", "e"]


@pytest.mark.skipif(IS_HIVE_4, reason="the server itself knows the newer calls alone")
def test_a_metastore_that_knows_newer_calls_alone(
    catalog: MetastoreCatalog, options: dict[str, str], proxy: HiveProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of Hive 4, which has dropped some; it is told so once."""
    from pymetastore.hive_metastore import ThriftHiveMetastore
    from thrift.Thrift import TApplicationException

    refused = []

    def unknown(_client: object, *_arguments: object) -> None:
        refused.append(1)
        raise TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name")

    for method in ("get_table", "get_table_objects_by_name"):
        monkeypatch.setattr(ThriftHiveMetastore.Client, method, unknown)
    insert(catalog.load_table("d", "t"), {1: 10})
    assert catalog.tables("d") == ["t"]
    assert rows_of(catalog.load_table("d", "t")) == {1: 10}
    assert not catalog.table_exists("d", "nothing")
    assert len(refused) == 1
    assert {"get_table_req", "get_table_objects_by_name_req"} <= set(proxy.taken())


def test_a_metastore_that_restarts_is_asked_again(catalog: MetastoreCatalog, proxy: HiveProxy) -> None:
    table = catalog.load_table("d", "t")
    proxy.cut()
    insert(catalog.load_table("d", "t"), {1: 10})
    proxy.cut()
    assert catalog.tables("d") == ["t"]
    assert rows_of(table.with_latest_schema()) == {1: 10}


def test_a_metastore_that_is_gone(
    catalog: MetastoreCatalog, options: dict[str, str], proxy: HiveProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_spark.metastore.hive_client._PAUSE_SECONDS", 0.01)
    locking = open_catalog(catalog.warehouse, {**options, "lock.enabled": "true"})
    table = locking.load_table("d", "t")
    insert(table, {1: 10})
    proxy.is_gone = True
    proxy.cut()
    with pytest.raises(CommitError, match=r"lock d\.t .* not got: The Hive metastore thrift://\S+ cannot"):
        insert(table, {2: 20})
    with pytest.raises(PaimonError, match="cannot be reached"):
        catalog.load_table("d", "t")
    proxy.is_gone = False
    assert rows_of(catalog.load_table("d", "t")) == {1: 10}
    away = open_catalog(catalog.warehouse, {**options, "uri": "thrift://127.0.0.1:1"})
    with pytest.raises(PaimonError, match=r"thrift://127\.0\.0\.1:1 cannot be reached.*'uri'"):
        away.tables("d")
    both = open_catalog(catalog.warehouse, {**options, "uri": f"thrift://127.0.0.1:1,{proxy.uri}"})
    assert both.tables("d") == ["t"]


def test_a_schema_that_the_metastore_does_not_take_is_not_made(
    catalog: MetastoreCatalog, proxy: HiveProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_spark.metastore.hive_client._PAUSE_SECONDS", 0.01)
    wide = [DataField(0, "a", IntType()), DataField(1, "b", VarCharType(9)), DataField(2, "c", IntType())]
    catalog.create_table("d", "w", create_schema(wide))
    table = catalog.load_table("d", "w")
    with pytest.raises(PaimonError, match=r"d\.w was not changed.*incompatible.*col\.type\.changes' = 'false'"):
        alter_table(table, [DropColumn(("b",))])
    assert catalog.load_table("d", "w").schema.id == 0
    proxy.is_gone = True
    proxy.cut()
    with pytest.raises(PaimonError, match=r"d\.w was not changed.*cannot be reached"):
        alter_table(table, [SetOption("snapshot.num-retained.min", "5")])
    proxy.is_gone = False
    assert catalog.load_table("d", "w").schema.id == 0
    alter_table(table, [DropColumn(("c",))])
    assert [column.name for column in _record(catalog, "w").sd.cols] == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, OptionError, "needs the option 'uri'"),
        ({"uri": "http://h:1"}, OptionError, "thrift://<host>:<port>"),
        ({"uri": "thrift://h:port"}, OptionError, "thrift://<host>:<port>"),
        ({"uri": "thrift://h", "hive.metastore.sasl.enabled": "true"}, OptionError, "needs the principal"),
        (
            {"uri": "thrift://h", "hive.metastore.thrift.framed.transport.enabled": "true"},
            UnsupportedError,
            "wants framed transport",
        ),
        ({"uri": "thrift://h", "metastore.client.class": "com.glue.Client"}, UnsupportedError, "a class of Java"),
        ({"hive-conf-dir": "/nowhere"}, OptionError, "has no hive-site.xml"),
        ({"uri": "thrift://h", "catalog-key": "k"}, UnsupportedError, "'metastore' = 'jdbc'"),
    ],
)
def test_options_that_lead_nowhere(
    tmp_path: Path, options: dict[str, str], kind: type[Exception], message: str
) -> None:
    def opened() -> FilesystemCatalog:
        check_catalog_options({"metastore": "hive", **options})
        return open_catalog(str(tmp_path), {"metastore": "hive", **options})

    with pytest.raises(kind, match=message):
        opened()


def test_hive_site(tmp_path: Path, hive: HiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def site(value: str) -> None:
        entry = f"<property><name>hive.metastore.uris</name><value>{value}</value></property>"
        (tmp_path / "hive-site.xml").write_text(f"<configuration>{entry}</configuration>")

    site(hive.uri)
    given = {"metastore": "hive", "hive-conf-dir": str(tmp_path), "client-pool-size": "5"}
    check_catalog_options(given)
    assert "default" in open_catalog(str(tmp_path / "wh"), given).databases()
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    assert "default" in open_catalog(str(tmp_path / "wh"), {"metastore": "hive"}).databases()
    site("thrift://127.0.0.1:1")
    assert "default" in open_catalog(str(tmp_path / "wh"), {"metastore": "hive", "uri": hive.uri}).databases()


def test_the_command_line_names_its_tables(
    catalog: MetastoreCatalog, options: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    insert(catalog.load_table("d", "t"), {1: 10})
    given = [word for key, text in options.items() for word in ("-o", f"{key}={text}")]
    assert main(["read", "d.t", "--warehouse", catalog.warehouse, "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out) == {"k": 1, "v": 10}
    assert main(["tags", "d.nothing", "--warehouse", catalog.warehouse, *given]) != 0


def test_arrow_tables_have_names(catalog: MetastoreCatalog, options: dict[str, str]) -> None:
    rows = pa.table({"k": pa.array([1, 2], pa.int32())})
    made = create_table("a.t", rows.schema, catalog=catalog.warehouse, **options)
    made.append(rows)
    assert catalog.tables("a") == ["t"]
    assert open_table("a.t", catalog=catalog.warehouse, **options).scan().to_arrow() == rows
    catalog.drop_table("a", "t")
    with pytest.raises(TableNotFoundError):
        open_table("a.t", catalog=catalog.warehouse, **options)


def test_locations_can_be_properties(catalog: MetastoreCatalog, options: dict[str, str], proxy: HiveProxy) -> None:
    """The metastore then needs no way to the store (`location-in-properties`)."""
    found = open_catalog(catalog.warehouse, {**options, "location-in-properties": "true", "table.type": "external"})
    assert isinstance(found, MetastoreCatalog)
    found.create_database("e")
    assert _metastore(found).client.call("get_database", "e").parameters["paimon_location"] == found.database_path("e")
    insert(found.create_table("e", "t", SCHEMA), {1: 10})
    record = _metastore(found).table("e", "t")
    assert (record.parameters["paimon_location"], record.tableType) == (found.table_path("e", "t"), "EXTERNAL_TABLE")
    assert rows_of(found.load_table("e", "t")) == {1: 10}
    found.drop_table("e", "t")
    assert rows_of(load_table(found.table_path("e", "t"))) == {1: 10}


@pytest.mark.parametrize("cascades", ["true", "false"])
def test_changes_of_columns_reach_partitions(catalog: MetastoreCatalog, options: dict[str, str], cascades: str) -> None:
    """Where the metastore knows them, unless `alter-table-cascade` is off."""
    from pymetastore.hive_metastore import ttypes

    found = open_catalog(catalog.warehouse, {**options, "alter-table-cascade": cascades})
    schema = create_schema(FIELDS, partition_keys=["k"], options={"metastore.partitioned-table": "true"})
    found.create_table("d", "p", schema)
    client = _metastore(catalog).client
    record = _record(catalog, "p")
    assert [column.name for column in record.partitionKeys] == ["k"]
    client.call("add_partition", ttypes.Partition(["1"], "d", "p", 0, 0, record.sd, {}))
    alter_table(found.load_table("d", "p"), [AddColumn(("w",), VarCharType(2**31 - 1), "a comment")])
    columns = [(each.name, each.type, each.comment) for each in _record(catalog, "p").sd.cols]
    assert columns == [("v", "int", None), ("w", "string", "a comment")]
    partition = client.call("get_partition", "d", "p", ["1"])
    assert [each.name for each in partition.sd.cols] == (["v", "w"] if cascades == "true" else ["v"])


def _partitions(catalog: MetastoreCatalog, table: str) -> dict[str, tuple[str, dict[str, str]]]:
    found = _metastore(catalog).client.call("get_partitions", "d", table, -1)
    return {",".join(each.values): (each.sd.location, each.parameters) for each in found}


def test_the_metastore_knows_partitions(catalog: MetastoreCatalog, proxy: HiveProxy) -> None:
    """Where the table's options say so: `metastore.partitioned-table`, `partition.idle-time-to-report-statistic`."""
    given = {"metastore.partitioned-table": "true", "partition.idle-time-to-report-statistic": "1 h", "bucket": "-1"}
    fields = [DataField(0, "p", VarCharType(9)), DataField(1, "v", IntType())]
    catalog.create_table("d", "p", create_schema(fields, partition_keys=["p"], options=given))
    proxy.taken()
    table = open_table("d.p", catalog=catalog.warehouse, **catalog.options)
    table.append(pa.table({"p": ["a", "b/c", None], "v": pa.array([1, 2, 3], pa.int32())}))
    directory = f"file:{catalog.table_path('d', 'p')}"
    known = _partitions(catalog, "p")
    assert {name: where for name, (where, _) in known.items()} == {
        "a": f"{directory}/p=a",
        "b/c": f"{directory}/p=b%2Fc",
        "__DEFAULT_PARTITION__": f"{directory}/p=__DEFAULT_PARTITION__",
    }
    table.append(pa.table({"p": ["a", "a"], "v": pa.array([4, 5], pa.int32())}))
    sums = _partitions(catalog, "p")["a"][1]
    assert (sums["numRows"], sums["numFiles"], sums["totalBuckets"]) == ("3", "2", "-1")
    assert int(sums["totalSize"]) > 100
    assert sums["lastUpdateTime"].isdigit()
    opened = catalog.load_table("d", "p").with_options({"partition.mark-done-action": "mark-event,done-partition"})
    assert mark_partitions_done(opened, [{"p": "b/c"}]) == []
    assert "b/c.done" in _partitions(catalog, "p")
    of_event = ("d", "p", {"p": "b/c"}, 1)
    assert _metastore(catalog).client.call("isPartitionMarkedForEvent", *of_event) is True
    mark_partitions_done(opened.with_options({"partition.mark-done-action": "mark-event"}), [{"p": "missing"}])
    _metastore(catalog).client.call("drop_partition", "d", "p", ["b/c.done"], False)
    plain = catalog.load_table("d", "t").with_options({"partition.mark-done-action": "mark-event"})
    with pytest.raises(UnsupportedError, match=r"Table should enable metastore\.partitioned-table"):
        mark_partitions_done(plain, [{"k": "1"}])
    create_branch(catalog.load_table("d", "p"), "b")
    delete_partitions(catalog.load_table("d", "p"), [{"p": "b/c"}])
    assert sorted(_partitions(catalog, "p")) == ["__DEFAULT_PARTITION__", "a"]
    _metastore(catalog).client.call("drop_partition", "d", "p", ["a"], False)
    assert catalog.repair("d", "p") == []
    assert sorted(_partitions(catalog, "p")) == ["__DEFAULT_PARTITION__", "a"]


def test_a_commit_whose_partitions_the_metastore_was_not_reported_stands(
    catalog: MetastoreCatalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PaimonError("The Hive metastore is gone.")

    schema = create_schema(FIELDS, partition_keys=["k"], options={"metastore.partitioned-table": "true"})
    catalog.create_table("d", "p", schema)
    monkeypatch.setattr(HiveHome, "add_partitions", refuse)
    insert(catalog.load_table("d", "p"), {1: 10})
    assert rows_of(catalog.load_table("d", "p")) == {1: 10}
    assert "Snapshot 1 of table" in caplog.text
    assert "was not informed of its partitions: The Hive metastore is gone. CALL sys.repair" in caplog.text
