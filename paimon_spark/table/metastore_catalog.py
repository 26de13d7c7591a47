"""Databases and tables whose names a metastore keeps; their files lie in the warehouse as in any other.

Equals Java's ``JdbcCatalog``: a table is at ``<warehouse>/<database>.db/<table>``, its schema file is the authority,
and it is there when the metastore has its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, PaimonError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.metastore.metastore import Found, Metastore, TableHome
from paimon_spark.metastore.opening import kind_of, locks_of, metastore_of, root_of
from paimon_spark.options import reaching_options
from paimon_spark.spec.file_names import is_root
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.catalog_cache import CatalogCache, changing, forget, kept, without_cache
from paimon_spark.table.filesystem_catalog import (
    DEFAULT_DATABASE,
    SYSTEM_DATABASE,
    SYSTEM_DATABASE_TABLES,
    FilesystemCatalog,
    has_schema,
    listed,
    refuse_system,
    tables_at,
)
from paimon_spark.table.iceberg_files import delete_catalog_metadata, metadata_in_catalog
from paimon_spark.table.partitions import data_root, live_partition_specs
from paimon_spark.table.paths import check_new_table_name, is_plain_name, single_slashes
from paimon_spark.table.table import FileStoreTable, create_table, load_table

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_DEFAULT = "table-default."


def open_catalog(warehouse: str, options: Mapping[str, str]) -> FilesystemCatalog:
    """Return the catalog that the options name, over a warehouse.

    Args:
        warehouse: a directory.
        options: of the catalog and the store; checked by `check_catalog_options`.

    Raises:
        OptionError: an option is missing or cannot be used.
        PaimonError: the metastore cannot be reached.
    """
    cache = CatalogCache.of(options)
    options, defaults = split_defaults(without_cache(options))
    database = options.pop("defaultDatabase", DEFAULT_DATABASE)
    if kind_of(options) == "rest":
        return replace(_served_catalog(warehouse, options, defaults, database), cache=cache)
    root = single_slashes(warehouse).rstrip("/") or "/"
    metastore, locks = metastore_of(options), locks_of(options)
    if metastore is None and locks is None:
        return FilesystemCatalog(root, reaching_options(options), defaults, database, cache)
    given = single_slashes(options.get("warehouse", root)).rstrip("/")
    if given != root:
        raise OptionError(f"The catalog has two warehouses: {root}, and the option 'warehouse' = '{given}'.")
    named = reaching_options({**options, "warehouse": root})
    if metastore is None:
        assert locks is not None
        locks.prepare(locks_only=True)
        return FilesystemCatalog(root, named, defaults, database, cache)
    metastore.prepare()
    return MetastoreCatalog(root, named, defaults, database, cache)


def split_defaults(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split the options of a catalog into its own and those of its new tables."""
    defaults = {key[len(_DEFAULT) :]: text for key, text in options.items() if key.startswith(_DEFAULT)}
    return {key: text for key, text in options.items() if not key.startswith(_DEFAULT)}, defaults


def _served_catalog(
    warehouse: str, options: Mapping[str, str], defaults: Mapping[str, str], database: str
) -> ServedCatalog:
    from paimon_spark.metastore.rest import RestMetastore  # whoever looks up `register` does without it

    given = options.get("warehouse", warehouse)
    if given != warehouse:
        raise OptionError(f"The catalog has two warehouses: {warehouse}, and the option 'warehouse' = '{given}'.")
    named = reaching_options({**options, "warehouse": warehouse})
    metastore = metastore_of(named, opens=True)
    told = split_defaults(dict(metastore.client.options))[1] if isinstance(metastore, RestMetastore) else {}
    return ServedCatalog(root_of(warehouse, named), named, {**told, **defaults}, database)


@dataclass(frozen=True)
class MetastoreCatalog(FilesystemCatalog):
    """Databases and tables of a metastore. Picklable; nothing is cached, unless ``cache-enabled`` says so."""

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
        """Return whether there is such a database, or was one a while ago (`cache-enabled`)."""
        if self.cache is None or self._is_always_there(database):
            return self.has_database(database)
        return is_plain_name(database) and self._kept_properties(database) is not None

    def has_database(self, database: str) -> bool:
        """Return whether there is such a database now; else nothing is kept of it any more."""
        if self._is_always_there(database):
            return True
        found = is_plain_name(database) and self.metastore.has_database(database)
        if not found and self.cache is not None and is_plain_name(database):
            forget(self.database_path(database))
        return found

    def _is_always_there(self, database: str) -> bool:
        return database in (SYSTEM_DATABASE, DEFAULT_DATABASE)

    def _kept_properties(self, database: str) -> dict[str, str] | None:
        """What the metastore says of a database."""
        place = self.database_path(database)
        return kept(self.cache, place, ("database",), lambda: self.metastore.database_properties(database))

    def _make_database(self, database: str, properties: Mapping[str, str]) -> None:
        self.metastore.create_database(database, self.database_path(database), properties)

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database, its ``location`` among them; None where there is no such database."""
        if database == SYSTEM_DATABASE and not self.metastore.keeps_locations:
            return super().database_properties(database)
        known = self._kept_properties(database) if is_plain_name(database) else None
        if known is None and database == DEFAULT_DATABASE and not self.metastore.keeps_locations:
            known = {}
        return None if known is None else {"location": self.database_path(database), **known}

    @changing
    def alter_database(self, database: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Change properties of a database.

        Raises:
            UnsupportedError: the metastore keeps none.
            PaimonError: there is no such database.
        """
        refuse_system(database)
        self.metastore.alter_database(database, updates, removals)

    @changing
    def drop_database(self, database: str, *, cascade: bool = False) -> None:
        """Remove a database and, with `cascade`, its views, and its tables with their files.

        Java's JDBC catalog leaves the files, so that no table of the same name can be made again; here they go. Its
        Hive catalog drops tables of others too; here they keep the database.

        Raises:
            PaimonError: there is no such database; or a table or view is in it and `cascade` is not given; or
                something that is no Paimon table, and then no table is dropped either.
        """
        refuse_system(database)
        if not self.has_database(database):
            raise PaimonError(f"Database {database} does not exist.")
        tables, others = self.metastore.tables(database), self.metastore.others(database)
        views = self.metastore.views(database)
        if (tables or views or others) and not cascade:
            raise PaimonError(f"Database {database} is not empty: drop its tables and views first, or use CASCADE.")
        if others:
            raise PaimonError(
                f"Database {database} is not dropped, nor any table in it: it has what is no Paimon table: "
                f"{listed(sorted(others))}. Drop that first, or drop the tables one by one."
            )
        for view in sorted(views):
            self.metastore.drop_view(database, view)
        for table in sorted(tables):
            self.drop_table(database, table)
        location = self._location(database)
        self.metastore.drop_database(database)
        if not is_root(location):
            self._store(location).delete_empty_tree(location)

    def is_empty(self, database: str) -> bool:
        """Return whether a database has no table, no view, and nothing else that has a name."""
        metastore = self.metastore
        return not (metastore.tables(database) or metastore.views(database) or metastore.others(database))

    def _location(self, database: str) -> str:
        """The directory of a database."""
        return self.metastore.database_path(database) or self.database_path(database)

    def _store(self, path: str) -> FileIO:
        """The store of a path that the metastore gave."""
        is_ours = path == self.warehouse or path.startswith(f"{self.warehouse.rstrip('/')}/")
        return self.file_io if is_ours else FileIO.for_path(path, self.options)

    def tables_if_there(self, database: str) -> list[str] | None:
        """Names of the tables in a database, sorted; None where there is no such database."""
        if database == SYSTEM_DATABASE:
            return list(SYSTEM_DATABASE_TABLES)
        found = self.metastore.tables(database)
        return sorted(found) if found or self.has_database(database) else None

    def table_exists(self, database: str, table: str) -> bool:
        """Return whether there is such a table."""
        return is_plain_name(database) and is_plain_name(table) and self.metastore.has_table(database, table)

    @changing
    def drop_table(self, database: str, table: str) -> None:
        """Remove a table's name, then all its files; those of an external table stay.

        Raises:
            TableNotFoundError: there is none.
            PaimonError: its files could not be deleted.
        """
        found = self._found(database, table) if is_plain_name(database) and is_plain_name(table) else None
        if found is None or not self.metastore.drop_table(database, table):
            raise TableNotFoundError(f"Table {database}.{table} does not exist.")
        store = self._store(found.path)
        if not found.is_external and store.exists(found.path):
            self._delete_table(found.path, store)

    @changing
    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> None:
        """Give a table another name, or another database; finish a rename of these names that was stopped.

        Raises:
            TableNotFoundError: there is none.
            SchemaError: there is a table with the new name, or it cannot be a table's.
            PaimonError: there is no such database to move to, or it is that of the system tables.
        """
        refuse_system(to_database)
        old, new = self._home(database, table), self._home(to_database, to_table)
        source, target = self.table_path(database, table), self.table_path(to_database, to_table)
        with ExitStack() as locks:
            for name in sorted({(database, table), (to_database, to_table)}):
                locks.enter_context(self._home(*name).locked(""))
            before = old.find(source, "")
            if before is None:
                self._finish_rename(old.new_path(source, None), new.find(target, ""), f"{database}.{table}")
                return
            if not self.has_database(to_database):
                raise PaimonError(f"Database {to_database} does not exist.")
            check_new_table_name(to_table)
            new.check_free()
            location = new.new_path(target, None)
            if not before.is_external and location != before.path and self._has_files(location):
                raise SchemaError(f"Table {to_database}.{to_table} already exists: {location} has its files.")
            if not self.metastore.rename_table(database, table, to_database, to_table):
                raise SchemaError(f"Table {to_database}.{to_table} already exists.")
            after = new.find(target, "")
            if after is None or before.is_external or before.path == after.path or not self._has_files(before.path):
                return  # Hive's metastore moves them itself
            try:
                self._move(before.path, after.path)
            except BaseException:
                self.metastore.rename_table(to_database, to_table, database, table)
                raise

    def _finish_rename(self, source: str, after: Found | None, name: str) -> None:
        """Move the files of a rename that was stopped when the metastore had the new name."""
        if after is None or self._has_files(after.path):
            raise TableNotFoundError(f"Table {name} does not exist.")
        self._move(source, after.path)

    def _has_files(self, path: str) -> bool:
        return has_schema(self._store(path), path)

    def _move(self, source: str, target: str) -> None:
        store = self._store(source)
        shared = metadata_in_catalog(store, source)
        if not store.finish_rename(source, target):
            store.mkdirs(target.rpartition("/")[0])
            store.rename(source, target)
        delete_catalog_metadata(store, shared)

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
            location = self._location(name)
            tables = tables_at(self._store(location), location) or []
            if database is not None and not self._store(location).exists(location):
                raise PaimonError(f"Database {name} cannot be repaired: there is no {location}.")
            if table is not None and table not in tables:
                raise TableNotFoundError(f"Table {name}.{table} cannot be repaired: it has no files in the warehouse.")
            if tables and not self.metastore.has_database(name):
                self._make_database(name, {})
            for found in tables if table is None else (table,):
                if self._repair_table(name, found, f"{location}/{found}"):
                    added.append(f"{name}.{found}")
        return added

    def _repair_table(self, database: str, table: str, path: str) -> bool:
        """Put a table's name into the metastore, or copy its options again; return whether it was added."""
        found = load_table(path, file_io=self._store(path))
        schema, home, added = found.schema, self._home(database, table), False
        with home.locked(""):
            if home.exists():
                home.schema_changed(schema, schema)
            else:
                home.check_free()
                added = home.add(schema, path)
        if home.knows_partitions(schema):
            home.add_partitions(live_partition_specs(found), data_root(found))
        return added

    def _found(self, database: str, table: str) -> Found | None:
        return self._home(database, table).find(self.table_path(database, table), "")

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

    def _is_always_there(self, database: str) -> bool:
        return database == SYSTEM_DATABASE

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database as the server has them; None where there is no such database."""
        if database == SYSTEM_DATABASE:
            return {}
        return self._kept_properties(database) if is_plain_name(database) else None

    @changing
    def drop_database(self, database: str, *, cascade: bool = False) -> None:
        """Remove a database and, with `cascade`, the tables in it with their files.

        Raises:
            PaimonError: there is no such database; or a table is in it and `cascade` is not given.
        """
        refuse_system(database)
        if not self.has_database(database):
            raise PaimonError(f"Database {database} does not exist.")
        if not cascade and not self.is_empty(database):
            raise PaimonError(f"Database {database} is not empty: drop its tables and views first, or use CASCADE.")
        self.metastore.drop_database(database)

    def create_table(self, database: str, table: str, schema: TableSchema) -> FileStoreTable:
        """Create a table in a database that exists; raises as in other catalogs."""
        refuse_system(database)
        check_new_table_name(table)
        return create_table(self.table_path(database, table), schema, options=self.options)

    @changing
    def drop_table(self, database: str, table: str) -> None:
        """Let the server drop a table with its files.

        Raises:
            TableNotFoundError: there is none.
        """
        if not (is_plain_name(table) and self.metastore.drop_table(database, table)):
            raise TableNotFoundError(f"Table {database}.{table} does not exist.")

    @changing
    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> None:
        """Let the server give a table another name, or another database; raises as in other catalogs."""
        refuse_system(to_database)
        check_new_table_name(to_table)
        if self.metastore.rename_table(database, table, to_database, to_table):
            return
        if not self.table_exists(database, table):
            raise TableNotFoundError(f"Table {database}.{table} does not exist.")
        if not self.has_database(to_database):
            raise PaimonError(f"Database {to_database} does not exist.")
        raise SchemaError(f"Table {to_database}.{to_table} already exists.")

    def repair(self, database: str | None = None, table: str | None = None) -> list[str]:
        """Refuse: the server knows its tables.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("A REST catalog cannot be repaired: its server keeps the names, schemas and files.")
