"""Rows that Spark leaves out by their position in a file: its Parquet reader gives all rows, a filter keeps the others.

They are deleted by deletion vectors, or superseded by newer rows of files that overlap. The optimizer asks a scan which
they are (``PaimonPositionFilters``). The driver then reads the vectors of its files, and merges the keys of those that
overlap. The bits of a file are a constant of it, as values of its partition are: each task gets those of its files.
With the position of a row in its file, which Spark's reader knows, Spark finds its bit. Where that would make tasks
large, our reader masks file by file; where a merge of all keys would take longer than the query, it merges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from paimon_spark.read.plain_files import may_be_newest_rows, merged_splits
from paimon_spark.read.superseded_rows import superseded_rows
from paimon_spark.spark.jobs.progress import name_of
from paimon_spark.spark.source.reader import cores_here
from paimon_spark.spec.predicate import implied_by
from paimon_spark.table.deletion_vectors import deleted_rows
from paimon_spark.table.snapshot_identity import snapshot_expiry_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import InputPartition

    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.superseded_rows import Find, Found
    from paimon_spark.read.table_scan import ReadPlan
    from paimon_spark.spark.catalog.scan_plan import ScanPlan
    from paimon_spark.spark.source.reader import PaimonReader
    from paimon_spark.table.table import FileStoreTable

POSITION: Final = StructField("_tmp_metadata_row_index", LongType(), True)
"""The column by which Spark's reader gives positions."""
BITS: Final = StructField("_paimon_bits", BinaryType(), True)
"""A constant of each file: a bit for each row, set where it is left out, in words of 64; null where none is."""
_MOST_ROWS: Final = 1 << 28
"""Rows of files with bits: the driver hands 32 MB of them to Spark's tasks."""
_MOST_MERGED_ROWS: Final = 1 << 25
"""Rows whose keys the driver merges, a second's work: the keys of more are merged by the tasks of a job."""
_MOST_PARTLY_WANTED_ROWS: Final = 1 << 21
"""The same where the query wants few rows, perhaps: merging these keys takes as long as a task that runs Python."""
_LEAST_FAR_ROWS: Final = 1 << 20
"""On a store: of fewer rows each file is a request that costs more than its rows."""
_LEAST_FAR_ROWS_A_FILE: Final = 300_000
"""On a store: of smaller files Spark's tasks wait for two to four requests each, one after the other."""
_MOST_FAR_ROWS: Final = 1 << 22
"""Those whose keys the driver reads from a store."""
_WORD_BYTES: Final = 8


PositionFilter = Mapping[str, bytes]
"""The rows of a scan's files that are left out: by the path of a file its `BITS`. Of a file without, all rows stay."""


def may_need_position_filter(table: FileStoreTable) -> bool:
    """Return whether a scan of the table may need a position filter."""
    options = table.options
    one_row_wins = bool(table.schema.primary_keys) and (options.one_row_wins or may_be_newest_rows(table))
    return options.deletion_vectors_enabled or one_row_wins


def is_worth_filtering(scan: ScanPlan, *, far: bool = False) -> bool:
    """Return whether merging the keys of files that overlap takes less than the merge of their rows in tasks.

    Args:
        scan: what is read.
        far: the files are on a store: the driver would read their keys over the network, the JVM all files again.
    """
    merged = merged_splits(scan.plan)
    rows = sum(split.row_count for split in merged)
    least = max(_LEAST_FAR_ROWS, least_far_rows(merged)) if far else 0
    few = scan.limit is not None or implied_by(scan.predicate, scan.table.schema.trimmed_primary_keys) is not None
    return least <= rows <= (_MOST_PARTLY_WANTED_ROWS if few else _MOST_ROWS)


def least_far_rows(merged: Sequence[DataSplit]) -> int:
    """Return how many rows splits on a store need for Spark's reader to take less time than ours."""
    return _LEAST_FAR_ROWS_A_FILE * sum(len(split.files) for split in merged)


def position_filter_of(plan: ReadPlan, spark: SparkSession, *, far: bool = False) -> PositionFilter | None:
    """Find the rows that are left out of a plan; None where it has none, or too many, or columns of our names.

    Args:
        plan: of a read.
        spark: runs the job that merges the keys of many rows.
        far: the files are on a store.

    Raises:
        SnapshotNotFoundError: the snapshot has expired meanwhile.
        CorruptTableError: an index file or a data file is missing or damaged.
        DataError: the merge engine cannot take a row.
    """
    merged = merged_splits(plan)
    files = {file.path: file for split in plan.splits for file in split.files if file.deletion_vector is not None}
    files |= {file.path: file for split in merged for file in split.files}
    own = {name.lower() for name in plan.table.schema.field_names}
    if not files or own & {POSITION.name, BITS.name} or sum(file.row_count for file in files.values()) > _MOST_ROWS:
        return None
    with snapshot_expiry_errors(plan.table, 0 if plan.snapshot is None else plan.snapshot.id):
        rows = sum(split.row_count for split in merged)
        in_tasks = partial(_in_tasks, spark) if rows > (_MOST_FAR_ROWS if far else _MOST_MERGED_ROWS) else None
        found = superseded_rows(plan.table, merged, cores_here(), in_tasks) if merged else {}
        vectors = {path: file for path, file in files.items() if path not in found and file.deletion_vector is not None}
        with ThreadPoolExecutor(plan.table.file_io.threads) as pool:
            bits = pool.map(
                lambda file: deleted_rows(plan.table.file_io, file.deletion_vector, file.row_count), vectors.values()
            )
            found.update(zip(vectors, bits, strict=True))
    return {path: _in_words(bits.tobytes()) for path, bits in found.items() if bits.any()}


def _in_tasks(spark: SparkSession, table: FileStoreTable, splits: Sequence[DataSplit], find: Find) -> list[Found]:
    from paimon_spark.spark.jobs.compact_job import in_tasks  # most scans do without it

    found, errors = in_tasks(spark, table, splits, find, f"merge keys of {name_of(table.path)}")
    if errors:
        raise errors[0]
    return [found[at] for at in range(len(splits))]


def _in_words(bits: bytes) -> bytes:
    return bits.ljust(-(-len(bits) // _WORD_BYTES) * _WORD_BYTES, b"\0")


def already_filtered(
    struct: StructType, reader: PaimonReader, partition_keys: Collection[str]
) -> tuple[StructType, DataSourceReader]:
    """Our reader, which knows the vectors itself, with the columns that the optimizer expects of Spark's."""
    at = sum(name not in partition_keys for name in struct.names)
    fields = [*struct.fields[:at], POSITION, *struct.fields[at:], BITS]
    return StructType(fields), _AlreadyFiltered(reader, at)


class _AlreadyFiltered(DataSourceReader):
    """A reader that leaves out these rows itself."""

    def __init__(self, reader: PaimonReader, at: int) -> None:
        self._reader = reader
        self._at = at

    def partitions(self) -> list[InputPartition]:
        """Those of the reader."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        at = self._at
        for batch in self._reader.read(partition):
            position, bits = pa.nulls(batch.num_rows, pa.int64()), pa.nulls(batch.num_rows, pa.binary())
            arrays = [*batch.columns[:at], position, *batch.columns[at:], bits]
            names = [*batch.schema.names[:at], POSITION.name, *batch.schema.names[at:], BITS.name]
            yield pa.RecordBatch.from_arrays(arrays, names=names)
