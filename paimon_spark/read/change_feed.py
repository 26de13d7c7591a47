"""Changes with the commit that made them, as Spark 4.3's ``CHANGES FROM VERSION`` shows them.

Rows come from changelog files, or from the files that commits added to a table without primary key. A primary-key table
without a changelog does not show whether a row is new: its changes are refused. Of a table that reads two branches
(`scan.fallback-branch`) the versions of a partition's changes are snapshots of the branch that gives the partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.errors import OptionError
from paimon_spark.read.audit_log import KindRows, scan_of_rows, table_predicate
from paimon_spark.read.change_range import ChangeRange, ChangeSource, snapshots_of
from paimon_spark.read.field_mapping import fields_as_stored
from paimon_spark.read.incremental_plan import plan_changes
from paimon_spark.read.incremental_read import filter_and_project, written_rows
from paimon_spark.read.snapshot_reader import plan_rows
from paimon_spark.read.table_scan import ReadPlan, RowView, TableScan
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import BigIntType, DataField, LocalZonedTimestampType, VarCharType
from paimon_spark.spec.predicate import Predicate, fields
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.spec.special_fields import VALUE_KIND

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.table.table import FileStoreTable

CHANGE_TYPE = DataField(-1, "_change_type", VarCharType(VarCharType.MAX, nullable=False))
COMMIT_VERSION = DataField(-1, "_commit_version", BigIntType(nullable=False))
COMMIT_TIMESTAMP = DataField(-1, "_commit_timestamp", LocalZonedTimestampType(6, nullable=False))
FEED_FIELDS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
"""What a change says besides the row; the version is the snapshot's id."""


@cache
def _change_types() -> pa.Array:
    """By row kind; made on first use, since ``pa.array`` of a list imports pandas."""
    return pa.array(["insert", "update_preimage", "update_postimage", "delete"])


def feed_fields(table: FileStoreTable) -> tuple[DataField, ...]:
    """The columns of the changes of a table."""
    return (*fields_as_stored(table), *FEED_FIELDS)


@dataclass(frozen=True)
class ReadChangeFeed:
    """Reads a split of changes, in a task."""

    times: Mapping[int, int]
    """When each snapshot was committed, epoch milliseconds."""
    rows: KindRows = written_rows

    def __call__(
        self, table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns asked for of changes for which the predicate is true."""
        names = {field.name for field in plan_fields} | (set() if predicate is None else fields(predicate))
        read_fields = tuple(field for field in table.schema.fields if field.name in names)
        batches = self.rows(table, split, read_fields, table_predicate(table, predicate))
        return filter_and_project(
            (self._with_commit(batch, split.snapshot_id) for batch in batches), plan_fields, predicate
        )

    def _with_commit(self, batch: pa.RecordBatch, snapshot_id: int) -> pa.RecordBatch:
        rows = batch.num_rows
        time_type = to_arrow_type(COMMIT_TIMESTAMP.type)
        arrays = [
            *batch.columns[:-2],
            _change_types().take(batch.column(VALUE_KIND.name)),
            pa.repeat(pa.scalar(snapshot_id, pa.int64()), rows),
            pa.repeat(pa.scalar(self.times[snapshot_id] * 1000, pa.int64()), rows).cast(time_type),
        ]
        names = [*batch.schema.names[:-2], *(field.name for field in FEED_FIELDS)]
        return pa.RecordBatch.from_arrays(arrays, names=names)


def _plan(scan: TableScan) -> ReadPlan:
    return plan_rows(scan, _plan_branch)


def _plan_branch(scan: TableScan) -> ReadPlan:
    table, asked = scan.table, scan.source
    if not isinstance(asked, ChangeRange):
        raise OptionError("CHANGES needs a version or a timestamp to begin with: FROM VERSION 3, startingVersion.")
    refuse_without_changelog(table)
    changes = ChangeRange(feed_source(table), asked.start_id, asked.end_id)
    commits = snapshots_of(table, changes)
    overwrite = next((commit.id for commit in commits if commit.commit_kind is CommitKind.OVERWRITE), None)
    if overwrite is not None:
        raise overwrite_error(overwrite)
    rows = replace(scan_of_rows(scan), limit=None)
    ranges = [ChangeRange(changes.source, commit.id - 1, commit.id) for commit in commits]
    splits = [split for range_ in ranges for split in plan_changes(replace(rows, source=range_)).splits]
    read = ReadChangeFeed({commit.id: commit.time_millis for commit in commits})
    return ReadPlan(None, table.schema, scan.columns, tuple(splits), scan.predicate, table, read)


def overwrite_error(snapshot_id: int) -> OptionError:
    """Return the error of an overwrite among changes."""
    return OptionError(
        f"Snapshot {snapshot_id} is an overwrite, which does not show what changed: ask for CHANGES before or after "
        "it, or compare two states by SELECT * FROM `t$audit_log` WITH ('incremental-between' = 'a,b', "
        "'incremental-between-scan-mode' = 'diff')."
    )


def refuse_without_changelog(table: FileStoreTable) -> None:
    """Refuse a table whose files do not show what changed.

    Raises:
        OptionError: it has a primary key and no changelog.
    """
    if table.schema.kind.is_keyed and table.options.value("changelog-producer") == "none":
        raise OptionError(
            "CHANGES needs a changelog for a table with a primary key: set changelog-producer, or compare two states "
            "by SELECT * FROM `t$audit_log` WITH ('incremental-between' = 'a,b', 'incremental-between-scan-mode' = "
            "'diff')."
        )


def feed_source(table: FileStoreTable) -> ChangeSource:
    """Where the changes of a table are taken from."""
    return ChangeSource.CHANGELOG if table.schema.kind.is_keyed else ChangeSource.DELTA


CHANGE_FEED = RowView("changes", feed_fields, _plan)
"""Rows with their changes. It has no name in SQL: Spark asks for it by ``CHANGES``."""
