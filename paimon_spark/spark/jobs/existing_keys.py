"""The keys that a table has, read as a Spark job; and how many each bucket has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from paimon_spark.read.key_places import numbers_of_keys, read_key_places
from paimon_spark.spark.columns.arrow_cast import convert_batches
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.source.split_packing import cores_here, pack_splits
from paimon_spark.write.bucket_filling import DynamicBucketPlan, KnownBucket
from paimon_spark.write.new_keys import OLD_BUCKET
from paimon_spark.write.plan import WritePlan, placement_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable


def existing_keys(
    spark: SparkSession, table: FileStoreTable, splits: Sequence[DataSplit], fields: Sequence[DataField]
) -> DataFrame:
    """The keys of splits: columns ``_e0`` and on, and the bucket."""
    packed = _packed(table, splits, cores(spark))
    shown = to_spark_struct(fields)
    names = [StructField(f"_e{at}", column.dataType) for at, column in enumerate(shown.fields)]
    struct = StructType([*names, StructField(OLD_BUCKET, IntegerType())])
    read = partial(_read_keys, table, packed, fields, spark_arrow_schema(shown))
    return map_in_arrow(spark.range(0, len(packed), 1, len(packed)), read, struct)


def _packed(table: FileStoreTable, splits: Sequence[DataSplit], cores: int) -> list[tuple[DataSplit, ...]]:
    options = table.options
    return pack_splits(
        splits,
        target_bytes=options.split_target_size_bytes,
        open_file_cost_bytes=options.split_open_file_cost_bytes,
        cores=cores,
    )


def _read_keys(
    table: FileStoreTable,
    packed: Sequence[Sequence[DataSplit]],
    fields: Sequence[DataField],
    target: pa.Schema,
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    names = [*(f"_e{at}" for at in range(len(fields))), OLD_BUCKET]
    for split in _splits_of(packed, numbers):
        for batch, bucket in read_key_places(table, split, fields):
            (shown,) = convert_batches([batch], batch.schema.names, target)
            buckets = pa.repeat(pa.scalar(bucket, pa.int32()), batch.num_rows)
            yield pa.RecordBatch.from_arrays([*shown.columns, buckets], names=names)


def _count_keys(
    table: FileStoreTable, packed: Sequence[Sequence[DataSplit]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for split in _splits_of(packed, numbers):
        fields = [table.schema.field(name) for name in table.schema.trimmed_primary_keys]
        rows = sum(batch.num_rows for batch, _ in read_key_places(table, split, fields))
        counted = ([split.partition], [split.bucket], [rows])
        arrays = [pa.array(v, t) for v, t in zip(counted, (pa.binary(), pa.int32(), pa.int64()), strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["partition", "bucket", "rows"])


def _splits_of(packed: Sequence[Sequence[DataSplit]], numbers: Iterator[pa.RecordBatch]) -> Iterator[DataSplit]:
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
        packed = _packed(plan.table, unclear, cores(spark))
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
        log=placement_log(plan.table),
    )


def cores(spark: SparkSession) -> int:
    """How many tasks can run at once, as far as the session says."""
    context = getattr(spark, "_sc", None)
    return cores_here() if context is None else max(1, int(context.defaultParallelism))
