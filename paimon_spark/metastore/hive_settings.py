"""How a Hive metastore is reached: by the options of a catalog, then by ``hive-site.xml``.

Java: ``HiveCatalog.createHiveConf``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit
from xml.etree import ElementTree

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options.option import parse_duration

SITE: Final = "hive-site.xml"
_URIS: Final = "hive.metastore.uris"
_DEFAULT_PORT: Final = 9083
_MOST_SITES: Final = 32
_CLIENT_CLASS: Final = "org.apache.hadoop.hive.metastore.HiveMetaStoreClient"
_REFUSED: Final = {
    "hive.metastore.sasl.enabled": ("true", "Kerberos"),
    "hive.metastore.use.ssl": ("true", "TLS"),
    "hive.metastore.thrift.framed.transport.enabled": ("true", "framed transport"),
    "hive.metastore.thrift.compact.protocol.enabled": ("true", "the compact protocol"),
    "hive.metastore.client.thrift.transport.mode": ("http", "Thrift over HTTP"),
}
"""Settings of a client that this one cannot do, in lower case: the value, and what it is."""


@dataclass(frozen=True)
class Address:
    """Where metastores run that share a database, and how long an answer may take."""

    servers: tuple[tuple[str, int], ...]
    timeout_seconds: float

    @property
    def shown(self) -> str:
        """For messages."""
        return ",".join(f"thrift://{host}:{port}" for host, port in self.servers)


def settings_of(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of ``hive-site.xml``, and over them those of the catalog.

    Raises:
        OptionError: the directory of ``hive-conf-dir`` has no such file, or it cannot be read.
        UnsupportedError: they ask for what this client cannot do.
    """
    folder = options.get("hive-conf-dir", "").strip() or os.environ.get("HIVE_CONF_DIR", "").strip()
    site = _site(folder) if folder else {}
    found = {**site, **{key: value for key, value in options.items() if key.lower().startswith("hive.")}}
    if options.get("uri", "").strip():
        found[_URIS] = options["uri"]
    for key, value in found.items():
        refused = _REFUSED.get(key.lower())
        if refused is not None and value.strip().lower() == refused[0]:
            raise UnsupportedError(
                f"The Hive metastore wants {refused[1]} ('{key}' = '{value}'), which is not supported. Give the "
                "address of one that takes plain Thrift, or use the official connector."
            )
    client = options.get("metastore.client.class", "").strip()
    if client not in ("", _CLIENT_CLASS):
        raise UnsupportedError(
            f"The catalog option 'metastore.client.class' = '{client}' is a class of Java, which cannot run here: only "
            "Hive's own metastore is asked. Remove the option."
        )
    return found


def address_of(settings: Mapping[str, str]) -> Address:
    """Where the metastores are.

    Raises:
        OptionError: no address is given, or it is none.
    """
    text = settings.get(_URIS, "").strip()
    if not text:
        raise OptionError(
            "A Hive catalog needs the option 'uri': thrift://<host>:<port>, several with commas between them; or "
            f"'hive-conf-dir', a directory with a {SITE} that has '{_URIS}'."
        )
    servers = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        split = urlsplit(part)
        try:
            host, port = split.hostname, split.port or _DEFAULT_PORT
        except ValueError:
            host, port = None, 0
        if split.scheme != "thrift" or not host:
            raise OptionError(f"'uri' = '{part}' is not the address of a Hive metastore: thrift://<host>:<port>")
        servers.append((host, port))
    timeout = settings.get("hive.metastore.client.socket.timeout", "600s")
    return Address(tuple(servers), _seconds(timeout))


def _seconds(text: str) -> float:
    """A length of time as Hive writes it: seconds where it names no unit."""
    return float(text) if re.fullmatch(r"\s*\d+\s*", text) else parse_duration(text).total_seconds()


def _site(folder: str) -> Mapping[str, str]:
    path = os.path.join(folder.removeprefix("file://"), SITE)
    try:
        found = os.stat(path)
        return _parsed(path, found.st_mtime_ns, found.st_size)
    except (OSError, ElementTree.ParseError) as error:
        raise OptionError(f"'hive-conf-dir' = '{folder}' has no {SITE} that can be read: {error}") from None


@lru_cache(_MOST_SITES)
def _parsed(path: str, _mtime: int, _size: int) -> Mapping[str, str]:
    """The settings in a file, which is read once as long as it does not change: each load of a table asks for them."""
    found = {}
    for entry in ElementTree.parse(path).iter("property"):
        name, value = entry.findtext("name"), entry.findtext("value")
        if name and value is not None:
            found[name.strip()] = value.strip()
    return found
