"""``statistics`` and ``aggregation_fields``: what ANALYZE found, and which function aggregates which column.

Equals Java's ``StatisticTable`` and ``AggregationFieldsTable``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_spark.spec.json_text import pretty_json
from paimon_spark.table.statistics import statistics_of
from paimon_spark.table.system.definition import LONG, STRING, SystemTable, columns, required, table_of_rows
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.table.table import FileStoreTable

_STATISTICS_FIELDS = columns(
    snapshot_id=required(LONG),
    schema_id=required(LONG),
    mergedRecordCount=LONG,
    mergedRecordSize=LONG,
    colstat=STRING,
)
_AGGREGATION_FIELDS = columns(
    field_name=required(STRING),
    field_type=required(STRING),
    function=STRING,
    function_options=STRING,
    comment=STRING,
)
_FIELD_OPTION = "fields"


def _statistics(table: FileStoreTable) -> pa.Table:
    """The statistics that the snapshot names: one row, none without.

    Java: a file without row count or size makes it fail; here they are null.
    """
    then, snapshot = travel(table)
    found = statistics_of(then, snapshot)
    if found is None:
        return table_of_rows(_STATISTICS_FIELDS, [])
    columns_found = {name: column.to_json_object() for name, column in found.col_stats.items()}
    return table_of_rows(
        _STATISTICS_FIELDS,
        [
            (
                found.snapshot_id,
                found.schema_id,
                found.merged_record_count,
                found.merged_record_size,
                pretty_json(columns_found),
            )
        ],
    )


def _aggregation_fields(table: FileStoreTable) -> pa.Table:
    """The columns of the latest schema with the options ``fields.<column>.…`` of each: values, then keys."""
    schema = table.with_latest_schema().schema
    options = _options_of_fields(schema.options)
    return table_of_rows(
        _AGGREGATION_FIELDS,
        [
            (
                field.name,
                field.type.sql(),
                f"[{', '.join(value for _, value in options.get(field.name, ()))}]",
                f"[{', '.join(key for key, _ in options.get(field.name, ()))}]",
                field.description,
            )
            for field in schema.fields
        ],
    )


def _options_of_fields(options: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for key, value in options.items():
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == _FIELD_OPTION:
            found.setdefault(parts[1], []).append((key, value))
    return found


FACT_TABLES = (
    SystemTable("statistics", _STATISTICS_FIELDS, _statistics, travels=True),
    SystemTable("aggregation_fields", _AGGREGATION_FIELDS, _aggregation_fields),
)
"""The system tables of this module."""
