"""How many keys each bucket of a table has, counted as a Spark job where its files do not say; and that job's work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from paimon_spark.read.key_locations import numbers_of_keys, read_key_locations
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.source.split_packing import cores_here, pack_splits
from paimon_spark.write.bucket_filling import DynamicBucketPlan, KnownBucket
from paimon_spark.write.plan import WritePlan, assignment_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.read.split import DataSplit
    from paimon_spark.table.table import FileStoreTable


def packed_splits(table: FileStoreTable, splits: Sequence[DataSplit], cores: int) -> list[tuple[DataSplit, ...]]:
    """The splits of each task."""
    options = table.options
    return pack_splits(
        splits,
        target_bytes=options.split_target_size_bytes,
        open_file_cost_bytes=options.split_open_file_cost_bytes,
        cores=cores,
    )


def _count_keys(
    table: FileStoreTable, packed: Sequence[Sequence[DataSplit]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for split in splits_of(packed, numbers):
        fields = [table.schema.field(name) for name in table.schema.trimmed_primary_keys]
        rows = sum(batch.num_rows for batch, _ in read_key_locations(table, split, fields))
        counted = ([split.partition], [split.bucket], [rows])
        arrays = [pa.array(v, t) for v, t in zip(counted, (pa.binary(), pa.int32(), pa.int64()), strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["partition", "bucket", "rows"])


def splits_of(packed: Sequence[Sequence[DataSplit]], numbers: Iterator[pa.RecordBatch]) -> Iterator[DataSplit]:
    """The splits of the tasks of these numbers."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from packed[number]


def bucket_plan(spark: SparkSession, plan: WritePlan, splits: Sequence[DataSplit]) -> DynamicBucketPlan:
    """How many keys each bucket has: as its files say, or counted where they do not say whether it is full."""
    target = int(plan.table.options.value("dynamic-bucket.target-row-num"))
    counts, exact = numbers_of_keys(splits)
    unclear = [
        split
        for split in splits
        if (split.partition, split.bucket) not in exact and 2 * counts[split.partition, split.bucket] >= target
    ]
    if unclear:
        packed = packed_splits(plan.table, unclear, cores(spark))
        struct = StructType(
            [
                StructField("partition", BinaryType()),
                StructField("bucket", IntegerType()),
                StructField("rows", LongType()),
            ]
        )
        frame = spark.range(0, len(packed), 1, len(packed))
        counted = map_in_arrow(frame, partial(_count_keys, plan.table, packed), struct).collect()
        counts |= dict.fromkeys(((split.partition, split.bucket) for split in unclear), 0)
        for row in counted:
            counts[bytes(row.partition), row.bucket] += row.rows
    known: dict[bytes, list[KnownBucket]] = {}
    for (partition, bucket), count in sorted(counts.items()):
        known.setdefault(partition, []).append(KnownBucket(bucket, "", count))
    return DynamicBucketPlan(
        known={partition: tuple(buckets) for partition, buckets in known.items()},
        target_rows=target,
        max_buckets=-1,
        keys_apart=True,
        log=assignment_log(plan.table),
    )


def cores(spark: SparkSession) -> int:
    """How many tasks can run at once, as far as the session says."""
    context = getattr(spark, "_sc", None)
    return cores_here() if context is None else max(1, int(context.defaultParallelism))
