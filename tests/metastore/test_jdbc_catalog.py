"""A catalog whose names are in a database: what is in it, what is not, and whose lock commits hold."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.arrow.table import create_table, open_table
from paimon_spark.errors import CommitError, OptionError, PaimonError, SchemaError, TableBusyError, TableNotFoundError
from paimon_spark.metastore.jdbc import parse_address
from paimon_spark.options import reaching_options
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.table.filesystem_catalog import FilesystemCatalog, check_catalog_options
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.new_schema import undo_create
from paimon_spark.table.schema_change import SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import create_table as create_by_path
from paimon_spark.table.table import load_table, table_exists
from tests.support.store_servers import store_server
from tests.support.store_tables import FIELDS, insert, rows_of

SCHEMA = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1"})


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def options(database: Path) -> dict[str, str]:
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{database}", "catalog-key": "k"}


@pytest.fixture
def catalog(tmp_path: Path, options: dict[str, str]) -> FilesystemCatalog:
    """A warehouse with the database d and its table t."""
    check_catalog_options(options)
    catalog = open_catalog(str(tmp_path / "wh"), options)
    catalog.create_database("d")
    catalog.create_table("d", "t", SCHEMA)
    return catalog


def _query(database: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def _change(database: Path, sql: str) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(sql)
    connection.close()


def test_names_are_those_of_the_metastore(catalog: FilesystemCatalog, database: Path) -> None:
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
    assert _query(database, "SELECT * FROM paimon_tables") == [("k", "d", "t")]


def test_catalogs_of_two_keys_share_a_database_and_no_name(
    catalog: FilesystemCatalog, tmp_path: Path, options: dict[str, str]
) -> None:
    other = open_catalog(str(tmp_path / "other"), {**options, "catalog-key": "another"})
    assert other.databases() == ["default"]
    assert other.tables_if_there("d") is None
    other.create_database("d")
    other.create_table("d", "t", SCHEMA)
    other.drop_database("d", cascade=True)
    assert rows_of(catalog.load_table("d", "t")) == {}


def test_a_renamed_table_keeps_its_rows_and_a_dropped_one_its_name_no_longer(catalog: FilesystemCatalog) -> None:
    insert(catalog.load_table("d", "t"), {1: 10})
    catalog.create_database("e")
    catalog.rename_table("d", "t", "e", "u")
    assert (catalog.tables("d"), catalog.tables("e")) == ([], ["u"])
    assert rows_of(catalog.load_table("e", "u")) == {1: 10}
    catalog.drop_table("e", "u")
    assert catalog.tables("e") == []
    assert not Path(catalog.table_path("e", "u")).exists()
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("e", "u")
    catalog.create_table("e", "u", SCHEMA)


def test_a_rename_that_fails_leaves_the_old_name(catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(catalog.file_io), "rename", refuse)
    with pytest.raises(OSError, match="No space"):
        catalog.rename_table("d", "t", "d", "u")
    assert catalog.tables("d") == ["t"]
    assert rows_of(catalog.load_table("d", "t")) == {}


def test_a_rename_that_was_stopped_is_finished(catalog: FilesystemCatalog, database: Path) -> None:
    """The metastore had the new name, and the files lie where they were."""
    insert(catalog.load_table("d", "t"), {1: 10})
    _change(database, "UPDATE paimon_tables SET table_name = 'u'")
    catalog.rename_table("d", "t", "d", "u")
    assert catalog.tables("d") == ["u"]
    assert rows_of(catalog.load_table("d", "u")) == {1: 10}
    with pytest.raises(TableNotFoundError):
        catalog.rename_table("d", "t", "d", "u")


def test_a_database_file_that_is_made_anew_is_another_one(
    catalog: FilesystemCatalog, database: Path, options: dict[str, str]
) -> None:
    database.unlink()
    assert open_catalog(catalog.warehouse, options).databases() == ["default"]
    assert catalog.databases() == ["default"]
    catalog.create_database("e")
    assert _query(database, "SELECT DISTINCT database_name FROM paimon_database_properties") == [("e",)]


def test_a_table_is_made_and_loaded_by_its_path(tmp_path: Path, options: dict[str, str], database: Path) -> None:
    """Where no catalog of the database was opened before."""
    warehouse = f"{tmp_path}/fresh"
    given = {**options, "uri": f"jdbc:sqlite:{tmp_path}/fresh.db", "warehouse": warehouse}
    table_of_path = f"{warehouse}/d.db/t"
    assert not table_exists(table_of_path, options=given)
    create_by_path(table_of_path, SCHEMA, options=given)
    insert(load_table(table_of_path, options=given), {1: 10})
    assert open_catalog(warehouse, given).tables("d") == ["t"]


def test_a_database_with_tables_is_dropped_with_cascade_only(catalog: FilesystemCatalog, database: Path) -> None:
    with pytest.raises(PaimonError, match="not empty"):
        catalog.drop_database("d")
    catalog.drop_database("d", cascade=True)
    assert catalog.databases() == ["default"]
    assert not Path(catalog.database_path("d")).exists()
    for table in ("paimon_tables", "paimon_database_properties", "paimon_table_properties"):
        assert _query(database, f"SELECT * FROM {table}") == []


def test_a_creation_that_is_undone_leaves_no_name(catalog: FilesystemCatalog) -> None:
    catalog.create_table("d", "u", SCHEMA)
    undo_create(catalog.table_path("d", "u"), catalog.options)
    assert catalog.tables("d") == ["t"]
    catalog.create_table("d", "u", SCHEMA)


def test_properties_of_databases_are_kept_as_java_keeps_them(catalog: FilesystemCatalog, database: Path) -> None:
    catalog.create_database("p", properties={"comment": "of mine", "a": "1"})
    assert catalog.database_properties("p") == {"location": catalog.database_path("p"), "comment": "of mine", "a": "1"}
    catalog.alter_database("p", {"a": "2", "b": "3"}, ["comment", "nothing"])
    catalog.alter_database("default", {"x": "y"}, [])
    query = "SELECT property_key, property_value FROM paimon_database_properties WHERE database_name = 'p' ORDER BY 1"
    location = str(catalog.database_path("p"))
    assert _query(database, query) == [("a", "2"), ("b", "3"), ("exists", "true"), ("location", location)]
    assert (catalog.database_properties("default") or {})["x"] == "y"
    assert catalog.database_properties("nothing") is None
    catalog.drop_database("p")
    assert _query(database, query) == []


def test_the_default_database_is_there_and_gets_tables(catalog: FilesystemCatalog) -> None:
    assert catalog.database_exists("default")
    catalog.create_table("default", "t", SCHEMA)
    assert catalog.tables("default") == ["t"]


def test_a_table_has_no_name_that_a_view_has(catalog: FilesystemCatalog, database: Path) -> None:
    _change(database, "INSERT INTO paimon_views VALUES ('k', 'd', 'v', '{}')")
    with pytest.raises(SchemaError, match="a view has its name"):
        catalog.create_table("d", "v", SCHEMA)


def test_options_are_copied_at_creation_and_after_changes(catalog: FilesystemCatalog, database: Path) -> None:
    query = "SELECT property_key, property_value FROM paimon_table_properties ORDER BY 1"
    assert _query(database, query) == [("bucket", "1"), ("primary-key", "k")]
    table = catalog.load_table("d", "t")
    alter_table(table, [SetOption("snapshot.num-retained.min", "5")])
    assert ("snapshot.num-retained.min", "5") in _query(database, query)


def test_an_option_that_java_could_not_keep_is_refused_before_anything_is_made(catalog: FilesystemCatalog) -> None:
    long = create_schema(FIELDS, options={"bucket": "-1", "my.note": "x" * 1001})
    with pytest.raises(OptionError, match=r"my\.note"):
        catalog.create_table("d", "long", long)
    assert catalog.tables("d") == ["t"]
    assert not Path(catalog.table_path("d", "long")).exists()
    open_catalog(catalog.warehouse, {**catalog.options, "sync-all-properties": "false"}).create_table("d", "long", long)


@pytest.mark.parametrize("named_by", [{"metastore": "jdbc"}, {"metastore": "filesystem", "lock.type": "jdbc"}])
def test_a_commit_waits_for_the_lock_of_its_table(
    catalog: FilesystemCatalog,
    options: dict[str, str],
    database: Path,
    named_by: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the catalog, and of a directory that takes the catalog's lock."""
    hasty = {**options, "lock.enabled": "true", "lock-acquire-timeout": "1 s", "lock-check-max-sleep": "50 ms"}
    hasty |= named_by
    check_catalog_options(hasty)
    locking = open_catalog(catalog.warehouse, hasty)
    table = locking.load_table("d", "t")
    insert(table, {1: 10})
    assert _query(database, "SELECT * FROM paimon_distributed_locks") == []
    _change(database, "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES ('k.d.t', 1000)")
    with pytest.raises(PaimonError, match=r"^Nothing was committed\. The lock k\.d\.t of the catalog was held by"):
        insert(table, {2: 20})
    with pytest.raises(TableBusyError):
        alter_table(table, [SetOption("snapshot.num-retained.min", "5")])
    assert rows_of(locking.load_table("d", "t")) == {1: 10}
    _change(database, "UPDATE paimon_distributed_locks SET acquired_at = datetime('now', '-2000 seconds')")
    insert(table, {3: 30})
    by_path = load_table(catalog.table_path("d", "t"), options={**hasty, "warehouse": catalog.warehouse})
    assert rows_of(by_path) == {1: 10, 3: 30}

    def refuse(*_: object) -> bool:
        raise PermissionError("the directory is not ours")

    monkeypatch.setattr(LocalFileIO, "create_exclusive", refuse)
    with pytest.raises(CommitError, match="not ours"):
        insert(by_path, {4: 40})
    assert _query(database, "SELECT * FROM paimon_distributed_locks") == []


def test_a_lock_has_the_length_that_its_column_was_made_with(
    catalog: FilesystemCatalog, options: dict[str, str], tmp_path: Path
) -> None:
    database = tmp_path / "long.db"
    given = {"lock.enabled": "true", "lock-key-max-length": "300", "uri": f"jdbc:sqlite:{database}"}
    open_catalog(catalog.warehouse, {**options, **given}).databases()
    ((text,),) = _query(database, "SELECT sql FROM sqlite_master WHERE name = 'paimon_distributed_locks'")
    assert "lock_id VARCHAR(300)" in str(text)


def test_a_table_that_travels_keeps_its_metastore(catalog: FilesystemCatalog) -> None:
    table = pickle.loads(pickle.dumps(catalog.load_table("d", "t")))
    assert table.file_io.publisher is not None
    assert table.with_latest_schema().file_io.publisher == table.file_io.publisher
    assert pickle.loads(pickle.dumps(catalog)).tables("d") == ["t"]
    outside = load_table(catalog.table_path("d", "t"))
    assert outside.file_io.publisher is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metastore": "jdbc"}, "needs the option 'uri'"),
        ({"metastore": "jdbc", "uri": "sqlite:x"}, "jdbc:sqlite:<file>"),
        ({"metastore": "jdbc", "uri": "jdbc:oracle:thin:@x"}, "jdbc:postgresql"),
        ({"metastore": "jdbc", "uri": "jdbc:sqlite::memory:"}, "in memory"),
        ({"metastore": "jdbc", "uri": "jdbc:mysql://host"}, "names no host or no database"),
        ({"metastore": "jdbc", "uri": "jdbc:sqlite:/nowhere/at/all/x.db"}, "unable to open database file"),
        ({"metastore": "glue"}, "'metastore' = 'glue'"),
    ],
)
def test_options_that_lead_nowhere(tmp_path: Path, options: dict[str, str], message: str) -> None:
    def opened() -> FilesystemCatalog:
        check_catalog_options(options)
        return open_catalog(str(tmp_path), options)

    with pytest.raises(PaimonError, match=message):
        opened()


def test_addresses() -> None:
    given = {"metastore": "jdbc", "uri": "jdbc:mysql://h/db", "jdbc.user": "u", "jdbc.password": "secret"}
    assert reaching_options(given) == {}  # the warehouse is missing
    given |= {"warehouse": "/wh"}
    assert set(reaching_options({**given, "bucket": "1"})) == given.keys()  # jdbc.* among them
    postgres = parse_address("jdbc:postgresql://h:1/db?user=u&password=p%20w&sslmode=require", {"user": "other"})
    assert postgres.driver == "psycopg"
    assert postgres.arguments == {
        "host": "h", "port": 1, "dbname": "db", "user": "u", "password": "p w", "sslmode": "require"
    }  # fmt: skip
    assert "p w" not in repr(postgres)
    mysql = parse_address("jdbc:mysql://h/db", {"user": "u", "password": "p"})
    assert mysql.arguments == {"host": "h", "port": 3306, "database": "db", "user": "u", "password": "p"}
    assert parse_address("jdbc:sqlite:file:/a/b.db", {}).arguments == {"database": "/a/b.db"}


def test_arrow_tables_have_names(catalog: FilesystemCatalog, options: dict[str, str]) -> None:
    rows = pa.table({"k": pa.array([1, 2], pa.int32())})
    made = create_table("a.t", rows.schema, catalog=catalog.warehouse, **options)
    made.append(rows)
    assert catalog.tables("a") == ["t"]
    assert open_table("a.t", catalog=catalog.warehouse, **options).scan().to_arrow() == rows
    catalog.drop_table("a", "t")
    with pytest.raises(TableNotFoundError):
        open_table("a.t", catalog=catalog.warehouse, **options)


def test_a_dropped_database_leaves_no_directory_on_a_store(tmp_path: Path) -> None:
    """An object that stands for it may be of another program: Hive's metastore makes one."""
    with store_server("s3") as server:
        names = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
        catalog = open_catalog(server.root, {**server.options, **names})
        for name, file in (("d", ""), ("e", "/a-file")):
            catalog.create_database(name)
            catalog.file_io.mkdirs(f"{server.root}/{name}.db")
            if file:
                catalog.file_io.write_bytes(f"{server.root}/{name}.db{file}", b"x")
            catalog.drop_database(name)
        assert [entry.name for entry in catalog.file_io.list_names(server.root)] == ["e.db"]
