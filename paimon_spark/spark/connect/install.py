"""``register_catalog`` on Spark Connect: the session's own methods know the catalog, as on a classic session.

Spark Connect lets Python add no catalog to the server. So the methods that take statements and names of tables look
first whether a table of ours is meant; all else goes to the server as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from paimon_spark.spark.connect.merges import install_merges
from paimon_spark.spark.connect.session_catalog import install_session_catalog
from paimon_spark.spark.connect.writers import install_writers
from paimon_spark.spark.session.pyspark_members import wrap_method
from paimon_spark.spark.sql.warehouses import add_warehouse, table_not_found
from paimon_spark.spark.text.context import Context, context_of, new_or_there, parts_of
from paimon_spark.spark.text.queries import read_table
from paimon_spark.spark.text.statement import run_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def install_connect_catalog(spark: SparkSession, name: str, warehouse: str, options: Mapping[str, str]) -> None:
    """Let the methods of a Connect session name the tables of a warehouse.

    Raises:
        UnsupportedError: an option asks for another kind of catalog than a directory.
        OptionError: an option is unknown, or is one of tables.
    """
    from pyspark.sql.connect.readwriter import DataFrameReader
    from pyspark.sql.connect.session import SparkSession as ConnectSession
    from pyspark.sql.connect.streaming.readwriter import DataStreamReader, DataStreamWriter

    add_warehouse(spark, name, warehouse, options, own_statements=True)
    wrap_method(ConnectSession, "sql", _sql)
    wrap_method(DataFrameReader, "table", _table)
    wrap_method(DataStreamReader, "table", _streamed_table)
    wrap_method(DataStreamWriter, "toTable", _to_table)
    install_writers()
    install_merges()
    install_session_catalog()


def _sql(own: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def sql(self: Any, sqlQuery: str, args: Any = None, **frames: Any) -> DataFrame:
        __tracebackhide__ = True
        context = context_of(self)
        if context is None or not isinstance(sqlQuery, str):
            return own(self, sqlQuery, args, **frames)
        text, views = _formatted(self, sqlQuery, frames)
        return run_statement(Context(self, context.known, args, frames=views), text)

    return sql


def _formatted(spark: Any, text: str, values: Mapping[str, Any]) -> tuple[str, dict[str, DataFrame]]:
    """Return a statement with its ``{values}`` in place, and the DataFrames that it names by then."""
    if not values:
        return text, {}
    from pyspark.sql.connect.sql_formatter import SQLStringFormatter

    formatter: Any = SQLStringFormatter(spark)
    text = formatter.format(text, **values)
    return text, {name: frame for frame, name in formatter._temp_views}


def _table(own: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def table(self: Any, tableName: str) -> DataFrame:
        __tracebackhide__ = True
        context = context_of(self._client)
        parts = parts_of(tableName) if context is not None and isinstance(tableName, str) else ()
        found = read_table(context, parts, self._options) if context is not None and parts else None
        return own(self, tableName) if found is None else found

    return table


def _streamed_table(own: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def table(self: Any, tableName: str) -> DataFrame:
        __tracebackhide__ = True
        context = context_of(self._client)
        name = None if context is None or not isinstance(tableName, str) else new_or_there(context, tableName)
        if name is None:
            return own(self, tableName)
        if not name.exists():
            raise table_not_found(name.parts)
        frame: DataFrame = self.format("paimon").options(**name.options).load(name.path)
        return frame

    return table


def _to_table(own: Callable[..., Any]) -> Callable[..., Any]:
    def to_table(self: Any, tableName: str, *given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        context = context_of(self._session)
        name = None if context is None or not isinstance(tableName, str) else new_or_there(context, tableName)
        if name is None:
            return own(self, tableName, *given, **named)
        words = dict(zip(("format", "outputMode", "partitionBy", "queryName"), given, strict=False))
        words |= named
        words.pop("format", None)
        return self.format("paimon").options(**name.options).start(name.path, **words)

    return to_table
