"""The plan of a batch read: the snapshot, the columns, the splits for tasks, and the filter that is left for them.

`TableScan.plan` makes it, on the driver (Java: ``TableScan.Plan``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.read.split_read import read_split
from paimon_spark.spec.predicate import Always, Predicate, all_of, fields, split_and

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

ReadSplit = Callable[
    ["FileStoreTable", "DataSplit", "Sequence[DataField]", "Predicate | None"], "Iterator[pa.RecordBatch]"
]
"""Reads one split in a task: called with the plan's table, the split, the plan's columns and residual."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a batch read does."""

    snapshot: Snapshot | None
    """The snapshot that is read; None when the table has none, which reads as empty."""
    schema: TableSchema
    """Schema of the read: of the snapshot travelled to, else the latest; its options are the ones in effect."""
    fields: tuple[DataField, ...]
    """Columns of the result, in order."""
    splits: tuple[DataSplit, ...]
    residual: Predicate | None
    """The filter that `read` must still apply to rows; None when partition pruning has applied all of it."""
    table: FileStoreTable
    """The table with `schema`, to be given to `read`."""
    read: ReadSplit = read_split
    """Reads a split, in a task. Picklable."""


def residual_filter(schema: TableSchema, predicate: Predicate | None) -> Predicate | None:
    """Return the conjuncts that partition pruning does not apply exactly; None when there are none."""
    if predicate is None:
        return None
    partition_keys = set(schema.partition_keys)
    rest = [part for part in split_and(predicate) if not (fields(part) and fields(part) <= partition_keys)]
    residual = all_of(rest)
    return None if residual == Always(True) else residual
