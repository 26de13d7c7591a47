"""Statements sent to the database of a JDBC catalog, by Python's drivers: sqlite3, psycopg, pymysql.

Addresses of JDBC, ``jdbc:<protocol>:…``, become arguments of these drivers.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.storage.extras import pip_command

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
