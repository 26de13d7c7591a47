"""What the source of a MERGE tells about the rows of the target that it can match: a condition for the target's scan.

Where ON compares columns of the target with values of the source, no row outside the range of these values matches.
The range is computed once per attempt, of a source that is at hand or small; files, row groups and partitions outside
of it are not read then. On the driver.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql import types as t

from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.session.connect_plans import is_cached
from paimon_spark.spark.session.pyspark_members import SourceSize, source_size
from paimon_spark.spark.session.session_settings import is_connect
from paimon_spark.spec.data_types import CharType
from paimon_spark.spec.sql_text import literal_text, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.schema import TableSchema

_LEAST_ROWS = 200_000
"""Of a target: a smaller one is read as fast as the range is computed."""
_MOST_BYTES = 32 << 20
"""Of a source that is kept for the second look at it, as Spark's optimizer estimates it."""
_MOST_VALUES = 256
_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_ORDERED = (*_WHOLE, t.DecimalType, t.StringType, t.DateType, t.TimestampNTZType)
"""Types whose values compare in files as they do in Spark, and have literals."""


@dataclass(frozen=True)
class Equality:
    """A part of ON, joined to the others by AND: a column of the target equals a value of the source."""

    column: str
    value: Column
    """Over the source."""


@contextlib.contextmanager
def kept_if_small(source: DataFrame, target_rows: int) -> Iterator[bool]:
    """Return whether a second look at the source costs little, and keep its rows in the meantime where that needs it.

    Args:
        source: the rows; nothing is evaluated here.
        target_rows: how many rows the target has.
    """
    if target_rows < _LEAST_ROWS:
        yield False
        return
    if is_connect(source.sparkSession):
        yield is_cached(source)
        return
    size = source_size(source, _MOST_BYTES)
    if size is not SourceSize.SMALL:
        yield size is SourceSize.AT_HAND
        return
    source.persist()
    try:
        yield True
    finally:
        source.unpersist()


def matching_rows(
    target: DataFrame,
    narrow: Callable[[str], DataFrame],
    source: DataFrame,
    equalities: Sequence[Equality],
    schema: TableSchema,
) -> DataFrame:
    """Return the target without rows that no row of the source matches, as far as that is known.

    It runs one job over the source, and one more where there are few values.

    Args:
        target: all rows.
        narrow: gives the target where SQL over its columns is true.
        source: is evaluated several times.
        equalities: each must hold for rows that match.
        schema: of the target.
    """
    usable = _usable(source, equalities, schema)
    if not usable:
        return target
    condition = _ranges(source, usable)
    return target if condition is None else narrow(condition)


def _ranges(source: DataFrame, usable: Sequence[Equality]) -> str | None:
    """Return SQL over columns of the target that is true where a row of the source matches; None if unknown."""
    bounds = [bound(pair.value) for pair in usable for bound in (sf.min, sf.max)]
    rows = source.agg(sf.count(sf.lit(1)), *bounds).collect()[0]
    few: list[set[Any]] = [set() for _ in usable]
    if rows[0] <= _MOST_VALUES:
        values = source.select(*(pair.value.alias(str(at)) for at, pair in enumerate(usable))).collect()
        few = [{row[at] for row in values} - {None} for at in range(len(usable))]
    conditions = []
    for at, pair in enumerate(usable):
        low, high = rows[1 + 2 * at], rows[2 + 2 * at]
        name = quoted_name(pair.column)
        if not (_has_literal(low) and _has_literal(high)):
            continue
        conditions.append(f"{name} >= {literal_text(low)} AND {name} <= {literal_text(high)}")
        if len(few[at]) > 0 and all(map(_has_literal, few[at])):
            conditions.append(f"{name} IN ({', '.join(map(literal_text, sorted(few[at])))})")
    return " AND ".join(conditions) or None


def _usable(source: DataFrame, equalities: Sequence[Equality], schema: TableSchema) -> list[Equality]:
    """Those whose values compare with the column as they are."""
    chosen = source.select(*(pair.value.alias(str(at)) for at, pair in enumerate(equalities))).schema
    found = []
    for pair, given in zip(equalities, chosen.fields, strict=True):
        if not schema.has_field(pair.column) or isinstance(schema.field(pair.column).type, CharType):
            continue
        own = to_spark_type(schema.field(pair.column).type)
        same = type(own) is type(given.dataType) or (isinstance(own, _WHOLE) and isinstance(given.dataType, _WHOLE))
        is_binary = not isinstance(given.dataType, t.StringType) or given.dataType == t.StringType()
        if isinstance(own, _ORDERED) and same and is_binary:
            found.append(pair)
    return found


def _has_literal(value: Any) -> bool:
    """Whether a value has a literal that does not depend on settings of the session."""
    if isinstance(value, str):
        return "\\" not in value and "'" not in value and len(value) < 1000
    return isinstance(value, int | Decimal | date | datetime)
