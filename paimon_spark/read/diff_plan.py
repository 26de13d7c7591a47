"""Which files tell the difference of two states of a table.

Equals Java's ``SnapshotReaderImpl.readIncrementalDiff``: files that both states have are left out. Where a row is put
together from several files (any engine but deduplicate and first-row), those that touch changed ones stay: without
them Java gives rows that lack what the common files hold. Where partitions were rescaled, which Java refuses, all
buckets of the partition are compared at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.read.data_evolution import row_range_groups
from paimon_spark.read.file_scan import scan_files
from paimon_spark.read.key_ranks import key_ranks
from paimon_spark.read.sections import sections_of
from paimon_spark.read.split import DiffSplit, SplitFile
from paimon_spark.read.split_generator import split_files
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.predicate import Predicate, implied_by
from paimon_spark.table.deletion_vectors import NO_VECTORS, VectorLocation, Vectors, vectors_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

Identity = tuple[bytes, int, str, int, int | VectorLocation]


def files_of_state(table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None) -> ManifestColumns:
    """Return the files of one of two states that are compared.

    Only what is the same in both states of a row may rule out files: its partition and its primary key; in a table
    without keys the whole predicate may, since there only whole files differ.
    """
    schema = table.schema
    if schema.kind.is_keyed:
        predicate = implied_by(predicate, [*schema.partition_keys, *schema.trimmed_primary_keys])
    files = scan_files(table, snapshot, predicate)
    return files.filter(files.buckets != POSTPONE_BUCKET)


def only_in_later(table: FileStoreTable, before: ManifestColumns, after: ManifestColumns) -> ManifestColumns:
    """Return the files that only the later state has; with data evolution all files of their rows."""
    known = set(_identities(before))
    new = np.array([identity not in known for identity in _identities(after)], dtype=bool)
    if table.schema.kind.has_data_evolution:
        for group in row_range_groups(after.file_values("_FIRST_ROW_ID"), after.row_counts.tolist()):
            new[group] = new[group].any()
    return after.filter(new)


def diff_splits(
    table: FileStoreTable, before: Snapshot | None, after: Snapshot, predicate: Predicate | None
) -> list[DiffSplit]:
    """Pair the files of two states of a primary-key table, bucket by bucket. Runs on the driver.

    Args:
        table: with the schema of the read.
        before: the earlier state; None is an empty table.
        after: the later state.
        predicate: over the table's columns.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read.
    """
    earlier = ManifestColumns.concat(()) if before is None else files_of_state(table, before, predicate)
    later = files_of_state(table, after, predicate)
    states = [(earlier, vectors_of(table, before)), (later, vectors_of(table, after))]
    common = set(_identities(*states[0])) & set(_identities(*states[1]))
    sides = [_by_partition(table, files, vectors, common) for files, vectors in states]
    result = []
    for partition in dict.fromkeys([*sides[0], *sides[1]]):
        old, new = (side.get(partition, {}) for side in sides)
        for buckets in _compared_together(old, new):
            parts = [[(number, side[number]) for number in buckets if number in side] for side in (old, new)]
            split = _split(table, partition, after.id, parts[0], parts[1])
            if split is not None:
                result.append(split)
    return result


_ComparedFile = tuple[SplitFile, bool, int]
"""A file, whether both states have it, and the bucket count it was written with."""


def _by_partition(
    table: FileStoreTable, files: ManifestColumns, vectors: Vectors, common: set[Identity]
) -> dict[bytes, dict[int, list[_ComparedFile]]]:
    result: dict[bytes, dict[int, list[_ComparedFile]]] = {}
    paths, identities = split_files(table, files, vectors), _identities(files, vectors)
    compared_files = zip(paths, identities, files.buckets.tolist(), files.total_buckets.tolist(), strict=True)
    for file, identity, bucket, total in compared_files:
        found = result.setdefault(identity[0], {}).setdefault(bucket, [])
        found.append((file, identity in common, total))
    return result


def _compared_together(old: dict[int, list[_ComparedFile]], new: dict[int, list[_ComparedFile]]) -> list[list[int]]:
    """Buckets of a partition that may hold the same keys: each alone, or all where their number has changed."""
    everywhere = list(dict.fromkeys([*old, *new]))
    totals = {total for side in (old, new) for files in side.values() for _, _, total in files if total > 0}
    return [everywhere] if len(totals) > 1 else [[number] for number in everywhere]


def _split(
    table: FileStoreTable,
    partition: bytes,
    snapshot_id: int,
    old: Sequence[tuple[int, list[_ComparedFile]]],
    new: Sequence[tuple[int, list[_ComparedFile]]],
) -> DiffSplit | None:
    every = [compared_files for _, files in (*old, *new) for compared_files in files]
    kept = _needed(table, every)
    if not any(kept):
        return None
    chosen: list[SplitFile] = []
    counts: list[list[int]] = []
    position = 0
    for side in (old, new):
        counts.append([])
        for _, files in side:
            here = [file for (file, _, _), keep in zip(files, kept[position:], strict=False) if keep]
            position += len(files)
            counts[-1].append(len(here))
            chosen += here
    bucket, total = (new or old)[0][0], every[-1][2]
    return DiffSplit(snapshot_id, partition, bucket, total, tuple(chosen), False, None, *map(tuple, counts))


def _needed(table: FileStoreTable, files: Sequence[_ComparedFile]) -> npt.NDArray[np.bool_]:
    """Which files must be read: those that one state has; and with engines that put rows together, those they touch."""
    alone = np.array([not common for _, common, _ in files], dtype=bool)
    if table.options.one_row_wins or alone.all() or not alone.any():
        return alone
    plain = [file for file, _, _ in files]
    low, high = key_ranks(table, [f.min_key for f in plain], [f.max_key for f in plain], [f.schema_id for f in plain])
    locations: dict[int, list[int]] = {}
    for location, file in enumerate(plain):
        locations.setdefault(id(file), []).append(location)
    for section in sections_of(plain, low, high):
        inside = [location for file in section for location in locations[id(file)]]
        alone[inside] = bool(alone[inside].any())
    return alone


def _identities(files: ManifestColumns, vectors: Vectors = NO_VECTORS) -> list[Identity]:
    """What distinguishes files: partition, bucket, name, level, and how many rows a vector deletes of it.

    Java does not look at vectors: rows of a file that both states have, and that only the later one deletes, are not
    seen there.
    """
    keys = list(zip(files.partitions, files.buckets.tolist(), files.file_names, strict=True))
    locations = map(vectors.get, keys)
    deleted = (0 if location is None else (location.cardinality or location) for location in locations)
    return [(*key, level, rows) for key, level, rows in zip(keys, files.levels.tolist(), deleted, strict=True)]
