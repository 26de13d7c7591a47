"""Statements sent to the database of a JDBC catalog, by Python's drivers: sqlite3, psycopg, pymysql."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from paimon_spark.errors import PaimonError
from paimon_spark.metastore.jdbc_uri import Address

_PACKAGES: Final = {
    "psycopg": "pip install 'paimon-spark[postgresql]'",
    "pymysql": "pip install 'paimon-spark[mysql]'",
}
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
            f"The catalog's database {address.shown} needs the package {address.driver}: {_PACKAGES[address.driver]}"
        ) from None


def _connect(module: Any, address: Address) -> Any:
    arguments = dict(address.arguments)
    if address.driver == "sqlite3":
        return module.connect(arguments["database"], timeout=_CONNECT_SECONDS, isolation_level=None)
    return module.connect(**arguments, connect_timeout=_CONNECT_SECONDS, autocommit=True)


def _sentence(error: Exception) -> str:
    return str(error.args[-1] if error.args else error).strip().splitlines()[0].rstrip(".")
