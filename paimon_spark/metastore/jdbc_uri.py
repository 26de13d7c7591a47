"""Addresses of JDBC, ``jdbc:<protocol>:…``, as arguments of Python's drivers of the same databases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from paimon_spark.errors import OptionError

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
