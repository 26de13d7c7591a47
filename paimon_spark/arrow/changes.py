"""Writes and deletes of Arrow rows by this process: the same plan, writer, checks and commit as Spark's tasks have.

Each is one snapshot, and a second one of kind COMPACT where the write makes a compaction due. Rows that a caller gives
become Arrow batches with columns of plain types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.commit.overwrite import OverwriteSpec, overwrite_where
from paimon_spark.commit.row_counts import RowCounts, report, report_written
from paimon_spark.commit.run_again import run_again, undone_where_void
from paimon_spark.errors import SchemaMismatchError, UnsupportedError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.committed_write import commit_write
from paimon_spark.maintain.cross_partition_write import bucket_plan, kept_keys, with_named_partitions
from paimon_spark.maintain.files.deletion import delete_files, delete_written
from paimon_spark.maintain.row_deletion import DeletedPositions, commit_deletions, encode_positions, remove_rows
from paimon_spark.maintain.row_level import (
    check_row_delete,
    delete_partitions,
    deletes_by_rewriting,
    is_partition_delete,
    live_partitions_of,
    only_compacted,
    truncate,
)
from paimon_spark.read.key_lookup import count_keys, read_key_locations
from paimon_spark.read.metadata_columns import FILE_PATH, ROW_INDEX, read_with_metadata
from paimon_spark.read.postponed_read import by_writer, postponed_schema, read_postponed_rows
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.file_names import POSTPONE_BUCKET, postponed_writer
from paimon_spark.spec.predicate import Predicate, evaluate, fields
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.special_fields import VALUE_KIND, RowKind
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.cross_partition_update import (
    ORDER,
    assign_all_rows,
    cross_partition_schema,
    location_fields,
    partitions_of_rows,
)
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import WritePlan, new_user, plan_write
from paimon_spark.write.postpone import buckets_of_batch, known_buckets, writes_real_buckets
from paimon_spark.write.task_write import chunk_bytes, write_batches

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import ReadPlan
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_FIXED = "postpone.batch-write-fixed-bucket"


def write_rows(table: FileStoreTable, data: Any, overwrite: OverwriteSpec | None = None) -> int | None:
    """Write rows and commit them; return the id of the new snapshot, None where nothing was to be committed.

    Args:
        table: with the options of the write.
        data: as of `given_rows`; columns are matched by name. A column ``_VALUE_KIND`` (int8) gives row kinds.
        overwrite: what is replaced; None appends.

    Raises:
        SchemaMismatchError: the rows do not fit the table's columns.
        DataError: a value does not fit its column; nothing was committed.
        CommitConflictError: another commit changed what this one relies on; nothing was committed.
        CommitStateUnknownError: it is not known whether the commit took place.
    """
    columns = to_arrow_schema(table.schema.fields)
    if table.schema.kind.updates_across_partitions:
        return _with_rows_again(table, data, lambda rows, at: _write_across_partitions(table, rows, overwrite, at))
    if table.schema.kind.postpones_buckets and writes_real_buckets(table.options):
        return _with_rows_again(table, data, lambda rows, at: _write_postponed(table, rows, overwrite, at))
    rows = given_rows(data, columns)
    kind = None if overwrite is None else overwrite.kind
    plan = plan_write(table, overwrite=kind, data_schema=rows.schema, shuffled=True)
    return _commit(table, plan, [write_batches(plan, rows.batches, 0)], overwrite)


def _commit(
    table: FileStoreTable, plan: WritePlan, messages: list[TaskMessage], overwrite: OverwriteSpec | None, **how: Any
) -> int | None:
    user = plan.postponed_user or new_user(table.options)
    return commit_write(table, plan, messages, commit_user=user, overwrite=overwrite, **how)


def _with_rows_again(
    table: FileStoreTable, data: Any, write: Callable[[GivenRows, SnapshotIdentity], int | None]
) -> int | None:
    """Write rows that are planned on what the table holds; after a conflict once more, where they can be read again."""
    columns = to_arrow_schema(table.schema.fields)
    if isinstance(data, pa.RecordBatchReader):
        latest = table.snapshots.latest_to_follow()
        return write(given_rows(data, columns), SnapshotIdentity.of(latest))
    return run_again(table, lambda snapshot: write(given_rows(data, columns), SnapshotIdentity.of(snapshot)))


def _write_across_partitions(
    table: FileStoreTable, rows: GivenRows, overwrite: OverwriteSpec | None, at: SnapshotIdentity
) -> int | None:
    """Write rows of keys that may be in other partitions: joined with the keys that there are."""
    kind = None if overwrite is None else overwrite.kind
    given = plan_write(table, overwrite=kind, data_schema=rows.schema, rows_of=at)
    batches: Iterator[pa.RecordBatch] = iter(rows.batches)
    if overwrite is not None:
        kept = list(batches)
        overwrite = with_named_partitions(given, overwrite, lambda: frozenset(partitions_of_rows(given, kept)))
        batches = iter(kept)
    splits = kept_keys(given, overwrite, 1)

    def counted(split: DataSplit) -> tuple[bytes, int, int]:
        return split.partition, split.bucket, count_keys(table, split)

    assignment = replace(given, dynamic=bucket_plan(given, splits, partial(map, counted)))
    plan = plan_write(
        table,
        overwrite=kind,
        data_schema=cross_partition_schema(table.schema),
        shuffled=True,
        assignment=assignment,
        rows_of=at,
    )
    key_fields = location_fields(table.schema)
    known = (keys for split in splits for keys in read_key_locations(table, split, key_fields))
    message = write_batches(plan, assign_all_rows(given, plan, _numbered(batches), known), 0)
    return _commit(table, plan, [message], overwrite)


def _numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        numbers = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
        start += batch.num_rows
        yield batch.append_column(ORDER, numbers)


def _write_postponed(
    table: FileStoreTable,
    rows: GivenRows,
    overwrite: OverwriteSpec | None,
    at: SnapshotIdentity,
    *,
    operation: str | None = None,
    rows_read: bool = False,
) -> int | None:
    """Write to real buckets, through files that are measured, then taken in. Partitions keep their bucket numbers.

    Args:
        table: with the options of the write.
        rows: what is written.
        overwrite: what is replaced; None appends.
        at: the snapshot that the write is planned on.
        operation: what the snapshot says was done.
        rows_read: whether the rows were made of rows of that snapshot (DELETE).
    """
    postponing = table.as_if({_FIXED: "false"})
    staging = plan_write(postponing, data_schema=rows.schema, rows_of=at)
    staged_message = write_batches(staging, rows.batches, 0)
    staged = [
        (part.partition, postponed_writer(file.file_name), file)
        for part in staged_message.messages
        for file in part.new_files
    ]
    try:
        snapshot = at.find(table.snapshots)
        entries = [] if snapshot is None or overwrite is not None else table.manifests.live_entries(snapshot)
        numbers = known_buckets(entries)
        for partition in {partition for partition, _, _ in staged} - numbers.keys():
            own = [file for name, _, file in staged if name == partition]
            counted = sum(file.row_count for file in own), sum(file.file_size for file in own)
            numbers[partition] = buckets_of_batch(table.options, *counted, None)
        kind = None if overwrite is None else overwrite.kind
        messages = []
        groups = by_writer(table, staged)
        for number in sorted({numbers[group.partition] for group in groups}):
            fixed = table.as_if({"bucket": str(number)})
            plan = plan_write(fixed, overwrite=kind, data_schema=postponed_schema(table), shuffled=True, rows_of=at)
            plan = replace(plan, blobs_are_descriptors=True)
            own_groups = [group for group in groups if numbers[group.partition] == number]
            messages.append(write_batches(plan, read_postponed_rows(fixed, own_groups, chunk_bytes(plan)), 0))
        whole = replace(staging, postponed_user=None, rows_read=rows_read)
        with undone_where_void(lambda: delete_files(table, staged_message.blob_files)):
            made = _commit(table, whole, messages, overwrite, operation=operation)
        report_written(table, [staged_message], None, made)
        return made
    finally:
        delete_written(table, [(partition, POSTPONE_BUCKET, file) for partition, _, file in staged])


def overwrite_of(table: FileStoreTable, where: str | None) -> OverwriteSpec:
    """What an overwrite replaces: the table, or the partitions that a condition names.

    Raises:
        OptionError: the condition is not about partition columns only.
    """
    if where is None:
        return OverwriteSpec.static()
    return overwrite_where(parse_filter(where, table.schema), table, f'where="{where}"')


def delete_where(table: FileStoreTable, where: str | None) -> int | None:
    """Delete rows and commit that; return the id of the new snapshot, None where no row was found.

    The first way that fits is taken, as DELETE in SQL does: whole partitions are dropped; rows of tables with a primary
    key are written as deleted; in other tables deletion vectors delete them, or their files are written anew.

    Args:
        table: with the options of the statement.
        where: which rows; None empties the table.

    Raises:
        UnsupportedError: the table does not let single rows be deleted; nothing was written.
        CommitConflictError: other commits changed the same rows every time; nothing was committed.
    """
    if where is None:
        return truncate(table)
    condition = parse_filter(where, table.schema)
    if is_partition_delete(table) and fields(condition) <= set(table.schema.partition_keys):
        return delete_partitions(table, _partitions_where(table, condition))
    check_row_delete(table)

    def attempt(snapshot: Snapshot | None) -> int | None:
        if snapshot is None:
            return None
        if table.schema.kind.is_keyed and not deletes_by_rewriting(table):
            return _delete_keys(table, snapshot, condition)
        return _delete_positions(table, snapshot, condition)

    return run_again(table, attempt)


def _partitions_where(table: FileStoreTable, condition: Predicate) -> list[dict[str, Any]]:
    live = live_partitions_of(table)
    if not live:
        return []
    schema = to_arrow_schema([table.schema.field(name) for name in table.schema.partition_keys])
    rows = pa.Table.from_pylist(live, schema=schema).combine_chunks().to_batches()[0]
    kept: list[dict[str, Any]] = rows.filter(evaluate(condition, rows)).to_pylist()
    return kept


def _planned(table: FileStoreTable, snapshot: Snapshot, condition: Predicate) -> ReadPlan:
    return TableScan.of(table, ROWS, snapshot_id=snapshot.id).select(predicate=condition).plan()


def _delete_keys(table: FileStoreTable, snapshot: Snapshot, condition: Predicate) -> int | None:
    plan = _planned(table, snapshot, condition)
    schema = to_arrow_schema(plan.fields).append(pa.field(VALUE_KIND.name, pa.int8()))
    count = 0

    def deleted() -> Iterator[pa.RecordBatch]:
        for split in plan.splits:
            for batch in plan.read(plan.table, split, plan.fields, plan.residual):
                nonlocal count
                count += batch.num_rows
                kinds = pa.array(np.full(batch.num_rows, RowKind.DELETE.value, np.int8))
                yield pa.RecordBatch.from_arrays([*batch.columns, kinds], schema=schema)

    at = SnapshotIdentity.of(snapshot)
    if table.schema.kind.updates_across_partitions:
        made = _write_across_partitions(table, GivenRows(schema, deleted()), None, at)
    elif table.schema.kind.postpones_buckets and writes_real_buckets(table.options):
        rows = GivenRows(schema, deleted())
        made = _write_postponed(table, rows, None, at, operation=Operation.DELETE.value, rows_read=True)
    else:
        write = plan_write(table, data_schema=schema, shuffled=True, rows_of=at)
        made = _commit(table, write, [write_batches(write, deleted(), 0)], None, operation=Operation.DELETE.value)
    report(RowCounts.deleted(count))
    return made


def _delete_positions(table: FileStoreTable, snapshot: Snapshot, condition: Predicate) -> int | None:
    found = _positions(table, snapshot, condition)
    if not found:
        return None
    if table.schema.kind.is_keyed or not table.options.deletion_vectors_enabled:
        return remove_rows(table, snapshot, found, Operation.DELETE)
    return commit_deletions(
        table,
        (),
        snapshot.id,
        found,
        operation=Operation.DELETE.value,
        planned_on=SnapshotIdentity.of(snapshot),
        rows_read=True,
        columns_read=fields(condition),
        after_commit=maintenance(table),
    )


def _positions(table: FileStoreTable, snapshot: Snapshot, condition: Predicate) -> list[DeletedPositions]:
    """The files that hold rows for which a condition is true, each with the positions of these rows."""
    hidden = next((name for name in (FILE_PATH, ROW_INDEX) if table.schema.has_field(name)), None)
    if hidden is not None:
        raise UnsupportedError(
            f"DELETE is not supported for table {table.path}: its column {hidden} has the name of the metadata column "
            "by which rows are found. Rename the column."
        )
    scan = TableScan.of(table, ROWS, snapshot_id=snapshot.id)
    plan = scan.select(columns=(), predicate=condition).plan()
    if table.schema.kind.is_keyed and not all(split.raw_convertible for split in plan.splits):
        raise only_compacted(table)
    found: dict[str, list[Any]] = {}
    for split in plan.splits:
        names = (FILE_PATH, ROW_INDEX)
        for batch in read_with_metadata(plan.table, split, (), plan.residual, names, read=plan.read):
            paths, positions = batch.column(0).dictionary_encode(), batch.column(1).to_numpy()
            for code, path in enumerate(paths.dictionary.to_pylist()):
                found.setdefault(path, []).append(
                    positions[pc.equal(paths.indices, code).to_numpy(zero_copy_only=False)]
                )
    return [(path, encode_positions(np.unique(np.concatenate(parts)))) for path, parts in found.items()]


_MOST_ROWS = 1 << 18


@dataclass(frozen=True)
class GivenRows:
    """Rows to write: their schema, and the batches, which may be taken once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


def given_rows(data: Any, schema: pa.Schema | None = None) -> GivenRows:
    """Take rows of any library that speaks Arrow.

    Args:
        data: a table, a batch or a reader of pyarrow, a DataFrame of polars or pandas, a relation of DuckDB, anything
            with ``__arrow_c_stream__``, or a list of dicts.
        schema: types of the columns of a list of dicts; inferred when not given.

    Raises:
        SchemaMismatchError: the data is none of these.
    """
    reader = _reader(data, schema)
    plain = pa.schema([pa.field(field.name, _plain(field.type), field.nullable) for field in reader.schema])
    return GivenRows(plain, _batches(reader, plain))


def _reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader(_MOST_ROWS)
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data]).to_reader(_MOST_ROWS)
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False).to_reader(_MOST_ROWS)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_dicts(data, schema).to_reader(_MOST_ROWS)
    raise SchemaMismatchError(
        f"Rows to write are a table or a reader of pyarrow, a DataFrame of polars or pandas, or a list of dicts, not a "
        f"{type(data).__module__}.{type(data).__qualname__}."
    )


def _from_dicts(rows: list[dict[str, Any]], schema: pa.Schema | None) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    known = {} if schema is None else {field.name: field for field in schema}
    try:
        if not rows and schema is not None:
            return schema.empty_table()
        columns = [pa.array([row.get(name) for row in rows], getattr(known.get(name), "type", None)) for name in names]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(f"The rows do not fit the columns of the table: {error}") from None
    return pa.table(dict(zip(names, columns, strict=True)))


def _plain(given: pa.DataType) -> pa.DataType:
    """The type that the table's layers know for one with another layout in memory."""
    types = pa.types
    if types.is_dictionary(given) or types.is_run_end_encoded(given):
        return _plain(given.value_type)
    if types.is_large_string(given) or types.is_string_view(given):
        return pa.string()
    if types.is_large_binary(given) or types.is_binary_view(given):
        return pa.binary()
    if types.is_large_list(given) or types.is_list(given) or _is_list_view(given):
        return pa.list_(given.value_field.with_type(_plain(given.value_type)))
    if types.is_map(given):
        return pa.map_(_plain(given.key_type), given.item_field.with_type(_plain(given.item_type)))
    if types.is_struct(given):
        return pa.struct([field.with_type(_plain(field.type)) for field in given])
    return given


def _is_list_view(given: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(given) or pa.types.is_large_list_view(given))


def _batches(reader: pa.RecordBatchReader, plain: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for start in range(0, batch.num_rows, _MOST_ROWS):
            part = batch.slice(start, _MOST_ROWS)
            if part.schema.equals(plain):
                yield part
                continue
            arrays = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(part.columns, plain, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=plain)
