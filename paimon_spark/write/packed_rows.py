"""Rows on their way to the task of their bucket, packed: the shuffle moves a few Arrow streams instead of each row.

The task of a row is computed in Python, where keys of dynamic buckets are assigned as well, so this serves every table
whose rows belong together. Spark's shuffle sees two columns: the number that leads a stream to its task, and the
stream. Rows of one task keep the order in which they came.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.write.bucket_assignment import LOCATION, BucketAssignment
from paimon_spark.write.plan import WritePlan
from paimon_spark.write.routing import positions_of, shuffle_ids, split_rows
from paimon_spark.write.rows import RowMapping
from paimon_spark.write.task_write import chunk_bytes, combine_batches

TASK = "_PAIMON_TASK"
"""The number by which a shuffle finds the task of packed rows."""
ROWS = "_PAIMON_ROWS"
"""Packed rows, an Arrow stream."""
PACKED_SCHEMA = pa.schema([pa.field(TASK, pa.int32(), nullable=False), pa.field(ROWS, pa.binary(), nullable=False)])

_PACK_BYTES = 4 << 20
_PACK_BYTES_OF_COLUMN = 8 << 10  # a stream says its schema and its buffers: some 300 bytes of each column
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def pack_rows(
    plan: WritePlan, batches: Iterable[pa.RecordBatch], task_id: int, targets: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Pack the rows of one task for the tasks that write them.

    Args:
        plan: of the write; of a table with dynamic buckets the one that assigns its keys. Its columns are the first
            of the rows, or some of them.
        batches: the rows.
        task_id: the same for all attempts of a task.
        targets: for each writing task the number that leads to it.

    Yields:
        Batches of `PACKED_SCHEMA`. Behind the columns of rows of dynamic buckets stands that of their buckets.

    Raises:
        DataError: a key is null, or a value that its column cannot hold.
        OptionError: all buckets are full and no id is left.
    """
    schema = plan.table.schema
    names = {*schema.partition_keys, *schema.bucket_keys, *schema.primary_keys}
    mapping = mapping_of(plan, names)
    assignment = None if plan.dynamic is None else BucketAssignment(plan, task_id)
    for chunk in combine_batches(batches, plan.data_schema, chunk_bytes(plan)):
        rows = mapping.columns(chunk.select(mapping.data_names))
        if assignment is None:
            ids = shuffle_ids(schema, rows, len(targets), plan.key_ranges)
        else:
            locations, ids = assignment.assign(rows, len(targets))
            chunk = chunk.append_column(pa.field(LOCATION, pa.int64()), pa.array(locations))
        yield from pack_chunk(chunk, ids, targets)


def pack_chunk(
    chunk: pa.Table, ids: np.ndarray[tuple[int], np.dtype[np.int32]], targets: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Pack some rows.

    Args:
        chunk: at least one row.
        ids: the task of each, from 0 on.
        targets: for each task the number that leads to it.
    """
    for task, part in _parts(chunk, ids, len(targets)):
        for packed in packed_streams(part):
            arrays = [pa.array([targets[task]], pa.int32()), packed]
            yield pa.RecordBatch.from_arrays(arrays, schema=PACKED_SCHEMA)


def unpack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that came to one task, from batches of `PACKED_SCHEMA`."""
    for batch in batches:
        yield from _unpacked(batch.column(1))
        del batch  # else it would be kept until the next one has come, which is as large


def _unpacked(streams: pa.Array) -> Iterator[pa.RecordBatch]:
    for number in range(len(streams)):
        with pa.ipc.open_stream(streams[number].as_buffer()) as stream:
            yield from stream


def mapping_of(plan: WritePlan, names: Iterable[str]) -> RowMapping:
    """The mapping of some columns of the table, those among them that the data has or that have a default."""
    wanted = set(names)
    mapping = plan.mapping
    pairs = [
        (field, source) for field, source in zip(mapping.fields, mapping.sources, strict=True) if field.name in wanted
    ]
    chosen = sorted({source for _, source in pairs if source is not None})
    return replace(
        mapping,
        fields=tuple(field for field, _ in pairs),
        sources=tuple(None if source is None else chosen.index(source) for _, source in pairs),
        kind_source=None,
        kind_field=None,
        data_names=tuple(plan.data_schema.names[source] for source in chosen),
    )


def _parts(
    rows: pa.Table, ids: np.ndarray[tuple[int], np.dtype[np.int32]], count: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each task."""
    first = int(ids[0])
    if np.all(ids == first):
        yield first, rows
        return
    positions = positions_of(ids.astype(np.int64), count)
    filled = [task for task, chosen in enumerate(positions) if len(chosen)]
    yield from zip(filled, split_rows(rows, [positions[task] for task in filled]), strict=True)


def packed_streams(rows: pa.Table) -> Iterator[pa.Array]:
    """Yield the rows as Arrow streams of some megabytes, each the one value of an array."""
    size = max(_PACK_BYTES, _PACK_BYTES_OF_COLUMN * rows.num_columns)
    step = max(1, size * rows.num_rows // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as stream:
            stream.write_table(rows.slice(start, step).combine_chunks())  # one batch, however small those of Spark are
        yield one_binary(sink.getvalue())


def one_binary(value: pa.Buffer) -> pa.Array:
    """An array of one value, which is not copied; ``pa.array`` never lets go of the memory of a ``memoryview``."""
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(struct.pack("=ii", 0, value.size)), value])
