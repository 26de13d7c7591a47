"""What a catalog asks of its metastore, and what a table of one asks while it is written.

Java: ``AbstractCatalog`` and ``CatalogLock``.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paimon_spark.errors import SchemaError, UnsupportedError

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.storage.publisher import TableServer


class Metastore(abc.ABC):
    """Names of databases and tables, kept by a server or a file. Picklable."""

    @property
    def keeps_tables(self) -> bool:
        """Whether a server makes and deletes the files of tables, and keeps their schemas; else those stay files."""
        return False

    def home(self, database: str, table: str) -> TableHome:
        """The entry of a table, which may not be there."""
        return TableHome(self, database, table)

    @abc.abstractmethod
    def prepare(self) -> None:
        """Make what the metastore lacks to keep names."""

    @abc.abstractmethod
    def databases(self) -> list[str]:
        """Names of all databases, unordered."""

    @abc.abstractmethod
    def has_database(self, database: str) -> bool:
        """Tell whether there is such a database."""

    @abc.abstractmethod
    def create_database(self, database: str, location: str, properties: Mapping[str, str]) -> None:
        """Add a database, unless it is there; only a server keeps the properties."""

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database that a server keeps; None where there is no such database."""
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

    @abc.abstractmethod
    def tables(self, database: str) -> list[str]:
        """Names of the tables of a database, unordered."""

    @abc.abstractmethod
    def has_table(self, database: str, table: str) -> bool:
        """Tell whether there is such a table."""

    @abc.abstractmethod
    def has_view(self, database: str, view: str) -> bool:
        """Tell whether there is such a view; a table cannot have its name."""

    @abc.abstractmethod
    def check_schema(self, schema: TableSchema) -> None:
        """Refuse a schema of which the metastore could not keep what it copies.

        Raises:
            OptionError: names the option.
        """

    @abc.abstractmethod
    def add_table(self, database: str, table: str, schema: TableSchema) -> bool:
        """Add a table; False where another one had the name first."""

    @abc.abstractmethod
    def drop_table(self, database: str, table: str) -> bool:
        """Remove the name of a table; return whether it was there."""

    @abc.abstractmethod
    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> bool:
        """Change the name of a table; False where it is not there, or the new name is taken."""

    @abc.abstractmethod
    def schema_changed(self, database: str, table: str, schema: TableSchema) -> None:
        """Take over what a new schema says, where the metastore keeps copies of it."""

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

    def find(self, root: str, branch: str) -> Found | None:
        """Look for the table; None where it is not there.

        Args:
            root: its path in the catalog.
            branch: which schema is wanted.
        """
        return Found(self, root) if self.exists() else None

    def exists(self) -> bool:
        """Tell whether the metastore has the table."""
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

    def add(self, schema: TableSchema) -> bool:
        """Put the table's name into the metastore; False where another one had it first."""
        return self.metastore.add_table(self.database, self.table, schema)

    def taken(self) -> SchemaError:
        """Say that there is such a table."""
        return SchemaError(f"Table {self.database}.{self.table} already exists.")

    def locked(self, branch: str) -> AbstractContextManager[None]:
        """Hold the lock of the table's branch; ``branch`` is empty for the main one."""
        return self.metastore.locked(self.database, f"{self.table}$branch_{branch}" if branch else self.table)

    def schema_changed(self, schema: TableSchema) -> None:
        """Tell the metastore that the table has a new schema."""
        self.metastore.schema_changed(self.database, self.table, schema)

    def forget(self) -> None:
        """Remove the table's name from the metastore."""
        self.metastore.drop_table(self.database, self.table)
