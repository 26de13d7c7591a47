"""A shuffled write of tables whose rows' buckets are known before Spark shuffles them, and of append tables.

A shuffle brings each row to the task of its bucket, which an SQL expression or Python computes; that packs the
rows; a pass writes, and answers with the task's commit message.

Where ``clustering.columns`` asks for an order, so that statistics of files rule out more, Spark cuts the rows into
ranges and sorts each. On a curve Python gives the location of a row first, as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StructField, StructType

from paimon_spark.maintain.compact.row_order import Curve, RowOrder, clusters_writes
from paimon_spark.spark.columns.bucket_expression import bucket_expression, kept_as_given
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import collect_in_arrow, map_in_arrow, numbered
from paimon_spark.spark.jobs.clustering import clustering, packed, packed_here
from paimon_spark.spark.jobs.lookup_joins import LookupJoin
from paimon_spark.spark.jobs.write_tasks import RowsToWrite, commit_tasks, number_of_tasks, run_write, write_here
from paimon_spark.spark.session.pyspark_members import sql_columns
from paimon_spark.spark.session.rows_at_hand import rows_at_hand
from paimon_spark.spark.session.session_settings import is_connect
from paimon_spark.spark.source.table_write import TaskRows, planned
from paimon_spark.spec.schema import BucketMode
from paimon_spark.write.packed_rows import TASK
from paimon_spark.write.plan import WritePlan, plan_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spark.source.table_write import TableWrite
    from paimon_spark.table.table import FileStoreTable


_LOCATION = "location"
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
    fields = [StructField(_LOCATION, BinaryType(), nullable=False), *rows.schema.fields]
    assigned = map_in_arrow(rows, partial(_assigned, order.fitted(_sample(rows, order))), StructType(fields))
    return _sorted(assigned, [*keys, _LOCATION]).drop(_LOCATION)


def _sorted(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    if not names:
        return rows
    columns = [sf.col(f"`{name}`") for name in names]
    return rows.repartitionByRange(*columns).sortWithinPartitions(*columns)


def _sample(rows: DataFrame, order: RowOrder) -> pa.Table:
    """Some rows of each task, evenly spread over them."""
    wanted = rows.select(*(sf.col(f"`{name}`") for name in order.columns))
    answer = StructType([StructField("sample", BinaryType(), nullable=False)])
    samples = [
        pa.ipc.open_stream(row[0]).read_all() for row in collect_in_arrow(wanted, "sample rows", _sampled, answer)
    ]
    return pa.concat_tables(samples) if samples else pa.table({name: [] for name in order.columns})


def _sampled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep every n-th row of a task, n doubling while there are many. Runs in tasks."""
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


def _assigned(order: RowOrder, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the location of each row on the curve before its columns. Runs in tasks."""
    for batch in batches:
        location = order.keys(pa.Table.from_batches([batch])).column(0).combine_chunks().cast(pa.binary())
        yield pa.RecordBatch.from_arrays([location, *batch.columns], names=[_LOCATION, *batch.schema.names])


def write_to_buckets(
    written: RowsToWrite, prepared: Callable[[TableWrite], TableWrite] = lambda write: write
) -> int | None:
    """As `shuffled_write.write_shuffled`; `prepared` says more of the write that was planned."""
    df, table, merge = written.df, written.table, written.merge
    given = spark_arrow_schema(df.schema)
    if merge is not None:
        given = pa.schema([column.with_name(name) for column, name in zip(given, merge.names, strict=True)])
    arrow_schema = given if merge is None else merge.data_schema
    assignment = None
    if table.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        assignment = plan_write(table, overwrite=written.mode, data_schema=arrow_schema, rows_of=written.rows_of)
    write = planned(
        table,
        arrow_schema,
        written.overwrite,
        rows=TaskRows(shuffled=True, assignment=assignment),
        operation=written.operation,
        rows_of=written.rows_of,
    )
    write = prepared(replace(write, stream=written.stream))
    clusters = clusters_writes(table.schema)
    batches = None if clusters else rows_at_hand(df)
    if batches is not None:
        return _write_here(written, batches, write, given, assignment)
    rows = numbered(df)
    if clusters:
        return run_write(clustered_rows(rows, write.plan), write, accepts=written.accepts)
    if written.together:
        if assignment is not None:
            rows, write = packed(rows, arrow_schema, assignment, 1), replace(write, packed=True)
        return run_write(rows, write, accepts=written.accepts)
    tasks = number_of_tasks(df, table)
    keys = _clustered_by(write.plan, tasks, given)
    if keys is None:
        write = replace(write, packed=True)
        rows, keys = packed(rows, given, assignment or write.plan, tasks), [TASK]
    columns = [sf.expr(key) for key in keys] if is_connect(df.sparkSession) else sql_columns(df.sparkSession, keys)
    shuffled = rows.repartition(*columns) if _joins_tasks(df, table) else rows.repartition(tasks, *columns)
    task = None
    if merge is not None:
        shuffled, task = merge.applied(shuffled, write.plan, given, packed=write.packed)
    return run_write(shuffled, write, task, accepts=written.accepts)


def _write_here(
    written: RowsToWrite,
    batches: Sequence[pa.RecordBatch],
    write: TableWrite,
    given: pa.Schema,
    assignment: WritePlan | None,
) -> int | None:
    """Write rows that are at hand: all of them together, as a task does."""
    merge = written.merge
    if assignment is not None:
        write = replace(write, packed=True)
        batches = [*packed_here(batches, given, assignment)]
    spark, task = written.df.sparkSession, None
    if isinstance(merge, LookupJoin):
        rows, task = merge.applied_here(spark, batches, write.plan, given, packed=write.packed)
        return run_write(rows, write, task, accepts=written.accepts)
    if merge is not None:
        task = partial(merge.write_task, write.plan, given, packed=write.packed)
    return commit_tasks(spark, write, write_here(batches, write, task), accepts=written.accepts)


def _joins_tasks(df: DataFrame, table: FileStoreTable) -> bool:
    """Whether Spark joins small partitions of the shuffle (AQE), where it alone knows how many tasks run at once."""
    spark = df.sparkSession
    if not is_connect(spark) or (table.options.bucket > 0 and not table.schema.partition_keys):
        return False
    settings = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")
    return all(str(spark.conf.get(name, "true")).lower() == "true" for name in settings)


def _clustered_by(plan: WritePlan, tasks: int, given: pa.Schema) -> list[str] | None:
    """SQL by which a shuffle brings the rows of one (partition, bucket) to one task; None where there is none.

    Args:
        plan: of the write.
        tasks: number of tasks.
        given: the columns of the rows, which have the names of those that are written.
    """
    schema = plan.table.schema
    if schema.bucket_mode is not BucketMode.HASH_FIXED:
        return None
    names = dict(zip(schema.field_names, plan.mapping.sources, strict=True))
    positions = {
        name: None if source is None else given.get_field_index(plan.data_schema.names[source])
        for name, source in names.items()
    }
    partitions = _columns_as_stored(plan, schema.partition_keys, positions, given)
    keys = _columns_as_stored(plan, schema.bucket_keys, positions, given)
    if partitions is None or keys is None:
        return None
    bucket = bucket_expression(schema, dict(zip(schema.bucket_keys, keys, strict=True)))
    return None if bucket is None else clustering(partitions, bucket, tasks, schema.core_options.bucket)


def _columns_as_stored(
    plan: WritePlan, names: Iterable[str], positions: dict[str, int | None], given: pa.Schema
) -> list[str] | None:
    """Return the numbered columns of these columns of the table; None where the table stores other values."""
    found = []
    for name in names:
        position, field = positions[name], plan.table.schema.field(name)
        if position is None or not kept_as_given(field, given.field(position).type):
            return None
        found.append(f"`{position}`")
    return found
