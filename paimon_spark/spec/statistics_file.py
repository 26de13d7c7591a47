"""Statistics files: what ANALYZE found out about a snapshot (Java: ``Statistics``, ``ColStats``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_spark.spec.json_text import JsonFields, parse_json_object, pretty_json

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
