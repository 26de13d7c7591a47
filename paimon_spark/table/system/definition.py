"""The definition of a system table: its name, its columns, and the function that makes its rows.

Columns and types equal Java's classes of ``org.apache.paimon.table.system`` (docs/internals/format.md §11). Rows are
Arrow, made on the driver from metadata files only; no data file is opened. Values are shown in two notations of Java's:
the cast to STRING (partitions: ``{2024-01-01, a}``), and ``toString`` of the internal value (keys and statistics: dates
as day numbers, times as milliseconds, timestamps as ``2024-01-01T10:00``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.cast_values import map_distinct
from paimon_spark.spec.casts import to_text
from paimon_spark.spec.java_text import local_date_time_text, partition_value_text

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

STRING = t.VarCharType(length=t.VarCharType.MAX)
LONG = t.BigIntType()
TIME = t.TimestampType(precision=3)
"""TIMESTAMP(3): the wall clock time here, as Java shows times."""


Found: TypeAlias = "pa.Table | Mapping[str, Sequence[Any] | pa.Array] | Iterable[Sequence[Any]]"
"""What a system table shows: a table, its columns by name, or rows in the order of its columns."""


@dataclass(frozen=True)
class SystemTable:
    """One kind of system table."""

    name: str
    """As behind the ``$``."""
    fields: tuple[t.DataField, ...]
    found: Callable[[FileStoreTable], Found]
    """What it shows of a table that is there."""
    sorted_by: tuple[str, ...] = ()

    def read(self, table: FileStoreTable) -> pa.Table:
        """Its rows, of a table with its scan options.

        Raises:
            TableNotFoundError: the table was dropped since it was opened.
        """
        table.snapshots.check_table_there()
        rows = table_of(self.fields, self.found(table))
        return rows.sort_by([(name, "ascending") for name in self.sorted_by]) if self.sorted_by else rows

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns in Arrow."""
        return to_arrow_schema(self.fields)


def system_table(
    name: str, sorted_by: tuple[str, ...] = (), /, **types: t.DataType
) -> Callable[[Callable[[FileStoreTable], Found]], SystemTable]:
    """Make a system table of these columns of the function that finds what it shows."""
    return lambda found: SystemTable(name, columns(**types), found, sorted_by)


def columns(**types: t.DataType) -> tuple[t.DataField, ...]:
    """Fields of these names and types, numbered from 0."""
    return tuple(t.DataField(index, name, data_type) for index, (name, data_type) in enumerate(types.items()))


def required(data_type: t.DataType) -> t.DataType:
    """The type, NOT NULL."""
    return data_type.with_nullable(False)


def table_of(fields: Sequence[t.DataField], found: Found) -> pa.Table:
    """What was found, as a table with these columns."""
    if isinstance(found, pa.Table):
        return found
    if not isinstance(found, Mapping):
        rows = list(found)
        values = zip(*rows, strict=True) if rows else [()] * len(fields)
        found = {field.name: column for field, column in zip(fields, values, strict=True)}
    schema = to_arrow_schema(fields)
    return pa.Table.from_arrays([_array(found[field.name], field.type) for field in schema], schema=schema)


def _array(values: Any, data_type: pa.DataType) -> pa.Array:
    return values.cast(data_type) if isinstance(values, pa.Array) else pa.array(values, data_type)


def local_time(millis: int | None, path: str) -> datetime | None:
    """The wall clock time here at an instant that a file tells, as Java shows it; None of None.

    Raises:
        CorruptTableError: it is outside the years 1 to 9999, which Spark cannot show.
    """
    if millis is None:
        return None
    try:
        return datetime.fromtimestamp(millis // 1000) + timedelta(milliseconds=millis % 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise CorruptTableError(
            f"{path} has the time {millis} (milliseconds since 1970), which is outside the years 1 to 9999 and cannot "
            "be shown: whoever wrote it had a wrong clock, or it is damaged.",
            path=path,
        ) from error


_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def row_texts(columns: Sequence[pa.Array], types: Sequence[t.DataType], count: int) -> pa.Array:
    """Rows cast to STRING: ``{a, b}``, a null as ``null``; `count` rows of ``{}`` without columns."""
    return _enclosed(
        "{", [_shown(to_text(c, kind, STRING)) for c, kind in zip(columns, types, strict=True)], "}", count
    )


def key_texts(columns: Sequence[pa.Array], types: Sequence[t.DataType], count: int) -> pa.Array:
    """Keys as Java prints arrays: ``[1, a]``."""
    return _enclosed("[", [_shown(object_texts(c, kind)) for c, kind in zip(columns, types, strict=True)], "]", count)


def map_texts(texts: Sequence[tuple[str, pa.Array]], count: int) -> pa.Array:
    """Texts by column name as Java prints a sorted map: ``{a=1, b=null}``."""
    ordered = sorted(texts, key=lambda pair: pair[0])
    entries = [pc.binary_join_element_wise(pa.scalar(f"{name}="), _shown(text), "") for name, text in ordered]
    return _enclosed("{", entries, "}", count)


def object_texts(array: pa.Array, data_type: t.DataType) -> pa.Array:
    """Java's ``toString`` of internal values; null stays null. Binaries, which Java cannot print, as hex digits."""
    match data_type:
        case t.FloatType() | t.DoubleType():
            return to_text(array, data_type, STRING)
        case t.DateType() | t.TimeType():
            return pc.cast(array.view(pa.int32()), pa.string())
        case t.TimestampType() | t.LocalZonedTimestampType():
            factor = _NANOS[array.type.unit]
            return map_distinct(
                array.view(pa.int64()), lambda v: None if v is None else local_date_time_text(v * factor), pa.string()
            )
        case t.BinaryType() | t.VarBinaryType():
            return map_distinct(array, lambda v: None if v is None else v.hex(), pa.string())
    if pa.types.is_nested(array.type):  # statistics have no nested bounds
        return pa.nulls(len(array), pa.string())
    return to_text(array, data_type, STRING)


def partition_texts(table: FileStoreTable, partitions: Sequence[bytes]) -> pa.Array:
    """Partition bytes cast to STRING, as ``files`` shows them: ``{2024-01-01, a}``."""
    batch = table.manifests.partition_batch(partitions) if table.schema.partition_keys else None
    types = [table.schema.field(name).type for name in table.schema.partition_keys]
    return row_texts([] if batch is None else batch.columns, types, len(partitions))


def partition_names(table: FileStoreTable, partitions: Sequence[bytes]) -> list[str]:
    """Partition bytes as ``partitions`` shows them: ``dt=2024-01-01/hh=1``, nothing escaped, dates as dates."""
    layout = table.paths.layout
    assert layout is not None
    names = []
    for partition in partitions:
        texts = (
            partition_value_text(value, data_type, legacy=False, default_name=layout.default_partition_name)
            for value, data_type in zip(layout.partition_values(partition), layout.partition_types, strict=True)
        )
        names.append("/".join(f"{key}={text}" for key, text in zip(layout.partition_keys, texts, strict=True)))
    return names


def _shown(text: pa.Array) -> pa.Array:
    return pc.fill_null(text, "null")


def _enclosed(before: str, texts: Sequence[pa.Array], after: str, count: int) -> pa.Array:
    if not texts:
        return pa.array([before + after] * count, pa.string())
    joined = pc.binary_join_element_wise(*texts, ", ") if len(texts) > 1 else texts[0]
    return pc.binary_join_element_wise(pa.scalar(before), joined, pa.scalar(after), "")
