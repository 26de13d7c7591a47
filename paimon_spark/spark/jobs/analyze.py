"""ANALYZE TABLE: one Spark job that counts, and a commit of what it found.

Equals Java's ``PaimonAnalyzeTableColumnCommand``, whose job is Spark's ``CommandUtils.computeColumnStats``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StringType, TimestampType

from paimon_spark.commit.metadata_commit import commit_statistics
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spark.columns.types import default_size, to_spark_type
from paimon_spark.spark.jobs.snapshot_rows import table_rows
from paimon_spark.spec.data_types import CharType
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.statistics import (
    AnalyzedColumn,
    Statistics,
    has_least_and_greatest,
    is_analyzable,
    value_text,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, Row, SparkSession

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

_MAX_ERROR = "spark.sql.statistics.ndv.maxError"


def analyze(
    spark: SparkSession, table: FileStoreTable, columns: Sequence[str] = (), *, all_columns: bool = False
) -> int | None:
    """Count rows of the latest snapshot, and values of columns; commit it and return the new snapshot's id.

    Args:
        spark: a classic or a Connect session.
        table: with its dynamic options.
        columns: names of columns; case does not count where no name differs by it alone.
        all_columns: all columns instead.

    Returns:
        None where there is no snapshot: nothing is counted then.

    Raises:
        OptionError: a column is none of the table's, or both kinds of columns are asked for.
        UnsupportedError: a column's type has no statistics.
        CommitConflictError: rivals won too often; nothing was committed.
    """
    fields = _chosen(table, columns, all_columns=all_columns)
    snapshot = table.snapshots.latest_to_follow()
    if snapshot is None:
        return None
    names = [field.name for field in fields] or [_narrowest(table)]
    rows = table_rows(spark, table, snapshot.id, columns=names, visible=True)
    error = float(str(spark.conf.get(_MAX_ERROR, "0.05")))
    counted = [sf.count(sf.lit(1)).alias("rows")]
    for at, field in enumerate(fields):
        counted += [column.alias(f"{at}_{name}") for name, column in _measures(field, error).items()]
    (found,) = rows.agg(*counted).collect()
    size = int(table.manifests.live_columns(snapshot, statistics=False).file_sizes.sum())
    merged, total = found["rows"], snapshot.total_record_count
    statistics = Statistics(
        snapshot_id=snapshot.id,
        schema_id=snapshot.schema_id,
        merged_record_count=merged,
        merged_record_size=int(size * merged / total) if total > 0 else 0,
        col_stats={field.name: _analyzed(field, found, at) for at, field in enumerate(fields)},
    )
    return commit_statistics(table, statistics)


def _chosen(table: FileStoreTable, columns: Sequence[str], *, all_columns: bool) -> list[DataField]:
    if columns and all_columns:
        raise OptionError("Name columns, or ask for all of them: not both.")
    known = table.schema.fields
    chosen = list(known) if all_columns else []
    for name in columns:
        same = [field for field in known if field.name == name]
        alike = same or [field for field in known if field.name.lower() == name.lower()]
        if len(alike) != 1:
            names = ", ".join(field.name for field in known)
            raise OptionError(f"Column {name} not found in {table.path}: its columns are {names}.")
        chosen += alike
    for field in chosen:
        if not is_analyzable(field.type):
            raise UnsupportedError(
                f"Analyzing on col: {field.name}, data type: {field.type.sql()} is not supported. Name the other "
                "columns: FOR COLUMNS …"
            )
    return list(dict.fromkeys(chosen))


def _narrowest(table: FileStoreTable) -> str:
    """The column by which rows are counted: a partition column, which needs no reading, else the smallest."""
    keys = table.schema.partition_keys
    fields = sorted(table.schema.fields, key=lambda f: (f.name not in keys, default_size(to_spark_type(f.type))))
    return fields[0].name


def _measures(field: DataField, max_error: float) -> dict[str, Column]:
    """Aggregates over one column, as Spark's own ANALYZE has them."""
    column, spark_type = sf.col(quoted_name(field.name)), to_spark_type(field.type)
    not_null = sf.count(column)
    measures = {
        "distinct": sf.least(sf.approx_count_distinct(column, max_error), not_null),
        "nulls": sf.count(sf.lit(1)) - not_null,
    }
    if isinstance(spark_type, StringType | BinaryType):
        padded = sf.rpad(column, field.type.length, " ") if isinstance(field.type, CharType) else column
        length = sf.length(padded)
        return measures | {"average": sf.ceil(sf.avg(length)), "longest": sf.max(length).cast("bigint")}
    ordered = sf.unix_micros(column) if isinstance(spark_type, TimestampType) else column
    return measures | {"min": sf.min(ordered), "max": sf.max(ordered)}


def _analyzed(field: DataField, found: Row, at: int) -> AnalyzedColumn:
    def measure(name: str) -> Any:
        return found[f"{at}_{name}"]

    common = {"col_id": field.id, "distinct_count": measure("distinct"), "null_count": measure("nulls")}
    size = default_size(to_spark_type(field.type))
    if not has_least_and_greatest(field.type):
        average, longest = measure("average"), measure("longest")
        return AnalyzedColumn(
            **common,
            avg_len=size if average is None else int(average),
            max_len=size if longest is None else int(longest),
        )
    least, greatest = (_text(measure(name), field) for name in ("min", "max"))
    return AnalyzedColumn(**common, min=least, max=greatest, avg_len=size, max_len=size)


def _text(value: Any, field: DataField) -> str | None:
    return None if value is None else value_text(value, field.type)
