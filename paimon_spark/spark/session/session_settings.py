"""Settings of a session for loads and saves by path: Spark gives a Python source only the options of the call.

Readers and writers of a registered session add the settings of that moment as one option more when a table of ours is
loaded or saved: ``SET spark.paimon.…`` acts at ``load()`` and ``save()``, as in the official connector. On classic
sessions and on Connect.

The session of a thread, in which Spark looks for Python data sources, and the catalogs registered in a session are
known here as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from paimon_spark.errors import OptionError, cutting
from paimon_spark.spark.session.pyspark_members import java_state, jvm_of, unlogged
from paimon_spark.spark.session.session_options import SESSION_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

    from paimon_spark.table.filesystem_catalog import FilesystemCatalog


def activate(spark: SparkSession) -> None:
    """Let the thread that calls this find the format: in a new thread, Spark looks for Python sources in no session."""
    if getattr(spark, "_sc", None) is not None and type(spark).getActiveSession() is None:
        spark.createDataFrame([], "unused int")  # makes the session the thread's active one, as any query would


def check_session(given: Any, call: str) -> None:
    """Refuse what is no session.

    Args:
        given: what stands where the session belongs.
        call: how the function is called, as in ``register(spark)``.

    Raises:
        OptionError: it is none, such as a path that was given first.
    """
    if not hasattr(given, "createDataFrame"):
        raise OptionError(f"{call} takes the session first, and {given!r} is none")


_registered: WeakKeyDictionary[Any, dict[str, FilesystemCatalog]] = WeakKeyDictionary()


def remember_catalog(spark: SparkSession, name: str, catalog: FilesystemCatalog) -> None:
    """Keep a catalog by its name."""
    _registered.setdefault(spark, {})[name] = catalog


def catalogs_of(spark: SparkSession) -> Mapping[str, FilesystemCatalog]:
    """The catalogs that Spark itself asks for their tables, by their names; a copy."""
    return dict(_registered.get(spark, {}))


def source_options_of(spark: SparkSession, name: str, database: str, table: str) -> Mapping[str, str] | None:
    """The options by which the data source opens a table of a catalog, with its path; None for another catalog."""
    catalog = _registered.get(spark, {}).get(name)
    return None if catalog is None else {**catalog.options, "path": catalog.table_path(database, table)}


SETTINGS = "paimon.secret-settings"
"""The option in which `SessionSettings` travel. What a user gives under this name is replaced.

Spark hides the values of options that have such a name."""

OF_STREAM = "paimon.of-stream"
"""Stands among the settings of a stream: Spark asks a Python source for columns before it says what it reads."""

TIME_ZONE = "spark.sql.session.timeZone"
PARTITION_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_SPARK = (TIME_ZONE, PARTITION_OVERWRITE_MODE)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_MARK = "_paimon_carries_settings"
_FOLLOWS = "_paimon_follows"
_MAPPERS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


class SessionSettings(dict[str, str]):
    """What a session has set and reads and writes look at: the options of ours, and two settings of Spark.

    It travels as one option of a load or save, `option`, since Spark gives a Python source only options, which are
    texts; `of_options` reads it there. Nothing else knows how it is spelled.
    """

    @classmethod
    def chosen(cls, every: Mapping[str, str], zone: str) -> SessionSettings:
        """Those of all settings of a session; `zone` is its time zone where none is set."""
        known = (key for key in every if key.startswith(SESSION_PREFIX) or key in _SPARK)
        found = cls({key: str(every[key]) for key in known})
        found.setdefault(TIME_ZONE, zone)
        return found

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> SessionSettings:
        """Those that the options of a load or save hold, whose names Spark may have written small; else none."""
        text = next((value for name, value in options.items() if name.lower() == SETTINGS), None)
        return cls() if text is None else cls({str(key): str(value) for key, value in json.loads(text).items()})

    def option(self) -> dict[str, str]:
        """The option of a load or save."""
        return {SETTINGS: json.dumps(self)}


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def settings_of(spark: SparkSession) -> SessionSettings:
    """The settings of a session that reads and writes look at."""
    return SessionSettings.chosen(every_setting(spark), str(spark.conf.get(TIME_ZONE)))


def double_quotes_name(spark: SparkSession) -> bool:
    """Whether double quotes stand around names; else around texts."""
    return str(spark.conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false")).lower() != "false"


def every_setting(spark: SparkSession) -> Mapping[str, str]:
    """What a session has set, without defaults."""
    if is_connect(spark):
        every: Mapping[str, str] = spark.conf.getAll
    else:
        java = java_state(spark).conf().settings()
        with unlogged():
            every = json.loads(_mapper(spark).writeValueAsString(java))  # in one call, however many there are
    return every


def _mapper(spark: SparkSession) -> Any:
    """Return the JVM's writer of JSON, made once: finding its class takes five calls."""
    context = spark.sparkContext
    if context not in _MAPPERS:
        _MAPPERS[context] = jvm_of(spark).com.fasterxml.jackson.databind.ObjectMapper()
    return _MAPPERS[context]


def settings_option(spark: SparkSession, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The option by which a load or save of ``format("paimon")`` gets the settings of its session, and some more."""
    return SessionSettings({**settings_of(spark), **(more or {})}).option()


def time_zone(settings: Mapping[str, str]) -> tzinfo | None:
    """The session's time zone; None where the settings do not say it.

    Raises:
        OptionError: Python does not know the zone.
    """
    name = settings.get(TIME_ZONE)
    if name is None:
        return None
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes, seconds = offset.groups()
        distance = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        return timezone(-distance if sign == "-" else distance)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise OptionError(
            f"{TIME_ZONE} is '{name}', which Python does not know (pip install tzdata brings the names of zones): "
            "write the zone of times into the filter, as in TIMESTAMP '2024-01-31 10:00:00+01:00'"
        ) from None


def carry_settings(spark: SparkSession) -> None:
    """Let loads and saves of ``format("paimon")`` know what their session has set. Calling it again does no harm."""
    module: Any = import_module("pyspark.sql.connect.readwriter" if is_connect(spark) else "pyspark.sql.readwriter")
    streaming: Any = import_module(f"pyspark.sql.{'connect.' if is_connect(spark) else ''}streaming.readwriter")
    for kind, action, more in (
        (module.DataFrameReader, "load", {}),
        (module.DataFrameWriter, "save", {}),
        (streaming.DataStreamReader, "load", {OF_STREAM: "true"}),
    ):
        if not hasattr(kind, _MARK):
            setattr(kind, _MARK, True)
            remember_format(kind)
            setattr(kind, action, _carrying(getattr(kind, action), more))


def remember_format(kind: Any) -> None:
    """Let ``format()`` of a class of readers or writers note the name, which a classic session tells the JVM only.

    And let the thread find Paimon's for writers: threads of a pool, and the one in which KeyboardInterrupt broke a
    statement off.
    """
    kind.format = _remembering(kind.format)


def is_paimon(reader_or_writer: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether the format is ours: that of the call (its second argument), else the one that was set before."""
    given = named.get("format", arguments[1] if len(arguments) > 1 else None)
    source = given or getattr(reader_or_writer, "_paimon_format", None)
    return isinstance(source, str) and is_paimon_format(source)


def is_paimon_format(name: str | None) -> bool:
    """Whether the name of a format, as readers, writers and plans have it, is ours."""
    return (name or "").lower() == "paimon"


def following(reader: DataFrameReader) -> DataFrameReader:
    """Return a reader whose loads follow the table: each action reads what is the latest snapshot when it begins.

    So tables are read by their names; a load by a path stays on the snapshot that it finds.
    """
    setattr(reader, _FOLLOWS, True)
    return reader


def is_following(reader: DataFrameReader) -> bool:
    """Whether `following` was given a reader."""
    return hasattr(reader, _FOLLOWS)


def _remembering(plain: Callable[..., Any]) -> Callable[..., Any]:

    @wraps(plain)
    def remembering(self: Any, source: str) -> Any:
        __tracebackhide__ = True
        self._paimon_format = source
        # readers find their source without, and Connect looks for none in a thread
        session = getattr(self, "_spark", None) if type(self).__name__.endswith("Writer") else None
        if session is not None and is_paimon(self, (), {}):
            activate(session)
        return plain(self, source)

    return remembering


def _carrying(plain: Callable[..., Any], more: Mapping[str, str]) -> Callable[..., Any]:
    """``load()`` or ``save()`` with the settings and some more, where the format is ours."""

    @wraps(plain)
    def carrying(self: Any, *arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True  # IPython leaves such frames out
        if is_paimon(self, arguments, named):
            self.options(**settings_option(_session_of(self), more))
            return cutting(plain)(self, *arguments, **named)
        return plain(self, *arguments, **named)

    return carrying


def _session_of(reader_or_writer: Any) -> SparkSession:
    # a Connect reader calls its session `client`
    found: SparkSession = getattr(reader_or_writer, "_spark", None) or reader_or_writer._client
    return found
