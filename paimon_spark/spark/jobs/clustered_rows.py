"""Rows of a write in the order that ``clustering.columns`` asks for, so that statistics of its files rule out more.

Spark cuts the rows into ranges and sorts each. On a curve Python tells the place of a row first, as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StructField, StructType

from paimon_spark.maintain.compact.row_order import RowOrder
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.source.worker_process import speed_up_worker
from paimon_spark.spec.space_curves import Curve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.write.plan import WritePlan

_PLACE = "place"
_SAMPLED = 1 << 13
"""Rows of a task from which on only some are sampled."""


def clustered_rows(rows: DataFrame, plan: WritePlan) -> DataFrame:
    """Return the rows in ranges, each partition of Spark's one, and each range in order.

    Rows of one partition of the table come together; within it the order is that of ``clustering.columns``. Columns
    that the rows lack have one value each, so they order nothing.

    Args:
        rows: with the columns of the plan in their order, whose names are their positions.
        plan: of the write.

    Raises:
        OptionError: the table has not such a column, its type has no order, or ``clustering.strategy`` is unknown.
    """
    order = RowOrder.of_clustering(plan.table)
    positions = dict(zip(plan.table.schema.field_names, plan.mapping.sources, strict=True))
    given = {name: str(positions[name]) for name in positions if positions[name] is not None}
    order = replace(order, columns=tuple(given[name] for name in order.columns if name in given))
    keys = [given[name] for name in plan.table.schema.partition_keys if name in given]
    if order.curve is Curve.ORDER:
        return _sorted(rows, [*keys, *(name for name in order.columns if name not in keys)])
    if not order.columns:
        return _sorted(rows, keys)
    fields = [StructField(_PLACE, BinaryType(), nullable=False), *rows.schema.fields]
    placed = map_in_arrow(rows, partial(_placed, order.fitted(_sample(rows, order))), StructType(fields))
    return _sorted(placed, [*keys, _PLACE]).drop(_PLACE)


def _sorted(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    if not names:
        return rows
    columns = [sf.col(f"`{name}`") for name in names]
    return rows.repartitionByRange(*columns).sortWithinPartitions(*columns)


def _sample(rows: DataFrame, order: RowOrder) -> pa.Table:
    """Some rows of each task, evenly spread over them."""
    wanted = rows.select(*(sf.col(f"`{name}`") for name in order.columns))
    answer = StructType([StructField("sample", BinaryType(), nullable=False)])
    samples = [pa.ipc.open_stream(row[0]).read_all() for row in map_in_arrow(wanted, _sampled, answer).collect()]
    return pa.concat_tables(samples) if samples else pa.table({name: [] for name in order.columns})


def _sampled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep every n-th row of a task, n doubling while there are many. Runs in tasks."""
    speed_up_worker()
    kept: pa.Table | None = None
    step, seen = 1, 0
    for batch in batches:
        chosen = pa.Table.from_batches([batch]).take(pa.array(range(-seen % step, batch.num_rows, step), pa.int64()))
        seen += batch.num_rows
        kept = chosen if kept is None else pa.concat_tables([kept, chosen])
        while kept.num_rows > 2 * _SAMPLED:
            kept = kept.take(pa.array(range(0, kept.num_rows, 2), pa.int64()))
            step *= 2
    if kept is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, kept.schema) as stream:
            stream.write_table(kept)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["sample"])


def _placed(order: RowOrder, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the place of each row on the curve before its columns. Runs in tasks."""
    speed_up_worker()
    for batch in batches:
        place = order.keys(pa.Table.from_batches([batch])).column(0).combine_chunks().cast(pa.binary())
        yield pa.RecordBatch.from_arrays([place, *batch.columns], names=[_PLACE, *batch.schema.names])
