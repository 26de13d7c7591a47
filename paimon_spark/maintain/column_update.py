"""UPDATE of tables with data evolution: a new file with the changed columns only, for each group of rows.

A group holds the rows of a range of row ids; its files hold their columns. Where a row of a group has new values, the
changed columns are written for all rows of the group, in their order: with the new values, and the old ones of the
other rows. Nothing else is written again, and no file goes. Equals Java's ``UpdatePaimonDataEvolutionTableCommand``.

What others may call, as MERGE INTO: `plan_column_update` on the driver; `update_columns` in tasks, with rows sorted by
id; `commit_columns` on the driver, with their messages and those of new rows, and with rows to delete, in one snapshot.
`spark.jobs.located_rows.write_columns` does the first two for a DataFrame of row ids and new values.

It also writes files that hold some columns of rows that are there.

Equals Java's ``DataEvolutionPaimonWriter``: the rows of a group get one new file with some columns, which holds them in
the order of their ids; BLOB and VECTOR columns go to files of their own. Runs in tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.commit.changes import collect_changes
from paimon_spark.commit.conflict_detection import RowsRead
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import DataError, UnsupportedError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.files.deletion import delete_messages
from paimon_spark.maintain.row_deletion import commit_deletions
from paimon_spark.read.data_evolution_read import read_data_evolution
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.sections import anchor_of, groups_of_rows
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import holds_blobs
from paimon_spark.spec.manifest import FileKind
from paimon_spark.storage.blob_format import IS_PLACEHOLDER
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.data_file_spec import data_file_spec, with_input
from paimon_spark.write.message import CommitMessage, TaskMessage
from paimon_spark.write.rolling import RollingFiles
from paimon_spark.write.rows import RowMapping, map_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.maintain.row_deletion import DeletedPositions
    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest import DataFileMeta, IndexManifestEntry
    from paimon_spark.spec.snapshot import Operation, Snapshot
    from paimon_spark.table.table import FileStoreTable

_NO_LIMIT = 2**62


class ColumnFiles:
    """Writes the files of one group of rows."""

    def __init__(self, table: FileStoreTable, fields: Sequence[DataField], directory: str) -> None:
        """Open nothing yet."""
        spec = with_input(data_file_spec(table.schema, limit_rows=False, columns=tuple(fields)), table)
        names = spec.file_names()
        plain = replace(spec, target_size_bytes=_NO_LIMIT, companions=())
        self._files: list[tuple[list[str], RollingFiles]] = []
        for part in (*([plain] if plain.physical_fields else []), *spec.companions):
            columns = [field.name for field in part.physical_fields]
            columns += [IS_PLACEHOLDER] if part.file_format == "blob" else []
            own = names.ending(part.extension)
            self._files.append((columns, RollingFiles(table.file_io, part, directory, own)))

    def write(self, rows: pa.Table) -> None:
        """Write rows of the group, in their order.

        Args:
            rows: the columns; with BLOBs also the column `IS_PLACEHOLDER`: whether the older files have the row's.
        """
        for columns, files in self._files:
            files.write(rows.select(columns))

    def close(self, first_row_id: int) -> tuple[DataFileMeta, ...]:
        """Finish the files; their rows have the ids from `first_row_id` on."""
        found = []
        for _, files in self._files:
            start = first_row_id
            for file in files.close():
                found.append(replace(file, first_row_id=start))
                start += file.row_count
        return tuple(found)

    def abort(self) -> None:
        """Delete the files."""
        for _, files in self._files:
            files.abort()


Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The files that hold the columns of a range of row ids."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[SplitFile, ...]
    """Newest first, without deletion vectors: a deleted row keeps its position."""
    first_row_id: int
    rows: int


@dataclass(frozen=True)
class ColumnUpdate:
    """Which columns of which rows may get new values. Picklable."""

    table: FileStoreTable
    mapping: RowMapping
    """How the new values become those of the columns."""
    groups: tuple[RowGroup, ...]
    """In the order of row ids."""

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns, in the table's order."""
        return self.mapping.fields

    @cached_property
    def starts(self) -> Longs:
        """The first row id of each group."""
        return np.array([group.first_row_id for group in self.groups], dtype=np.int64)

    def group_of(self, row_id: int) -> RowGroup:
        """Return the group that a row belongs to.

        Raises:
            DataError: the table has no such row.
        """
        at = int(np.searchsorted(self.starts, row_id, side="right")) - 1
        if at < 0 or row_id >= self.groups[at].first_row_id + self.groups[at].rows:
            raise DataError(f"Row id {row_id} is none of a row of table {self.table.path}.")
        return self.groups[at]


def plan_column_update(
    table: FileStoreTable, columns: Iterable[str], data_schema: pa.Schema, snapshot_id: int
) -> ColumnUpdate:
    """Plan new values of some columns. Runs on the driver.

    Args:
        table: with data evolution and the options of the statement.
        columns: that get new values.
        data_schema: of the new values, by the names of these columns.
        snapshot_id: whose rows change.

    Raises:
        UnsupportedError: a column cannot be written so.
        SchemaMismatchError: the values do not fit the columns.
    """
    wanted = set(columns)
    fields = tuple(field for field in table.schema.fields if field.name in wanted)
    check_updatable_columns(table, [field.name for field in fields])
    mapping = map_columns(replace(table.schema, fields=fields, partition_keys=()), data_schema)
    plan = TableScan.of(table, ROWS, snapshot_id=snapshot_id).select().plan()
    groups = []
    for split in plan.splits:
        for files in groups_of_rows(split.files):
            anchor = anchor_of(files)
            bare = tuple(file._replace(deletion_vector=None, row_groups=None) for file in files)
            assert anchor.first_row_id is not None
            location = (split.partition, split.bucket, split.total_buckets)
            groups.append(RowGroup(*location, bare, anchor.first_row_id, anchor.row_count))
    return ColumnUpdate(table, mapping, tuple(sorted(groups, key=lambda group: group.first_row_id)))


def check_updatable_columns(table: FileStoreTable, columns: Collection[str]) -> None:
    """Refuse columns whose values cannot be written to a file of their own.

    Raises:
        UnsupportedError: names the column.
    """
    keys = [name for name in table.schema.partition_keys if name in columns]
    if keys:
        raise UnsupportedError(
            "Update to partition columns is not supported for data evolution tables. "
            f"{', '.join(keys)} cannot change, for rows keep their ids in their partition. DELETE the rows and INSERT "
            "them with the new values."
        )


def update_columns(update: ColumnUpdate, batches: Iterable[pa.RecordBatch]) -> TaskMessage | None:
    """Write the changed columns of the groups that the rows belong to. Runs in tasks.

    Args:
        update: the plan.
        batches: new values, with the columns of the plan's data and the row id as the last one; sorted by row id. All
            rows of a group come to one task, those that do not change can be left out.

    Returns:
        The new files; None where no rows came.

    Raises:
        DataError: a row comes twice or is not in the table, or a value does not fit its column.
    """
    rows = _SortedRows(batches)
    messages: list[CommitMessage] = []
    try:
        while (row_id := rows.next_id()) is not None:
            messages.append(_written(update, update.group_of(row_id), rows))
    except BaseException:
        _delete_files(update.table, messages)
        raise
    return TaskMessage(tuple(messages), rows.taken) if messages else None


def _written(update: ColumnUpdate, group: RowGroup, rows: _SortedRows) -> CommitMessage:
    """Write the columns of one group."""
    files = ColumnFiles(update.table, update.fields, _directory(update.table, group.partition, group.bucket))
    try:
        position = group.first_row_id
        for old in _old_values(update, group):
            new = rows.take_before(position + old.num_rows)
            files.write(_overlaid(update, old, new, position))
            position += old.num_rows
        new_files = files.close(group.first_row_id)
    except BaseException:
        files.abort()
        raise
    return CommitMessage(group.partition, group.bucket, group.total_buckets, new_files)


def _old_values(update: ColumnUpdate, group: RowGroup) -> Iterator[pa.RecordBatch]:
    """Yield what the columns of all rows of a group hold, deleted rows among them; BLOBs are not read."""
    fields = tuple(field for field in update.fields if not _in_blob_files(update.table, field))
    for _, batches in read_data_evolution(FileRead(update.table, fields, {}), group.files, None):
        yield from batches


def _overlaid(update: ColumnUpdate, old: pa.RecordBatch, new: pa.Table | None, first_row_id: int) -> pa.Table:
    """Return the old rows, with the new values of those that have any. Old BLOBs are placeholders."""
    schema = to_arrow_schema(update.fields)
    rows, changed, positions = old.num_rows, schema.empty_table(), np.empty(0, np.int64)
    if new is not None:
        changed = update.mapping.columns(new.select(range(new.num_columns - 1)))
        positions = new.column(new.num_columns - 1).to_numpy() - first_row_id
    order = np.arange(rows)
    order[positions] = rows + np.arange(len(positions))
    is_old = np.ones(rows, dtype=bool)
    is_old[positions] = False
    columns = []
    for field in schema:
        there = old.schema.get_field_index(field.name) >= 0
        before = old.column(field.name).cast(field.type) if there else pa.nulls(rows, field.type)
        every = pa.chunked_array([before, *changed.column(field.name).chunks], field.type)
        columns.append(every.combine_chunks().take(pa.array(order)))
    if any(_in_blob_files(update.table, field) for field in update.fields):
        schema = schema.append(pa.field(IS_PLACEHOLDER, pa.bool_(), nullable=False))
        columns.append(pa.array(is_old))
    return pa.Table.from_arrays(columns, schema=schema)


def _in_blob_files(table: FileStoreTable, field: DataField) -> bool:
    return holds_blobs(field.type) and field.name not in table.options.inline_blob_fields


class _SortedRows:
    """Rows that come sorted by their last column, taken up to a row id at a time."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._rest: pa.RecordBatch | None = None
        self._last = -1
        self.taken = 0

    def next_id(self) -> int | None:
        """Return the id of the next row; None where there is none."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
            self._check(_ids(self._rest))
        return int(_ids(self._rest)[0])

    def take_before(self, end: int) -> pa.Table | None:
        """Take the rows with ids below `end`; None where there are none."""
        parts = []
        while (row_id := self.next_id()) is not None and row_id < end:
            assert self._rest is not None
            count = int(np.searchsorted(_ids(self._rest), end))
            parts.append(self._rest.slice(0, count))
            self._rest = self._rest.slice(count)
            self.taken += count
        return pa.Table.from_batches(parts) if parts else None

    def _check(self, ids: Longs) -> None:
        if not len(ids):
            return
        steps = np.diff(ids, prepend=self._last)
        if (steps <= 0).any():
            bad = int(ids[np.flatnonzero(steps <= 0)[0]])
            raise DataError(f"The row with id {bad} would get new values twice: each row may match once.")
        self._last = int(ids[-1])


def _ids(batch: pa.RecordBatch) -> Longs:
    ids: Longs = batch.column(batch.num_columns - 1).to_numpy()
    return ids


def _directory(table: FileStoreTable, partition: bytes, bucket: int) -> str:
    return table.paths.bucket_dir(table.paths.partition_path(partition), bucket)


def _delete_files(table: FileStoreTable, messages: Iterable[CommitMessage]) -> None:
    """Delete what a failed attempt has written: nothing names it."""
    for message in messages:
        for file in message.new_files:
            path = table.paths.data_file_path(message.partition, message.bucket, file)
            for name in (file.file_name, *file.extra_files):
                table.file_io.delete_quietly(f"{path.rpartition('/')[0]}/{name}")


def commit_columns(
    table: FileStoreTable,
    messages: Sequence[TaskMessage],
    snapshot: Snapshot,
    operation: Operation,
    *,
    columns_read: Iterable[str] | None = None,
    deleted: Sequence[DeletedPositions] = (),
) -> int | None:
    """Commit new files of columns, with whatever else a statement does in the same snapshot.

    Where nothing was committed, for certain, the files of the tasks are deleted.

    Args:
        table: with the options of the statement.
        messages: of `update_columns`, and of tasks that wrote new rows.
        snapshot: that the statement read.
        operation: what the new snapshot says about the statement.
        columns_read: columns that the new values and the condition depend on; None for all.
        deleted: rows that are deleted, by deletion vectors.

    Raises:
        UnsupportedError: a global index holds values of a changed column, and is not to be dropped.
        CommitConflictError: another commit changed the same values, what they depend on, or the ranges of row ids.
    """
    with undone_where_void(lambda: delete_messages(table, messages)):
        added = collect_changes(messages).append.files
        written = [entry for entry in added if entry.file.first_row_id is not None]
        names = {name for entry in written for name in entry.file.write_cols or ()}
        ranges = [(entry.file.first_row_id or 0, entry.file.row_count) for entry in written]
        read = None if columns_read is None else {*names, *columns_read}
        how: dict[str, Any] = {
            "operation": operation,
            "planned_on": SnapshotIdentity.of(snapshot),
            "rows_read": True,
            "after_commit": maintenance(table),
        }
        partitions = {entry.partition for entry in written}
        dropped = [
            CommitMessage(entry.partition, entry.bucket, -1, (), index_changes=(replace(entry, kind=FileKind.DELETE),))
            for entry in _indexes_to_drop(table, snapshot, names, partitions)
        ]
        everything: list[TaskMessage | CommitMessage] = [*messages, *dropped]
        if deleted:
            return commit_deletions(table, everything, snapshot.id, deleted, columns_read=read, ranges=ranges, **how)
        return commit(table, everything, of_rows=RowsRead.of(table.schema, ranges, read), **how)


def _indexes_to_drop(
    table: FileStoreTable, snapshot: Snapshot, columns: set[str], partitions: set[bytes]
) -> list[IndexManifestEntry]:
    """Return the global indexes that hold values of changed columns (Java: ``checkUpdateResult``)."""
    action = str(table.options.value("global-index.column-update-action")).upper()
    if action == "IGNORE":
        return []
    fields = {table.schema.field(name).id: name for name in columns}
    hit = []
    indexed: set[str] = set()
    for entry in table.manifests.index_entries(snapshot):
        if entry.global_index is None or entry.partition not in partitions:
            continue
        ids = {entry.global_index.index_field_id, *(entry.global_index.extra_field_ids or ())}
        if ids & fields.keys():
            hit.append(entry)
            indexed |= {fields[number] for number in ids & fields.keys()}
    if hit and action == "THROW_ERROR":
        raise UnsupportedError(
            f"An update of globally indexed columns is not supported: {', '.join(sorted(indexed))} of table "
            f"{table.path}. Set option 'global-index.column-update-action' to 'DROP_PARTITION_INDEX' to drop the "
            "indexes of the changed partitions, and build them again afterwards."
        )
    return hit
