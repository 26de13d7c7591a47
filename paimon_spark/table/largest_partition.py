"""The largest partition of a table: what the function ``max_pt`` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.spec.partition_path import partition_value_text

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def largest_partition(table: FileStoreTable) -> str:
    """The largest value of the first partition column among the partitions that have files, as a directory shows it.

    Values are compared in the column's type: the integer 10 is larger than 9. NULL is the smallest.

    Raises:
        OptionError: the table has no partition columns, or nothing in its partitions.
    """
    if not table.schema.partition_keys:
        raise OptionError(f"{table.path} is not a partitioned table, so no partition is its largest")
    snapshot = table.snapshots.latest()
    partitions = (
        [] if snapshot is None else list(set(table.manifests.live_columns(snapshot, statistics=False).partitions))
    )
    values = table.manifests.partition_batch(partitions).column(0).to_pylist() if partitions else []
    known = [value for value in values if value is not None]
    if not known:
        raise OptionError(f"{table.path} has no partitions yet, so none is its largest: write rows first")
    first = table.schema.partition_fields[0].type
    return partition_value_text(max(known), first, legacy=False, default_name="")
