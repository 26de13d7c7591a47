"""How the rows of one write of the catalog are spread over tasks before they are written.

All rows of one key must reach one task, so that the order in which a statement gives them decides. Spark is asked to
cluster them by key; a rule of its optimizer then puts Paimon's bucket instead of the key (`distributed_rows`), so that
each bucket has one task. An SQL expression gives the bucket; where there is none, Python does. Without that rule
several tasks write one bucket, each with a range of sequence numbers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.spark.columns.bucket_expression import bucket_expression, kept_as_given
from paimon_spark.spec.schema import BucketMode
from paimon_spark.write.routing import partitions_are_free, partitions_together

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_MOST_ADVISORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Parallelism:
    """What the session says about the number of tasks after a shuffle."""

    adaptive: bool
    """Spark joins small partitions of a shuffle (AQE), so it finds a number of tasks that fits the size of the data."""
    tasks: int
    """How many tasks run at once."""


@dataclass(frozen=True, slots=True)
class WriteDistribution:
    """What a write asks Spark for."""

    columns: tuple[str, ...] = ()
    """Rows that are equal in these columns come to one task; none: rows stay where they are."""
    num_partitions: int = 0
    """Exact number of tasks; 0 leaves it to Spark."""
    advisory_bytes: int = 0
    """Size of the data of a task towards which Spark joins partitions; 0 for Spark's own."""
    one_task_per_bucket: bool = False
    """Whether all rows of one (partition, bucket) come to one task."""
    bucket: str | None = None
    """SQL of the bucket of a row: where Spark's shuffle can use it, all rows of one (partition, bucket) come to one
    task."""
    buckets: int = 0
    """Number of buckets of a partition where it is fixed."""
    partitions: tuple[str, ...] = ()
    """The partition columns."""
    rebalanced_by: tuple[str, ...] = ()
    """Columns whose rows Spark brings together where the query says nothing else (`distributed_rows`)."""
    packed: bool = False
    """Whether Python gives the task of a row's bucket, assigns its key where buckets are dynamic, and packs the rows
    for Spark's shuffle: all rows of one (partition, bucket) come to one task then."""
    may_split: bool = False
    """Whether Spark may give rows that are equal in `columns` to several tasks where there are very many (AQE)."""

    def of_other_keys(self, names: Sequence[str]) -> WriteDistribution:
        """The same for rows that lack key columns, or have them in other types than the table: Python gives the bucket.

        Args:
            names: the columns of the rows.
        """
        if not self.columns or self.may_split or not names:
            return WriteDistribution()
        if self.one_task_per_bucket and self.num_partitions == 1:
            return replace(self, columns=(names[0],))
        # by any column: what Spark shuffles by is replaced
        return replace(self, columns=(names[0],), bucket=None, packed=True, one_task_per_bucket=False)


def write_distribution(table: FileStoreTable, parallelism: Parallelism) -> WriteDistribution:
    """The distribution for rows of a table."""
    schema = table.schema
    mode = schema.bucket_mode
    if mode is BucketMode.BUCKET_UNAWARE and partitions_together(schema):
        size = table.options.target_file_size_bytes(False)
        advisory = min(size, _MOST_ADVISORY_BYTES) if parallelism.adaptive else 0
        return WriteDistribution(tuple(schema.partition_keys), advisory_bytes=advisory, may_split=True)
    if parallelism.adaptive and partitions_are_free(schema):
        return WriteDistribution(rebalanced_by=tuple(schema.partition_keys))
    if mode not in (BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC):
        return WriteDistribution()
    partitions = tuple(schema.partition_keys)
    kept = all(kept_as_given(schema.field(name)) for name in partitions)
    if mode is BucketMode.HASH_DYNAMIC:
        clustered = _sized(table, (*partitions, *schema.trimmed_primary_keys), parallelism, buckets=1)
        return replace(clustered, packed=True, partitions=partitions)
    buckets = table.options.bucket
    keys = tuple(schema.bucket_keys) or tuple(schema.field_names[:1])
    if buckets > 1:
        clustered = _sized(table, (*partitions, *keys), parallelism, buckets=buckets)
        bucket = bucket_expression(schema) if kept else None
        return replace(clustered, bucket=bucket, buckets=buckets, packed=bucket is None, partitions=partitions)
    if partitions:
        return replace(_sized(table, partitions, parallelism, buckets=1, one_task_per_bucket=kept), packed=not kept)
    return WriteDistribution(keys, num_partitions=1, one_task_per_bucket=True)


def _sized(
    table: FileStoreTable,
    columns: tuple[str, ...],
    parallelism: Parallelism,
    *,
    buckets: int,
    one_task_per_bucket: bool = False,
) -> WriteDistribution:
    """Return a distribution with few tasks: each task writes a file into every bucket of which it gets rows."""
    if parallelism.adaptive:
        size = table.options.target_file_size_bytes(bool(table.schema.primary_keys)) * buckets
        return WriteDistribution(
            columns, advisory_bytes=min(size, _MOST_ADVISORY_BYTES), one_task_per_bucket=one_task_per_bucket
        )
    several = table.schema.partition_keys or buckets == 1
    tasks = parallelism.tasks if several else min(parallelism.tasks, buckets)
    return WriteDistribution(columns, num_partitions=max(1, tasks), one_task_per_bucket=one_task_per_bucket)
