"""Few rows of a table, read in the driver while the query is planned: no job runs, and no Python worker is asked.

These are rows of a few keys, or values, or of a small range of them, whose pages are found by the index of each file
(`storage/parquet_pages.py`); the first rows of a table; the few small files of a scan of a store; and those in which a
statement looks for what it changes. A job costs more than such rows. Only what is surely small is read here:
`read_here` and `ChangedScans` decide. The rows are a ``LocalScan``, of which the optimizer makes a ``LocalRelation``
(``PaimonLocalRows``); EXPLAIN shows what was read, with ``reader=driver`` (``PaimonReadRows``). A Spark that does not
let us gets rows of a few keys as a batch in memory, which a task of Spark's own hands on (`is_small`).
"""

from __future__ import annotations

import base64
import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as spark

from paimon_spark.read.few_rows import decodes_few_rows, of_first_rows, pins_rows
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split import DataSplit
from paimon_spark.spark.jvm.answer_proxy import Value
from paimon_spark.spark.jvm.features import DRIVER_READS, LOCAL_CHANGES, SMALL_READS, missing_of
from paimon_spark.spark.source.reader import PaimonPartition
from paimon_spark.spec.predicate import Leaf, split_and
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.storage.read_ahead import REQUESTS_AT_ONCE, SMALL_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from paimon_spark.spark.catalog.scan_plan import ScanPlan
    from paimon_spark.spark.jvm.gateway import Gateway
    from paimon_spark.spark.source.reader import PaimonReader
    from paimon_spark.spec.predicate import Predicate

_MOST_KEYS: Final = 64
_MOST_FILES: Final = 32
_MOST_BYTES: Final = 512 << 20
"""Of Parquet files, of which only some pages are decoded."""
_MOST_WHOLE_BYTES: Final = 4 << 20
"""Of files of other formats, which are decoded from their beginning."""
_MOST_ROWS: Final = 1_000
"""Of a look-up."""
_MOST_DECODED_ROWS: Final = 100_000
"""Of the pages in which the rows of a look-up are."""
_MOST_FIRST_ROWS: Final = 1_000
"""Of a LIMIT."""
_MOST_CHANGED_ROWS: Final = 10_000
"""Of files in which a statement looks for the rows that it changes; `PaimonRowCommands` takes as many."""
_MOST_CHANGED_BYTES: Final = 16 << 20
_MOST_FAR_FILES = REQUESTS_AT_ONCE
"""Of a whole scan of a store: all are asked for at once."""
_STREAM: Final = "sql.streaming.queryId"
"""Spark's property of a thread that runs a stream."""
_JAVA_PICKLE_PROTOCOL: Final = 3
_INTEGERS: Final[Mapping[type[spark.DataType], pa.DataType]] = {
    spark.DateType: pa.int32(),
    spark.TimestampType: pa.int64(),
    spark.TimestampNTZType: pa.int64(),
}
"""Types that Spark keeps as days or microseconds."""
_KNOWN: Final = (
    spark.BooleanType, spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType, spark.FloatType,
    spark.DoubleType, spark.StringType, spark.BinaryType, spark.DecimalType, *_INTEGERS,
)  # fmt: skip
"""Types whose values Java takes from Python as they are."""

_NOT_FROM_ARROW: Final = (spark.VariantType, spark.UserDefinedType, spark.NullType)
"""Types of which Spark takes no values from Arrow as they come from our reader."""


def is_small(gateway: Gateway, plan: ScanPlan) -> bool:
    """Return whether the rows of a scan are read in the driver: a few keys, of few files, of flat columns."""
    flat = all(type(f.dataType) in _KNOWN for f in plan.struct)
    return flat and _pins_few_keys(plan) and not missing_of(gateway, SMALL_READS)


def _pins_few_keys(plan: ScanPlan) -> bool:
    """Return whether the predicates of a scan name a few keys of few files."""
    schema = plan.table.schema
    if plan.view is not ROWS or not schema.primary_keys:
        return False
    if not 0 < _wanted_keys(plan.predicate, schema.trimmed_primary_keys) <= _MOST_KEYS:
        return False
    return _has_few_files(plan.plan.splits)


def read_here(gateway: Gateway, plan: ScanPlan) -> bytes | None:
    """Read the rows of a query's scan now, where they are surely few.

    Returns:
        A stream of Arrow, empty without rows; None where tasks read.
    """
    known = not plan.metadata and not any(_has_type(field.dataType, _NOT_FROM_ARROW) for field in plan.struct)
    known = known and not (_is_far(plan) and _is_of_stream(gateway))
    if not known or plan.view is not ROWS or not isinstance(plan.source, Snapshot) or missing_of(gateway, DRIVER_READS):
        return None
    is_filtered = plan.predicate is not None or plan.metadata_predicates
    if plan.limit is not None and plan.limit <= _MOST_FIRST_ROWS and not is_filtered:
        return _first_rows(plan, plan.limit)
    if _is_far_and_small(plan):
        return _at_most(_batches_at_once(plan), _MOST_CHANGED_ROWS)
    if not pins_rows(plan.predicate) or not _has_few_files(plan.plan.splits):
        return None
    if not _pins_few_keys(plan) and not decodes_few_rows(plan.plan, _MOST_DECODED_ROWS):
        return None
    return _at_most(_batches(plan), _MOST_ROWS)


def _first_rows(plan: ScanPlan, rows: int) -> bytes | None:
    """Read so many rows of a scan, if its first files have them."""
    few = replace(plan, known_plan=of_first_rows(plan.plan, rows))
    first: list[DataSplit] = []
    for split in plan.plan.splits:
        if not _has_few_files([*first, split]):
            break
        first.append(split)
    if not first:
        return None if plan.plan.splits else b""
    found: list[pa.RecordBatch] = []
    wanted = rows
    reader = few.reader()
    for batch in chain.from_iterable(map(reader.batches_of, first)):
        found.append(batch.slice(0, wanted))
        wanted -= found[-1].num_rows
        if wanted <= 0:
            break
    if wanted > 0 and len(first) < len(plan.plan.splits):
        return None
    return _stream(found) if sum(batch.nbytes for batch in found) <= _MOST_CHANGED_BYTES else None


def _has_few_files(splits: Sequence[DataSplit]) -> bool:
    """Return whether so few files are cheaper to read here; of Parquet files only some pages are decoded."""
    if not all(isinstance(split, DataSplit) for split in splits):
        return False
    files = {file.path: file for split in splits for file in split.files}.values()
    whole = sum(file.size for file in files if file.format != "parquet")
    size = sum(file.size for file in files) - whole
    return len(files) <= _MOST_FILES and size <= _MOST_BYTES and whole <= _MOST_WHOLE_BYTES


def _is_far(plan: ScanPlan) -> bool:
    """Return whether the table lies in an object store."""
    return plan.table.file_io.lists_versions


def _is_of_stream(gateway: Gateway) -> bool:
    """Return whether a query of a stream is planned: newer Sparks build scans of tables that they read as a stream."""
    return gateway.context.getLocalProperty(_STREAM) is not None


def _is_far_and_small(plan: ScanPlan) -> bool:
    """Return whether all files of a scan come from an object store, whole, in the time of one request.

    Spark's reader asks several times for each of them, and only when a job has started.
    """
    if not _is_far(plan):
        return False
    splits = plan.plan.splits
    if not splits or not all(isinstance(split, DataSplit) for split in splits):
        return False
    files = {file.path: file for split in splits for file in split.files}.values()
    sizes = [file.size for file in files]
    return (
        len(sizes) <= _MOST_FAR_FILES
        and max(sizes, default=0) <= SMALL_FILE_BYTES
        and sum(sizes) <= _MOST_WHOLE_BYTES
        and sum(file.row_count for file in files) <= _MOST_CHANGED_ROWS
    )


def _batches_at_once(plan: ScanPlan) -> list[pa.RecordBatch]:
    """Read all rows of a scan, its splits in threads."""
    reader, splits = plan.reader(), plan.plan.splits
    with ThreadPoolExecutor(min(plan.table.file_io.threads, len(splits)), "paimon-driver-read") as pool:
        return list(chain.from_iterable(pool.map(lambda split: list(reader.batches_of(split)), splits)))


def _batches(plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(map(plan.reader().batches_of, plan.plan.splits))


def _at_most(batches: Iterable[pa.RecordBatch], rows: int) -> bytes | None:
    """Return a stream of the rows; None where they are more, or large."""
    found: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        found.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count > rows or size > _MOST_CHANGED_BYTES:
            return None
    return _stream(found)


def is_changed_here(gateway: Gateway, plan: ScanPlan) -> bool:
    """Return whether the rows that a statement may change are read in the driver: they are surely few.

    Either the condition names a few keys, or the files that are left have few rows.
    """
    known = not any(_has_type(field.dataType, _NOT_FROM_ARROW) for field in plan.struct)
    return (
        known
        and plan.view is ROWS
        and not missing_of(gateway, LOCAL_CHANGES)
        and (_has_few_rows(plan) or _pins_few_keys(plan))
    )


def _has_few_rows(plan: ScanPlan) -> bool:
    files = [file for split in plan.plan.splits for file in split.files]
    small = len(files) <= _MOST_FILES and sum(file.size for file in files) <= _MOST_CHANGED_BYTES
    return small and plan.row_count <= _MOST_CHANGED_ROWS


def _has_type(data_type: spark.DataType, wanted: tuple[type[spark.DataType], ...]) -> bool:
    """Return whether a type is, or has inside, one of some types."""
    match data_type:
        case spark.StructType():
            return any(_has_type(field.dataType, wanted) for field in data_type)
        case spark.ArrayType():
            return _has_type(data_type.elementType, wanted)
        case spark.MapType():
            return _has_type(data_type.keyType, wanted) or _has_type(data_type.valueType, wanted)
    return isinstance(data_type, wanted)


@dataclass
class ChangedScans:
    """The scans of a table whose rows a statement changes: each is planned, and read, once."""

    _known: list[tuple[ScanPlan, ScanPlan, bytes | None]] = field(default_factory=list)

    def scanned(self, gateway: Gateway, plan: ScanPlan) -> tuple[ScanPlan, bytes | None]:
        """Return the plan of a scan that is equal, and its rows as a stream of Arrow where they are few; else None."""
        for asked, known, rows in self._known:
            if asked == plan:
                return known, rows
        rows = _stream_of(plan) if is_changed_here(gateway, plan) else None
        self._known.append((replace(plan), plan, rows))
        return plan, rows


def _stream_of(plan: ScanPlan) -> bytes:
    """Read all rows of a scan now."""
    reader = plan.reader()
    return _stream(chain.from_iterable(reader.read(PaimonPartition(splits)) for splits in reader.packed_splits()))


def _stream(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Return rows as a stream of one batch, since Spark reads no second one; empty without rows."""
    filled = [batch for batch in batches if batch.num_rows]
    sink = io.BytesIO()
    if filled:
        with pa.ipc.new_stream(sink, filled[0].schema) as writer:
            writer.write_batch(pa.concat_batches(filled))
    return sink.getvalue()


def rows_here(struct: spark.StructType, reader: PaimonReader) -> Value:
    """Read all rows of a reader now; return the batch of them, for `answer_proxy`."""
    batches = chain.from_iterable(reader.read(PaimonPartition(splits)) for splits in reader.packed_splits())
    rows = [row for batch in batches for row in _values(struct, batch)]
    return ["memory batch", struct.json(), base64.b64encode(pickle.dumps(rows, _JAVA_PICKLE_PROTOCOL)).decode()]


def _wanted_keys(predicate: Predicate | None, keys: tuple[str, ...]) -> int:
    """Return how many keys of one bucket the predicate lets through at most; 0 where it does not name them."""
    counts = dict.fromkeys(keys, 0)
    for part in () if predicate is None else split_and(predicate):
        if isinstance(part, Leaf) and part.op in ("eq", "in") and part.field in counts:
            found = len(part.literals)
            counts[part.field] = min(counts[part.field] or found, found)
    return prod(counts.values())


def _values(struct: spark.StructType, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Return rows as Spark keeps them."""
    integers = [_INTEGERS.get(type(field.dataType)) for field in struct]
    columns = [
        column.to_pylist() if kind is None else column.view(kind).to_pylist()
        for column, kind in zip(batch.columns, integers, strict=True)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows
