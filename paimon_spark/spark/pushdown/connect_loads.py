"""Which snapshot loads of Connect sessions read, and the temporary views made of them.

A server plans each action anew, and keeps plans by their text: of two actions of one DataFrame the later one might read
the older snapshot. So the client names the snapshot wherever it knows the table (its warehouse is registered, or its
path is local and the server on this machine): for a load by a path when it is made, as on a classic session, for a
table by its name when it is sent. What the log of the server alone would say of a load is said here.

Temporary views follow the tables that they name, as those of classic sessions do. The server keeps a view as a plan,
and the plan keeps the snapshot of its first action. So before a client sends a plan that names such a view it makes the
view anew, where a table of it has a newer snapshot by now. It does so for the views that it has made itself, whose rows
are of Paimon's tables alone. A load by a path stays on its snapshot, cached rows stay, and the columns are those of
when the view was made.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from paimon_spark.errors import PaimonError
from paimon_spark.options.core_options import AT_SNAPSHOT, OPENED_AT
from paimon_spark.spark.session.connect_plans import (
    GLOBAL,
    READ,
    RELATION_COMMON,
    KeptView,
    State,
    hash_of_view,
    is_as_kept,
    is_paimon_load,
    kept_views,
    load_options,
    messages,
    paimon_loads,
    plan_of_view,
    rows_of_view,
    sent_plan,
    views_named,
)
from paimon_spark.spark.session.pyspark_members import wrap_method
from paimon_spark.spark.session.session_options import POINTS_OF_TIME
from paimon_spark.spark.session.session_settings import is_following, time_zone
from paimon_spark.spark.source.source_options import COLUMNS, read_request
from paimon_spark.spark.sql.warehouses import analysis_error, is_registered_path
from paimon_spark.spec.sql_text import quoted_name
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


_LOST = "INCOMPATIBLE_COLUMN_CHANGES_AFTER_VIEW_WITH_PLAN_CREATION"
_NEW_VIEW = re.compile(r"\s*(CREATE\s+(OR\s+REPLACE\s+)?(GLOBAL\s+)?TEMP|DROP\s+VIEW)", re.IGNORECASE)
"""Statements that put an end to the view that they name."""
_refreshing = threading.RLock()


def refresh_views(relation: Any, client: Any, cached: set[int]) -> None:
    """Make the temporary views anew that a plan names, where their tables have newer snapshots.

    Args:
        relation: the plan, a message of the protocol.
        client: of the session.
        cached: the ids of plans whose rows the server keeps.

    Raises:
        AnalysisException: a table has lost columns of a view.
    """
    for key in views_named(client, relation):
        with _refreshing:
            view = kept_views(client).get(key)
            found = None if view is None else _newest(client, view, cached)
            if view is None or found is None or found.states == view.states or not _may_refresh(client, key, view):
                continue
            if found.lost and not (relation.HasField("sql") and _NEW_VIEW.match(relation.sql.query)):
                raise analysis_error(
                    _LOST,
                    f"View `{key}` was made of columns that its table has no more: {', '.join(found.lost)}. "
                    "Make the view anew.",
                )
            with suppress(PySparkException):  # the query says what is wrong
                _make_anew(client, key, view, found)


def _may_refresh(client: Any, key: str, view: KeptView) -> bool:
    """Whether the server has the view as it was made, and does not keep its rows."""
    with suppress(PySparkException):  # a server that cannot say it
        if not is_as_kept(client, key, view):
            kept_views(client).pop(key, None)
            return False
        level = client._analyze(method="get_storage_level", relation=plan_of_view(key).plan(client)).storage_level
        return not (level.useMemory or level.useDisk)
    return False


def _make_anew(client: Any, key: str, view: KeptView, newest: _Newest) -> None:
    from pyspark.sql.connect.plan import CreateView

    name, is_global = quoted_name(key.removeprefix(f"{GLOBAL}.")), key.startswith(f"{GLOBAL}.")
    made = CreateView(sent_plan(newest.rows), name, is_global=is_global, replace=True)
    client.execute_command(made.command(client))
    kept_views(client)[key] = replace(view, hash=hash_of_view(client, key), states=newest.states)


@dataclass(frozen=True)
class _Newest:
    """A view at the latest snapshots of its tables."""

    rows: Any
    """Its plan."""
    states: Mapping[tuple[str, ...], State]
    """Of its tables, by store, path and branch."""
    lost: tuple[str, ...]
    """Columns that its tables had when it was made."""


def _newest(client: Any, view: KeptView, cached: set[int]) -> _Newest | None:
    """The view at the latest snapshots; None for one that stays as it is."""
    if view.takes_rows:
        return None
    from paimon_spark.spark.statements.query_trees import named_tables  # sqlglot, which `register` spares

    pins: dict[tuple[str, ...], dict[str, str]] = {}
    states: dict[tuple[str, ...], State] = {}
    lost: list[str] = []

    def pin(load: Any) -> bool:
        if not is_paimon_load(load) or AT_SNAPSHOT in load.options or not may_pin(load, client):
            return True
        table = known_table(load)
        if table is not None and not is_fixed(table):
            key = table.place
            if key not in pins:
                pins[key] = pin_of(table)
                states[key] = pins[key].get(AT_SNAPSHOT), table.schema.time_millis
            load.options.update(pins[key])
            if table.schema.time_millis > view.made_millis:
                lost.extend(_keep_columns(load, table, view.made_millis))
        return True

    try:
        rows = rows_of_view(view, pin, named_tables)
    except (PaimonError, OSError):  # the query says what is wrong
        return None
    if rows is None or not states or any(read.is_streaming for read in messages(rows, READ)):
        return None
    if cached.intersection(common.plan_id for common in messages(view.relation, RELATION_COMMON)):
        return None
    return _Newest(rows, states, tuple(dict.fromkeys(lost)))


def _keep_columns(load: Any, table: FileStoreTable, millis: int) -> list[str]:
    """Let a load have the columns that its table had at a time; return those of them that are gone."""
    older = [schema for schema in table.schemas.all() if schema.time_millis <= millis]
    if not older or older[-1].field_names == table.schema.field_names:
        return []
    if COLUMNS not in load.options:
        load.options[COLUMNS] = ", ".join(map(quoted_name, older[-1].field_names))
    there = set(table.schema.field_names)
    return [name for name in older[-1].field_names if name not in there]
