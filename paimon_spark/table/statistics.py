"""Statistics files: what ANALYZE found out about a snapshot (Java: ``Statistics``, ``ColStats``, ``StatsFileHandler``).

Least and greatest values are texts in them (Java: ``Serializer.serializeToString``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from paimon_spark.spec import data_types as t
from paimon_spark.spec.java_text import double_text, epoch_days, epoch_nanos, float_text, timestamp_text
from paimon_spark.spec.json_text import JsonFields, parse_json_object, pretty_json

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_WHAT = "statistics"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedColumn:
    """Statistics of one column; what is None was not collected.

    `min` and `max` are texts as Java's serializers write them: plain numbers, ``true``, dates as days since 1970,
    timestamps as ``yyyy-MM-dd HH:mm:ss`` with a fraction of the type's precision.
    """

    col_id: int  # colId: field id
    distinct_count: int | None = None  # distinctCount
    min: str | None = None
    max: str | None = None
    null_count: int | None = None  # nullCount
    avg_len: int | None = None  # avgLen, bytes
    max_len: int | None = None  # maxLen, bytes

    def to_json_object(self) -> dict[str, Any]:
        """The keys and values of the file, in Java's order."""
        values = {
            "colId": self.col_id,
            "distinctCount": self.distinct_count,
            "min": self.min,
            "max": self.max,
            "nullCount": self.null_count,
            "avgLen": self.avg_len,
            "maxLen": self.max_len,
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of one snapshot, and of its columns by name."""

    snapshot_id: int  # snapshotId
    schema_id: int  # schemaId
    merged_record_count: int | None = None  # mergedRecordCount: rows of a read
    merged_record_size: int | None = None  # mergedRecordSize, bytes
    col_stats: Mapping[str, AnalyzedColumn] = field(default_factory=dict)  # colStats

    @staticmethod
    def from_json(data: bytes | str, *, path: str | None = None) -> Statistics:
        """Read a statistics file; keys it does not know are ignored, as in Java.

        Raises:
            CorruptTableError: not a statistics file.
        """
        values = JsonFields(parse_json_object(data, what=_WHAT, path=path), _WHAT, path)
        columns = values.rest.pop("colStats", None)
        columns = {} if columns is None else columns
        if not isinstance(columns, dict) or not all(isinstance(column, dict) for column in columns.values()):
            values.fail("'colStats' must be an object of objects")
        return Statistics(
            snapshot_id=values.integer("snapshotId"),
            schema_id=values.integer("schemaId"),
            merged_record_count=values.optional_integer("mergedRecordCount"),
            merged_record_size=values.optional_integer("mergedRecordSize"),
            col_stats={name: _column(JsonFields(column, _WHAT, path)) for name, column in columns.items()},
        )

    def to_json(self) -> str:
        """The text of the file, byte for byte as Java writes it."""
        values: dict[str, Any] = {"snapshotId": self.snapshot_id, "schemaId": self.schema_id}
        if self.merged_record_count is not None:
            values["mergedRecordCount"] = self.merged_record_count
        if self.merged_record_size is not None:
            values["mergedRecordSize"] = self.merged_record_size
        values["colStats"] = {name: column.to_json_object() for name, column in self.col_stats.items()}
        return pretty_json(values)


def _column(values: JsonFields) -> AnalyzedColumn:
    return AnalyzedColumn(
        col_id=values.integer("colId", bits=32),
        distinct_count=values.optional_integer("distinctCount"),
        min=values.optional_text("min"),
        max=values.optional_text("max"),
        null_count=values.optional_integer("nullCount"),
        avg_len=values.optional_integer("avgLen"),
        max_len=values.optional_integer("maxLen"),
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ORDER = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)


def has_least_and_greatest(data_type: t.DataType) -> bool:
    """Whether least and greatest values of a column are kept: not of texts and bytes."""
    return not isinstance(data_type, _NO_ORDER)


def is_analyzable(data_type: t.DataType) -> bool:
    """Whether statistics of a column of this type are collected: of atomic types, but for VARIANT, BLOB and such."""
    return isinstance(data_type, (*_NO_ORDER, *_FIXED))


def value_text(value: Any, data_type: t.DataType) -> str:
    """Return the text of a value: plain numbers, ``true``, days since 1970, ``yyyy-MM-dd HH:mm:ss.SSS``.

    Args:
        value: Python's int, float, bool, Decimal, date, datetime (or microseconds since 1970).
        data_type: of the column.
    """
    match data_type:
        case t.BooleanType():
            return "true" if value else "false"
        case t.FloatType():
            return float_text(value)
        case t.DoubleType():
            return double_text(value)
        case t.DecimalType():
            return f"{value:.{data_type.scale}f}"
        case t.DateType():
            return str(epoch_days(value))
        case t.TimestampType() | t.LocalZonedTimestampType():
            nanos = value * 1000 if isinstance(value, int) else epoch_nanos(value, data_type)
            return timestamp_text(nanos, data_type.precision)
    return str(int(value))


def value_of_text(text: str, data_type: t.DataType) -> int | float | bool | Decimal:
    """Return the value of a text as Spark keeps it inside: dates as days, timestamps as microseconds since 1970.

    Raises:
        ValueError: it is no value of the type.
    """
    match data_type:
        case t.BooleanType():
            return text == "true"
        case t.FloatType() | t.DoubleType():
            return float(text)
        case t.DecimalType():
            return Decimal(text)
        case t.DateType():
            return (date.fromisoformat(text) - date(1970, 1, 1)).days if "-" in text[1:] else int(text)
        case t.TimestampType() | t.LocalZonedTimestampType():
            head, _, fraction = text.partition(".")
            seconds = datetime.fromisoformat(head).replace(tzinfo=UTC) - _EPOCH
            return seconds // timedelta(microseconds=1) + int((fraction + "000000")[:6])
    return int(text)


_FIXED = (
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.DateType,
    t.TimeType,
    t.TimestampType,
    t.LocalZonedTimestampType,
)


def statistics_of(table: FileStoreTable, snapshot: Snapshot | None) -> Statistics | None:
    """Return what ANALYZE found; None where the snapshot names nothing.

    Raises:
        FileNotFoundError: the file is missing.
        CorruptTableError: it is not a statistics file.
    """
    if snapshot is None or snapshot.statistics is None:
        return None
    path = table.paths.statistics_path(snapshot.statistics)
    return Statistics.from_json(table.file_io.read_bytes(path), path=path)
