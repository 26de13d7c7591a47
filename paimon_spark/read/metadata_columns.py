"""Columns that say where a row comes from: its file, its position there, its partition and bucket; pruning by them.

Equals the official Spark connector's ``PaimonMetadataColumn``: partition and bucket are known of every row; file and
position only of rows that are read as they lie in a file, without merging. Files and buckets that a filter over these
columns rules out are left out on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.read.audit_log import read_tracked
from paimon_spark.read.file_read import RowPositions
from paimon_spark.read.sections import anchor_of, groups_of_rows
from paimon_spark.read.snapshot_reader import BranchRead
from paimon_spark.read.split_read import read_split, with_filter_columns
from paimon_spark.spec.arrow_types import to_arrow_field, to_arrow_schema, to_arrow_type
from paimon_spark.spec.data_types import BigIntType, DataField, IntType, RowType, VarCharType
from paimon_spark.spec.predicate import Leaf, Predicate, all_of, evaluate, fields, split_and
from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER
from paimon_spark.table.data_layout import DataLayout

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.read.table_scan import ReadPlan, ReadSplit
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

FILE_PATH = "__paimon_file_path"
ROW_INDEX = "__paimon_row_index"
PARTITION = "__paimon_partition"
BUCKET = "__paimon_bucket"

METADATA_COLUMNS = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET, ROW_ID.name, SEQUENCE_NUMBER.name)
_OF_FILES = (FILE_PATH, ROW_INDEX)
WITHOUT_LOCATION = "is not there for rows"
"""What an error says of a column that needs a row to lie in one file."""
_TRACKED = frozenset((ROW_ID.name, SEQUENCE_NUMBER.name))


def tracked_names(schema: TableSchema) -> tuple[str, ...]:
    """The metadata columns with which a row is written again, so that it keeps its id; empty without row tracking."""
    return (ROW_ID.name, SEQUENCE_NUMBER.name) if schema.core_options.row_tracking_enabled else ()


def metadata_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The metadata columns of a table as fields; their ids mean nothing."""
    tracked = (ROW_ID, SEQUENCE_NUMBER) if schema.core_options.row_tracking_enabled else ()
    partition = RowType(fields=tuple(schema.field(name) for name in schema.partition_keys), nullable=False)
    return (
        DataField(-1, FILE_PATH, VarCharType(length=VarCharType.MAX, nullable=False)),
        DataField(-1, ROW_INDEX, BigIntType(nullable=False)),
        DataField(-1, PARTITION, partition),
        DataField(-1, BUCKET, IntType(nullable=False)),
        *tracked,
    )


def refuse_merged_splits(table: FileStoreTable, splits: Sequence[DataSplit], names: Sequence[str]) -> None:
    """Refuse columns that rows of these splits do not have. Runs on the driver.

    Raises:
        UnsupportedError: a file's path or position is asked for where rows are merged from several files.
    """
    asked = [name for name in names if name in _OF_FILES]
    if table.schema.kind.has_data_evolution:
        return  # each row has its position in one file, though others hold some of its columns
    if asked and not all(split.raw_convertible for split in splits):
        raise UnsupportedError(
            f"Column {asked[0]} {WITHOUT_LOCATION} that are merged from several files: it needs a table without "
            "primary key, or one that is fully compacted. Take it out of the query, or compact the table first."
        )


def read_with_metadata(
    table: FileStoreTable,
    split: DataSplit,
    plan_fields: Sequence[DataField],
    predicate: Predicate | None,
    names: Sequence[str],
    *,
    read: ReadSplit = read_split,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split as `read` does, with metadata columns behind the others. Runs in tasks.

    Args:
        table: the table of the plan.
        split: one split of the plan.
        plan_fields: columns of the table, in order.
        predicate: over columns of the table.
        names: of the metadata columns, in order.
        read: reads the rows without them, `ReadPlan.read`.

    Raises:
        UnsupportedError: the rows of this split do not have one of the columns.
    """
    data_evolution = table.schema.kind.has_data_evolution
    refuse_merged_splits(table, (split,), names)
    columns = tuple(plan_fields)
    if _TRACKED.intersection(names):
        if read is not read_split:
            raise UnsupportedError(f"Columns {' and '.join(sorted(_TRACKED))} are not there in this view of a table.")
        read, columns = read_tracked, (*columns, ROW_ID, SEQUENCE_NUMBER)
    parts: list[tuple[SplitFile | None, Iterator[pa.RecordBatch]]]
    if not set(names) & set(_OF_FILES):
        parts = [(None, read(table, split, columns, predicate))]
    else:
        groups = groups_of_rows(split.files) if data_evolution else [[file] for file in split.files]
        parts = [
            (group[-1], _part(table, replace(split, files=tuple(group)), columns, predicate, names, read))
            for group in map(_with_anchor_last, groups)
        ]
    wanted = {field.name: field for field in metadata_fields(table.schema)}
    for file, batches in parts:
        constants = _constants(table, split, file)
        for batch in batches:
            yield _with_columns(batch, [wanted[name] for name in names], constants, len(plan_fields))


def _with_columns(
    batch: pa.RecordBatch, wanted: Sequence[DataField], constants: dict[str, pa.Scalar], data_columns: int
) -> pa.RecordBatch:
    rows = batch.num_rows
    arrays = list(batch.columns[:data_columns])
    for field in wanted:
        if field.name == ROW_INDEX or field.name in _TRACKED:
            arrays.append(batch.column(field.name))
        elif field.name == PARTITION:
            arrays.append(_repeated_row(constants, field, rows))
        else:
            arrays.append(pa.repeat(constants[field.name], rows))
    names = [*batch.schema.names[:data_columns], *(field.name for field in wanted)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _repeated_row(constants: dict[str, pa.Scalar], field: DataField, rows: int) -> pa.Array:
    assert isinstance(field.type, RowType)
    nested = field.type.fields
    if not nested:
        return pa.Array.from_buffers(pa.struct([]), rows, [None], 0)
    children = [pa.repeat(constants[f"{PARTITION}.{column.name}"], rows) for column in nested]
    return pa.StructArray.from_arrays(children, fields=[to_arrow_field(column) for column in nested])


def _constants(table: FileStoreTable, split: DataSplit, file: SplitFile | None) -> dict[str, pa.Scalar]:
    values = {
        f"{PARTITION}.{name}": pa.scalar(value, to_arrow_type(table.schema.field(name).type))
        for name, value in zip(
            table.schema.partition_keys, DataLayout.of(table.schema).partition_values(split.partition), strict=True
        )
    }
    values[BUCKET] = pa.scalar(split.bucket, pa.int32())
    values[FILE_PATH] = pa.scalar("" if file is None else file.path, pa.string())
    return values


def _with_anchor_last(group: list[SplitFile]) -> list[SplitFile]:
    """The files of a group of rows with the oldest at the end: rows of data evolution have their position there."""
    anchor = anchor_of(group)
    return [*(file for file in group if file is not anchor), anchor]


def _part(
    table: FileStoreTable,
    split: DataSplit,
    columns: Sequence[DataField],
    predicate: Predicate | None,
    names: Sequence[str],
    read: ReadSplit,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file (with data evolution: of a group of files), numbered where that is asked for."""
    if ROW_INDEX in names:
        return _numbered(table, split, split.files[-1], columns, predicate, read)
    return read(table, split, columns, predicate)


def _numbered(
    table: FileStoreTable,
    split: DataSplit,
    file: SplitFile,
    plan_fields: Sequence[DataField],
    predicate: Predicate | None,
    read: ReadSplit,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with their positions in it as the last column; nothing may be skipped in the file."""
    if (
        (read.of(split) if isinstance(read, BranchRead) else read) is read_split
        and table.schema.kind.is_keyed
        and file.delete_row_count != 0
    ):
        raise UnsupportedError(f"Column {ROW_INDEX} is not there for rows of {file.name}, which may hold deletes.")
    positions = RowPositions(table, file)
    schema = pa.schema([*to_arrow_schema(plan_fields), pa.field(ROW_INDEX, pa.int64(), nullable=False)])
    for batch in read(table, split, with_filter_columns(table, plan_fields, predicate), None):
        arrays = [*batch.columns[: len(plan_fields)], pa.array(positions.take(batch.num_rows))]
        numbered = pa.RecordBatch.from_arrays(arrays, schema=schema)
        kept = numbered if predicate is None else numbered.filter(evaluate(predicate, batch))
        if kept.num_rows:
            yield kept


_PRUNING_COLUMNS = (BUCKET, FILE_PATH)


def pruned_metadata_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The metadata columns that have one value in each file; without those that a column of the table hides."""
    own = set(schema.field_names)
    return tuple(field for field in metadata_fields(schema) if field.name in _PRUNING_COLUMNS and field.name not in own)


def planned_metadata_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The metadata columns by which planning leaves out files.

    With data evolution ids of rows are among them: those of a file follow each other.
    """
    tracked = schema.kind.has_data_evolution and not schema.has_field(ROW_ID.name)
    return (*pruned_metadata_fields(schema), *((ROW_ID,) if tracked else ()))


def row_id_predicate(predicates: Sequence[Predicate]) -> Predicate | None:
    """What predicates over `planned_metadata_fields` ask of the row id alone; None for nothing."""
    of_rows = [each for each in predicates if fields(each) == {ROW_ID.name}]
    return all_of(of_rows) if of_rows else None


def file_names_of(predicates: Sequence[Predicate]) -> frozenset[str] | None:
    """The names of the files that predicates over `planned_metadata_fields` list by their paths; None for any."""
    for each in predicates:
        for part in split_and(each):
            if isinstance(part, Leaf) and part.field == FILE_PATH and part.op in ("eq", "in"):
                return frozenset(str(path).rpartition("/")[2] for path in part.literals if path is not None)
    return None


def prune_by_metadata(plan: ReadPlan, predicates: Sequence[Predicate]) -> ReadPlan:
    """The plan without files that one of the predicates over `planned_metadata_fields` rules out.

    A predicate over ids of rows and other columns rules out none.
    """
    of_rows = row_id_predicate(predicates)
    of_files = [each for each in predicates if ROW_ID.name not in fields(each)]
    if of_files:
        plan = _prune_by_files(plan, all_of(of_files))
    return _prune_by_row_ids(plan, of_rows) if of_rows is not None and plan.splits else plan


def _prune_by_row_ids(plan: ReadPlan, predicate: Predicate) -> ReadPlan:
    """The plan without groups of files whose rows have other ids."""
    groups = [(at, group) for at, split in enumerate(plan.splits) for group in groups_of_rows(split.files)]
    first = pa.array([min(file.first_row_id or 0 for file in group) for _, group in groups], pa.int64())
    last = [max((file.first_row_id or 0) + file.row_count for file in group) - 1 for _, group in groups]
    bounds = first, pa.array(last, pa.int64()), pa.nulls(len(groups), pa.int64()).fill_null(0)
    rows = pa.array([group[0].row_count for _, group in groups], pa.int64())
    kept: list[set[str]] = [set() for _ in plan.splits]
    for (at, group), wanted in zip(groups, prune_stats(predicate, {ROW_ID.name: bounds}, rows), strict=True):
        kept[at].update(file.name for file in group if wanted)
    splits = [
        replace(split, files=tuple(file for file in split.files if file.name in names))
        for split, names in zip(plan.splits, kept, strict=True)
        if names
    ]
    return replace(plan, splits=tuple(splits))


def _prune_by_files(plan: ReadPlan, predicate: Predicate) -> ReadPlan:
    """The plan without files that a predicate over `pruned_metadata_fields` rules out.

    A split whose rows are merged from several files keeps all files or none. Such rows have no file path:
    `refuse_merged_splits` refuses a read that asks for it.
    """
    pairs = [(split, file) for split in plan.splits for file in split.files]
    values = {
        BUCKET: pa.array([split.bucket for split, _ in pairs], pa.int32()),
        FILE_PATH: pa.array([file.path for _, file in pairs], pa.string()),
    }
    columns = pruned_metadata_fields(plan.schema)
    batch = pa.RecordBatch.from_arrays([values[field.name] for field in columns], schema=to_arrow_schema(columns))
    wanted = np.asarray(evaluate(predicate, batch).fill_null(False))
    splits: list[DataSplit] = []
    start = 0
    for split in plan.splits:
        mask = wanted[start : start + len(split.files)]
        start += len(split.files)
        if mask.all() or (mask.any() and not split.raw_convertible):
            splits.append(split)
        elif mask.any():
            kept = tuple(file for file, keep in zip(split.files, mask, strict=True) if keep)
            splits.append(replace(split, files=kept))
    return replace(plan, splits=tuple(splits))
