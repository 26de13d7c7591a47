"""Sections and bins: which files must be read together, by their key bounds, and how many make a split.

Equals Java's ``IntervalPartition``, ``BinPacking.packForOrdered``, ``MergeTreeSplitGenerator`` and
``AppendOnlySplitGenerator`` (docs/internals/format.md §7).

Key bounds become ranks: the smallest and largest keys of all files, of any schema, as numbers in key order.

Vectorised over all files of a plan; the order is that of `spec.key_order`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.read.split import SplitFile
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row_decoder import composite_ranks, decode_rows
from paimon_spark.spec.casts import cast_array

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField, DataType
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
