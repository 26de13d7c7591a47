"""Databases and tables that the server of a REST catalog keeps. Java: ``RESTCatalog``.

It may hand out the keys of a table's store, which end: they are renewed in time (Java: ``RESTTokenFileIO``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.errors import CatalogServerError, OptionError, PaimonError, SchemaError
from paimon_spark.metastore.metastore import Found, Metastore, TableHome, view_gone
from paimon_spark.metastore.rest_auth import EXPIRY_MARGIN_SECONDS
from paimon_spark.metastore.rest_client import RestClient
from paimon_spark.metastore.rest_table import Served, ServedTable, catalog_root, object_name, schema_json
from paimon_spark.options import GOVERNED
from paimon_spark.spec.schema import external_partitions, is_format_table, keeps_partitions
from paimon_spark.spec.view_records import Function, View, ViewChange
from paimon_spark.storage.file_io import FileIO, FileStatus
from paimon_spark.storage.read_ahead import Fetch

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_OSS_ENDPOINT = "dlf.oss-endpoint"
_known: dict[ServedTable, tuple[FileIO, float]] = {}
"""The store of each table as the latest token reaches it, and when that ends."""
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class TokenFileIO(FileIO):
    """Passes each call to the store as a token that has not ended reaches it. Picklable, without the token."""

    table: ServedTable

    @property
    def now(self) -> FileIO:
        """The store; a token that ends within an hour is renewed first."""
        with _lock:
            found = _known.get(self.table)
            if found is None or found[1] - time.time() < EXPIRY_MARGIN_SECONDS:
                token, ends = self.table.token()
                options = {**dict(self.table.client.options), **token}
                if options.get(_OSS_ENDPOINT):
                    options["fs.oss.endpoint"] = options[_OSS_ENDPOINT]
                found = _known[self.table] = FileIO.for_path(self.table.path, options), ends
        return found[0]

    @property
    def address(self) -> str:
        """The address of the server, whose paths are its own."""
        return dict(self.table.client.options).get("uri", "")

    @property
    def renews_keys(self) -> bool:
        """They are renewed by `now`."""
        return True

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return self.now.read_bytes(path)

    def read_listed(self, path: str, entry: FileStatus) -> bytes:
        """The whole file that a listing has just found."""
        return self.now.read_listed(path, entry)

    def fetch(self, path: str) -> Fetch | None:
        """Begin to read a whole file."""
        return self.now.fetch(path)

    @property
    def lists_versions(self) -> bool:
        """Whether listings say which version of a file there is."""
        return self.now.lists_versions

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The file, seekable."""
        return self.now.open_input(path, size)

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file."""
        return self.now.open_output(path)

    def write_bytes(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Write a whole file."""
        self.now.write_bytes(path, data, overwrite=overwrite)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create the file unless it exists."""
        return self.now.create_exclusive(path, data)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return self.now.exists(path)

    def file_exists(self, path: str) -> bool:
        """Whether there is a file."""
        return self.now.file_exists(path)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self.now.size(path)

    def sizes(self, paths: Collection[str]) -> dict[str, int]:
        """The bytes of those of these files that are there."""
        return self.now.sizes(paths)

    def list_names(self, path: str) -> list[FileStatus]:
        """The entries of a directory."""
        return self.now.list_names(path)

    def files_below(self, path: str) -> list[str] | None:
        """Names of all files below a directory."""
        return self.now.files_below(path)

    def mkdirs(self, path: str) -> None:
        """Make a directory."""
        self.now.mkdirs(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory."""
        self.now.rename(source, target)

    def finish_rename(self, source: str, target: str) -> bool:
        """Finish a move that was stopped."""
        return self.now.finish_rename(source, target)

    def delete_quietly(self, path: str, *, recursive: bool = False) -> bool:
        """Delete."""
        return self.now.delete_quietly(path, recursive=recursive)

    def delete_files(self, paths: Sequence[str], *, threads: int | None = None) -> list[str]:
        """Delete many files."""
        return self.now.delete_files(paths, threads=threads)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it."""
        return self.now.delete_empty_directory(path)

    def delete_empty_tree(self, path: str) -> bool:
        """Delete directories without files."""
        return self.now.delete_empty_tree(path)

    def check_deletes(self, path: str) -> None:
        """Refuse to go on where the store does not answer what deletes."""
        self.now.check_deletes(path)

    @property
    def unsafe_rename(self) -> bool:  # type: ignore[override]
        """Whether files may be created without the store's promise."""
        return self.now.unsafe_rename

    @property
    def threads(self) -> int:
        """How many files are worth working on at once."""
        return self.now.threads


_DATA_TOKEN = "data-token.enabled"


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

    @property
    def keeps_format_tables(self) -> bool:
        """The server keeps them as it keeps others."""
        return True

    @property
    def takes_locations(self) -> bool:
        """A table with a location is an external one."""
        return True

    def prepare(self, *, locks_only: bool = False) -> None:
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
            found = self.client.listed("tables", "databases", database, "tables")
        except CatalogServerError as error:
            if error.status == 404:
                return []
            raise
        return list(dict.fromkeys(str(name) for name in found))  # a server may list branches by the table's name

    def has_table(self, database: str, table: str) -> bool:
        """Return whether there is such a table."""
        return self._exists("databases", database, "tables", table)

    def has_view(self, database: str, view: str) -> bool:
        """Return whether there is such a view."""
        return self._exists("databases", database, "views", view)

    def views(self, database: str) -> list[str]:
        """Names of the views of a database; none where there is no such database."""
        try:
            return [str(name) for name in self.client.listed("views", "databases", database, "views")]
        except CatalogServerError as error:
            if error.status == 404:
                return []
            raise

    def view(self, database: str, view: str) -> View | None:
        """Look for a view; None where it is not there."""
        try:
            answer = self.client.get("databases", database, "views", view)
        except CatalogServerError as error:
            if error.status == 404:
                return None
            raise
        return View.of(answer.get("schema"), where=f"the REST catalog's answer for view {database}.{view}")

    def add_view(self, database: str, name: str, view: View) -> bool:
        """Let the server add a view; False where another one, or a table, had the name first."""
        return not self.has_table(database, name) and self._view_added(database, name, view)

    def _view_added(self, database: str, name: str, view: View) -> bool:
        body = {"identifier": _identifier(database, name), "schema": view.to_json_object()}
        return self._added(database, "views", body)

    def replace_view(self, database: str, name: str, view: View) -> None:
        """Drop a view and make it anew, as the official connector does: the interface has no other way."""
        if self.has_table(database, name):  # some servers let a table take the name of a view
            raise SchemaError(f"View {database}.{name} is not replaced: there is a table of its name.")
        self.drop_view(database, name)
        if not self._view_added(database, name, view):
            raise PaimonError(f"View {database}.{name} was not replaced: another one made a view of its name.")

    def alter_view(self, database: str, name: str, changes: Sequence[ViewChange]) -> None:
        """Let the server change what is beside the columns of a view."""
        body = {"changes": [change.to_json_object() for change in changes]}
        try:
            self.client.post("databases", database, "views", name, body=body)
        except CatalogServerError as error:
            dialect = next((change.name for change in changes if "Dialect" in change.action), None)
            if error.status == 409 and dialect is not None:
                raise SchemaError(f"Dialect {dialect} in view {database}.{name} already exists.") from None
            if error.status == 404 and error.resource == "DIALECT":
                raise SchemaError(f"Dialect {dialect} in view {database}.{name} does not exist.") from None
            if error.status == 404:
                raise view_gone(database, name) from None
            raise

    def drop_view(self, database: str, view: str) -> bool:
        """Let the server remove a view; return whether it was there."""
        return self._is_found(self.client.delete, "databases", database, "views", view)

    def rename_view(self, database: str, view: str, to_database: str, to_view: str) -> bool:
        """Let the server rename a view; False where the new name is taken."""
        if self.has_table(to_database, to_view):
            return False
        return self._renamed("views", _identifier(database, view), _identifier(to_database, to_view))

    def functions(self, database: str) -> list[str]:
        """Names of the functions of a database.

        Raises:
            PaimonError: there is no such database.
        """
        try:
            return [str(name) for name in self.client.listed("functions", "databases", database, "functions")]
        except CatalogServerError as error:
            if error.status == 404:
                raise PaimonError(f"Database {database} does not exist.") from None
            raise

    def function(self, database: str, name: str) -> Function | None:
        """Look for a function; None where it is not there."""
        try:
            answer = self.client.get("databases", database, "functions", name)
        except CatalogServerError as error:
            if error.status == 404:
                return None
            raise
        return Function.of(answer, where=f"the REST catalog's answer for function {database}.{name}")

    def add_function(self, database: str, name: str, function: Function) -> bool:
        """Let the server add a function; False where another one had the name first."""
        return self._added(database, "functions", function.to_json_object(name))

    def drop_function(self, database: str, name: str) -> bool:
        """Let the server remove a function; return whether it was there."""
        return self._is_found(self.client.delete, "databases", database, "functions", name)

    def check_schema(self, schema: TableSchema) -> None:
        """The server keeps every schema, or says why not; of a table that lies elsewhere it keeps no partitions."""
        if is_format_table(schema) and keeps_partitions(schema) and "path" in schema.options:
            raise external_partitions(schema.options["path"])

    def add_table(self, database: str, table: str, schema: TableSchema, path: str) -> bool:
        """Let the server make a table; False where another one had the name first."""
        body = {"identifier": _identifier(database, table), "schema": schema_json(schema)}
        return self._added(database, "tables", body)

    def drop_table(self, database: str, table: str) -> bool:
        """Let the server drop a table with its files; return whether it was there."""
        return self._is_found(self.client.delete, "databases", database, "tables", table)

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> bool:
        """Let the server rename a table; False where it is not there, or the new name is taken."""
        return self._renamed("tables", _identifier(database, table), _identifier(to_database, to_table))

    def schema_changed(self, database: str, table: str, schema: TableSchema, before: TableSchema) -> None:
        """The server made the schema."""

    def locked(self, database: str, name: str) -> AbstractContextManager[None]:
        """The server has no locks, and needs none."""
        return nullcontext()

    def _exists(self, *path: str) -> bool:
        return self._is_found(self.client.get, *path)

    def _is_found(self, request: Callable[..., Any], *path: str) -> bool:
        """Send a request; return whether the server has what the path names."""
        try:
            request(*path)
        except CatalogServerError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _added(self, database: str, kind: str, body: dict[str, Any]) -> bool:
        """Add an object to a database; False where another one had the name first."""
        try:
            self.client.post("databases", database, kind, body=body)
        except CatalogServerError as error:
            if error.status == 409:
                return False
            if error.status == 404:
                raise PaimonError(f"Database {database} does not exist.") from None
            raise
        return True

    def _renamed(self, kind: str, source: dict[str, str], destination: dict[str, str]) -> bool:
        """Rename an object; False where it is not there, or the new name is taken."""
        try:
            self.client.post(kind, "rename", body={"source": source, "destination": destination})
        except CatalogServerError as error:
            if error.status in (404, 409):
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
        if schema.options.get(GOVERNED, "").strip().lower() == "true":
            table = replace(table, is_governed=True)
            table.check_free_of_limits()
            schema = schema.with_options({**schema.options, GOVERNED: "false"})
        options = dict(client.options)
        if options.get(_DATA_TOKEN, "").strip().lower() == "true":
            return Found(table, served.path, schema, options, TokenFileIO(table))
        return Found(table, served.path, schema, options)


def _identifier(database: str, table: str) -> dict[str, Any]:
    return {"database": database, "object": table}
