"""Which files must be read together: those whose keys overlap, or that hold columns of the same rows; and bins of them.

Equals Java's ``IntervalPartition``, ``BinPacking.packForOrdered``, ``MergeTreeSplitGenerator`` and
``AppendOnlySplitGenerator`` (docs/internals/format.md §7). Key bounds become ranks: the smallest and largest keys of
all files, of any schema, as numbers in key order. Vectorised over all files of a plan; the order is that of
`spec.binary_row_decoder`. Bins say how many sections make a split.

With data evolution a row's columns may lie in several files, found by their row ids: each file names its columns
(``_WRITE_COLS``), and of a column that several files hold, the newest file counts. Equals Java's
``DataEvolutionSplitGenerator``, ``DataEvolutionFileStoreScan`` and ``DataEvolutionSplitRead.splitFieldBunches``
(docs/internals/format.md §12). Planning runs on the driver; no file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import CorruptTableError
from paimon_spark.read.pruning import index_masks, stats_mask
from paimon_spark.read.split import SplitFile
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row_decoder import composite_ranks, decode_rows
from paimon_spark.spec.casts import cast_array
from paimon_spark.spec.file_names import is_blob_file, is_vector_file
from paimon_spark.spec.predicate import Predicate, fields, split_and

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

T = TypeVar("T")


def pack_ordered(items: Iterable[T], weight: Callable[[T], int], target: int) -> list[list[T]]:
    """Cut ``items`` into runs whose weights stay within ``target`` where they can, keeping the order."""
    bins: list[list[T]] = []
    current: list[T] = []
    filled = 0
    for item in items:
        heavy = weight(item)
        if current and filled + heavy > target:
            bins.append(current)
            current, filled = [], 0
        current.append(item)
        filled += heavy
    if current:
        bins.append(current)
    return bins


def sections_of(files: Sequence[T], low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> list[list[T]]:
    """Group files whose key ranges touch, directly or through others; groups in ascending key order.

    Args:
        files: of one bucket, or what stands for them.
        low: rank of each file's smallest key among all the keys; equal keys have equal ranks.
        high: rank of each file's largest key.
    """
    order = np.lexsort((high, low))
    bounds = np.maximum.accumulate(high[order])
    starts = np.concatenate(([True], low[order][1:] > bounds[:-1])) if len(order) else np.array([], dtype=bool)
    sections: list[list[T]] = []
    for index, first in zip(order.tolist(), starts.tolist(), strict=True):
        if first:
            sections.append([])
        sections[-1].append(files[index])
    return sections


def runs_of(section: Sequence[SplitFile]) -> list[list[SplitFile]]:
    """Cut a section into sorted runs, oldest first: the levels from the highest down, then each file of level 0.

    Rows of one key and one sequence number, of writers that did not see each other, are as new as their run. So files
    of level 0 with common sequence numbers go by the order of their commits (`CommitOrder` stamps it on them): whatever
    a compaction has raised meanwhile was committed before what is still at level 0. Java: any order.

    Args:
        section: in ascending order of the smallest keys, so that the files of one level are in key order.
    """
    levels: dict[int, list[SplitFile]] = {}
    for file in section:
        if file.level > 0:
            levels.setdefault(file.level, []).append(file)
    newest = sorted((file for file in section if file.level == 0), key=lambda f: (f.max_seq, f.min_seq, f.name))
    if any(older.max_seq >= newer.min_seq for older, newer in pairwise(newest)):
        newest.sort(key=lambda file: file.created_millis)
    return [levels[level] for level in sorted(levels, reverse=True)] + [[file] for file in newest]


def has_no_deletes(file: SplitFile) -> bool:
    """Return whether the file holds no retract rows; an unknown count (old files) counts as none, as in Java."""
    return not file.delete_row_count


def is_raw_bucket(files: Sequence[SplitFile], *, one_row_per_key: bool = False) -> bool:
    """Return whether the files of a primary-key bucket can be read one by one: one level above 0, no deletes.

    Args:
        files: of the bucket.
        one_row_per_key: above level 0 no two rows have one key, since vectors delete the older one or since no newer
            one is written (first-row): several levels do as well.
    """
    levels = {file.level for file in files}
    return (one_row_per_key or len(levels) == 1) and 0 not in levels and all(map(has_no_deletes, files))


Runs = list[list["SplitFile"]]


def sections_with_runs(table: FileStoreTable, files: Sequence[SplitFile]) -> Iterator[Runs]:
    """Yield the sorted runs, oldest first, of each section of a bucket's files, in ascending key order."""
    low, high = key_ranks(table, [f.min_key for f in files], [f.max_key for f in files], [f.schema_id for f in files])
    return map(runs_of, sections_of(files, low, high))


def has_one_row_per_key(runs: Runs) -> bool:
    """Return whether each row of a section is a row of the table: one sorted run, which surely holds no deletes."""
    return len(runs) == 1 and all(file.delete_row_count == 0 for file in runs[0])


def is_unmerged(table: FileStoreTable, split: DataSplit) -> bool:
    """Return whether each row of a split's files is a row of the table, if the files surely hold no deletes."""
    return split.raw_convertible or all(map(has_one_row_per_key, sections_with_runs(table, split.files)))


def key_ranks(
    table: FileStoreTable, low: Sequence[bytes], high: Sequence[bytes], schema_ids: Sequence[int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the ranks of smallest and largest keys among all of them; equal keys have equal ranks.

    Args:
        table: whose trimmed primary key the bytes hold.
        low: serialized smallest key of each file.
        high: serialized largest key of each file.
        schema_ids: the schema that each file was written with, whose key types its bytes have.
    """
    keys = [table.schema.field(name) for name in table.schema.trimmed_primary_keys]
    ids = np.asarray(list(schema_ids) * 2, dtype=np.int64)
    rows = [*low, *high]
    columns: list[list[pa.Array]] = [[] for _ in keys]
    positions: list[npt.NDArray[np.int64]] = []
    for schema_id in np.unique(ids).tolist():
        at = np.flatnonzero(ids == schema_id)
        positions.append(at)
        then = {field.id: field.type for field in table.schemas.get(schema_id).fields}
        types = [then.get(key.id, key.type) for key in keys]
        decoded = decode_rows([rows[i] for i in at.tolist()], types, serialized=True)
        for column, key, array, old_type in zip(columns, keys, decoded, types, strict=True):
            column.append(_as_type(array, old_type, key))
    order = np.argsort(np.concatenate(positions), kind="stable")
    ranks = composite_ranks([_concat(column).take(pa.array(order)) for column in columns])
    return ranks[: len(low)], ranks[len(low) :]


def _as_type(array: pa.Array, old_type: DataType, key: DataField) -> pa.Array:
    if old_type.with_nullable(True) != key.type.with_nullable(True):
        array = cast_array(array, old_type, key.type)
    return array.cast(to_arrow_type(key.type))


def _concat(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


Mask = npt.NDArray[np.bool_]


def row_range_groups(first_row_ids: Sequence[int | None], row_counts: Sequence[int]) -> list[list[int]]:
    """Return the positions of files whose ranges of row ids overlap, in the order of row ids.

    Raises:
        CorruptTableError: a file has no row ids.
    """
    if any(first is None for first in first_row_ids):
        raise CorruptTableError("A data file of a table with data evolution has no first row id.")
    first = np.array(first_row_ids, dtype=np.int64)
    if not len(first):
        return []
    end = first + np.array(row_counts, dtype=np.int64)
    order = np.argsort(first, kind="stable")
    reached = np.maximum.accumulate(end[order])
    starts = np.flatnonzero(first[order][1:] >= reached[:-1]) + 1
    return [part.tolist() for part in np.split(order, starts)]


def groups_of_rows(files: Sequence[SplitFile]) -> list[list[SplitFile]]:
    """Return the files of a bucket that hold columns of the same rows, in the order of row ids; see `newest_first`.

    Raises:
        CorruptTableError: a file has no row ids.
    """
    groups = row_range_groups([file.first_row_id for file in files], [file.row_count for file in files])
    return [newest_first([files[i] for i in group]) for group in groups]


def newest_first(group: Iterable[SplitFile]) -> list[SplitFile]:
    """Return the files of a group in the order in which their columns count: the newest data file first, blobs last.

    The deletion vector of the group, which its oldest file has, goes for each of them.
    """
    ordered = sorted(group, key=lambda file: (holds_part(file.name), -file.max_seq))
    vector = next((file.deletion_vector for file in ordered if file.deletion_vector is not None), None)
    return ordered if vector is None else [file._replace(deletion_vector=vector) for file in ordered]


def anchor_of(group: Sequence[SplitFile]) -> SplitFile:
    """Return the oldest file of a group, which has all its rows and their deletion vector."""
    return min((file for file in group if not holds_part(file.name)), key=lambda file: file.max_seq)


def holds_part(name: str) -> bool:
    """Whether a file may hold some of the rows of its group only."""
    return is_blob_file(name) or is_vector_file(name)


def columns_of(schema: TableSchema, write_cols: Sequence[str] | None) -> tuple[DataField, ...]:
    """Return the columns that a file of a schema holds."""
    if write_cols is None:
        return schema.fields
    names = set(write_cols)
    return tuple(field for field in schema.fields if field.name in names)


def anchor_mask(files: ManifestColumns) -> Mask:
    """Return the oldest file of each group of rows, which is the one that a deletion vector names."""
    names, sequences = files.file_names, files.file_values("_MAX_SEQUENCE_NUMBER")
    mask = np.zeros(len(files), dtype=bool)
    for group in row_range_groups(files.file_values("_FIRST_ROW_ID"), files.row_counts.tolist()):
        whole = [i for i in group if not holds_part(names[i])]
        mask[min(whole, key=lambda i: sequences[i])] = True
    return mask


def data_evolution_mask(table: FileStoreTable, files: ManifestColumns, predicate: Predicate) -> Mask:
    """Return which files may hold columns of a row for which the predicate is true: whole groups.

    A conjunct rules a group out where one file is the newest for all its columns, and that file's statistics or indexes
    do.
    """
    keep = np.ones(len(files), dtype=bool)
    schema_ids, write_cols = files.schema_ids.tolist(), files.file_values("_WRITE_COLS")
    names, sequences = files.file_names, files.file_values("_MAX_SEQUENCE_NUMBER")
    held = [
        {field.id for field in columns_of(table.schemas.get(schema_id), columns)}
        for schema_id, columns in zip(schema_ids, write_cols, strict=True)
    ]
    groups = row_range_groups(files.file_values("_FIRST_ROW_ID"), files.row_counts.tolist())
    for conjunct in split_and(predicate):
        wanted = {table.schema.field(name).id for name in fields(conjunct)}
        may_match = stats_mask(table, files, conjunct, keys=False)
        deciding: list[tuple[int, list[int]]] = []
        for group in groups:
            holders = [i for i in group if held[i] & wanted]
            newest = max(holders, key=lambda i: sequences[i], default=None)
            if newest is None or not held[newest] >= wanted or holds_part(names[newest]):
                continue
            if sum(sequences[i] == sequences[newest] for i in holders) == 1:
                deciding.append((newest, group))
        asked = np.zeros(len(files), dtype=bool)
        asked[[newest for newest, group in deciding if keep[group[0]] and may_match[newest]]] = True
        may_match &= index_masks(table, files, conjunct, asked)[0]
        for newest, group in deciding:
            if not may_match[newest]:
                keep[group] = False
    return keep
