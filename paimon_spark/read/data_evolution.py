"""Files of tables with data evolution that hold columns of the same rows, found by their row ids.

A row's columns may lie in several files: each file names its columns (``_WRITE_COLS``), and of a column that several
files hold, the newest file counts. Equals Java's ``DataEvolutionSplitGenerator``, ``DataEvolutionFileStoreScan`` and
``DataEvolutionSplitRead.splitFieldBunches`` (docs/internals/format.md §12). Planning runs on the driver; no file is
opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError
from paimon_spark.read.pruning import index_masks, stats_mask
from paimon_spark.spec.file_names import is_blob_file, is_vector_file
from paimon_spark.spec.predicate import Predicate, fields, split_and

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

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
