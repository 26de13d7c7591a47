"""Databases and tables that the server of a REST catalog keeps. Java: ``RESTCatalog``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import CatalogServerError, OptionError, PaimonError, UnsupportedError
from paimon_spark.metastore.metastore import Found, Metastore, TableHome
from paimon_spark.metastore.rest_client import RestClient
from paimon_spark.metastore.rest_files import TokenFileIO
from paimon_spark.metastore.rest_table import Served, ServedTable, catalog_root, object_name, schema_json

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_DATA_TOKEN = "data-token.enabled"
_QUERY_AUTH = "query-auth.enabled"


@dataclass(frozen=True)
class RestMetastore(Metastore):
    """Names, schemas and snapshots that a server keeps; it makes and deletes the files of tables, too."""

    client: RestClient
    root: str
    """The path of the catalog: ``rest://<warehouse>``."""

    @staticmethod
    def of(options: Mapping[str, str], *, again: bool = False) -> RestMetastore:
        """Return the metastore of a catalog's options.

        Args:
            options: of the catalog.
            again: the catalog is opened: the server is asked for its configuration, also where this process has it.

        Raises:
            OptionError: an option is missing or has a value that it cannot have.
            CatalogServerError: the server gives no configuration.
        """
        if not options.get("warehouse"):
            raise OptionError("A REST catalog needs the option 'warehouse': the name that its server has for it.")
        return RestMetastore(RestClient.of(options, again=again), catalog_root(options["warehouse"]))

    @property
    def keeps_tables(self) -> bool:
        """The server makes and deletes the files of tables."""
        return True

    def prepare(self) -> None:
        """There is nothing to make."""

    def home(self, database: str, table: str) -> TableHome:
        """The entry of a table, which may not be there."""
        return RestHome(self, database, table)

    def databases(self) -> list[str]:
        """Names of all databases."""
        return [str(name) for name in self.client.listed("databases", "databases")]

    def has_database(self, database: str) -> bool:
        """Return whether there is such a database."""
        return self._exists("databases", database)

    def create_database(self, database: str, location: str, properties: Mapping[str, str]) -> None:
        """Add a database, unless it is there."""
        try:
            self.client.post("databases", body={"name": database, "options": dict(properties)})
        except CatalogServerError as error:
            if error.status != 409:
                raise

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database, its location among them; None where there is no such database."""
        try:
            answer = self.client.get("databases", database)
        except CatalogServerError as error:
            if error.status == 404:
                return None
            raise
        found = {key: str(value) for key, value in (answer.get("options") or {}).items() if value is not None}
        location = answer.get("location")
        return {**found, "location": str(location)} if location else found

    def alter_database(self, database: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Change properties of a database."""
        body = {"removals": list(removals), "updates": dict(updates)}
        try:
            self.client.post("databases", database, body=body)
        except CatalogServerError as error:
            if error.status == 404:
                raise PaimonError(f"Database {database} does not exist.") from None
            raise

    def drop_database(self, database: str) -> None:
        """Remove a database with every table in it."""
        try:
            self.client.delete("databases", database)
        except CatalogServerError as error:
            if error.status != 404:
                raise

    def tables(self, database: str) -> list[str]:
        """Names of the tables of a database; none where there is no such database."""
        try:
            return [str(name) for name in self.client.listed("tables", "databases", database, "tables")]
        except CatalogServerError as error:
            if error.status == 404:
                return []
            raise

    def has_table(self, database: str, table: str) -> bool:
        """Return whether there is such a table."""
        return self._exists("databases", database, "tables", table)

    def has_view(self, database: str, view: str) -> bool:
        """Return whether there is such a view."""
        return self._exists("databases", database, "views", view)

    def check_schema(self, schema: TableSchema) -> None:
        """The server keeps every schema, or says why not."""

    def add_table(self, database: str, table: str, schema: TableSchema, path: str) -> bool:
        """Let the server make a table; False where another one had the name first."""
        body = {"identifier": _identifier(database, table), "schema": schema_json(schema)}
        try:
            self.client.post("databases", database, "tables", body=body)
        except CatalogServerError as error:
            if error.status == 409:
                return False
            if error.status == 404:
                raise PaimonError(f"Database {database} does not exist.") from None
            raise
        return True

    def drop_table(self, database: str, table: str) -> bool:
        """Let the server drop a table with its files; return whether it was there."""
        try:
            self.client.delete("databases", database, "tables", table)
        except CatalogServerError as error:
            if error.status == 404:
                return False
            raise
        return True

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> bool:
        """Let the server rename a table; False where it is not there, or the new name is taken."""
        body = {"source": _identifier(database, table), "destination": _identifier(to_database, to_table)}
        try:
            self.client.post("tables", "rename", body=body)
        except CatalogServerError as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    def schema_changed(self, database: str, table: str, schema: TableSchema, before: TableSchema) -> None:
        """The server made the schema."""

    def locked(self, database: str, name: str) -> AbstractContextManager[None]:
        """The server has no locks, and needs none."""
        return nullcontext()

    def _exists(self, *path: str) -> bool:
        try:
            self.client.get(*path)
        except CatalogServerError as error:
            if error.status == 404:
                return False
            raise
        return True


@dataclass(frozen=True)
class RestHome(TableHome):
    """A table of a REST catalog that is looked for."""

    metastore: RestMetastore

    def find(self, root: str, branch: str) -> Found | None:
        """Ask the server for the table."""
        client = self.metastore.client
        try:
            answer = client.get("databases", self.database, "tables", object_name(self.table, branch))
        except CatalogServerError as error:
            if error.status == 404:
                return None
            raise
        name = f"{self.database}.{object_name(self.table, branch)}"
        served = Served.of(answer, name)
        table = ServedTable(
            self.metastore,
            self.database,
            self.table,
            client,
            self.metastore.root,
            served.id,
            served.path,
            served.is_external,
        )
        schema = served.schema
        if schema.options.get(_QUERY_AUTH, "").strip().lower() == "true":
            _check_free_of_limits(table, name)
            schema = schema.with_options({**schema.options, _QUERY_AUTH: "false"})
        options = dict(client.options)
        if options.get(_DATA_TOKEN, "").strip().lower() == "true":
            return Found(table, served.path, schema, options, TokenFileIO(table))
        return Found(table, served.path, schema, options)


def _check_free_of_limits(table: ServedTable, name: str) -> None:
    """Refuse a governed table of which the server hides rows or values (Java: ``TableQueryAuthResult``).

    Raises:
        UnsupportedError: it does.
    """
    answer = table.authorization()
    limits = [key for key in ("filter", "columnMasking") if answer.get(key)]
    if limits:
        what = {"filter": "rows", "columnMasking": "values"}
        raise UnsupportedError(
            f"Table {name} is governed ('{_QUERY_AUTH}'), and its REST catalog hides "
            f"{' and '.join(what[limit] for limit in limits)} of it from you, which is not supported. Read it with the "
            "official connector, or ask for the right to read all of it."
        )


def _identifier(database: str, table: str) -> dict[str, Any]:
    return {"database": database, "object": table}
