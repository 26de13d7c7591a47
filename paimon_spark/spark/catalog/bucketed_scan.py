"""Scans whose tasks read one bucket each, so that Spark joins and groups by the bucket key without a shuffle.

``PaimonBucketedScans`` asks a scan for it where a query joins, groups or opens windows by the bucket key, and Spark's
``spark.sql.sources.v2.bucketing.enabled`` is on. Two tables agree where function, type of the key and number of buckets
are the same. Spark (from 4.3 on) compares the buckets and leaves out the shuffle.

A task for each bucket may be fewer tasks than the cores could take, or far more than the files need. Then Spark
shuffles, unless the session itself has turned the setting on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split import DataSplit
from paimon_spark.spark.jvm.answer_proxy import Value
from paimon_spark.spark.source.reader import PaimonPartition
from paimon_spark.spec import data_types as t
from paimon_spark.spec.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from paimon_spark.spark.catalog.scan_plan import ScanPlan
    from paimon_spark.spec.data_types import DataField

BUCKETING: Final = "spark.sql.sources.v2.bucketing.enabled"
_TYPES: Final = (
    t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DateType, t.DecimalType, t.VarCharType,
    t.TimestampType, t.LocalZonedTimestampType,
)  # fmt: skip
"""Equal values have equal bytes: not of CHAR, which Spark pads, nor of floating point numbers, of which 0 is two."""
_MOST_TASKS_PER_PLAIN_TASK: Final = 8


@dataclass(frozen=True)
class Buckets:
    """The tasks of a scan that reads by bucket."""

    function: str
    """Names what gives a row's bucket, by type and function: other names are other buckets."""
    total: int
    """How many buckets the function fills."""
    tasks: Mapping[int, tuple[DataSplit, ...]]
    """The splits of each bucket that has files, in the order of the buckets."""
    ordered: bool
    """Whether the rows of each task come in the order of the bucket key."""

    def answer(self) -> Value:
        """What the rule is told."""
        return {"function": self.function, "buckets": self.total, "ordered": self.ordered}


def bucket_key(plan: ScanPlan) -> str | None:
    """The column by which a scan could read by bucket; None where it cannot. No file is looked at."""
    schema = plan.table.schema
    if plan.view is not ROWS or schema.core_options.bucket < 1 or len(schema.bucket_keys) != 1:
        return None
    key = schema.field(schema.bucket_keys[0])
    return key.name if isinstance(key.type, _TYPES) and key.name in plan.struct.names else None


def buckets_of(
    plan: ScanPlan, plain: Sequence[Sequence[DataSplit]], *, cores: int, wanted: bool, filtered: bool
) -> Buckets | None:
    """Find the buckets of a scan with a `bucket_key`; None where rows do not lie by it, or tasks would be too few.

    Args:
        plan: of the scan.
        plain: its tasks without regard to buckets.
        cores: how many tasks can run at once.
        wanted: the session itself has asked for tasks by bucket.
        filtered: Spark leaves out rows that others supersede: they come as the files have them.
    """
    splits = plan.plan.splits
    schema = plan.table.schema
    key = schema.field(schema.bucket_keys[0])
    if not splits or not isinstance(plan.source, Snapshot) or not all(map(_lies_in_bucket, splits)):
        return None
    totals = {split.total_buckets for split in splits}
    if len(totals) > 1 or not _has_one_type(plan, key):
        return None
    tasks = by_bucket(splits)
    if not wanted and not min(len(plain), cores) <= len(tasks) <= _MOST_TASKS_PER_PLAIN_TASK * max(len(plain), cores):
        return None
    function = schema.core_options.value("bucket-function.type")
    by_key = schema.trimmed_primary_keys[:1] == (key.name,) and not filtered
    return Buckets(
        f"paimon.bucket({function}, {_bytes_of(key.type)})",
        totals.pop(),
        tasks,
        by_key and all(len(parts) == 1 and _is_in_order(parts[0]) for parts in tasks.values()),
    )


def by_bucket(splits: Sequence[DataSplit]) -> dict[int, tuple[DataSplit, ...]]:
    """The splits of each bucket, of all partitions, in the order of the buckets."""
    found: dict[int, list[DataSplit]] = {}
    for split in splits:
        found.setdefault(split.bucket, []).append(split)
    return {bucket: tuple(found[bucket]) for bucket in sorted(found)}


def partitions_of(tasks: Mapping[int, tuple[DataSplit, ...]]) -> list[InputPartition]:
    """The same tasks for a Python batch."""
    return [PaimonPartition(splits) for splits in tasks.values()]


def _lies_in_bucket(split: object) -> bool:
    return isinstance(split, DataSplit) and split.bucket >= 0 and split.total_buckets > 0 and split.branch is None


def _has_one_type(plan: ScanPlan, key: DataField) -> bool:
    """Whether all files hash the key as the table does now."""
    ids = {file.schema_id for split in plan.plan.splits for file in split.files}
    fields = (next((f for f in plan.table.schemas.get(one).fields if f.id == key.id), None) for one in ids)
    return all(f is not None and f.type.with_nullable(True) == key.type.with_nullable(True) for f in fields)


def _bytes_of(data_type: t.DataType) -> str:
    """The type of a key, as far as it makes a difference to the bytes: the length of a text does not."""
    return "STRING" if isinstance(data_type, t.VarCharType) else data_type.with_nullable(True).sql()


def _is_in_order(split: DataSplit) -> bool:
    return not split.raw_convertible or len(split.files) == 1
