"""Where the keys of a table live: each primary key of a snapshot with its partition and its bucket.

Equals Java's ``IndexBootstrap``, which reads the keys of all buckets. The driver plans; tasks read only keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.read.snapshot_expiry import snapshot_expiry_errors
from paimon_spark.read.split_generator import generate_splits
from paimon_spark.read.split_read import partition_constants, read_split
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.table.deletion_vectors import vectors_of

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

BucketLocation = tuple[bytes, int]
"""Partition bytes and bucket."""
LeftOut = Callable[[Sequence[bytes]], Sequence[bool]]
"""Tells of partitions whether their keys do not count."""


def plan_key_locations(
    table: FileStoreTable, snapshot: Snapshot, *, left_out: LeftOut | None = None, parallelism: int = 1
) -> list[DataSplit]:
    """Plan a read of all keys of a snapshot, of files of every level. Runs on the driver.

    Args:
        table: with a primary key.
        snapshot: what is read.
        left_out: partitions whose keys do not count.
        parallelism: how many tasks can run at once.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read.
        SnapshotNotFoundError: the snapshot has expired meanwhile.
    """
    with snapshot_expiry_errors(table, snapshot.id):
        files = table.manifests.live_columns(snapshot, statistics=False)
        kept = files.buckets != POSTPONE_BUCKET
        if left_out is not None:
            kept &= ~np.array(left_out(files.partitions), dtype=np.bool_).reshape(-1)
        vectors = vectors_of(table, snapshot)
        return generate_splits(table, snapshot.id, files.filter(kept), parallelism, vectors=vectors)


def read_key_locations(
    table: FileStoreTable, split: DataSplit, fields: Sequence[DataField]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the keys of a split and the bucket that they are in. Runs in tasks.

    Args:
        table: as planned.
        split: of `plan_key_locations`.
        fields: columns of the primary key and of the partition.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    constants = partition_constants(table, split)
    stored = [field for field in fields if field.name not in constants]
    for batch in read_split(table.reading_level_0(), split, stored):
        columns = [
            pa.repeat(constants[field.name], batch.num_rows) if field.name in constants else batch.column(field.name)
            for field in fields
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields]), split.bucket


def numbers_of_keys(splits: Sequence[DataSplit]) -> tuple[dict[BucketLocation, int], set[BucketLocation]]:
    """How many keys each bucket has, as far as its files say.

    Returns:
        For each bucket a number that is not below that of its keys; and the buckets of which it is more than a bound:
        their files hold each key once.
    """
    most: dict[BucketLocation, int] = {}
    merged: set[BucketLocation] = set()
    for split in splits:
        location = (split.partition, split.bucket)
        rows = sum(file.row_count // file.share - (file.delete_row_count or 0) for file in split.files)
        most[location] = most.get(location, 0) + max(0, rows)
        if not split.raw_convertible:
            merged.add(location)
    return most, most.keys() - merged


def count_keys(table: FileStoreTable, split: DataSplit) -> int:
    """Read the keys of a split, and count them. Runs in tasks."""
    fields = [table.schema.field(name) for name in table.schema.trimmed_primary_keys]
    return sum(batch.num_rows for batch, _ in read_key_locations(table, split, fields))
