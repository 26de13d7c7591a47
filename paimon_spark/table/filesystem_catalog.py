"""Databases and tables of a warehouse directory (``<warehouse>/<database>.db/<table>``), and the options of a catalog.

Equals Java's ``FileSystemCatalog``: a database is a directory, a table one with a schema file. A catalog accepts
options of the store, and those that ask for what it does in any case.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from paimon_spark.errors import (
    OptionError,
    PaimonError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_spark.metastore.opening import check_kind, home_of, is_directory, kind_of, lock_of, lock_type
from paimon_spark.options import (
    LOCK_OPTIONS,
    METASTORE_OPTIONS,
    Option,
    Scope,
    find_option,
    log_ignored,
    unknown_option_error,
)
from paimon_spark.spec.file_names import SCHEMA_PREFIX, numbered_name_id
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.catalog_cache import CatalogCache, changing
from paimon_spark.table.iceberg_files import delete_catalog_metadata, metadata_in_catalog
from paimon_spark.table.paths import DATABASE_SUFFIX, TablePaths, check_new_table_name, is_plain_name, refuse_home
from paimon_spark.table.schema_store import SchemaStore
from paimon_spark.table.table import FileStoreTable, create_table, load_table

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

SYSTEM_DATABASE = "sys"
SYSTEM_DATABASE_TABLES = ("all_table_options", "catalog_options", "partitions", "tables")
DEFAULT_DATABASE = "default"
"""It is always there. Java makes it when a catalog opens the warehouse, we make it with its first table."""
_MOST_SHOWN = 10


@dataclass(frozen=True)
class FilesystemCatalog:
    """The databases and tables below one directory. Picklable; nothing is cached."""

    warehouse: str
    """The directory, without a trailing slash."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the store (``s3.*``, ``fs.*``), and of a lock that commits take (`lock.type`)."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Options of new tables where their definition says nothing (catalog options ``table-default.*``)."""
    default_database: str = DEFAULT_DATABASE
    """Of a name that has none, where the catalog is the current one (catalog option ``defaultDatabase``)."""
    cache: CatalogCache | None = None
    """What it keeps of tables and databases (`cache-enabled`)."""

    def with_defaults(self, options: Mapping[str, str], *, prefix: str = "") -> dict[str, str]:
        """The options of a new table, or of one that is replaced, with the defaults of the catalog."""
        missing = {key: text for key, text in self.defaults.items() if f"{prefix}{key}" not in options}
        return {**missing, **options}

    def make_default_database(self) -> None:
        """Make the database that ``defaultDatabase`` names, as Java does when a catalog is opened.

        Raises:
            SchemaError: the name cannot be a database's.
        """
        if self.default_database != DEFAULT_DATABASE:
            self.create_database(self.default_database, ignore_if_exists=True)

    @cached_property
    def file_io(self) -> FileIO:
        """Where the warehouse lives."""
        refuse_home(self.warehouse)
        return FileIO.for_path(self.warehouse, self.options)

    @property
    def is_remote(self) -> bool:
        """Whether each look costs a request over the network."""
        return self.file_io.lists_versions

    def databases(self) -> list[str]:
        """Names of all databases, sorted, `default` among them; the system database is not."""
        entries = self.file_io.list_names(self.warehouse)
        found = {
            name.removesuffix(DATABASE_SUFFIX)
            for name, _, is_dir, _, _ in entries
            if is_dir and name.endswith(DATABASE_SUFFIX) and name != DATABASE_SUFFIX
        }
        return sorted(found | {DEFAULT_DATABASE})

    def database_exists(self, database: str) -> bool:
        """Return whether there is such a database."""
        return database in (SYSTEM_DATABASE, DEFAULT_DATABASE) or (
            is_plain_name(database) and self.file_io.exists(self.database_path(database))
        )

    def has_database(self, database: str) -> bool:
        """Return whether there is such a database now, whatever is kept of it."""
        return self.database_exists(database)

    def create_database(
        self, database: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make a database.

        Args:
            database: its name.
            ignore_if_exists: leave one that is there.
            properties: kept where the catalog has a server; a directory keeps none, as in the official connector.

        Raises:
            PaimonError: it exists.
            SchemaError: the name cannot be a database's.
        """
        refuse_system(database)
        if self.has_database(database):
            if ignore_if_exists:
                return
            raise PaimonError(f"Database {database} already exists.")
        check_new_table_name(database, "database")
        self._make_database(database, properties or {})

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database, its ``location`` among them; None where there is no such database."""
        return {"location": self.database_path(database)} if self.database_exists(database) else None

    @changing
    def alter_database(self, database: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Change properties of a database.

        Raises:
            UnsupportedError: the catalog keeps none.
        """
        raise UnsupportedError(
            f"Alter database is not supported: {database} is a directory of a filesystem warehouse and keeps no "
            "properties"
        )

    def _make_database(self, database: str, properties: Mapping[str, str]) -> None:
        self.file_io.mkdirs(self.database_path(database))

    @changing
    def drop_database(self, database: str, *, cascade: bool = False) -> None:
        """Remove a database and, with `cascade`, the tables in it.

        Java deletes the whole directory with all that is in it.

        Raises:
            PaimonError: there is no such database; or something is in it and `cascade` is not given; or something that
                is no Paimon table, and then no table is dropped either.
        """
        refuse_system(database)
        if not self.has_database(database):
            raise PaimonError(f"Database {database} does not exist.")
        tables = self.tables(database)
        if not cascade and not self.is_empty(database):
            advice = (
                "drop its tables first, or use CASCADE" if tables else "it has no table; move or delete these first"
            )
            held = listed(self._others(database, ()))
            raise PaimonError(f"Database {database} is not empty: {advice}. Its directory holds {held}.")
        others = self._others(database, tables)
        if others:
            raise PaimonError(
                f"Database {database} is not dropped, nor any table in it: {self.database_path(database)} holds what "
                f"is no Paimon table: {listed(others)}. Move or delete that first, or drop the tables one by one."
            )
        for table in tables:
            self.drop_table(database, table)
        path = self.database_path(database)
        self.file_io.delete_empty_tree(path)  # so a table that somebody makes there meanwhile keeps its files
        if self.file_io.exists(path):
            self.file_io.check_deletes(path)
            raise PaimonError(
                f"Database {database} is not dropped: {path} could not be deleted. See that it can be written and that "
                "nobody writes there, then drop it again."
            )

    def is_empty(self, database: str) -> bool:
        """Return whether a database is empty: no table, and no other file or directory."""
        return not self._others(database, ())

    def _others(self, database: str, tables: Sequence[str]) -> list[str]:
        """What is in the directory of a database besides these tables; empty directories do not count."""
        path = self.database_path(database)
        entries = [entry for entry in self.file_io.list_names(path) if entry.name not in tables]
        return sorted(
            entry.name for entry in entries if not entry.is_dir or self.file_io.list_names(f"{path}/{entry.name}")
        )

    def tables(self, database: str) -> list[str]:
        """Names of the tables in a database, sorted.

        Raises:
            PaimonError: there is no such database.
        """
        found = self.tables_if_there(database)
        if found is None:
            raise PaimonError(f"Database {database} does not exist.")
        return found

    def tables_if_there(self, database: str) -> list[str] | None:
        """Names of the tables in a database, sorted; None where there is no such database."""
        if database == SYSTEM_DATABASE:
            return list(SYSTEM_DATABASE_TABLES)
        path = self.database_path(database) if is_plain_name(database) else None
        if path is None:
            return None
        found = tables_at(self.file_io, path)
        return [] if found is None and self.database_exists(database) else found

    def table_exists(self, database: str, table: str) -> bool:
        """Return whether there is such a table."""
        return is_plain_name(database) and is_plain_name(table) and self._has_schema(self.table_path(database, table))

    def load_table(self, database: str, table: str) -> FileStoreTable:
        """Open a table with its latest schema; ``t$branch_b`` gives a branch.

        Raises:
            TableNotFoundError: there is none.
        """
        return load_table(self.table_path(database, table), options=self.options, cache=self.cache)

    def create_table(self, database: str, table: str, schema: TableSchema) -> FileStoreTable:
        """Create a table in a database that exists.

        Raises:
            PaimonError: there is no such database, or it is that of the system tables.
            SchemaError: there is a table already, or its name cannot be used.
        """
        refuse_system(database)
        if not self.has_database(database):
            raise PaimonError(f"Database {database} does not exist.")
        check_new_table_name(table)
        return create_table(self.table_path(database, table), schema, options=self.options, file_io=self.file_io)

    @changing
    def drop_table(self, database: str, table: str) -> None:
        """Remove a table with all its files.

        Raises:
            TableNotFoundError: there is none.
            PaimonError: its files could not be deleted.
        """
        if not self.table_exists(database, table):
            raise TableNotFoundError(f"Table {database}.{table} does not exist.")
        self._delete_table(self.table_path(database, table))

    def _delete_table(self, path: str, store: FileIO | None = None) -> None:
        store = store or self.file_io
        shared = metadata_in_catalog(store, path)
        store.delete_quietly(path, recursive=True)
        if store.exists(path):
            try:
                store.check_deletes(path)
            except StorageError as error:
                raise StorageError(
                    f"The table at {path} is not dropped, or not wholly: {error}. Drop it again when the store answers"
                ) from error
            raise PaimonError(
                f"The table at {path} is not dropped, or not wholly: its files could not all be deleted. See that the "
                "directory can be written, then drop it again."
            )
        delete_catalog_metadata(store, shared)

    @changing
    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> None:
        """Give a table another name, or another database; finish a rename of these names that was stopped.

        Raises:
            TableNotFoundError: there is none.
            SchemaError: there is a table with the new name, or it cannot be a table's.
            PaimonError: there is no such database to move to, or it is that of the system tables.
        """
        refuse_system(to_database)
        source, target = self.table_path(database, table), self.table_path(to_database, to_table)
        if self.file_io.finish_rename(source, target):
            return
        if not self.table_exists(database, table):
            raise TableNotFoundError(f"Table {database}.{table} does not exist.")
        if not self.has_database(to_database):
            raise PaimonError(f"Database {to_database} does not exist.")
        check_new_table_name(to_table)
        if self.table_exists(to_database, to_table):
            raise SchemaError(f"Table {to_database}.{to_table} already exists.")
        shared = metadata_in_catalog(self.file_io, source)
        self.file_io.mkdirs(self.database_path(to_database))
        with ExitStack() as locks:
            for home in (home_of(self.options, path) for path in sorted({source, target})):
                if home is not None:
                    locks.enter_context(home.locked(""))
            self.file_io.rename(source, target)
        delete_catalog_metadata(self.file_io, shared)

    def database_path(self, database: str) -> str:
        """The directory of a database."""
        return f"{self.warehouse.rstrip('/')}/{_checked(database)}{DATABASE_SUFFIX}"

    def table_path(self, database: str, table: str) -> str:
        """The directory of a table (``$branch_b`` and system table names stay at its end)."""
        return f"{self.database_path(database)}/{_checked(table)}"

    def _has_schema(self, path: str) -> bool:
        return has_schema(self.file_io, path)


def tables_at(file_io: FileIO, path: str) -> list[str] | None:
    """Names of the tables that lie in the directory of a database, sorted; None where nothing is in it."""
    if file_io.threads == 1:
        return _tables_one_by_one(file_io, path)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(file_io.files_below, path)
        entries = file_io.list_names(path)
        files = asked.result()
    if not entries:
        return None
    names = [name for name, _, is_dir, _, _ in entries if is_dir]
    if files is not None:
        return sorted({name for file in files if (name := _table_of_schema(file)) in names})
    with ThreadPoolExecutor(max(1, min(file_io.threads, len(names)))) as pool:
        found = pool.map(lambda name: has_schema(file_io, f"{path}/{name}"), names)
        return sorted(name for name, is_table in zip(names, found, strict=True) if is_table)


def _tables_one_by_one(file_io: FileIO, path: str) -> list[str] | None:
    """The same on a local disk, where a thread takes longer to start than a small directory to read."""
    entries = file_io.list_names(path)
    names = (name for name, _, is_dir, _, _ in entries if is_dir)
    return sorted(name for name in names if has_schema(file_io, f"{path}/{name}")) if entries else None


def has_schema(file_io: FileIO, path: str) -> bool:
    """Return whether a directory is a table's."""
    return bool(SchemaStore(file_io, TablePaths(path)).ids())


def _table_of_schema(file: str) -> str | None:
    """The table whose schema a file is, by its path below the database; None for other files."""
    table, _, rest = file.partition("/")
    folder, _, name = rest.partition("/")
    return table if folder == "schema" and numbered_name_id(name, SCHEMA_PREFIX) is not None else None


def _checked(name: str) -> str:
    if not is_plain_name(name):
        raise SchemaError(f"{name!r} cannot be the name of a database or table: it cannot be a directory's.")
    return name


def listed(names: Sequence[str]) -> str:
    """Names for a message."""
    shown = ", ".join(names[:_MOST_SHOWN])
    return shown if len(names) <= _MOST_SHOWN else f"{shown} and {len(names) - _MOST_SHOWN} more"


def refuse_system(database: str) -> None:
    """Refuse to change the database of the system tables."""
    if database == SYSTEM_DATABASE:
        raise UnsupportedError(
            f"Database {SYSTEM_DATABASE} holds the system tables: it cannot be created or dropped, nor a table in it."
        )


_DEFAULT = "table-default."
_OWN_KEYS = ("metastore", "warehouse", "default-database", "s3.endpoint", "s3.access-key", "s3.secret-key")


def check_catalog_options(options: Mapping[str, str]) -> None:
    """Check the options of a catalog before they are used.

    Raises:
        UnsupportedError: an option asks for a kind of catalog that is not supported, or for what this one does not do.
        OptionError: an option is unknown, belongs to tables, reads or writes, or has a value that it cannot have.
    """
    CatalogCache.of(options)
    metastore = kind_of(options)
    of_directory = LOCK_OPTIONS.get(lock_type(options), frozenset({"lock.enabled"}))
    for key, text in options.items():
        option = find_option(key)
        if option is None:
            raise unknown_option_error(key, _OWN_KEYS)
        if option.scope is Scope.CATALOG:
            _check_catalog_option(option, key, text)
            if key.startswith(_DEFAULT):
                _check_default(key, text)
            kinds = [kind for kind, keys in METASTORE_OPTIONS.items() if option.key in keys]
            if kinds and not (option.key in of_directory if is_directory(options) else metastore in kinds):
                raise UnsupportedError(
                    f"The catalog option '{key}' is for catalogs of another kind: add 'metastore' = "
                    f"{' or '.join(repr(kind) for kind in kinds)}, or remove it."
                )
        elif option.scope is not Scope.STORE:
            raise OptionError(
                f"'{key}' is no option of a catalog but of a table, a read or a write: give it where the table is "
                "created (TBLPROPERTIES) or where it is read or written (option). A catalog takes options of the store."
            )
    lock_of(options)
    without_effect = {key: text for key, text in options.items() if not _is_refused(key)}
    log_ignored("The catalog", without_effect, logging.WARNING)


def _check_default(key: str, text: str) -> None:
    """Refuse a default of what is no option of tables, or of a value that it cannot have."""
    option = find_option(key[len(_DEFAULT) :])
    if option is None:
        raise unknown_option_error(key[len(_DEFAULT) :], ())
    if option.scope is not Scope.TABLE:
        raise OptionError(f"'{key}': {option.key} is no option of a table, so a catalog can give tables none.")
    if not option.key.endswith("*") and "<" not in option.key:
        option.parse(text)


def _is_refused(key: str) -> bool:
    option = find_option(key)
    return option is not None and bool(option.refusals)


def _check_catalog_option(option: Option, key: str, text: str) -> None:
    if option.key == "metastore":
        check_kind(text)
        return
    default = not option.key.endswith("*") and option.parse(text) == option.default
    if option.refusals and not default:
        raise UnsupportedError(f"The catalog option '{key}' is not supported. {option.refusals[0].advice}")
