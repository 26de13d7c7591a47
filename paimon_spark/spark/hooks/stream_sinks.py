"""``writeStream.format("paimon")`` and ``writeStream.toTable`` of classic sessions: micro-batches are shuffled writes.

Spark would give the rows of a micro-batch to our Python source as they come, a file of every task in every bucket. A
registered session gives them to `StreamSink` by ``foreachBatch``. Options, columns of `partitionBy` and the output mode
are kept with the JVM's writer, which does not give them back. Writers of other formats pass through untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options import Scope, find_option
from paimon_spark.spark.hooks.parser import paimon_catalog_of
from paimon_spark.spark.jvm.data_source_registry import keep_replaced_source_out_of_log
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.session.session_settings import is_paimon, remember_format, settings_option, source_options_of
from paimon_spark.spark.source.partition_by import listed_columns
from paimon_spark.spark.source.stream_writer import CHECKPOINT, needs_checkpoint, refuse_output_mode
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.paths import is_path_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_PATCHED = "_paimon_writes_streams"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
"""A setting: where checkpoints are of which the query does not say where."""
_OF_SPARK = frozenset({"path", "checkpointlocation", "queryname"})


def install_stream_sinks() -> None:
    """Let stream writers of classic sessions write Paimon tables. Calling it again does no harm."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    kind: Any = DataStreamWriter
    if hasattr(kind, _PATCHED):
        return
    setattr(kind, _PATCHED, True)
    remember_format(kind)
    kind.option, kind.options = _remembering_option(kind.option), _remembering_options(kind.options)
    kind.outputMode = _remembering_mode(kind.outputMode)
    kind.partitionBy, plain_partition_by = _remembering_columns(kind.partitionBy), kind.partitionBy
    plain_start = kind.start
    kind.start = _starting(plain_start, plain_partition_by)
    kind.toTable = _to_table(kind.toTable, plain_start, plain_partition_by)


def _remembering_option(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def option(self: Any, key: str, value: Any) -> Any:
        _remember(self, key, value)
        return plain(self, key, value)

    return option


def _remembering_options(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def options(self: Any, **options: Any) -> Any:
        for key, value in options.items():
            _remember(self, key, value)
        return plain(self, **options)

    return options


def _remember(writer: Any, key: str, value: Any) -> None:
    given = writer.__dict__.setdefault("_paimon_options", {})
    if value is not None:
        given[key] = str(value).lower() if isinstance(value, bool) else str(value)


def _remembering_mode(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def output_mode(self: Any, outputMode: str) -> Any:
        self._paimon_mode = outputMode
        return plain(self, outputMode)

    return output_mode


def _remembering_columns(plain: Callable[..., Any]) -> Callable[..., Any]:
    """``partitionBy`` that tells the JVM nothing before the format is known: ``foreachBatch`` takes no columns."""

    @wraps(plain)
    def partition_by(self: Any, *cols: Any) -> Any:
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        self._paimon_columns = list(names)
        return self

    return partition_by


def _with_arguments(
    writer: Any,
    format: str | None,  # noqa: A002 - PySpark's name
    outputMode: str | None,
    partitionBy: str | list[str] | None,
    queryName: str | None,
    options: dict[str, Any],
) -> None:
    writer.options(**options)
    if format is not None:
        writer.format(format)
    if outputMode is not None:
        writer.outputMode(outputMode)
    if partitionBy is not None:
        writer.partitionBy(partitionBy)
    if queryName is not None:
        writer.queryName(queryName)


def _starting(plain: Callable[..., Any], partition_by: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def start(
        self: DataStreamWriter,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 - PySpark's name
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        __tracebackhide__ = True
        keep_replaced_source_out_of_log(self._spark)
        _with_arguments(self, format, outputMode, partitionBy, queryName, options)
        if not is_paimon(self, (), {}):
            _pass_columns(self, partition_by)
            started: StreamingQuery = plain(self, path)
            return started
        given = {key: value for key, value in _options(self).items() if key.lower() not in _OF_SPARK}
        named = path or next((value for key, value in _options(self).items() if key.lower() == "path"), None)
        if named is None:
            raise OptionError("writeStream.format('paimon') needs a path: .start(path), or .toTable(name) by a catalog")
        return _start(self, plain, {**_partition_option(self), **given, "path": named})

    return start


def _to_table(
    plain: Callable[..., Any], plain_start: Callable[..., Any], partition_by: Callable[..., Any]
) -> Callable[..., Any]:
    @wraps(plain)
    def to_table(
        self: DataStreamWriter,
        tableName: str,
        format: str | None = None,  # noqa: A002 - PySpark's name
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        __tracebackhide__ = True
        keep_replaced_source_out_of_log(self._spark)
        _with_arguments(self, format, outputMode, partitionBy, queryName, options)
        spark: Any = self._spark
        parts = split_name(tableName)
        catalog = paimon_catalog_of(gateway_of(spark), java_state(spark), parts)
        ours = catalog is not None
        if not ours and is_paimon(self, (), {}):
            raise UnsupportedError(
                f"toTable writes tables of a Paimon catalog, and '{tableName}' is in none: give its name as "
                "'<catalog>.<database>.<table>' after register_catalog, or start(path)"
            )
        if not ours:
            _pass_columns(self, partition_by)
            started: StreamingQuery = plain(self, tableName)
            return started
        given = {key: value for key, value in _options(self).items() if key.lower() not in _OF_SPARK}
        path = _path_of(spark, self, parts, given)
        database = parts[-2] if len(parts) > 1 else spark.catalog.currentDatabase()
        named = None if is_path_name(parts[-1]) else source_options_of(spark, catalog or "", database, parts[-1])
        return _start(self, plain_start, {**given, **({"path": path} if named is None else named)})

    return to_table


def _start(writer: Any, plain: Callable[..., Any], options: dict[str, str]) -> StreamingQuery:
    """Start the query, whose micro-batches are written by `StreamSink`.

    Raises:
        OptionError: there is no checkpoint, so that a restart would write everything once more.
    """
    mode = getattr(writer, "_paimon_mode", "append")
    refuse_output_mode(mode)
    spark = writer._spark
    named = CHECKPOINT.lower() in {key.lower() for key in _options(writer)}
    if not named and not spark.conf.get(_CHECKPOINTS, None):  # foreachBatch would take a temporary one
        raise OptionError(needs_checkpoint())
    from paimon_spark.spark.jobs.stream_sink import StreamSink  # with the compaction of the micro-batches

    sink = StreamSink({**settings_option(spark), **options}, mode.lower() == "complete", spark.streams)
    sink.prepare(writer._df.schema)
    started: StreamingQuery = plain(writer.foreachBatch(sink))
    return started


def _options(writer: Any) -> dict[str, str]:
    return dict(getattr(writer, "_paimon_options", {}))


def _pass_columns(writer: Any, partition_by: Callable[..., Any]) -> None:
    columns = getattr(writer, "_paimon_columns", None)
    if columns is not None:
        partition_by(writer, columns)


def _partition_option(writer: Any) -> dict[str, str]:
    columns = getattr(writer, "_paimon_columns", None)
    if not columns:
        return {}
    return {"partition": listed_columns(columns)}


def _path_of(spark: SparkSession, writer: Any, parts: Sequence[str], options: dict[str, str]) -> str:
    """Return the path of a table of a catalog; make the table where there is none, as Spark does for its own.

    Args:
        spark: the session.
        writer: of the stream.
        parts: the table's name, perhaps with a branch (``t$branch_b``), which the path has too.
        options: of the writer; those that the table keeps are taken out when it is made.
    """
    root, dollar, branch = parts[-1].partition("$")
    name = ".".join(map(quoted_name, (*parts[:-1], root)))
    if not dollar and not spark.catalog.tableExists(name):
        empty = spark.createDataFrame([], writer._df.schema).writeTo(name)
        for key in [key for key in options if (found := find_option(key)) is None or found.scope is Scope.TABLE]:
            empty = empty.tableProperty(key, options.pop(key))
        columns = getattr(writer, "_paimon_columns", None) or []
        if columns:
            empty = empty.partitionedBy(*map(sf.col, columns))
        empty.create()
    path = spark.sql(f"SHOW TBLPROPERTIES {name} ('path')").first()
    assert path is not None
    return f"{path.value}{dollar}{branch}"
