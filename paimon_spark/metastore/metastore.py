"""What a catalog asks of its metastore, what a table of one asks while it is written, and the options of its locks.

Java: ``AbstractCatalog`` (``lockEnabled``) and ``CatalogLock``.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError, SchemaError, TableBusyError, UnsupportedError
from paimon_spark.options import find_option
from paimon_spark.storage.directory_entries import NO_DIRECTORIES
from paimon_spark.storage.store_options import FSSPEC_SCHEME, scheme_of

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.view_records import View, ViewChange
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.storage.publisher import TableServer


class Metastore(abc.ABC):
    """Names of databases and tables, kept by a server or a file. Picklable."""

    @property
    def keeps_tables(self) -> bool:
        """Whether a server makes and deletes the files of tables, and keeps their schemas; else those stay files."""
        return False

    @property
    def keeps_locations(self) -> bool:
        """Whether it says where databases and tables lie; else that follows from their names."""
        return False

    @property
    def takes_locations(self) -> bool:
        """Whether a statement may say where a new table lies."""
        return self.keeps_locations

    @property
    def keeps_format_tables(self) -> bool:
        """Whether tables of plain files are tables of the catalog."""
        return False

    def home(self, database: str, table: str) -> TableHome:
        """The entry of a table, which may not be there."""
        return TableHome(self, database, table)

    @abc.abstractmethod
    def prepare(self, *, locks_only: bool = False) -> None:
        """Make what the metastore lacks to keep names and locks."""

    @abc.abstractmethod
    def databases(self) -> list[str]:
        """Names of all databases, unordered."""

    @abc.abstractmethod
    def has_database(self, database: str) -> bool:
        """Return whether there is such a database."""

    @abc.abstractmethod
    def create_database(self, database: str, location: str, properties: Mapping[str, str]) -> None:
        """Add a database, unless it is there; not every metastore keeps the properties."""

    def database_path(self, database: str) -> str | None:
        """Where a database lies, as far as the metastore says it; None where that follows from its name."""
        return None

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database that the metastore keeps; None where there is no such database."""
        return {} if self.has_database(database) else None

    def alter_database(self, database: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Change properties of a database.

        Raises:
            UnsupportedError: the metastore keeps none.
        """
        raise UnsupportedError(f"Alter database is not supported: the catalog keeps no properties of {database}.")

    @abc.abstractmethod
    def drop_database(self, database: str) -> None:
        """Remove a database with every name in it."""

    def others(self, database: str) -> list[str]:
        """Names of what is in a database and is no table of ours: it is never touched, and keeps the database."""
        return []

    @abc.abstractmethod
    def tables(self, database: str) -> list[str]:
        """Names of the tables of a database, unordered."""

    @abc.abstractmethod
    def has_table(self, database: str, table: str) -> bool:
        """Return whether there is such a table."""

    @abc.abstractmethod
    def has_view(self, database: str, view: str) -> bool:
        """Return whether there is such a view; a table cannot have its name."""

    @abc.abstractmethod
    def views(self, database: str) -> list[str]:
        """Names of the views of a database, unordered."""

    @abc.abstractmethod
    def view(self, database: str, view: str) -> View | None:
        """Look for a view; None where it is not there."""

    @abc.abstractmethod
    def add_view(self, database: str, name: str, view: View) -> bool:
        """Add a view; False where another one, or a table, had the name first."""

    @abc.abstractmethod
    def replace_view(self, database: str, name: str, view: View) -> None:
        """Give a view that is there another definition.

        Raises:
            PaimonError: it is not there any more.
        """

    @abc.abstractmethod
    def alter_view(self, database: str, name: str, changes: Sequence[ViewChange]) -> None:
        """Change what is beside the columns of a view that is there.

        Raises:
            SchemaError: a dialect is there already, or is not there.
            PaimonError: it is not there any more.
        """

    @abc.abstractmethod
    def drop_view(self, database: str, view: str) -> bool:
        """Remove a view; return whether it was there."""

    @abc.abstractmethod
    def rename_view(self, database: str, view: str, to_database: str, to_view: str) -> bool:
        """Change the name of a view that is there; False where the new name is taken."""

    @abc.abstractmethod
    def check_schema(self, schema: TableSchema) -> None:
        """Refuse a schema of which the metastore could not keep what it copies.

        Raises:
            OptionError: names the option.
        """

    @abc.abstractmethod
    def add_table(self, database: str, table: str, schema: TableSchema, path: str) -> bool:
        """Add a table whose files are at a path; False where another one had the name first."""

    @abc.abstractmethod
    def drop_table(self, database: str, table: str) -> bool:
        """Remove the name of a table; return whether it was there."""

    @abc.abstractmethod
    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> bool:
        """Change the name of a table; False where it is not there, or the new name is taken."""

    @abc.abstractmethod
    def schema_changed(self, database: str, table: str, schema: TableSchema, before: TableSchema) -> None:
        """Take over what a new schema says, where the metastore keeps copies of it; ``before`` is the one before it."""

    @abc.abstractmethod
    def locked(self, database: str, name: str) -> AbstractContextManager[None]:
        """Hold the lock of a table, or of its branch ``t$branch_b``; nothing where the catalog has no locks.

        Raises:
            TableBusyError: others held it for too long.
        """


@dataclass(frozen=True)
class Found:
    """A table that a metastore has."""

    home: TableHome
    path: str
    """Where its files are."""
    schema: TableSchema | None = None
    """The latest one; None where the schema files are the authority."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further options of the store."""
    file_io: FileIO | None = None
    """The store; None where path and options make it."""
    is_external: bool = False
    """Whether the files outlive the table."""


@dataclass(frozen=True)
class TableHome:
    """A table in its metastore: whom its writes ask. Picklable."""

    metastore: Metastore
    database: str
    table: str

    @property
    def server(self) -> TableServer | None:
        """Who decides in place of the files; None where the files do."""
        return None

    @property
    def address(self) -> str | None:
        """The path by which the catalog's options lead to the table; None where that is the one of its files."""
        return None

    def new_path(self, root: str, schema: TableSchema | None) -> str:
        """Where the files of a table with this name, not yet there, will be.

        Args:
            root: its path in the catalog.
            schema: its first one; None where it is another table that gets the name.
        """
        return root

    def adopts(self, schema: TableSchema) -> bool:
        """Whether the new table is one whose files outlive it, and may be there before it."""
        return False

    def find(self, root: str, branch: str) -> Found | None:
        """Look for the table; None where it is not there.

        Args:
            root: its path in the catalog.
            branch: which schema is wanted.
        """
        return Found(self, root) if self.exists() else None

    def exists(self) -> bool:
        """Return whether the metastore has the table."""
        return self.metastore.has_table(self.database, self.table)

    def check_new(self, schema: TableSchema) -> None:
        """Refuse to make the table.

        Raises:
            SchemaError: a table or a view has its name.
            OptionError: the metastore could not keep an option of it.
        """
        self.check_free()
        self.metastore.check_schema(schema)

    def check_free(self) -> None:
        """Refuse a name that a table or a view has.

        Raises:
            SchemaError: one has.
        """
        if self.exists():
            raise self.taken()
        if self.metastore.has_view(self.database, self.table):
            raise SchemaError(f"Table {self.database}.{self.table} cannot be made: a view has its name.")

    def add(self, schema: TableSchema, path: str) -> bool:
        """Put the table's name into the metastore; False where another one had it first."""
        return self.metastore.add_table(self.database, self.table, schema, path)

    def taken(self) -> SchemaError:
        """Say that there is such a table."""
        return SchemaError(f"Table {self.database}.{self.table} already exists.")

    def locked(self, branch: str) -> AbstractContextManager[None]:
        """Hold the lock of the table's branch; ``branch`` is empty for the main one.

        Raises:
            TableBusyError: it was not got, for whatever reason: nothing was done.
        """
        return self._locked(branch)

    @contextmanager
    def _locked(self, branch: str) -> Iterator[None]:
        name = f"{self.table}$branch_{branch}" if branch else self.table
        with ExitStack() as held:
            try:
                held.enter_context(self.metastore.locked(self.database, name))
            except TableBusyError:
                raise
            except PaimonError as error:
                raise TableBusyError(f"The lock {self.database}.{name} of the catalog was not got: {error}") from error
            yield

    def schema_changed(self, schema: TableSchema, before: TableSchema) -> None:
        """Tell the metastore that the table gets a new schema.

        Raises:
            PaimonError: it refuses, or cannot be reported.
        """
        try:
            self.metastore.schema_changed(self.database, self.table, schema, before)
        except PaimonError as error:
            raise PaimonError(
                f"Table {self.database}.{self.table} was not changed, for the catalog's metastore does not take the "
                f"change: {error}"
            ) from error

    def knows_partitions(self, schema: TableSchema) -> bool:
        """Whether the metastore is informed of partitions."""
        return False

    def add_partitions(self, partitions: Sequence[Mapping[str, str]], directory: str) -> None:
        """Add partitions, given as texts by column, that are not known yet; their data is below a directory."""

    def drop_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Remove partitions, as far as they are known."""

    def measure_partitions(self, statistics: Sequence[Mapping[str, Any]]) -> None:
        """Learn the sums of partitions, given as Java's ``PartitionStatistics``."""

    @property
    def mark_actions(self) -> frozenset[str]:
        """Values of `partition.mark-done-action` that the metastore can carry out."""
        return frozenset()

    def mark_partitions_done(self, branch: str, partitions: Sequence[Mapping[str, str]]) -> None:
        """Tell whoever listens to the metastore that partitions are done."""

    def forget(self) -> None:
        """Remove the table's name from the metastore."""
        self.metastore.drop_table(self.database, self.table)


@dataclass(frozen=True)
class LockedDirectory(TableHome):
    """A table of a catalog that is a directory: the metastore has its lock and does not know it (`lock.type`)."""

    def find(self, root: str, branch: str) -> Found | None:
        """Its files say whether it is there."""
        return Found(self, root)

    def check_new(self, schema: TableSchema) -> None:
        """There is nothing to refuse."""

    def add(self, schema: TableSchema, path: str) -> bool:
        """There is nothing to add."""
        return True

    def schema_changed(self, schema: TableSchema, before: TableSchema) -> None:
        """There is nobody to tell."""

    def forget(self) -> None:
        """There is nothing to remove."""


def view_gone(database: str, view: str) -> PaimonError:
    """The error for a view that another one has dropped meanwhile."""
    return PaimonError(f"View {database}.{view} is not in the catalog any more: it was dropped.")


@dataclass(frozen=True)
class LockOptions:
    """Whether commits take the catalog's lock, and how long they wait for it."""

    enabled: bool
    longest_wait: timedelta
    longest_sleep: timedelta

    @staticmethod
    def of(options: Mapping[str, str]) -> LockOptions:
        """Read the options of a catalog.

        Raises:
            OptionError: one has a value that it cannot have.
        """
        enabled = option_value(options, "lock.enabled")
        return LockOptions(
            _is_object_store(options.get("warehouse", "")) if enabled is None else enabled,
            option_value(options, "lock-acquire-timeout"),
            option_value(options, "lock-check-max-sleep"),
        )

    def busy(self, lock: str) -> TableBusyError:
        """Say that others held a lock for too long."""
        return TableBusyError(
            f"The lock {lock} of the catalog was held by others for {self.longest_wait.total_seconds():g} seconds "
            "('lock-acquire-timeout'). Nothing was done; run it again."
        )


def option_value(options: Mapping[str, str], key: str) -> Any:
    """The value of an option of a catalog, or its default."""
    option = find_option(key)
    assert option is not None, key
    return option.parse(options[key]) if key in options else option.default


def _is_object_store(warehouse: str) -> bool:
    """Whether Java takes locks where `lock.enabled` is not set (``FileIO.isObjectStore``)."""
    scheme = scheme_of(warehouse)
    return FSSPEC_SCHEME.get(scheme, scheme) in NO_DIRECTORIES
