"""Rows that deletion vectors mark, left out by Spark: its Parquet reader gives all rows, a filter keeps the others.

The optimizer asks a scan which rows are deleted (``PaimonMarkedRows``): the driver reads the vectors of all its files
and lays them one behind the other. With the position of a row in its file, which Spark's reader knows, and the place
where the bits of the file begin, Spark finds its bit. Where that would make tasks large, our reader masks file by file.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import LongType, StructField, StructType

from paimon_spark.read.snapshot_expiry import snapshot_expiry_errors
from paimon_spark.table.deletion_vectors import deleted_rows

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from paimon_spark.read.plan import ReadPlan
    from paimon_spark.spark.source.reader import PaimonReader

POSITION: Final = StructField("_tmp_metadata_row_index", LongType(), True)
"""The column by which Spark's reader gives positions."""
FIRST_MARK: Final = StructField("_paimon_first_mark", LongType(), True)
_MOST_ROWS: Final = 1 << 26
"""Rows of files with vectors: 8 MB of bits travel to each executor."""
_WORD: Final = 64


@dataclass(frozen=True)
class Marks:
    """The deletion vectors of a scan's files."""

    first: Mapping[str, int]
    """By the path of a file where its bits begin."""
    bits: bytes

    def answer(self, partition_columns: int) -> dict[str, object]:
        """What the optimizer is told.

        Args:
            partition_columns: how many columns of the scan, the last ones, are those of partitions.
        """
        return {"partition columns": partition_columns, "bits": base64.b64encode(self.bits).decode()}


def marks_of(plan: ReadPlan) -> Marks | None:
    """Read the deletion vectors of a plan; None where it has none, or too many, or columns with the names of ours.

    Raises:
        SnapshotNotFoundError: the snapshot has expired meanwhile.
        CorruptTableError: an index file is missing or damaged.
    """
    files = {file.path: file for split in plan.splits for file in split.files if file.deletion_vector is not None}
    own = {name.lower() for name in plan.table.schema.field_names}
    if (
        not files
        or own & {POSITION.name, FIRST_MARK.name}
        or sum(file.row_count + _WORD for file in files.values()) > _MOST_ROWS
    ):
        return None
    first, parts, size = {}, [], 0
    for path, file in files.items():
        assert file.deletion_vector is not None
        with snapshot_expiry_errors(plan.table, 0 if plan.snapshot is None else plan.snapshot.id):
            bits = deleted_rows(plan.table.file_io, file.deletion_vector, file.row_count)
        first[path] = size
        parts.append(bits.tobytes().ljust(-(-len(bits) // 8) * 8, b"\0"))
        size += 8 * len(parts[-1])
    return Marks(first, b"".join(parts))


def unmarked(
    struct: StructType, reader: PaimonReader, partition_keys: Collection[str]
) -> tuple[StructType, DataSourceReader]:
    """Our reader, which knows the vectors itself, with the columns that the optimizer expects of Spark's."""
    at = sum(name not in partition_keys for name in struct.names)
    fields = [*struct.fields[:at], POSITION, *struct.fields[at:], FIRST_MARK]
    return StructType(fields), _Unmarked(reader, at)


class _Unmarked(DataSourceReader):
    """A reader none of whose rows is marked any more."""

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
            mark = pa.array(np.full(batch.num_rows, -1, dtype=np.int64))
            arrays = [*batch.columns[:at], mark, *batch.columns[at:], mark]
            names = [*batch.schema.names[:at], POSITION.name, *batch.schema.names[at:], FIRST_MARK.name]
            yield pa.RecordBatch.from_arrays(arrays, names=names)
