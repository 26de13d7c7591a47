"""CHAR(n) columns in Spark: padded with blanks to n characters where they are read, as by the official connector.

Files hold what was written, padded or not (Java and Flink do not pad). Spark pads where a column's metadata says CHAR,
and the literals that the column is compared with. Statements that change rows compare padded values, and write the
values as they are stored: a key that is padded on the way would be another key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from paimon_spark.spark.columns.types import CHAR_METADATA
from paimon_spark.spec.data_types import CharType
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.data_types import DataField

_STORED = "_paimon_stored"
"""A struct of the CHAR columns as the files hold them; no column of a table has a name that begins so."""


def padded_by_spark(struct: StructType, fields: Iterable[DataField]) -> StructType:
    """The columns with metadata by which Spark pads those of type CHAR(n); nested ones stay as they are stored."""
    lengths = _lengths(fields)
    return StructType(
        [
            StructField(
                column.name,
                column.dataType,
                column.nullable,
                {**(column.metadata or {}), **_char(lengths[column.name])},
            )
            if column.name in lengths
            else column
            for column in struct.fields
        ]
    )


def is_char(column: StructField) -> bool:
    """Whether a column of Spark's says that it is CHAR(n)."""
    return str((column.metadata or {}).get(CHAR_METADATA, "")).startswith("char(")


def padded(rows: DataFrame, fields: Iterable[DataField]) -> DataFrame:
    """Rows as stored, with their CHAR columns padded, and behind all columns what `stored` needs."""
    lengths = {name: length for name, length in _lengths(fields).items() if name in rows.columns}
    if not lengths:
        return rows
    plain = [sf.col(quoted_name(name)) for name in rows.columns]
    shown = [
        pad(column, lengths[name]).alias(name, metadata=_char(lengths[name])) if name in lengths else column
        for name, column in zip(rows.columns, plain, strict=True)
    ]
    return rows.select(*shown, sf.struct(*(sf.col(quoted_name(name)) for name in lengths)).alias(_STORED))


def stored(rows: DataFrame, names: Sequence[str]) -> list[Column]:
    """Columns of rows as the files hold them: of those of `padded` the values before padding."""
    known = rows.schema[_STORED].dataType if _STORED in rows.columns else StructType()
    assert isinstance(known, StructType)
    return [
        sf.col(_STORED).getField(name).alias(name) if name in known.names else sf.col(quoted_name(name))
        for name in names
    ]


def select_stored(rows: DataFrame, names: Sequence[str], *more: Column) -> DataFrame:
    """Return rows with the columns `stored`, and more: by one call of the JVM a column where nothing was padded."""
    if more or _STORED in rows.columns:
        return rows.select(*stored(rows, names), *more)
    return rows.selectExpr(*map(quoted_name, names))


def pad(column: Column, length: int) -> Column:
    """A text with blanks up to a length in characters; longer ones stay."""
    return sf.when(sf.char_length(column) < length, sf.rpad(column, length, " ")).otherwise(column)


def _char(length: int) -> dict[str, str]:
    """Metadata by which Spark pads the literals that a column is compared with."""
    return {CHAR_METADATA: f"char({length})"}


def _lengths(fields: Iterable[DataField]) -> dict[str, int]:
    return {field.name: field.type.length for field in fields if isinstance(field.type, CharType)}
