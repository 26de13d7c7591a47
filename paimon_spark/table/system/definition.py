"""The definition of a system table: its name, its columns, and the function that makes its rows.

Columns and types equal Java's classes of ``org.apache.paimon.table.system`` (docs/internals/format.md §11). Rows are
Arrow, made on the driver from metadata files only; no data file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import BigIntType, DataField, DataType, TimestampType, VarCharType

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

STRING = VarCharType(length=VarCharType.MAX)
LONG = BigIntType()
TIME = TimestampType(precision=3)
"""TIMESTAMP(3): the wall clock time here, as Java shows times."""


@dataclass(frozen=True)
class SystemTable:
    """One kind of system table."""

    name: str
    """As behind the ``$``."""
    fields: tuple[DataField, ...]
    rows: Callable[[FileStoreTable], pa.Table]
    """Its rows, with the columns `fields`, of a table that is there; see `read`."""
    travels: bool = False
    """Whether its rows are those of the snapshot that the scan options name."""

    def read(self, table: FileStoreTable) -> pa.Table:
        """Its rows, of a table with its scan options.

        Raises:
            TableNotFoundError: the table was dropped since it was opened.
        """
        table.snapshots.check_table_there()
        return self.rows(table)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns in Arrow."""
        return to_arrow_schema(self.fields)


def columns(**types: DataType) -> tuple[DataField, ...]:
    """Fields of these names and types, numbered from 0."""
    return tuple(DataField(index, name, data_type) for index, (name, data_type) in enumerate(types.items()))


def required(data_type: DataType) -> DataType:
    """The type, NOT NULL."""
    return data_type.with_nullable(False)


def table_of(fields: Sequence[DataField], values: Mapping[str, Sequence[Any] | pa.Array]) -> pa.Table:
    """Rows of a system table from one sequence of values per column."""
    schema = to_arrow_schema(fields)
    return pa.Table.from_arrays([_array(values[field.name], field.type) for field in schema], schema=schema)


def _array(values: Any, data_type: pa.DataType) -> pa.Array:
    return values.cast(data_type) if isinstance(values, pa.Array) else pa.array(values, data_type)


def table_of_rows(fields: Sequence[DataField], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows of a small system table from Python rows."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    return table_of(fields, {field.name: column for field, column in zip(fields, values, strict=True)})


def local_time(millis: int | None) -> datetime | None:
    """The wall clock time here at an instant, as Java shows it; None of None.

    Raises:
        CorruptTableError: it is outside the years 1 to 9999, which Spark cannot show.
    """
    if millis is None:
        return None
    try:
        return datetime.fromtimestamp(millis // 1000) + timedelta(milliseconds=millis % 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise CorruptTableError(
            f"A snapshot, schema or tag of the table has the time {millis} (milliseconds since 1970), which is outside "
            "the years 1 to 9999 and cannot be shown: whoever wrote it had a wrong clock, or its file is damaged."
        ) from error
