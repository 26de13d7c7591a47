"""The tables of a database in which JDBC catalogs keep names and locks, as Java makes and reads them.

Java: ``JdbcCatalog``, ``JdbcUtils``, ``JdbcCatalogLock`` and the ``*DistributedLockDialect`` classes.

Statements are sent to the database by Python's drivers: sqlite3, psycopg, pymysql. Addresses of JDBC,
``jdbc:<protocol>:…``, become arguments of these drivers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.metastore.metastore import LockOptions, Metastore, option_value, view_gone
from paimon_spark.spec.view_records import View, ViewChange, changed_view
from paimon_spark.storage.extras import pip_command

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_URI: Final = re.compile(r"jdbc:([A-Za-z0-9+]+):(.*)", re.DOTALL)
_DRIVERS: Final = {"sqlite": "sqlite3", "postgresql": "psycopg", "mysql": "pymysql", "mariadb": "pymysql"}
_PORTS: Final = {"psycopg": 5432, "pymysql": 3306}
_NAMES: Final = {"psycopg": "dbname", "pymysql": "database"}
_PASSED_ON: Final = {
    "psycopg": {
        "sslmode": "sslmode",
        "sslrootcert": "sslrootcert",
        "sslcert": "sslcert",
        "sslkey": "sslkey",
        "currentSchema": "options",
        "ApplicationName": "application_name",
    },
    "pymysql": {},
}
"""Properties of Java's drivers that Python's know too; others are settings of Java's drivers alone."""


@dataclass(frozen=True)
class Address:
    """Where a database is, and how it is opened."""

    driver: str
    """Python's module: sqlite3, psycopg or pymysql."""
    shown: str
    """The address for messages: without properties, which may hold a password."""
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """Keyword arguments of the module's ``connect``."""


def parse_address(uri: str, properties: Mapping[str, str]) -> Address:
    """Parse the catalog option ``uri``.

    Args:
        uri: as for Java.
        properties: the options ``jdbc.<name>`` by their names; those of the address win.

    Raises:
        OptionError: it is no address of a database that is supported.
    """
    match = _URI.fullmatch(uri.strip())
    protocol = match.group(1).lower() if match else ""
    if match is None or protocol not in _DRIVERS:
        raise OptionError(
            f"'uri' = '{uri.partition('?')[0]}' is not the address of a database that a JDBC catalog can have here: "
            "jdbc:sqlite:<file>, jdbc:postgresql://<host>:<port>/<database> or jdbc:mysql://<host>:<port>/<database>"
        )
    driver, rest = _DRIVERS[protocol], match.group(2)
    if driver == "sqlite3":
        return _sqlite(rest)
    parts = urlsplit(rest)
    name = unquote(parts.path.strip("/"))
    if not parts.hostname or not name:
        raise OptionError(
            f"'uri' = 'jdbc:{protocol}:{rest.partition('?')[0]}' names no host or no database: "
            f"jdbc:{protocol}://<host>:<port>/<database>"
        )
    given = {**properties, **dict(parse_qsl(parts.query))}
    arguments: dict[str, Any] = {"host": parts.hostname, "port": parts.port or _PORTS[driver], _NAMES[driver]: name}
    for key in ("user", "password"):
        if key in given:
            arguments[key] = given[key]
    for key, name_here in _PASSED_ON[driver].items():
        if key in given:
            arguments[name_here] = f"-c search_path={given[key]}" if key == "currentSchema" else given[key]
    return Address(driver, f"jdbc:{protocol}://{parts.hostname}:{arguments['port']}/{name}", arguments)


def _sqlite(rest: str) -> Address:
    path = rest.partition("?")[0].removeprefix("file:")
    if not path or path.startswith(":"):
        raise OptionError(
            f"'uri' = 'jdbc:sqlite:{rest}' names no file: a catalog in memory would be another one in each connection. "
            "Name one: jdbc:sqlite:/path/catalog.db"
        )
    return Address("sqlite3", f"jdbc:sqlite:{path}", {"database": path})


_EXTRA_OF_DRIVER: Final = {"psycopg": "postgresql", "pymysql": "mysql"}
_CONNECT_SECONDS: Final = 20
_IDLE_SECONDS: Final = 5.0
"""A connection that was not used for so long is tried before the next statement."""
_local = threading.local()


class NameTakenError(Exception):
    """A row of the same primary key is there."""


@dataclass(frozen=True)
class Database:
    """One database. Picklable; each thread of a process keeps a connection of its own to a server."""

    address: Address

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; ``?`` stands for each value.

        Raises:
            PaimonError: the database cannot be reached or refuses.
        """
        with self._cursor(sql, values) as cursor:
            return [tuple(row) for row in cursor.fetchall()]

    def change(self, sql: str, *values: Any) -> int:
        """Run one statement in a transaction of its own; return how many rows it changed.

        Raises:
            NameTakenError: a row of the same primary key is there.
            PaimonError: the database cannot be reached or refuses.
        """
        with self._cursor(sql, values) as cursor:
            return int(cursor.rowcount)

    def has(self, sql: str, *values: Any) -> bool:
        """Return whether a query has a row."""
        return bool(self.rows(sql, *values))

    def table_names(self) -> set[str]:
        """Names of the tables in the database (or the schema of the connection), in lower case."""
        query = {
            "sqlite3": "SELECT name FROM sqlite_master WHERE type = 'table'",
            "psycopg": "SELECT tablename FROM pg_tables WHERE schemaname = ANY (current_schemas(false))",
            "pymysql": "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
        }[self.address.driver]
        return {str(name).lower() for (name,) in self.rows(query)}

    @contextlib.contextmanager
    def _cursor(self, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        module = _module(self.address)
        text = sql if self.address.driver == "sqlite3" else sql.replace("?", "%s")
        try:
            with self._connected(module) as connection, contextlib.closing(connection.cursor()) as cursor:
                cursor.execute(text, tuple(values))
                yield cursor
        except module.IntegrityError as error:
            raise NameTakenError(str(error)) from None
        except module.Error as error:
            self._forget()
            raise PaimonError(
                f"The database of the catalog, {self.address.shown}, failed: {_sentence(error)}. See that it works "
                "and can be reached, and that 'jdbc.user' and 'jdbc.password' are right; then run it again."
            ) from None

    @contextlib.contextmanager
    def _connected(self, module: Any) -> Iterator[Any]:
        """Give a connection: of a server one that is kept; of a file a new one, for the file may be another by now."""
        if self.address.driver == "sqlite3":
            with contextlib.closing(_connect(module, self.address)) as connection:
                yield connection
            return
        kept = _connections()
        key = repr(self.address), tuple(sorted((name, str(value)) for name, value in self.address.arguments.items()))
        connection, used = kept.pop(key, (None, 0.0))
        if connection is None or (time.monotonic() - used > _IDLE_SECONDS and not _works(module, connection)):
            connection = _connect(module, self.address)
        kept[key] = (connection, time.monotonic())
        yield connection

    def _forget(self) -> None:
        """Close the connections of this thread: after an error nobody knows in what state they are."""
        kept = _connections()
        while kept:
            _, (connection, _) = kept.popitem()
            with contextlib.suppress(Exception):
                connection.close()


def _connections() -> dict[Any, tuple[Any, float]]:
    """The connections of this thread; those of a process that this one was forked from are not its own."""
    if getattr(_local, "process", None) != os.getpid():
        _local.process, _local.connections = os.getpid(), {}
    return _local.connections  # type: ignore[no-any-return]


def _works(module: Any, connection: Any) -> bool:
    try:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchall()
    except module.Error:
        return False
    return True


def _module(address: Address) -> Any:
    try:
        return import_module(address.driver)
    except ImportError:
        raise PaimonError(
            f"The catalog's database {address.shown} needs the package {address.driver}: "
            f"{pip_command(_EXTRA_OF_DRIVER[address.driver])}"
        ) from None


def _connect(module: Any, address: Address) -> Any:
    arguments = dict(address.arguments)
    if address.driver == "sqlite3":
        return module.connect(arguments["database"], timeout=_CONNECT_SECONDS, isolation_level=None)
    return module.connect(**arguments, connect_timeout=_CONNECT_SECONDS, autocommit=True)


def _sentence(error: Exception) -> str:
    return str(error.args[-1] if error.args else error).strip().splitlines()[0].rstrip(".")


_LOG = logging.getLogger(__name__)
_NAME: Final = "VARCHAR(255) NOT NULL"
_TABLES: Final = {
    "paimon_tables": f"catalog_key {_NAME}, database_name {_NAME}, table_name {_NAME}, "
    "PRIMARY KEY (catalog_key, database_name, table_name)",
    "paimon_database_properties": f"catalog_key {_NAME}, database_name {_NAME}, property_key VARCHAR(255), "
    "property_value VARCHAR(1000), PRIMARY KEY (catalog_key, database_name, property_key)",
    "paimon_table_properties": f"catalog_key {_NAME}, database_name {_NAME}, table_name {_NAME}, property_key {_NAME}, "
    "property_value VARCHAR(1000), PRIMARY KEY (catalog_key, database_name, table_name, property_key)",
    "paimon_views": f"catalog_key {_NAME}, database_name {_NAME}, view_name {_NAME}, view_schema TEXT NOT NULL, "
    "PRIMARY KEY (catalog_key, database_name, view_name)",
}
_LOCKS: Final = "paimon_distributed_locks"
_LOCKS_COLUMNS: Final = (
    "lock_id VARCHAR({length}) NOT NULL, acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, "
    "expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id)"
)
_AGE_SECONDS: Final = {
    "sqlite3": "strftime('%s', 'now') - strftime('%s', acquired_at)",
    "psycopg": "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at))",
    "pymysql": "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
}
_OF_DATABASE: Final = "catalog_key = ? AND database_name = ?"
_OF_TABLE: Final = f"{_OF_DATABASE} AND table_name = ?"
_OF_VIEW: Final = f"{_OF_DATABASE} AND view_name = ?"
_MOST_CHANGES: Final = 100
_MADE: Final = "exists"
"""The property that Java gives each database, so that one without tables has a row."""
_LOCATION: Final = "location"
_ADD_PROPERTY: Final = "INSERT INTO paimon_database_properties VALUES (?, ?, ?, ?)"
_FIRST_WAIT: Final = 0.1
_PREFIX: Final = "jdbc."
_TOO_LONG: Final = 1000


@dataclass(frozen=True)
class JdbcMetastore(Metastore):
    """Names and locks of one ``catalog-key`` in a database."""

    database: Database
    key: str
    locks: LockOptions
    lock_key_length: int
    copies_properties: bool

    @staticmethod
    def of(options: Mapping[str, str]) -> JdbcMetastore:
        """Return the metastore of a catalog's options.

        Raises:
            OptionError: an option is missing or has a value that it cannot have.
        """
        uri = options.get("uri")
        if not uri:
            raise OptionError(
                "A JDBC catalog, or its lock, needs the option 'uri': jdbc:sqlite:<file>, jdbc:postgresql://<host>/"
                "<database> or jdbc:mysql://<host>/<database>."
            )
        properties = {key[len(_PREFIX) :]: value for key, value in options.items() if key.startswith(_PREFIX)}
        return JdbcMetastore(
            Database(parse_address(uri, properties)),
            option_value(options, "catalog-key"),
            LockOptions.of(options),
            option_value(options, "lock-key-max-length"),
            option_value(options, "sync-all-properties"),
        )

    def prepare(self, *, locks_only: bool = False) -> None:
        """Make Java's tables that are missing."""
        there = self.database.table_names()
        wanted = {} if locks_only else dict(_TABLES)
        if self.locks.enabled:
            wanted[_LOCKS] = _LOCKS_COLUMNS.format(length=self.lock_key_length)
        for name, columns in wanted.items():
            if name not in there:
                try:
                    self.database.change(f"CREATE TABLE {name} ({columns})")
                except (PaimonError, NameTakenError):  # another process may have been first
                    if name not in self.database.table_names():
                        raise

    def databases(self) -> list[str]:
        """Names of all databases, unordered: those with properties, tables or views."""
        sources = ("paimon_tables", "paimon_database_properties", "paimon_views")
        query = " UNION ".join(f"SELECT database_name FROM {name} WHERE catalog_key = ?" for name in sources)
        return [name for (name,) in self.database.rows(query, self.key, self.key, self.key)]

    def has_database(self, database: str) -> bool:
        """Return whether there is such a database."""
        return database in self.databases()

    def create_database(self, database: str, location: str, properties: Mapping[str, str]) -> None:
        """Add a database with its properties and location, unless it is there."""
        for key, value in {**properties, _MADE: "true", _LOCATION: location}.items():
            with contextlib.suppress(NameTakenError):
                self.database.change(_ADD_PROPERTY, self.key, database, key, value)

    def database_properties(self, database: str) -> dict[str, str] | None:
        """Properties of a database but for its location, which follows from its name; None where it is not there."""
        query = f"SELECT property_key, property_value FROM paimon_database_properties WHERE {_OF_DATABASE}"
        found = {str(key): str(value) for key, value in self.database.rows(query, self.key, database)}
        if not found and not self.has_database(database):
            return None
        return {key: value for key, value in found.items() if key not in (_MADE, _LOCATION)}

    def alter_database(self, database: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Change properties of a database."""
        own = f"{_OF_DATABASE} AND property_key = ?"
        for key, value in updates.items():
            change = f"UPDATE paimon_database_properties SET property_value = ? WHERE {own}"
            try:
                self.database.change(_ADD_PROPERTY, self.key, database, key, value)
            except NameTakenError:
                self.database.change(change, value, self.key, database, key)
        for key in removals:
            self.database.change(f"DELETE FROM paimon_database_properties WHERE {own}", self.key, database, key)

    def drop_database(self, database: str) -> None:
        """Remove a database with every name in it."""
        for name in _TABLES:
            self.database.change(f"DELETE FROM {name} WHERE {_OF_DATABASE}", self.key, database)

    def tables(self, database: str) -> list[str]:
        """Names of the tables of a database, unordered."""
        query = f"SELECT table_name FROM paimon_tables WHERE {_OF_DATABASE}"
        return [name for (name,) in self.database.rows(query, self.key, database)]

    def has_table(self, database: str, table: str) -> bool:
        """Return whether there is such a table."""
        return self.database.has(f"SELECT 1 FROM paimon_tables WHERE {_OF_TABLE}", self.key, database, table)

    def has_view(self, database: str, view: str) -> bool:
        """Return whether there is such a view."""
        return self.database.has(f"SELECT 1 FROM paimon_views WHERE {_OF_VIEW}", self.key, database, view)

    def views(self, database: str) -> list[str]:
        """Names of the views of a database, unordered."""
        query = f"SELECT view_name FROM paimon_views WHERE {_OF_DATABASE}"
        return [name for (name,) in self.database.rows(query, self.key, database)]

    def view(self, database: str, view: str) -> View | None:
        """Look for a view; None where it is not there."""
        text = self._view_text(database, view)
        return None if text is None else View.from_json(text, where=f"view {database}.{view} of the JDBC catalog")

    def _view_text(self, database: str, view: str) -> str | None:
        query = f"SELECT view_schema FROM paimon_views WHERE {_OF_VIEW}"
        found = self.database.rows(query, self.key, database, view)
        return str(found[0][0]) if found else None

    def add_view(self, database: str, name: str, view: View) -> bool:
        """Add a view; False where another one, or a table, had the name first."""
        if self.has_table(database, name):
            return False
        try:
            insert = "INSERT INTO paimon_views VALUES (?, ?, ?, ?)"
            self.database.change(insert, self.key, database, name, view.to_json())
        except NameTakenError:
            return False
        return True

    def replace_view(self, database: str, name: str, view: View) -> None:
        """Give a view that is there another definition, in one step."""
        self._change_view(database, name, lambda _: view)

    def alter_view(self, database: str, name: str, changes: Sequence[ViewChange]) -> None:
        """Change what is beside the columns of a view that is there."""
        self._change_view(database, name, lambda view: changed_view(view, changes, name=f"{database}.{name}"))

    def _change_view(self, database: str, name: str, change: Callable[[View], View]) -> None:
        """Write a view anew; begin again where somebody else changed it meanwhile."""
        update = f"UPDATE paimon_views SET view_schema = ? WHERE {_OF_VIEW} AND view_schema = ?"
        for _ in range(_MOST_CHANGES):
            before = self._view_text(database, name)
            if before is None:
                raise view_gone(database, name)
            after = change(View.from_json(before, where=f"view {database}.{name} of the JDBC catalog")).to_json()
            if after == before or self.database.change(update, after, self.key, database, name, before):
                return
        raise PaimonError(f"View {database}.{name} was not changed: others change it all the time. Run it again.")

    def drop_view(self, database: str, view: str) -> bool:
        """Remove a view; return whether it was there."""
        return self.database.change(f"DELETE FROM paimon_views WHERE {_OF_VIEW}", self.key, database, view) > 0

    def rename_view(self, database: str, view: str, to_database: str, to_view: str) -> bool:
        """Change the name of a view that is there; False where the new name is taken."""
        if self.has_table(to_database, to_view):
            return False
        change = f"UPDATE paimon_views SET database_name = ?, view_name = ? WHERE {_OF_VIEW}"
        try:
            return self.database.change(change, to_database, to_view, self.key, database, view) > 0
        except NameTakenError:
            return False

    def check_schema(self, schema: TableSchema) -> None:
        """Refuse a schema with an option that is longer than its column, where options are copied."""
        self._properties(schema)

    def add_table(self, database: str, table: str, schema: TableSchema, path: str) -> bool:
        """Add a table, and its options where ``sync-all-properties`` is set."""
        properties = self._properties(schema)
        try:
            self.database.change("INSERT INTO paimon_tables VALUES (?, ?, ?)", self.key, database, table)
        except NameTakenError:
            return False
        self._put_properties(database, table, properties)
        return True

    def drop_table(self, database: str, table: str) -> bool:
        """Remove the name of a table and its options; return whether it was there."""
        gone = self.database.change(f"DELETE FROM paimon_tables WHERE {_OF_TABLE}", self.key, database, table)
        self.database.change(f"DELETE FROM paimon_table_properties WHERE {_OF_TABLE}", self.key, database, table)
        return gone > 0

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> bool:
        """Change the name of a table; False where it is not there, or the new name is taken."""
        values = (to_database, to_table, self.key, database, table)
        change = f"SET database_name = ?, table_name = ? WHERE {_OF_TABLE}"
        try:
            renamed = self.database.change(f"UPDATE paimon_tables {change}", *values)
        except NameTakenError:
            return False
        if renamed:
            self.database.change(f"UPDATE paimon_table_properties {change}", *values)
        return renamed > 0

    def schema_changed(self, database: str, table: str, schema: TableSchema, before: TableSchema) -> None:
        """Write the options of a table anew, where ``sync-all-properties`` is set."""
        if self.copies_properties:
            properties = self._properties(schema)
            self.database.change(f"DELETE FROM paimon_table_properties WHERE {_OF_TABLE}", self.key, database, table)
            self._put_properties(database, table, properties)

    def _properties(self, schema: TableSchema) -> dict[str, str]:
        """What is kept of a schema: its options, and its keys as options.

        Raises:
            OptionError: the value of an option is longer than the column that Java makes.
        """
        if not self.copies_properties:
            return {}
        keys = {
            "primary-key": schema.primary_keys,
            "partition": schema.partition_keys,
            "bucket-key": schema.core_options.bucket_key,
        }
        found = {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}
        for key, value in found.items():
            if len(value) > _TOO_LONG:
                raise OptionError(
                    f"The option '{key}' of the table has {len(value)} characters; a JDBC catalog keeps up to "
                    f"{_TOO_LONG} of each. Shorten it, or give the catalog 'sync-all-properties' = 'false'."
                )
        return found

    def _put_properties(self, database: str, table: str, properties: Mapping[str, str]) -> None:
        if properties:
            rows = ", ".join(["(?, ?, ?, ?, ?)"] * len(properties))
            values = [part for item in sorted(properties.items()) for part in (self.key, database, table, *item)]
            with contextlib.suppress(NameTakenError):  # somebody else wrote them at the same time
                self.database.change(f"INSERT INTO paimon_table_properties VALUES {rows}", *values)

    @contextlib.contextmanager
    def locked(self, database: str, name: str) -> Iterator[None]:
        """Hold the row of a lock, which Java's writers take for the same table."""
        if not self.locks.enabled:
            yield
            return
        lock = f"{self.key}.{database}.{name}"
        self._acquire(lock)
        try:
            yield
        finally:
            try:
                self.database.change(f"DELETE FROM {_LOCKS} WHERE lock_id = ?", lock)
            except (PaimonError, NameTakenError) as error:
                _LOG.warning(
                    "The lock %s was not released: %s. Others can take it %s seconds after it was taken.",
                    lock,
                    error,
                    int(self.locks.longest_wait.total_seconds()),
                )

    def _acquire(self, lock: str) -> None:
        seconds, begin, wait = self.locks.longest_wait.total_seconds(), time.monotonic(), _FIRST_WAIT
        age = _AGE_SECONDS[self.database.address.driver]
        while True:
            self.database.change(f"DELETE FROM {_LOCKS} WHERE {age} > expire_time_seconds AND lock_id = ?", lock)
            try:
                insert = f"INSERT INTO {_LOCKS} (lock_id, expire_time_seconds) VALUES (?, ?)"
                self.database.change(insert, lock, int(seconds))
            except NameTakenError:
                if time.monotonic() - begin > seconds:
                    raise self.locks.busy(lock) from None
                time.sleep(wait)
                wait = min(2 * wait, self.locks.longest_sleep.total_seconds())
            else:
                return
