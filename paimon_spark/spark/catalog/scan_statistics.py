"""What the optimiser is told of the columns of a scan: what ANALYZE found (Java: ``PaimonStatistics``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from paimon_spark.errors import PaimonError
from paimon_spark.read.row_views import ROWS
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spec.filter_text import quoted_name
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.statistics_values import value_of_text
from paimon_spark.table.statistics import statistics_of

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.scan_plan import ScanPlan
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.statistics_file import AnalyzedColumn

_KINDS: tuple[tuple[type[spark.DataType] | tuple[type[spark.DataType], ...], str], ...] = (
    (spark.BooleanType, "boolean"),
    (spark.ByteType, "tinyint"),
    (spark.ShortType, "smallint"),
    ((spark.IntegerType, spark.DateType), "int"),
    ((spark.LongType, spark.TimestampType, spark.TimestampNTZType), "bigint"),
    (spark.FloatType, "float"),
    (spark.DoubleType, "double"),
    (spark.DecimalType, "decimal"),
)


def column_statistics(plan: ScanPlan) -> list[list[Any]]:
    """Return what ANALYZE found of the columns of a scan, as ``PaimonStatistics.java`` takes it.

    Statistics of another schema, or of a column that has another id now, are left out; so is a file that cannot be
    read, since no query needs it.
    """
    if plan.view is not ROWS or not isinstance(plan.source, Snapshot):
        return []
    try:
        found = statistics_of(plan.table, plan.source)
    except (OSError, PaimonError):
        return []
    if found is None or found.schema_id != plan.table.schema.id:
        return []
    wanted = set(plan.struct.names)
    fields = {field.name: field for field in plan.table.schema.fields if field.name in wanted}
    rows = (_row(fields[name], column) for name, column in found.col_stats.items() if name in fields)
    return [row for row in rows if row is not None]


def _row(field: DataField, column: AnalyzedColumn) -> list[Any] | None:
    kind = next((name for types, name in _KINDS if isinstance(to_spark_type(field.type), types)), None)
    if field.id != column.col_id:
        return None
    least, greatest = (None if kind is None else _inside(text, field) for text in (column.min, column.max))
    name = quoted_name(field.name)
    return [name, column.distinct_count, column.null_count, column.avg_len, column.max_len, kind, least, greatest]


def _inside(text: str | None, field: DataField) -> str | None:
    """The text of a value as Spark keeps it inside; None where the file holds something else."""
    try:
        value = None if text is None else value_of_text(text, field.type)
    except (ValueError, ArithmeticError):
        return None
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
