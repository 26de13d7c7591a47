"""What DROP PARTITION and TRUNCATE TABLE … PARTITION mean, for both fronts: the partitions that clauses name.

A clause names values of some partition columns. A partition is there when the table's own branch has files of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.java_text import epoch_millis
from paimon_spark.table.system.groups import partition_sums
from paimon_spark.table.two_branches import matching_partitions, own_partitions

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
Values = Mapping[str, Any]
"""Values by partition column; columns that are left out have any value."""


def missing_clauses(table: FileStoreTable, clauses: Sequence[Values]) -> list[int]:
    """Return the positions of the clauses that name no partition with rows."""
    there = own_partitions(table)
    return [at for at, wanted in enumerate(clauses) if not matching_partitions(table, wanted, there)]


def missing_partitions(table: FileStoreTable, clauses: Sequence[Values]) -> list[int]:
    """Return the positions of the clauses that name a whole partition which has no rows: DROP PARTITION refuses them.

    Java: a clause that leaves out columns may match nothing.
    """
    keys = table.schema.partition_keys
    return [at for at in missing_clauses(table, clauses) if len(clauses[at]) == len(keys)]


def partition_counts(table: FileStoreTable, values: Values) -> dict[str, int] | None:
    """Return what is known of a whole partition by the names of Java's ``PartitionStatistics``; None without files."""
    for live, sums in partition_sums(table):
        directories = [live.partitions[number] for number in sums["partition"].to_pylist()]
        found = live.table.manifests.partition_batch(directories).to_pylist()
        for row, there in zip(sums.to_pylist(), found, strict=True):
            if there == values:
                return {
                    "fileCount": row["file_count"],
                    "fileSizeInBytes": row["file_size_in_bytes"],
                    "lastFileCreationTime": 0
                    if row["last_update_time"] is None
                    else epoch_millis(row["last_update_time"]),
                    "recordCount": row["record_count"],
                }
    return None


def add_partitions(table: FileStoreTable, clauses: Sequence[Values], *, located: bool) -> None:
    """Run ADD PARTITION, which adds nothing and logs a line: scripts written for Hive go on (Java does the same).

    Raises:
        UnsupportedError: it has.
    """
    if located:
        raise UnsupportedError(
            "ADD PARTITION … LOCATION is not supported for a Paimon table: its partitions have their directories in "
            "that of the table. INSERT the rows that lie elsewhere"
        )
    for values in clauses:
        named = ", ".join(f"{name}={value}" for name, value in values.items())
        _LOG.warning("%s: ADD PARTITION (%s) adds nothing: a partition is there once it has rows.", table.path, named)


def empty_partitions(table: FileStoreTable, clauses: Sequence[Values]) -> None:
    """Delete the rows of all partitions that clauses name, in one commit."""
    there = own_partitions(table)
    found: list[dict[str, Any]] = []
    for wanted in clauses:
        found += [values for values in matching_partitions(table, wanted, there) if values not in found]
    if found:
        from paimon_spark.maintain.row_level import truncate  # most statements do without it

        truncate(table, *found)
