"""Which tables are of plain files: Java's ``FormatTable`` and ``TableType``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

TYPE: Final = "type"
FORMAT_TABLE: Final = "format-table"
FILE_FORMAT: Final = "file.format"
FORMATS: Final = ("csv", "json", "orc", "parquet", "text")
"""Java has `mosaic` besides, which no reader of Spark's knows."""


def is_format_table(schema: TableSchema) -> bool:
    """Whether a schema is one of plain files."""
    return schema.options.get(TYPE, "").strip().lower() == FORMAT_TABLE


def options_of_files(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table of plain files that are not for its files: a log may say that they are ignored."""
    own = ("csv.", "json.", "text.", "format-table.partition-path-only-value", "format-table.file.compression")
    return {key: text for key, text in options.items() if not key.startswith(own)}
