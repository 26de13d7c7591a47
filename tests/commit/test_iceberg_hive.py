"""Iceberg's entries in a Hive metastore: what is in them, who reads by them, and commits while it is down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import paimon_spark
from paimon_spark.arrow import ArrowTable
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.metastore.hive_client import HiveClient, address_of, records
from paimon_spark.metastore.iceberg_hive import IcebergHive
from tests.support.hive_server import HiveProxy, HiveServer, hive_proxy
from tests.support.iceberg import SCHEMA, row, rows, store_table

STORAGE = {"metadata.iceberg.storage": "hive-catalog"}


@pytest.fixture(autouse=True)
def no_database_stays(hive: HiveServer) -> Iterator[None]:
    """Other tests look at all databases of the metastore."""
    client = HiveClient(address_of({"hive.metastore.uris": hive.uri}))
    before = set(client.call("get_all_databases"))
    yield
    for name in set(client.call("get_all_databases")) - before:
        client.call("drop_database", name, False, True)
    for name in client.call("get_all_tables", "default"):
        client.call("drop_table", "default", name, False)


@pytest.fixture
def proxy(hive: HiveServer) -> Iterator[HiveProxy]:
    with hive_proxy(hive) as found:
        yield found


def new_table(tmp_path: Path, proxy: HiveProxy, name: str, **options: Any) -> ArrowTable:
    given = {**STORAGE, "metadata.iceberg.uri": proxy.uri, **options}
    return paimon_spark.create_table(f"ice.{name}", SCHEMA, catalog=str(tmp_path / "wh"), **given)


def entry(proxy: HiveProxy, name: str, database: str = "ice") -> Any:
    return HiveClient(address_of({"hive.metastore.uris": proxy.uri})).call("get_table", database, name)


def read(proxy: HiveProxy, name: str, database: str = "ice") -> list[tuple[Any, ...]]:
    """The rows that pyiceberg finds by its own catalog."""
    return rows(load_catalog("c", type="hive", uri=proxy.uri).load_table((database, name)).scan().to_arrow())


def test_entries_are_javas_and_lead_pyiceberg_to_the_rows(tmp_path: Path, proxy: HiveProxy) -> None:
    table = new_table(tmp_path, proxy, "t")
    table.append([row(1, "a")])
    found, directory = entry(proxy, "t"), f"{tmp_path}/wh/iceberg/ice/t"
    assert (found.tableType, found.parameters["EXTERNAL"], found.parameters["table_type"]) == (
        "EXTERNAL_TABLE",
        "TRUE",
        "ICEBERG",
    )
    assert found.parameters["metadata_location"] == f"{directory}/metadata/v1.metadata.json"
    assert "previous_metadata_location" not in found.parameters
    assert found.sd.location.removeprefix("file:") == directory
    assert found.sd.inputFormat == "org.apache.hadoop.mapred.FileInputFormat"
    assert [(column.name, column.type) for column in found.sd.cols] == [("k", "int"), ("v", "string"), ("p", "string")]
    table.append([row(2, "b")])
    found = entry(proxy, "t")
    assert found.parameters["metadata_location"] == f"{directory}/metadata/v2.metadata.json"
    assert found.parameters["previous_metadata_location"] == f"{directory}/metadata/v1.metadata.json"
    assert read(proxy, "t") == rows(table.scan().to_arrow()) == [(1, "a", "x"), (2, "b", "x")]
    rollback_to_snapshot(store_table(table), 1)
    assert entry(proxy, "t").parameters["metadata_location"] == f"{directory}/metadata/v1.metadata.json"
    assert read(proxy, "t") == [(1, "a", "x")]


def test_a_commit_stands_while_the_metastore_is_down_and_the_next_one_repairs(
    tmp_path: Path, proxy: HiveProxy, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(tmp_path, proxy, "down")
    table.append([row(1, "a")])
    proxy.is_gone = True
    proxy.cut()
    assert table.append([row(2, "b")]).snapshot_id == 2
    assert "snapshot 2 is committed, but readers of Iceberg do not see it before the next commit" in caplog.text
    assert "Hive metastore" in caplog.text
    proxy.is_gone = False
    assert read(proxy, "down") == [(1, "a", "x")], "the metadata that the entry names is still there"
    table.append([row(3, "c")])
    assert read(proxy, "down") == rows(table.scan().to_arrow())
    assert len(read(proxy, "down")) == 3


def test_a_table_of_another_kind_is_left_as_it_is(
    tmp_path: Path, proxy: HiveProxy, caplog: pytest.LogCaptureFixture
) -> None:
    client, hive = HiveClient(address_of({"hive.metastore.uris": proxy.uri})), records()
    client.call("create_database", hive.Database(name="theirs", locationUri=f"{tmp_path}/theirs", parameters={}))
    columns = [hive.FieldSchema(name="x", type="int")]
    sd = hive.StorageDescriptor(location=f"{tmp_path}/theirs/own", cols=columns, serdeInfo=hive.SerDeInfo())
    own = hive.Table(tableName="own", dbName="theirs", sd=sd, partitionKeys=[], parameters={"EXTERNAL": "TRUE"})
    client.call("create_table", own)
    named = {"metadata.iceberg.database": "theirs", "metadata.iceberg.table": "own"}
    assert new_table(tmp_path, proxy, "kind", **named).append([row(1, "a")]).snapshot_id == 1
    assert "The Hive metastore has another table theirs.own" in caplog.text
    found = entry(proxy, "own", "theirs")
    assert [column.name for column in found.sd.cols] == ["x"]
    assert "metadata_location" not in found.parameters


def test_names_and_settings_of_the_entries_are_options(tmp_path: Path, proxy: HiveProxy) -> None:
    (tmp_path / "hive-site.xml").write_text(
        "<configuration><property><name>hive.metastore.uris</name>"
        f"<value>{proxy.uri}</value></property></configuration>"
    )
    options = {
        **STORAGE,
        "metadata.iceberg.hive-conf-dir": str(tmp_path),
        "metadata.iceberg.database": "ice_a; ice_b",
        "metadata.iceberg.table": "other",
        "metadata.iceberg.storage-location": "table-location",
        "metadata.iceberg.hive-skip-update-stats": "true",
    }
    table = paimon_spark.create_table("ice.named", SCHEMA, catalog=str(tmp_path / "wh"), **options)
    table.append([row(1, "a")])
    assert read(proxy, "other", "ice_a") == read(proxy, "other", "ice_b") == [(1, "a", "x")]
    assert entry(proxy, "other", "ice_a").parameters["DO_NOT_UPDATE_STATS"] == "true"
    assert entry(proxy, "other", "ice_a").parameters["metadata_location"] == f"{table.path}/metadata/v1.metadata.json"


def test_what_glue_is_told(hive: HiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"metadata.iceberg.uri": hive.uri, "metadata.iceberg.glue.skip-archive": "true"}
    entries, contexts = IcebergHive.of(given, "default", "glue"), []
    call = HiveClient.call

    def noted(self: HiveClient, method: str, *arguments: Any, **rest: Any) -> Any:
        if method.startswith("alter_table"):
            contexts.append(arguments[-1].properties)
        return call(self, method, *arguments, **rest)

    monkeypatch.setattr(HiveClient, "call", noted)
    entries.enter((), "/nowhere/t/metadata/v1.metadata.json", None, "/nowhere")
    assert contexts == [{"CASCADE": "true", "skipAWSGlueArchive": "true", "DO_NOT_UPDATE_STATS": "false"}]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, OptionError, "'uri'"),
        ({"metadata.iceberg.uri": "http://a"}, OptionError, "is not the address of a Hive metastore"),
        (
            {"metadata.iceberg.uri": "thrift://a:1", "metadata.iceberg.hive-client-class": "com.Glue"},
            UnsupportedError,
            "com.Glue",
        ),
    ],
)
def test_a_table_without_a_metastore_is_refused_before_a_file_is_written(
    tmp_path: Path, options: dict[str, str], error: type[Exception], words: str
) -> None:
    table = paimon_spark.create_table("ice.t", SCHEMA, catalog=str(tmp_path / "wh"), **STORAGE, **options)
    with pytest.raises(error, match=words):
        table.append([row(1, "a")])
    assert not list(Path(table.path).glob("bucket-*"))
