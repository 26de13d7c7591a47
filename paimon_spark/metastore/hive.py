"""Databases and tables that a Hive metastore knows; their files are where it says. Java: ``HiveCatalog``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import PaimonError, SchemaError, UnsupportedError
from paimon_spark.metastore import hive_records as record
from paimon_spark.metastore.hive_client import (
    HEARTBEAT_SECONDS,
    HiveClient,
    HiveNoAnswerError,
    HiveRefusalError,
    address_of,
    held,
    records,
    settings_of,
)
from paimon_spark.metastore.metastore import Found, LockOptions, Metastore, TableHome, option_value, view_gone
from paimon_spark.spec.schema import is_format_table, keeps_partitions, no_partition_catalog
from paimon_spark.spec.view_records import View, ViewChange, changed_view

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_MISSING: Final = "NoSuchObjectException"
_FORMAT_TABLES: Final = "format-table.enabled"
_TAKEN: Final = "AlreadyExistsException"
_BATCH: Final = 300
_STRICT_COLUMNS: Final = "hive.metastore.disallow.incompatible.col.type.changes"
_FIELDS: Final = {"comment": "description", "owner": "ownerName", "location": "locationUri"}
"""Properties of a database that are fields of its record."""


@dataclass(frozen=True)
class HiveMetastore(Metastore):
    """Names, places and locks that a Hive metastore keeps. Picklable."""

    client: HiveClient
    warehouse: str
    locks: LockOptions
    mirrors_all: bool
    in_parameters: bool
    table_type: str
    cascades: bool
    skips_statistics: bool
    format_tables: bool | None
    """The option ``format-table.enabled``; None where it is not given."""
    beat_seconds: float = HEARTBEAT_SECONDS

    @staticmethod
    def of(options: Mapping[str, str]) -> HiveMetastore:
        """Return the metastore of a catalog's options; no request is made.

        Raises:
            OptionError: an option is missing or has a value that it cannot have.
            UnsupportedError: the metastore wants what this client cannot do.
        """
        return HiveMetastore(
            HiveClient(address_of(settings_of(options))),
            options.get("warehouse", "").rstrip("/") or "/",
            LockOptions.of(options),
            option_value(options, "sync-all-properties"),
            option_value(options, "location-in-properties"),
            option_value(options, "table.type"),
            option_value(options, "alter-table-cascade"),
            options.get("hive.skip-update-stats", "").strip().lower() == "true",
            option_value(options, _FORMAT_TABLES) if _FORMAT_TABLES in options else None,
        )

    @property
    def keeps_locations(self) -> bool:
        """The metastore says where databases and tables lie."""
        return True

    @property
    def keeps_format_tables(self) -> bool:
        """Unless ``format-table.enabled`` says no."""
        return self.format_tables is not False

    def home(self, database: str, table: str) -> TableHome:
        """The entry of a table, which may not be there."""
        return HiveHome(self, database.lower(), table.lower())  # Hive knows no upper case

    def prepare(self, *, locks_only: bool = False) -> None:
        """There is nothing to make."""

    def databases(self) -> list[str]:
        """Names of all databases: those of Hive too, as in Java."""
        return [str(name) for name in self.client.call("get_all_databases")]

    def has_database(self, database: str) -> bool:
        """Return whether there is such a database."""
        return self._database(database) is not None

    def _database(self, database: str) -> Any:
        try:
            return self.client.call("get_database", database)
        except HiveRefusalError as error:
            if error.kind == _MISSING:
                return None
            raise

    def database_path(self, database: str) -> str | None:
        """Where a database lies; None where there is none."""
        found = self._database(database)
        where = None if found is None else record.location_of_database(found, in_parameters=self.in_parameters)
        return None if where is None else record.path_of(where)

    def create_database(self, database: str, location: str, properties: Mapping[str, str]) -> None:
        """Add a database, unless it is there."""
        made = records().Database(name=database, parameters={})
        _set_properties(made, properties)
        record.place_database(made, made.locationUri or location, in_parameters=self.in_parameters)
        try:
            self.client.call("create_database", made)
        except HiveRefusalError as error:
            if error.kind != _TAKEN:
                raise

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database, its location among them; None where there is no such database."""
        found = self._database(database)
        if found is None:
            return None
        named = {key: getattr(found, name) for key, name in _FIELDS.items()}
        where = record.location_of_database(found, in_parameters=self.in_parameters)
        known = {**(found.parameters or {}), **named, "location": where and record.path_of(where)}
        return {key: str(value) for key, value in known.items() if value is not None}

    def alter_database(self, database: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Change properties of a database; what is not named stays, where Java forgets comment, owner and location."""
        found = self._database(database)
        if found is None:
            raise PaimonError(f"Database {database} does not exist.")
        for key in removals:
            if key == "comment":
                found.description = None
            found.parameters.pop(key, None)
        _set_properties(found, updates)
        self.client.call("alter_database", database, found)

    def drop_database(self, database: str) -> None:
        """Remove a database that is empty; its files stay."""
        try:
            self.client.call("drop_database", database, False, False, once=True)
        except HiveNoAnswerError:
            if self.has_database(database):
                self.client.call("drop_database", database, False, False)
        except HiveRefusalError:
            if self.has_database(database):
                raise

    def tables(self, database: str) -> list[str]:
        """Names of the tables of a database that this catalog shows; none where there is no such database."""
        return [found.tableName for found in self._tables(database) if self.shows(found)]

    def others(self, database: str) -> list[str]:
        """Names of tables that were not made for Paimon, format tables among them."""
        return [
            found.tableName
            for found in self._tables(database)
            if not (record.is_paimon(found) or record.is_view(found)) and not self._is_own_format_table(found)
        ]

    def format_schema(self, found: Any) -> TableSchema | None:
        """The schema of a format table's record; None for any other record, and for one that the catalog hides.

        Tables that Hive or Spark made for themselves are shown where ``format-table.enabled`` is set. Java: by default.
        """
        is_shown = self.format_tables or self._is_own_format_table(found)
        return record.format_schema_of(found) if is_shown else None

    def _is_own_format_table(self, found: Any) -> bool:
        return self.keeps_format_tables and record.is_made_here(found)

    def shows(self, found: Any) -> bool:
        """Whether a record is that of a table of the catalog."""
        return record.is_paimon(found) or self.format_schema(found) is not None

    def _tables(self, database: str) -> list[Any]:
        try:
            names = list(self.client.call("get_all_tables", database))
        except HiveRefusalError as error:
            if error.kind in (_MISSING, "UnknownDBException"):
                return []
            raise
        found: list[Any] = []
        for begin in range(0, len(names), _BATCH):
            found += self.client.call("get_table_objects_by_name", database, names[begin : begin + _BATCH])
        return found

    def table(self, database: str, table: str) -> Any:
        """The record of a table, a view or what else has the name; None where nothing has."""
        try:
            return self.client.call("get_table", database, table)
        except HiveRefusalError as error:
            if error.kind == _MISSING:
                return None
            raise

    def has_table(self, database: str, table: str) -> bool:
        """Return whether there is such a table, of Paimon's or of plain files."""
        found = self.table(database, table)
        return found is not None and self.shows(found)

    def has_view(self, database: str, view: str) -> bool:
        """Return whether there is such a view."""
        found = self.table(database, view)
        return found is not None and record.is_view(found)

    def views(self, database: str) -> list[str]:
        """Names of the views of a database, those of Hive too, as in Java."""
        return [found.tableName for found in self._tables(database) if record.is_view(found)]

    def view(self, database: str, view: str) -> View | None:
        """Look for a view; None where it is not there."""
        found = self.table(database, view)
        return record.view_of(found) if found is not None and record.is_view(found) else None

    def add_view(self, database: str, name: str, view: View) -> bool:
        """Add a view; False where another one, or a table, had the name first."""
        try:
            self.client.call("create_table", record.new_view(database, name, view, self.client.user))
        except HiveRefusalError as error:
            if error.kind != _TAKEN:
                raise
            return self.view(database, name) == view  # an answer that was lost
        return True

    def replace_view(self, database: str, name: str, view: View) -> None:
        """Give a view that is there another definition, in one step."""
        found = self._view_record(database, name)
        record.fill_view(found, view)
        self.client.call("alter_table", database, name, found)

    def alter_view(self, database: str, name: str, changes: Sequence[ViewChange]) -> None:
        """Change options and comment of a view that is there.

        Raises:
            UnsupportedError: a dialect is asked for: the metastore keeps one query of a view.
        """
        found = self._view_record(database, name)
        for change in changes:
            if change.action.endswith("Dialect"):
                raise UnsupportedError(
                    f"View {database}.{name} has no dialects: Hive's metastore keeps one query of a view. Change it by "
                    "ALTER VIEW … AS."
                )
        record.fill_view(found, changed_view(record.view_of(found), changes, name=f"{database}.{name}"))
        self.client.call("alter_table", database, name, found)

    def _view_record(self, database: str, name: str) -> Any:
        found = self.table(database, name)
        if found is None or not record.is_view(found):
            raise view_gone(database, name)
        return found

    def drop_view(self, database: str, view: str) -> bool:
        """Remove a view; return whether it was there."""
        found = self.table(database, view)
        return found is not None and record.is_view(found) and self.drop_table(database, view)

    def rename_view(self, database: str, view: str, to_database: str, to_view: str) -> bool:
        """Change the name of a view that is there; False where the new name is taken."""
        return self.rename_table(database, view, to_database, to_view)

    def check_schema(self, schema: TableSchema) -> None:
        """Refuse columns of types that Hive has none for, and format tables whose partitions it is to keep."""
        if is_format_table(schema) and keeps_partitions(schema):
            raise no_partition_catalog("A format table")
        for field in schema.fields:
            record.hive_type(field.type)

    def add_table(self, database: str, table: str, schema: TableSchema, path: str) -> bool:
        """Add a table; False where another one had the name first."""
        made = self._new_record(database, table, schema, path)
        try:
            self.client.call("create_table", made)
        except HiveRefusalError as error:
            if error.kind != _TAKEN:
                raise
            found = self.table(database, table)  # an answer that was lost: the files of the path are ours alone
            return found is not None and self.shows(found) and self.path_of(found) == record.path_of(path)
        return True

    def _new_record(self, database: str, table: str, schema: TableSchema, path: str) -> Any:
        owner, in_parameters = self.client.user, self.in_parameters
        is_external = record.asks_for_external(schema.options, self.table_type)
        if is_format_table(schema):
            return record.new_format_table(
                database, table, schema, path, owner=owner, is_external=is_external, in_parameters=in_parameters
            )
        return record.new_table(
            database,
            table,
            schema,
            path,
            owner=owner,
            is_external=is_external,
            mirrors_all=self.mirrors_all,
            in_parameters=in_parameters,
        )

    def path_of(self, found: Any) -> str:
        """The directory of a table."""
        return record.path_of(record.location_of(found, in_parameters=self.in_parameters))

    def drop_table(self, database: str, table: str) -> bool:
        """Remove the name of a table, not its files; return whether it was there."""
        try:
            self.client.call("drop_table", database, table, False, done_by=(_MISSING,))
        except HiveRefusalError as error:
            if error.kind == _MISSING:
                return False
            raise
        return True

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> bool:
        """Change the name of a table; False where it is not there, or the new name is taken."""
        found = self.table(database, table)
        if found is None:
            return False
        if self.table(to_database, to_table) is not None:
            return False
        found.dbName, found.tableName = to_database, to_table
        self.client.call("alter_table", database, table, found, done_by=("InvalidOperationException",))
        return True

    def schema_changed(self, database: str, table: str, schema: TableSchema, before: TableSchema) -> None:
        """Write columns, options and comment of a table into its record."""
        found = self.table(database, table)
        if found is None:
            raise PaimonError(f"Table {database}.{table} is not in the Hive metastore: it was dropped.")
        if not record.is_paimon(found):
            raise SchemaError(f"Table {database}.{table} is not a paimon table in the Hive metastore.")
        record.alter(found, schema, before, mirrors_all=self.mirrors_all, in_parameters=self.in_parameters)
        keeps = self.skips_statistics or found.parameters.get("DO_NOT_UPDATE_STATS", "").lower() == "true"
        properties = {"DO_NOT_UPDATE_STATS": str(keeps).lower(), **({"CASCADE": "true"} if self.cascades else {})}
        context = records().EnvironmentContext(properties=properties)
        try:
            self.client.call("alter_table_with_environment_context", database, table, found, context)
        except HiveRefusalError as error:
            if "incompatible" not in str(error):
                raise
            raise PaimonError(
                f"{error} Hive compares columns by their places. Set '{_STRICT_COLUMNS}' = 'false' on the metastore, "
                "as for Java's catalog."
            ) from None

    def locked(self, database: str, name: str) -> AbstractContextManager[None]:
        """Hold the EXCLUSIVE lock of a table, which Java's writers take for the same one."""
        if not self.locks.enabled:
            return nullcontext()
        return held(self.client, self.locks, database, name, self.beat_seconds)


@dataclass(frozen=True)
class HiveHome(TableHome):
    """A table in a Hive metastore, which says where its files lie. Picklable."""

    metastore: HiveMetastore

    @property
    def address(self) -> str | None:
        """The path by which the catalog's options lead to the table, wherever its files are."""
        return f"{self.metastore.warehouse.rstrip('/')}/{self.database}.db/{self.table}"

    def find(self, root: str, branch: str) -> Found | None:
        """Ask the metastore for the table."""
        found = self.metastore.table(self.database, self.table)
        schema = None if found is None else self.metastore.format_schema(found)
        if found is None or (schema is None and not record.is_paimon(found)):
            return None
        return Found(self, self.metastore.path_of(found), schema, is_external=record.is_external(found))

    def new_path(self, root: str, schema: TableSchema | None) -> str:
        """The option ``path``, or a directory of the name below that of the database."""
        own = "" if schema is None else schema.options.get("path", "").strip()
        if own:
            return record.path_of(own)
        above = self.metastore.database_path(self.database)
        return root if above is None else f"{above}/{self.table}"

    def adopts(self, schema: TableSchema) -> bool:
        """Whether the new table is an external one."""
        return record.asks_for_external(schema.options, self.metastore.table_type)

    def knows_partitions(self, schema: TableSchema) -> bool:
        """Where the table's option ``metastore.partitioned-table`` says so."""
        return record.knows_partitions(schema)

    def add_partitions(self, partitions: Sequence[Mapping[str, str]], directory: str) -> None:
        """Add the partitions that the metastore does not have."""
        found = self.metastore.table(self.database, self.table)
        if found is None or not found.partitionKeys:
            return
        in_parameters = self.metastore.in_parameters
        made = [record.new_partition(found, each, directory, in_parameters=in_parameters) for each in partitions]
        request = records().AddPartitionsRequest(self.database, self.table, made, ifNotExists=True, needResult=False)
        self.metastore.client.call("add_partitions_req", request)

    def drop_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Remove partitions, not their files."""
        for each in partitions:
            values = list(each.values())
            try:
                self.metastore.client.call("drop_partition", self.database, self.table, values, False)
            except HiveRefusalError as error:
                if error.kind != _MISSING:
                    raise

    @property
    def mark_actions(self) -> frozenset[str]:
        """Events, and partitions whose names end with ``.done``."""
        return frozenset(("mark-event", "done-partition"))

    def mark_partitions_done(self, branch: str, partitions: Sequence[Mapping[str, str]]) -> None:
        """Send the event ``LOAD_DONE`` of partitions; of one that the metastore does not have none, as in Java."""
        done = records().PartitionEventType.LOAD_DONE
        for each in partitions:
            try:
                self.metastore.client.call("markPartitionForEvent", self.database, self.table, dict(each), done)
            except HiveRefusalError as error:
                if error.kind != _MISSING:
                    raise

    def measure_partitions(self, statistics: Sequence[Mapping[str, Any]]) -> None:
        """Write the sums of partitions into their parameters."""
        for each in statistics:
            try:
                found = self.metastore.client.call(
                    "get_partition", self.database, self.table, list(each["spec"].values())
                )
            except HiveRefusalError as error:
                if error.kind != _MISSING:
                    raise
                continue
            record.measure(found, each)
            self.metastore.client.call("alter_partition", self.database, self.table, found)

    def check_free(self) -> None:
        """Refuse a name that a table of Hive's has, too."""
        found = self.metastore.table(self.database, self.table)
        if found is not None and not self.metastore.shows(found) and not record.is_view(found):
            raise SchemaError(
                f"Table {self.database}.{self.table} already exists, but this table is not a paimon table."
            )
        super().check_free()


def _set_properties(found: Any, properties: Mapping[str, str]) -> None:
    for key, value in properties.items():
        if key in _FIELDS:
            setattr(found, _FIELDS[key], value)
        else:
            found.parameters[key] = value
