"""Loads of Connect sessions: the snapshot that they read, and what the server's log alone would say of them.

A server plans each action anew, and keeps plans by their text: of two actions of one DataFrame the later one might read
the older snapshot. So the client names the snapshot wherever it knows the table (its warehouse is registered, or its
path is local and the server on this machine): for a load by a path when it is made, as on a classic session, for a
table by its name when it is sent.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError
from paimon_spark.options.core_options import AT_SNAPSHOT, OPENED_AT
from paimon_spark.spark.session.connect_messages import load_options, paimon_loads
from paimon_spark.spark.session.plain_methods import wrap_method
from paimon_spark.spark.session.session_options import POINTS_OF_TIME
from paimon_spark.spark.session.session_settings import is_following, time_zone
from paimon_spark.spark.source.source_options import read_request
from paimon_spark.spark.sql.warehouses import is_registered_path
from paimon_spark.storage.store_options import scheme_of
from paimon_spark.table.table import load_table
from paimon_spark.table.time_travel import is_in_future, named_time, time_text

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_TIMES = ("timestampasof", "scan.timestamp")
"""Times as text. Those of statements come as numbers, and this client has resolved them already."""
_HERE = ("localhost", "127.0.0.1", "::1", socket.gethostname())
"""Hosts of servers that have this machine's files."""
_LOG = logging.getLogger(__name__)


def install_connect_loads() -> None:
    """Let loads of Connect sessions stay on a snapshot, and warn of a time that is still to come.

    Calling it again does no harm.
    """
    from pyspark.sql.connect.readwriter import DataFrameReader

    wrap_method(DataFrameReader, "load", _load)


def _load(own: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, *given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        frame = own(self, *given, **named)
        client = frame.sparkSession.client
        for one in paimon_loads(frame._plan.plan(client)):
            with suppress(PaimonError, OSError):  # the server says what is wrong, or reaches a store that we do not
                if any(key.lower() in _TIMES for key in one.options):
                    _warn(load_options(one))
                table = None if is_following(self) or not may_pin(one, client) else known_table(one)
                if table is not None and not is_fixed(table) and (pin := pin_of(table)):
                    frame._plan._options = {**one.options, **pin, OPENED_AT: str(table.latest.id)}
        return frame

    return load


def known_table(load: Any) -> FileStoreTable | None:
    """The table whose rows a load reads, with its options; None where this client does not know it.

    Raises:
        PaimonError: there is no such table, or an option is wrong.
        OSError: the store cannot be reached.
    """
    request = read_request(load_options(load))
    known = scheme_of(request.path) in ("", "file") or is_registered_path(request.path)
    if not known or request.name.system_table is not None:
        return None
    return load_table(request.name, options=request.options)


def may_pin(load: Any, client: Any) -> bool:
    """Whether this client finds the latest snapshot of a load's table where the server does, and not in a copy."""
    path = load_options(load).get("path", "")
    is_here = getattr(client, "host", None) in _HERE and os.path.isabs(path.removeprefix("file:"))
    return is_here or is_registered_path(path)


def is_fixed(table: FileStoreTable) -> bool:
    """Whether its options name a version, or the snapshot that a load of it stays on."""
    return any(key in table.options for key in (*POINTS_OF_TIME, AT_SNAPSHOT))


def pin_of(table: FileStoreTable) -> dict[str, str]:
    """The option by which a load stays on the latest snapshot of its table; none where there is none yet."""
    latest = table.snapshots.latest_id()
    return {} if latest is None else {AT_SNAPSHOT: str(latest)}


def unpinned(load: Any) -> None:
    """Take back the snapshot that a load stays on."""
    for key in (AT_SNAPSHOT, OPENED_AT):
        load.options.pop(key, None)


def _warn(options: dict[str, str]) -> None:
    request = read_request(options)
    time_millis = named_time(request.options, time_zone(request.settings))
    if time_millis is not None and is_in_future(time_millis):
        _LOG.warning(
            "The time %s to read %s as of is in the future: the newest snapshot is read, and later reads may give "
            "other rows. Name a snapshot or a tag to stay on one.",
            time_text(time_millis),
            request.path,
        )
