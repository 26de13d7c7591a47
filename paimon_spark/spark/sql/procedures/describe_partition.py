"""DESCRIBE … PARTITION, run as a procedure that no list shows: what the official connector prints.

Equals its ``PaimonDescribeTableExec``: the table's description, then the partition, then the columns that are NOT NULL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.sql.procedures.procedure import (
    BOOLEAN,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    ResultColumn,
    Rows,
    procedure,
)
from paimon_spark.spark.sql.table_descriptions import Row, partition_text, table_struct
from paimon_spark.spark.sql.table_partitions import partition_counts
from paimon_spark.spark.sql.warehouses import quoted
from paimon_spark.spec.sql_text import quoted_name, spark_literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.table.table import FileStoreTable

DESCRIBE_PARTITION = "__describe_partition"
DESCRIPTION_COLUMNS = (
    ResultColumn("col_name", nullable=False),
    ResultColumn("data_type", nullable=False),
    ResultColumn("comment"),
)
"""The columns of what DESCRIBE shows."""


def described_partition(
    table: FileStoreTable, name: Sequence[str], values: Mapping[str, Any], *, extended: bool
) -> list[Row]:
    """Return what DESCRIBE shows of a partition behind the description of its table.

    Args:
        table: the table.
        name: its whole name.
        values: of the partition, by column.
        extended: whether EXTENDED or FORMATTED is given.

    Raises:
        PaimonError: not all partition columns are given, or there is no such partition.
    """
    keys = table.schema.partition_keys
    if set(values) != set(keys):
        raise PaimonError(
            f"[PARTITIONS_NOT_FOUND] Partition spec is invalid. The spec ({', '.join(values)}) must match the "
            f"partition spec ({', '.join(keys)}) defined in table {quoted(name)}."
        )
    values = {key: values[key] for key in keys}
    shown = partition_text(table, values).replace("/", ", ")
    counts = partition_counts(table, values)
    if counts is None:
        raise PaimonError(
            f"[PARTITIONS_NOT_FOUND] The partition(s) PARTITION ({shown}) cannot be found in table {quoted(name)}."
        )
    if not extended:
        return []
    created = datetime.fromtimestamp(counts["lastFileCreationTime"] // 1000).astimezone()
    parameters = ", ".join(f"{key}={value}" for key, value in counts.items())
    rows: list[Row] = [
        ("", "", ""),
        ("# Detailed Partition Information", "", ""),
        ("Database", name[-2], ""),
        ("Table", name[-1], ""),
        ("Partition Values", f"[{shown}]", ""),
        ("Partition Parameters", f"{{{parameters}}}", ""),
        ("Created Time", f"{created:%a %b %d %H:%M:%S %Z %Y}", ""),
        ("Last Access", "UNKNOWN", ""),
        ("Partition Statistics", f"{counts['fileSizeInBytes']} bytes, {counts['recordCount']} rows", ""),
        ("", "", ""),
    ]
    required = [field for field in table_struct(table).fields if not field.nullable]
    if required:
        rows.append(("# Column Not Null", "", ""))
        rows += [(field.name, field.dataType.simpleString(), "NOT NULL") for field in required]
    return rows


@procedure(
    "DESCRIBE TABLE … PARTITION of Paimon's tables.",
    (TABLE, Argument("partition", required=True), Argument("extended", BOOLEAN, required=True)),
    result=DESCRIPTION_COLUMNS,
    name=DESCRIBE_PARTITION,
)
def _describe(context: CallContext, arguments: Arguments) -> Rows:
    name = context.named(arguments["table"])
    table = name.load()
    extended = "EXTENDED " if arguments["extended"] else ""
    shown = context.spark.sql(f"DESCRIBE TABLE {extended}{'.'.join(map(quoted_name, name.parts))}")
    values = _typed(context.spark, table, json.loads(arguments["partition"]))
    rows = described_partition(table, name.parts, values, extended=arguments["extended"])
    return [*map(tuple, shown.collect()), *rows]


def _typed(spark: SparkSession, table: FileStoreTable, given: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values that a PARTITION clause has as texts in the types of the columns; Spark casts them."""
    fields = {field.name.lower(): field for field in table.schema.partition_fields}
    columns = {name: fields.get(name.lower()) for name in given}
    if not given or None in columns.values():
        return dict(given)
    casts = [
        f"CAST({'NULL' if given[name] is None else spark_literal(given[name])} AS "
        f"{to_spark_type(field.type).simpleString()})"
        for name, field in columns.items()
        if field is not None
    ]
    row = spark.sql(f"SELECT {', '.join(casts)}").collect()[0]
    return {field.name: value for field, value in zip(columns.values(), row, strict=True) if field is not None}
