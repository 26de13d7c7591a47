"""``df.write`` and ``df.writeTo`` of Connect sessions, where they name a Paimon table of a registered catalog.

A Column of a Connect session becomes SQL, for conditions on the partitions that are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import OptionError, PaimonError, UnsupportedError
from paimon_spark.spark.session.overwrite_mode import OVERWRITE_MODE
from paimon_spark.spark.session.pyspark_members import wrap_method
from paimon_spark.spark.session.session_settings import is_paimon_format
from paimon_spark.spark.source.source_options import write_request
from paimon_spark.spark.sql.inserted_rows import Insert
from paimon_spark.spark.sql.warehouses import TableName, quoted, table_not_found
from paimon_spark.spark.table.rows import replacing_rows
from paimon_spark.spark.text.context import Context, context_of, new_or_there, there
from paimon_spark.spark.text.row_statements import insert_rows, written_table
from paimon_spark.spark.text.statement import run_statement
from paimon_spark.spec.sql_text import literal_text, quoted_name
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.table.table import FileStoreTable

_BETWEEN = {"==": "=", "=": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND", "or": "OR"}


def condition_text(condition: Any, spark: SparkSession) -> str:
    """Return a condition, a Column or the name of a boolean column, as SQL.

    Raises:
        UnsupportedError: it is more than comparisons of columns with literals.
    """
    from pyspark.sql.connect.column import Column

    if isinstance(condition, str):
        return condition
    if not isinstance(condition, Column):
        raise UnsupportedError(f"overwrite(…) takes a Column, not a {type(condition).__name__}: col('dt') == 'x'")
    return _text(condition.to_plan(spark.client))


def column_name(column: Any, spark: SparkSession) -> str:
    """Return the name of a column by which a table is partitioned.

    Raises:
        UnsupportedError: it is a transform.
    """
    message = column.to_plan(spark.client)
    if message.WhichOneof("expr_type") != "unresolved_attribute":
        raise UnsupportedError(f"Unsupported partition transform: {column}. Paimon partitions by columns as they are")
    return str(message.unresolved_attribute.unparsed_identifier).strip("`")


def _text(message: Any) -> str:
    kind = message.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        return str(message.unresolved_attribute.unparsed_identifier)
    if kind == "expression_string":
        return f"({message.expression_string.expression})"
    if kind == "literal":
        return _literal(message.literal)
    if kind == "unresolved_function":
        return _function(message.unresolved_function)
    raise UnsupportedError(f"overwrite(…) cannot take this condition: give it as text, sf.expr(\"dt = 'x'\") ({kind})")


def _literal(literal: Any) -> str:
    from pyspark.sql.connect.expressions import LiteralExpression

    if literal.WhichOneof("literal_type") == "null":
        return "NULL"
    value = LiteralExpression._to_value(literal)
    return str(value).lower() if isinstance(value, bool) else literal_text(value)


def _function(function: Any) -> str:
    name, values = function.function_name.lower(), [_text(argument) for argument in function.arguments]
    if name in _BETWEEN and len(values) == 2:
        return f"({values[0]} {_BETWEEN[name]} {values[1]})"
    match name, values:
        case ("not" | "!", [value]):
            return f"(NOT {value})"
        case ("isnull", [value]):
            return f"({value} IS NULL)"
        case ("isnotnull", [value]):
            return f"({value} IS NOT NULL)"
        case ("in", [value, *others]) if others:
            return f"({value} IN ({', '.join(others)}))"
    raise UnsupportedError(f"overwrite(…) cannot take the function {name}: compare columns with literals")


_ROWS = "_paimon_written_rows"
_MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


def install_writers() -> None:
    """Let writers of Connect sessions name Paimon tables. Calling it again does no harm."""
    from pyspark.sql.connect.readwriter import DataFrameWriter, DataFrameWriterV2

    install_saves()
    wrap_method(DataFrameWriter, "insertInto", _insert_into)
    wrap_method(DataFrameWriter, "saveAsTable", _save_as_table)
    for method, head in (("create", "CREATE"), ("replace", "REPLACE"), ("createOrReplace", "CREATE OR REPLACE")):
        wrap_method(DataFrameWriterV2, method, _creating(head))
    wrap_method(DataFrameWriterV2, "append", _inserting(overwrite=False))
    wrap_method(DataFrameWriterV2, "overwritePartitions", _inserting(overwrite=True))
    wrap_method(DataFrameWriterV2, "overwrite", _overwrite)


def _insert_into(own: Callable[..., None]) -> Callable[..., None]:
    def insert_into(self: Any, tableName: str, overwrite: bool | None = None) -> None:
        __tracebackhide__ = True
        context = context_of(self._spark)
        name = None if context is None else there(context, tableName)
        if context is None or name is None:
            return own(self, tableName, overwrite)
        plan = self._write
        replaces = (plan.mode or "").lower() == "overwrite" if overwrite is None else overwrite
        return _insert(context, name, Insert(name.parts, replaces, dict(plan.options)), _rows(self))

    return insert_into


def install_saves() -> None:
    """Let ``save(path)`` of Connect sessions see that rows are made of the table which they replace."""
    from pyspark.sql.connect.readwriter import DataFrameWriter

    wrap_method(DataFrameWriter, "save", _save_path)


def _save_path(own: Callable[..., None]) -> Callable[..., None]:
    def save(
        self: Any,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 - PySpark's name
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: Any,
    ) -> None:
        __tracebackhide__ = True
        self.mode(mode).options(**options)
        if format is not None:
            self.format(format)
        plan = self._write
        if is_paimon_format(plan.source) and (plan.mode or "").lower() == "overwrite":
            table = _reached({**plan.options, **({} if path is None else {"path": path})})
            if table is not None:
                rows, replacing = replacing_rows(_rows(self), table)
                plan._child = rows._plan
                self.options(**replacing)
        return own(self, path, format, mode, partitionBy, **options)

    return save


def _reached(options: Mapping[str, Any]) -> FileStoreTable | None:
    """The table of a save; None where it is not there, or only the server reaches its store."""
    try:
        request = write_request({key: str(value) for key, value in options.items()}, overwrite=True)
        return load_table(request.name, options=request.options)
    except (PaimonError, OSError):  # the server finds it, or says what is wrong
        return None


def _save_as_table(own: Callable[..., None]) -> Callable[..., None]:
    def save_as_table(
        self: Any,
        name: str,
        format: str | None = None,  # noqa: A002 - PySpark's name
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: Any,
    ) -> None:
        context = context_of(self._spark)
        found = None if context is None else new_or_there(context, name)
        if context is None or found is None:
            return own(self, name, format, mode, partitionBy, **options)
        self.mode(mode).options(**options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        return _save(context, found, self)

    return save_as_table


def _save(context: Context, name: TableName, writer: Any) -> None:
    plan, rows = writer._write, _rows(writer)
    mode = (plan.mode or "error").lower()
    if mode not in _MODES:
        raise OptionError(f"mode '{plan.mode}' is none of {', '.join(_MODES)}")
    if plan.clustering_cols or plan.bucket_cols:
        raise UnsupportedError("clusterBy and bucketBy are not supported for a Paimon table: give the option 'bucket'")
    if mode == "append" and name.exists():
        return _insert(context, name, Insert(name.parts, False, dict(plan.options), by_name=True), rows)
    head = {"overwrite": "CREATE OR REPLACE TABLE", "ignore": "CREATE TABLE IF NOT EXISTS"}.get(mode, "CREATE TABLE")
    return _create(context, head, name, rows, plan.source, plan.partitioning_cols, plan.options)


def _creating(head: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def around(own: Callable[..., None]) -> Callable[..., None]:
        def create(self: Any) -> None:
            __tracebackhide__ = True
            context = context_of(self._spark)
            name = None if context is None else new_or_there(context, self._table_name)
            if context is None or name is None:
                return own(self)
            plan = self._write
            if plan.clustering_columns:
                raise UnsupportedError("clusterBy is not supported for a Paimon table: give the option 'bucket'")
            columns = [column_name(column, self._spark) for column in plan.partitioning_columns]
            options = {**plan.options, **plan.table_properties}
            return _create(context, f"{head} TABLE", name, _rows(self), plan.provider, columns, options)

        return create

    return around


def _inserting(*, overwrite: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def around(own: Callable[..., None]) -> Callable[..., None]:
        def insert(self: Any) -> None:
            __tracebackhide__ = True
            found = _table_of(self)
            if found is None:
                return own(self)
            context, name = found
            options = dict(self._write.options)
            if overwrite:
                options[OVERWRITE_MODE] = "dynamic"
            return _insert(context, name, Insert(name.parts, overwrite, options, by_name=True), _rows(self))

        return insert

    return around


def _overwrite(own: Callable[..., None]) -> Callable[..., None]:
    def overwrite(self: Any, condition: Any) -> None:
        __tracebackhide__ = True
        found = _table_of(self)
        if found is None:
            return own(self, condition)
        context, name = found
        where = condition_text(condition, self._spark)
        options = dict(self._write.options)
        insert = Insert(name.parts, True, options, by_name=True)
        if where == "true":
            return _insert(context, name, replace(insert, options={**options, OVERWRITE_MODE: "static"}), _rows(self))
        return _insert(context, name, replace(insert, replace_where=where), _rows(self))

    return overwrite


def _table_of(writer: Any) -> tuple[Context, TableName] | None:
    """Return the table that must be there; None for one of Spark's."""
    context = context_of(writer._spark)
    name = None if context is None else new_or_there(context, writer._table_name)
    if context is None or name is None:
        return None
    if not name.exists():
        raise table_not_found(name.parts)
    return context, name


def _rows(writer: Any) -> DataFrame:
    from pyspark.sql.connect.dataframe import DataFrame

    # the plan of a writer (V1: its child), whose rows it writes
    return DataFrame(writer._write._child, writer._spark)


def _insert(context: Context, name: TableName, insert: Insert, rows: DataFrame) -> None:
    insert_rows(context, name, written_table(context, name), insert, rows)


def _create(
    context: Context,
    head: str,
    name: TableName,
    rows: DataFrame,
    provider: str | None,
    partition_by: Sequence[str],
    options: Mapping[str, Any],
) -> None:
    """Create a table of rows by the statement that says the same."""
    text = f"{head} {quoted(name.parts)}"
    text += f" USING {quoted_name(provider)}" if provider else ""
    text += f" PARTITIONED BY ({', '.join(map(quoted_name, partition_by))})" if partition_by else ""
    pairs = [f"{literal_text(key)} = {literal_text(str(value))}" for key, value in options.items() if value is not None]
    text += f" TBLPROPERTIES ({', '.join(pairs)})" if pairs else ""
    run_statement(replace(context, frames={_ROWS: rows}), f"{text} AS SELECT * FROM {_ROWS}")
