"""Databases and tables whose names a metastore keeps; their files lie in the warehouse as in any other.

Equals Java's ``JdbcCatalog``: a table is at ``<warehouse>/<database>.db/<table>``, its schema file is the authority,
and it is there when the metastore has its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, PaimonError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.metastore.metastore import Metastore, TableHome
from paimon_spark.metastore.opening import kind_of, metastore_of, root_of
from paimon_spark.table.filesystem_catalog import (
    DEFAULT_DATABASE,
    SYSTEM_DATABASE,
    SYSTEM_DATABASE_TABLES,
    FilesystemCatalog,
    refuse_system,
)
from paimon_spark.table.paths import check_new_table_name, is_plain_name
from paimon_spark.table.table import FileStoreTable, create_table, load_table

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema


def open_catalog(warehouse: str, options: Mapping[str, str]) -> FilesystemCatalog:
    """Return the catalog that the options name, over a warehouse.

    Args:
        warehouse: a directory.
        options: of the catalog and the store; checked by `check_catalog_options`.

    Raises:
        OptionError: an option is missing or cannot be used.
        PaimonError: the metastore cannot be reached.
    """
    if kind_of(options) == "rest":
        return _served_catalog(warehouse, options)
    root = warehouse.rstrip("/") or "/"
    metastore = metastore_of(options)
    if metastore is None:
        return FilesystemCatalog(root, dict(options))
    given = options.get("warehouse", root).rstrip("/")
    if given != root:
        raise OptionError(f"The catalog has two warehouses: {root}, and the option 'warehouse' = '{given}'.")
    metastore.prepare()
    return MetastoreCatalog(root, {**options, "warehouse": root})


def _served_catalog(warehouse: str, options: Mapping[str, str]) -> ServedCatalog:
    given = options.get("warehouse", warehouse)
    if given != warehouse:
        raise OptionError(f"The catalog has two warehouses: {warehouse}, and the option 'warehouse' = '{given}'.")
    named = {**options, "warehouse": warehouse}
    metastore_of(named, opens=True)
    return ServedCatalog(root_of(warehouse, named), named)


@dataclass(frozen=True)
class MetastoreCatalog(FilesystemCatalog):
    """Databases and tables of a metastore. Picklable; nothing is cached."""

    @cached_property
    def metastore(self) -> Metastore:
        """Who keeps the names."""
        found = metastore_of(self.options)
        assert found is not None
        return found

    def databases(self) -> list[str]:
        """Names of all databases, sorted, `default` among them; the system database is not."""
        return sorted({*self.metastore.databases(), DEFAULT_DATABASE})

    def database_exists(self, database: str) -> bool:
        """Tell whether there is such a database."""
        if database in (SYSTEM_DATABASE, DEFAULT_DATABASE):
            return True
        return is_plain_name(database) and self.metastore.has_database(database)

    def _make_database(self, database: str, properties: Mapping[str, str]) -> None:
        self.metastore.create_database(database, self.database_path(database), properties)

    def drop_database(self, database: str, *, cascade: bool = False) -> None:
        """Remove a database and, with `cascade`, the tables in it with their files.

        Java leaves the files, so that no table of the same name can be made again; here they go.

        Raises:
            PaimonError: there is no such database; or a table is in it and `cascade` is not given.
        """
        refuse_system(database)
        if not self.database_exists(database):
            raise PaimonError(f"Database {database} does not exist.")
        tables = self.metastore.tables(database)
        if tables and not cascade:
            raise PaimonError(f"Database {database} is not empty: drop its tables first, or use CASCADE.")
        for table in sorted(tables):
            self.drop_table(database, table)
        self.metastore.drop_database(database)
        self.file_io.delete_empty_directory(self.database_path(database))

    def is_empty(self, database: str) -> bool:
        """Tell whether a database has no table."""
        return not self.metastore.tables(database)

    def tables_if_there(self, database: str) -> list[str] | None:
        """Names of the tables in a database, sorted; None where there is no such database."""
        if database == SYSTEM_DATABASE:
            return list(SYSTEM_DATABASE_TABLES)
        found = self.metastore.tables(database)
        return sorted(found) if found or self.database_exists(database) else None

    def table_exists(self, database: str, table: str) -> bool:
        """Tell whether there is such a table."""
        return is_plain_name(database) and is_plain_name(table) and self.metastore.has_table(database, table)

    def drop_table(self, database: str, table: str) -> None:
        """Remove a table's name, then all its files.

        Raises:
            TableNotFoundError: there is none.
            PaimonError: its files could not be deleted.
        """
        if not (self.table_exists(database, table) and self.metastore.drop_table(database, table)):
            raise TableNotFoundError(f"Table {database}.{table} does not exist.")
        path = self.table_path(database, table)
        if self.file_io.exists(path):
            self._delete_table(path)

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> None:
        """Give a table another name, or another database; finish a rename of these names that was stopped.

        Raises:
            TableNotFoundError: there is none.
            SchemaError: there is a table with the new name, or it cannot be a table's.
            PaimonError: there is no such database to move to, or it is that of the system tables.
        """
        refuse_system(to_database)
        source, target = self.table_path(database, table), self.table_path(to_database, to_table)
        with ExitStack() as locks:
            for name in sorted({(database, table), (to_database, to_table)}):
                locks.enter_context(self._home(*name).locked(""))
            if self._is_renamed_by_half(database, table, to_database, to_table):
                self._move(source, target, to_database)
                return
            if not self.table_exists(database, table):
                raise TableNotFoundError(f"Table {database}.{table} does not exist.")
            if not self.database_exists(to_database):
                raise PaimonError(f"Database {to_database} does not exist.")
            check_new_table_name(to_table)
            self._home(to_database, to_table).check_free()
            if self._has_schema(target):
                raise SchemaError(f"Table {to_database}.{to_table} already exists: {target} has its files.")
            if not self.metastore.rename_table(database, table, to_database, to_table):
                raise SchemaError(f"Table {to_database}.{to_table} already exists.")
            try:
                self._move(source, target, to_database)
            except BaseException:
                self.metastore.rename_table(to_database, to_table, database, table)
                raise

    def _is_renamed_by_half(self, database: str, table: str, to_database: str, to_table: str) -> bool:
        """Whether a rename was stopped when the metastore had the new name, and the files were not all there."""
        renamed = not self.table_exists(database, table) and self.table_exists(to_database, to_table)
        return renamed and not self._has_schema(self.table_path(to_database, to_table))

    def _move(self, source: str, target: str, to_database: str) -> None:
        if not self.file_io.finish_rename(source, target):
            self.file_io.mkdirs(self.database_path(to_database))
            self.file_io.rename(source, target)

    def repair(self, database: str | None = None, table: str | None = None) -> list[str]:
        """Put the names of tables that lie in the warehouse into the metastore, and copy their options again.

        Java: ``JdbcCatalog.repairCatalog``, ``repairDatabase``, ``repairTable``. Names without a directory stay.

        Args:
            database: that alone; all that lie in the warehouse when not given.
            table: of the database, that alone.

        Returns:
            The names of the tables that were added, as ``database.table``.

        Raises:
            PaimonError: there is no such directory of a database.
            TableNotFoundError: there is no such directory of a table.
        """
        files = FilesystemCatalog(self.warehouse, self.options)
        wanted = [database] if database is not None else files.databases()
        added = []
        for name in wanted:
            tables = files.tables_if_there(name)
            if database is not None and (tables is None or not self.file_io.exists(self.database_path(name))):
                raise PaimonError(f"Database {name} cannot be repaired: there is no {self.database_path(name)}.")
            if table is not None and table not in (tables or ()):
                raise TableNotFoundError(f"Table {name}.{table} cannot be repaired: it has no files in the warehouse.")
            if tables and not self.metastore.has_database(name):
                self._make_database(name, {})
            for found in tables or () if table is None else (table,):
                schema = load_table(self.table_path(name, found), file_io=self.file_io).schema
                home = self._home(name, found)
                with home.locked(""):
                    if home.exists():
                        home.schema_changed(schema)
                    elif home.add(schema):
                        added.append(f"{name}.{found}")
        return added

    def _home(self, database: str, table: str) -> TableHome:
        return self.metastore.home(database, table)


@dataclass(frozen=True)
class ServedCatalog(MetastoreCatalog):
    """Databases and tables of a server, which makes and deletes their files; where they lie is its secret.

    Equals Java's ``RESTCatalog``. Paths of tables in it are ``rest://<warehouse>/<database>.db/<table>``.
    """

    @property
    def is_remote(self) -> bool:
        """Whether each look costs a request over the network."""
        return True

    def databases(self) -> list[str]:
        """Names of all databases, sorted; the system database is not among them."""
        return sorted(self.metastore.databases())

    def database_exists(self, database: str) -> bool:
        """Tell whether there is such a database."""
        if database == SYSTEM_DATABASE:
            return True
        return is_plain_name(database) and self.metastore.has_database(database)

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database as the server has them; None where there is no such database."""
        if database == SYSTEM_DATABASE:
            return {}
        return self.metastore.database_properties(database) if is_plain_name(database) else None

    def alter_database(self, database: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Let the server change properties of a database."""
        refuse_system(database)
        self.metastore.alter_database(database, updates, removals)

    def drop_database(self, database: str, *, cascade: bool = False) -> None:
        """Remove a database and, with `cascade`, the tables in it with their files.

        Raises:
            PaimonError: there is no such database; or a table is in it and `cascade` is not given.
        """
        refuse_system(database)
        if not self.database_exists(database):
            raise PaimonError(f"Database {database} does not exist.")
        if not cascade and not self.is_empty(database):
            raise PaimonError(f"Database {database} is not empty: drop its tables first, or use CASCADE.")
        self.metastore.drop_database(database)

    def create_table(self, database: str, table: str, schema: TableSchema) -> FileStoreTable:
        """Create a table in a database that exists; raises as in other catalogs."""
        refuse_system(database)
        check_new_table_name(table)
        return create_table(self.table_path(database, table), schema, options=self.options)

    def drop_table(self, database: str, table: str) -> None:
        """Let the server drop a table with its files.

        Raises:
            TableNotFoundError: there is none.
        """
        if not (is_plain_name(table) and self.metastore.drop_table(database, table)):
            raise TableNotFoundError(f"Table {database}.{table} does not exist.")

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> None:
        """Let the server give a table another name, or another database; raises as in other catalogs."""
        refuse_system(to_database)
        check_new_table_name(to_table)
        if self.metastore.rename_table(database, table, to_database, to_table):
            return
        if not self.table_exists(database, table):
            raise TableNotFoundError(f"Table {database}.{table} does not exist.")
        if not self.database_exists(to_database):
            raise PaimonError(f"Database {to_database} does not exist.")
        raise SchemaError(f"Table {to_database}.{to_table} already exists.")

    def repair(self, database: str | None = None, table: str | None = None) -> list[str]:
        """Refuse: the server knows its tables.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("A REST catalog cannot be repaired: its server keeps the names, schemas and files.")
