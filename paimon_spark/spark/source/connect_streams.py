"""``writeStream.format("paimon")`` of Connect sessions: refusals before the query starts, and what the session has set.

The query runs on the server, through the plain sink (`stream_writer`).
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spark.session.session_settings import is_paimon, remember_format, settings_option
from paimon_spark.spark.source.partition_by import listed_columns
from paimon_spark.spark.source.stream_writer import CHECKPOINT, needs_checkpoint, refuse_output_mode

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK = "_paimon_writes_streams"


def install_connect_streams() -> None:
    """Let stream writers of Connect sessions write Paimon tables. Calling it again does no harm."""
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    kind: Any = DataStreamWriter
    if not hasattr(kind, _MARK):
        setattr(kind, _MARK, True)
        remember_format(kind)
        kind._start_internal = _starting(kind._start_internal)


def _starting(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def start(self: Any, path: str | None = None, tableName: str | None = None, **given: Any) -> Any:
        __tracebackhide__ = True
        if not is_paimon(self, (), {"format": given.get("format")}):
            return plain(self, path=path, tableName=tableName, **given)
        if tableName is not None:
            raise UnsupportedError(
                f"toTable('{tableName}') needs a catalog, which Spark Connect does not let Python add: write by the "
                "table's path, start(path)"
            )
        proto = self._write_proto
        refuse_output_mode(given.get("outputMode") or proto.output_mode or "append")
        columns = given.pop("partitionBy", None) or list(proto.partitioning_column_names)
        if columns:
            del proto.partitioning_column_names[:]
            self.option("partition", listed_columns([columns] if isinstance(columns, str) else columns))
        if CHECKPOINT.lower() not in {key.lower() for key in (*proto.options, *given)}:
            raise OptionError(needs_checkpoint())
        self.options(**settings_option(self._session))
        return plain(self, path=path, **given)

    return start
