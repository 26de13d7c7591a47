"""Iceberg's REST catalog on this machine, from the jars of Iceberg, and pyiceberg as its reader."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from tests.support.java_server import first_line, java_server
from tests.support.maven_jars import fetched, spark_jars

_SOURCE = Path(__file__).with_name("IcebergRestServer.java")
_NEEDED = ("hadoop-client-", "slf4j-api", "commons-")
VERSION = "1.10.0"


@dataclass(frozen=True)
class IcebergRestServer:
    """A server that runs."""

    uri: str

    def reader(self) -> Catalog:
        """The catalog as pyiceberg sees it."""
        return load_catalog("c", type="rest", uri=self.uri)

    def table(self, name: str, database: str = "ice") -> Any:
        """A table of it, in pyiceberg."""
        return self.reader().load_table((database, name))


def iceberg_jars() -> list[str]:
    """Paths of the jars of Iceberg's server.

    Raises:
        OSError: there is no Maven.
        RuntimeError: they cannot be fetched.
    """
    core = ("org.apache.iceberg", "iceberg-core", VERSION)
    return fetched(f"iceberg-rest-{VERSION}", [], [core, (*core, "tests"), ("org.xerial", "sqlite-jdbc", "3.50.3.0")])


@contextmanager
def iceberg_rest_server() -> Iterator[IcebergRestServer]:
    """Start the server; it ends with the context.

    Raises:
        OSError: there is no Java or no Maven.
        RuntimeError: jars cannot be fetched, or it does not start.
    """
    of_spark = [jar for jar in spark_jars() if os.path.basename(jar).startswith(_NEEDED)]
    with tempfile.TemporaryDirectory() as folder:
        jars = [*iceberg_jars(), *of_spark]
        with java_server(_SOURCE, jars, [folder], Path(folder), options=["-Xmx256m"]) as process:
            yield IcebergRestServer(f"http://127.0.0.1:{first_line(process, Path(folder))}")
