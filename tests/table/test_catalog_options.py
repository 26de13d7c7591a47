"""Options of a catalog: what is not there is refused at once, by every entry point."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import paimon_spark
from paimon_spark.errors import CommitError, OptionError, PaimonError, TableNotFoundError, UnsupportedError
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.table import catalog_cache
from paimon_spark.table.filesystem_catalog import FilesystemCatalog, check_catalog_options
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.schema_change import AddColumn
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.schema_store import FRESH_SECONDS
from tests.support.store_tables import FIELDS, insert, rows_of

SCHEMA = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1"})

_REFUSED = [
    ({"metastore": "glue"}, UnsupportedError, "'metastore' = 'glue'"),
    ({"uri": "http://catalog:8080"}, UnsupportedError, "'uri'"),
    ({"table-default.buckets": "4"}, OptionError, "Did you mean 'bucket'"),
    ({"table-default.bucket": "many"}, OptionError, "bucket"),
    ({"table-default.scan.fallback-branch": "b", "table-default.uri": "x"}, OptionError, "is no option of a table"),
    ({"case-sensitive": "false"}, UnsupportedError, "'case-sensitive'"),
    ({"lock.enabled": "true"}, UnsupportedError, "'lock.enabled' = 'true': a directory has no lock of its own"),
    ({"lock.type": "zookeeper"}, OptionError, "lock.type"),
    ({"lock.type": "jdbc", "sync-all-properties": "true"}, UnsupportedError, "'sync-all-properties'"),
    ({"lock.type": "hive", "metastore": "jdbc", "uri": "x"}, UnsupportedError, "'lock.type' = 'hive' is not the lock"),
    ({"lock.type": "hive", "metastore": "rest", "uri": "x"}, UnsupportedError, "'lock.type'"),
    ({"metastor": "rest"}, OptionError, "Did you mean 'metastore'"),
    ({"metasotre": "rest"}, OptionError, "Unknown option 'metasotre'"),
    ({"s3_endpoint": "x"}, OptionError, "Did you mean 's3.endpoint'"),
    ({"bucket": "4"}, OptionError, "'bucket' is no option of a catalog"),
    ({"cache-enabled": "perhaps"}, OptionError, "cache-enabled"),
]


@pytest.mark.parametrize(("options", "kind", "words"), _REFUSED)
def test_what_a_catalog_does_not_do_is_refused(options: dict[str, str], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        check_catalog_options(options)


def test_options_of_the_store_and_what_changes_nothing_are_taken(tmp_path: Path) -> None:
    options = {
        **{"metastore": "FileSystem", "cache-enabled": "false", "cache.expire-after-access": "5 min"},
        **{"s3.endpoint": "x", "fs.s3a.access.key": "k", "fs.anon": "true", "default-database": "default"},
        **{"commit.unsafe-rename": "true", "lock.enabled": "false"},
    }
    check_catalog_options(options)
    catalog = open_catalog(str(tmp_path), options)
    catalog.create_table("default", "t", SCHEMA)
    assert rows_of(catalog.load_table("default", "t")) == {}


class _Session:
    """Stands for a classic session, of which nothing may be asked, but whether it is one."""

    def __getattr__(self, name: str) -> Any:
        if name == "createDataFrame":
            return None
        raise AssertionError(f"the session was asked for {name} before the options were looked at")


def test_both_entry_points_look_at_the_options_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = _Session()
    options: dict[str, Any] = {"metastore": "glue", "uri": "http://catalog:8080"}
    with pytest.raises(UnsupportedError, match="'metastore' = 'glue'"):
        paimon_spark.register_catalog(session, "p", warehouse=str(tmp_path / "wh"), **options)
    monkeypatch.setattr("paimon_spark.spark.text.statement.register", lambda spark: None)
    with pytest.raises(UnsupportedError, match="'metastore' = 'glue'"):
        paimon_spark.sql(session, "SELECT 1", warehouse=str(tmp_path / "wh"), **options)
    assert not (tmp_path / "wh").exists()


CACHED = {"cache-enabled": "true"}


@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
def test_a_catalog_keeps_tables_where_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Until the time is over, or a change of this process: those of others are not seen. Snapshots are."""
    warehouse = str(tmp_path / "wh")
    options = {"metastore": kind, **({"uri": f"jdbc:sqlite:{tmp_path}/names.db"} if kind == "jdbc" else {})}
    cached, other = open_catalog(warehouse, {**options, **CACHED}), open_catalog(warehouse, options)
    for name in ("t", "u"):
        other.create_table("default", name, SCHEMA)
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("paimon_spark.table.catalog_cache.time", clock)

    def columns(catalog: FilesystemCatalog, name: str = "t") -> list[str]:
        return [*catalog.load_table("default", name).schema.field_names]

    def change_elsewhere(column: str) -> None:
        """Another process changes the table."""
        monkeypatch.setattr("paimon_spark.table.schema_store.forget", lambda _: None)
        alter_table(other.load_table("default", "t"), [AddColumn((column,), IntType())])
        monkeypatch.undo()
        monkeypatch.setattr("paimon_spark.table.catalog_cache.time", clock)

    assert columns(cached) == columns(cached, "u") == ["k", "v"]
    change_elsewhere("x")
    assert (columns(cached), columns(other)) == (["k", "v"], ["k", "v", "x"])
    insert(other.load_table("default", "t"), {1: 10})
    assert rows_of(cached.load_table("default", "t")) == {1: 10}
    insert(cached.load_table("default", "t"), {2: 20})  # by the columns that it knows
    assert rows_of(other.load_table("default", "t")) == {1: 10, 2: 20}
    now[0] += 599
    assert columns(cached) == ["k", "v"]
    now[0] += 601  # since the last look
    assert columns(cached) == ["k", "v", "x"]
    change_elsewhere("y")
    for _ in range(4):
        now[0] += 500
        before = columns(cached)
    assert (before, columns(cached)) == (["k", "v", "x", "y"],) * 2  # half an hour since it was looked for
    alter_table(other.load_table("default", "t"), [AddColumn(("z",), IntType())])
    assert columns(cached)[-1] == "z"
    cached.rename_table("default", "t", "default", "w")
    with pytest.raises(TableNotFoundError):
        cached.load_table("default", "t")
    assert columns(cached, "w")[-1] == "z"


def test_a_table_that_another_process_dropped_is_forgotten_with_the_error(tmp_path: Path) -> None:
    """Else it would stand in the way of a new one until the time is over."""
    cached, other = open_catalog(str(tmp_path / "wh"), CACHED), FilesystemCatalog(str(tmp_path / "wh"))
    cached.create_table("default", "w", SCHEMA)
    for act in (rows_of, lambda table: insert(table, {3: 30})):
        cached.load_table("default", "w")
        before = dict(catalog_cache._entries)
        other.drop_table("default", "w")
        catalog_cache._entries.update(before)  # as if another process had dropped it
        with pytest.raises(TableNotFoundError, match="dropped"):
            act(cached.load_table("default", "w"))
        with pytest.raises(TableNotFoundError):
            cached.load_table("default", "w")
        cached.create_table("default", "w", SCHEMA)


def test_a_database_that_another_process_dropped_is_not_there(tmp_path: Path) -> None:
    """Its properties are kept; whether it is there is asked, and what is kept of it goes with a no."""
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db"}
    cached, other = (open_catalog(str(tmp_path / "wh"), given) for given in ({**options, **CACHED}, options))
    acts = (
        lambda: cached.create_table("d", "t", SCHEMA),
        lambda: cached.tables("d"),
        lambda: cached.drop_database("d"),
    )
    for act in acts:
        cached.create_database("d", properties={"a": "b"})
        assert cached.database_properties("d") is not None
        before = dict(catalog_cache._entries)
        other.drop_database("d")
        catalog_cache._entries.update(before)  # as if another process had dropped it
        with pytest.raises(PaimonError, match=r"Database d does not exist"):
            act()
        assert cached.database_properties("d") is None
    catalog_cache._entries.update(before)
    cached.create_database("d")
    cached.create_table("d", "t", SCHEMA)


def test_a_table_that_is_made_anew_elsewhere_takes_no_rows_for_the_old_one(tmp_path: Path) -> None:
    cached, other = open_catalog(str(tmp_path / "wh"), CACHED), FilesystemCatalog(str(tmp_path / "wh"))
    other.create_table("default", "t", SCHEMA)
    kept = cached.load_table("default", "t")
    shutil.rmtree(kept.path)
    fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "other", IntType())]
    kept_entries = dict(catalog_cache._entries)
    other.create_table("default", "t", create_schema(fields, primary_keys=["k"], options={"bucket": "1"}))
    catalog_cache._entries.update(kept_entries)  # as if another process had made it
    time.sleep(FRESH_SECONDS)
    with pytest.raises(CommitError, match="is not the table that this commit was planned for"):
        insert(cached.load_table("default", "t"), {1: 10})
    assert other.load_table("default", "t").snapshots.ids() == []
    assert [*cached.load_table("default", "t").schema.field_names] == ["k", "other"]


@pytest.mark.parametrize("key", ["cache.expiration-interval", "cache.expire-after-access", "cache.expire-after-write"])
def test_a_cache_that_keeps_nothing_is_refused(key: str) -> None:
    check_catalog_options({key: "0 s"})
    with pytest.raises(OptionError, match="is set to negative or 0, the catalog cache should be disabled"):
        check_catalog_options({**CACHED, key: "0 s"})
