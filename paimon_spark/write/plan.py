"""Planning of a write: what a task must know about the table and about the incoming columns, gathered once on the driver."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


class OverwriteMode(enum.Enum):
    """How a write replaces rows; the commit is told separately what exactly goes (``OverwriteSpec``)."""

    STATIC = "static"
    """The whole table or the partitions of a given spec."""
    DYNAMIC = "dynamic"
    """The partitions that appear in the data."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A planned write: picklable, sent to every task, used by ``write_batches``."""

    table: FileStoreTable
    overwrite: OverwriteMode | None
    data_schema: pa.Schema
    """Arrow schema of the batches that tasks will get (a last column ``_VALUE_KIND`` int8 gives row kinds, if there)."""
    shuffled: bool
    """True when all rows of a (partition, bucket) reach one task; False when tasks may share buckets."""
    snapshot_id: int | None
    """Latest snapshot when the write was planned; None for an empty table."""


def plan_write(
    table: FileStoreTable,
    *,
    overwrite: OverwriteMode | None = None,
    data_schema: pa.Schema,
    shuffled: bool = False,
    num_tasks: int | None = None,
    expected_rows: Mapping[bytes, int] | int | None = None,
) -> WritePlan:
    """Plan a write of rows of ``data_schema`` into ``table``. Runs on the driver, once per job.

    Args:
        table: the table as loaded, with dynamic options applied.
        overwrite: None to append; otherwise existing files and indexes of the target partitions are ignored.
        data_schema: columns of the incoming batches. They are matched by name (without case unless that is ambiguous).
            A last column ``_VALUE_KIND`` (int8: 0 +I, 1 -U, 2 +U, 3 -D) is taken as the row kind, primary-key tables only.
        shuffled: True promises that all rows of one (partition, bucket) - for dynamic buckets all rows of one key-hash
            residue class - reach one task, in their order.
        num_tasks: number of tasks of a shuffled write (dynamic buckets: number of assigners); None means 1.
        expected_rows: rows to come, for sizing new dynamic buckets: a number for each partition (by partition bytes) or
            one number for all of them together.

    Raises:
        UnsupportedError: the table has a feature that cannot be written yet.
        SchemaMismatchError: a column is unknown, missing or of a type that cannot be cast without loss.
        OptionError: the number of buckets differs from that of existing files.
    """
    raise NotImplementedError
