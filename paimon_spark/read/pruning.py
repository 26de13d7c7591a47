"""Which files a predicate can rule out: by bucket, by key statistics, by value statistics, by whole buckets.

Equals Java's ``KeyValueFileStoreScan``, ``AppendOnlyFileStoreScan`` and ``BucketSelectConverter``
(docs/internals/format.md §13). Files of a primary-key table overlap, so a value predicate may rule out a file only
where no other file of its bucket can hold the same key; otherwise the bucket goes as a whole or stays as a whole.
Vectorised over all files of a plan.

Which files a predicate can rule out by their column statistics, over files of many schemas at once.

Equals Java's ``SimpleStatsEvolution`` (docs/internals/format.md §13): a column that the file lacks is all null; one
that dense statistics leave out is unknown and rules out nothing; a column whose type changed is used where the change
keeps order.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import DoubleType, FloatType
from paimon_spark.spec.hashing import bucket_ids
from paimon_spark.spec.predicate import Leaf, Or, Predicate, fields, split_and
from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.spec.stats import Bounds, evolve_stats

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest import SimpleStats
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

_MAX_KEYS = 1000
"""Most bucket keys that a predicate is expanded to (Java: ``BucketSelector.MAX_VALUES``)."""

Mask = npt.NDArray[np.bool_]

_ARITY_BYTES = 4


def bucket_mask(table: FileStoreTable, files: ManifestColumns, predicate: Predicate) -> Mask:
    """Return which files lie in a bucket that may hold rows equal to the bucket keys the predicate names."""
    keep = np.ones(len(files), dtype=bool)
    schema = table.schema
    if not schema.kind.hashes_to_buckets or not schema.bucket_keys:
        return keep
    keys = [schema.field(name) for name in schema.bucket_keys]
    if any(isinstance(key.type, FloatType | DoubleType) for key in keys):
        return keep  # 0.0 and -0.0 are equal, as are all NaN, but their hashes are not
    wanted = [_wanted_values(predicate, key.name) for key in keys]
    if any(values is None for values in wanted):
        return keep
    combinations = list(itertools.islice(itertools.product(*(values or () for values in wanted)), _MAX_KEYS + 1))
    if len(combinations) > _MAX_KEYS:
        return keep
    columns = _key_columns(keys, combinations)
    if columns is None:
        return keep
    totals, buckets = files.total_buckets, files.buckets
    same_types = _schemas_with_same_types(table, files, keys)
    function = table.options.value("bucket-function.type")
    for total in np.unique(totals[totals > 0]).tolist():
        buckets_wanted = bucket_ids(columns, [key.type for key in keys], int(total), function)
        out = (totals == total) & same_types & ~np.isin(buckets, buckets_wanted)
        keep &= ~out
    return keep


def bucket_groups(files: ManifestColumns) -> list[list[int]]:
    """Return positions of the files of each (partition, bucket), in the order in which the buckets appear."""
    groups: dict[tuple[bytes, int], list[int]] = {}
    for i, key in enumerate(zip(files.partitions, files.buckets.tolist(), strict=True)):
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _wanted_values(predicate: Predicate, name: str) -> list[Any] | None:
    """Return the values that column ``name`` may have; None when the predicate does not list them."""
    found: list[Any] | None = None
    for part in split_and(predicate):
        values = _listed_values(part, name)
        if values is not None and (found is None or len(values) < len(found)):
            found = values
    return found


def _listed_values(predicate: Predicate, name: str) -> list[Any] | None:
    match predicate:
        case Leaf() if predicate.field == name and predicate.op in ("eq", "in"):
            return [value for value in predicate.literals if value is not None]
        case Leaf() if predicate.field == name and predicate.op == "eq_null_safe":
            return list(predicate.literals)
        case Leaf() if predicate.field == name and predicate.op == "is_null":
            return [None]
        case Or():
            each = [_listed_values(child, name) for child in predicate.children]
            known = [values for values in each if values is not None]
            return [value for values in known for value in values] if len(known) == len(each) else None
    return None


def _key_columns(keys: Sequence[DataField], rows: Sequence[tuple[Any, ...]]) -> list[pa.Array] | None:
    """Return the key values as columns of the keys' types; None when a value does not fit its type."""
    try:
        return [pa.array([row[i] for row in rows], to_arrow_type(key.type)) for i, key in enumerate(keys)]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _schemas_with_same_types(table: FileStoreTable, files: ManifestColumns, keys: Sequence[DataField]) -> Mask:
    """Return which files hash their bucket keys as the table does now: those whose schema types them the same."""
    same = {}
    for schema_id in np.unique(files.schema_ids).tolist():
        then = {field.id: field.type.with_nullable(True) for field in table.schemas.get(schema_id).fields}
        same[schema_id] = all(then.get(key.id) == key.type.with_nullable(True) for key in keys)
    return np.array([same[schema_id] for schema_id in files.schema_ids.tolist()], dtype=bool)


def stats_mask(table: FileStoreTable, files: ManifestColumns, predicate: Predicate, *, keys: bool) -> Mask:
    """Return which files may hold a row for which ``predicate`` is true, by statistics.

    Args:
        table: with the schema of the read, whose column names the predicate uses.
        files: any files of the table.
        predicate: over columns of the table (over the trimmed primary key with ``keys``).
        keys: use key statistics, not value statistics.
    """
    keep = np.ones(len(files), dtype=bool)
    wanted = [table.schema.field(name) for name in sorted(fields(predicate))]
    for (schema_id, dense), positions in _layouts(files, keys=keys).items():
        then = table.schemas.get(schema_id)
        covered = _covered_fields(then, dense, keys=keys)
        at = np.array(positions, dtype=np.int64)
        stats = _statistics(files, positions, keys=keys)
        counts = pa.array(files.row_counts[at], pa.int64())
        bounds = _bounds(stats, covered, then, wanted, counts)
        keep[at] = prune_stats(predicate, bounds, counts)
    return keep


def column_bounds(table: FileStoreTable, files: ManifestColumns, names: Sequence[str]) -> dict[str, Bounds]:
    """Return (min, max, null count) of columns over files, one entry for each file; null where it is unknown.

    Args:
        table: with the schema of the read.
        files: any files of the table.
        names: of columns; one that is unknown for all files is left out.
    """
    wanted = [table.schema.field(name) for name in names]
    parts: dict[str, list[Bounds]] = {name: [] for name in names}
    order: list[int] = []
    for (schema_id, dense), positions in _layouts(files, keys=False).items() if names else ():
        then = table.schemas.get(schema_id)
        stats = _statistics(files, positions, keys=False)
        counts = pa.array(files.row_counts[np.array(positions, dtype=np.int64)], pa.int64())
        bounds = _bounds(stats, _covered_fields(then, dense, keys=False), then, wanted, counts)
        order.extend(positions)
        for field in wanted:
            nothing = pa.nulls(len(positions), to_arrow_type(field.type))
            unknown = (nothing, nothing, pa.nulls(len(positions), pa.int64()))
            parts[field.name].append(bounds.get(field.name, unknown))
    back = pa.array(np.argsort(np.array(order, dtype=np.int64)))
    return {
        name: tuple(pa.concat_arrays(arrays).take(back) for arrays in zip(*found, strict=True))
        for name, found in parts.items()
        if found
    }


def _layouts(files: ManifestColumns, *, keys: bool) -> dict[tuple[int, tuple[str, ...] | None], list[int]]:
    """Return positions of the files whose statistics are laid out alike, by (schema id, dense columns)."""
    dense = [None] * len(files) if keys else _columns_of_statistics(files)
    groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
    for i, (schema_id, names) in enumerate(zip(files.schema_ids.tolist(), dense, strict=True)):
        groups.setdefault((schema_id, None if names is None else tuple(names)), []).append(i)
    return groups


def _columns_of_statistics(files: ManifestColumns) -> list[tuple[str, ...] | None]:
    """Return the columns that each file's statistics are over, if these are not all of its schema."""
    dense, written = files.file_values("_VALUE_STATS_COLS"), files.file_values("_WRITE_COLS")
    return [columns if names is None else names for names, columns in zip(dense, written, strict=True)]


def _statistics(files: ManifestColumns, positions: Sequence[int], *, keys: bool) -> list[SimpleStats]:
    stats = files.key_stats if keys else files.value_stats
    return stats if len(positions) == len(files) else [stats[i] for i in positions]


def _covered_fields(then: TableSchema, dense: tuple[str, ...] | None, *, keys: bool) -> list[DataField]:
    """Return the file's columns that its statistics are over, in their order; empty when they are not known."""
    if keys:
        return [then.field(name) for name in then.trimmed_primary_keys]
    if dense is None:
        return list(then.fields)
    return [then.field(name) for name in dense] if all(then.has_field(name) for name in dense) else []


def _bounds(
    stats: Sequence[SimpleStats],
    covered: Sequence[DataField],
    then: TableSchema,
    wanted: Sequence[DataField],
    counts: pa.Array,
) -> Mapping[str, Bounds]:
    """Return (min, max, null count) of the wanted columns over the files; a column that is unknown is not there."""
    there = {field.id for field in then.fields}
    lacking = [field for field in wanted if field.id not in there]
    arity = len(covered).to_bytes(_ARITY_BYTES, "big")
    usable = [
        i
        for i, each in enumerate(stats)
        if each.min_values[:_ARITY_BYTES] == arity and len(each.null_counts) == len(covered)
    ]
    result: dict[str, Bounds] = {}
    if usable and covered:
        chosen_stats = [stats[i] for i in usable]
        fields_of_file, names = list(then.fields), [field.name for field in covered]
        known = [field for field in wanted if field.id in there]
        evolved = evolve_stats(chosen_stats, counts.take(pa.array(usable)), fields_of_file, known, stats_cols=names)
        result = {name: _spread(bounds, usable, len(stats)) for name, bounds in evolved.items()}
    for field in lacking:
        nothing = pa.nulls(len(counts), to_arrow_type(field.type))
        result[field.name] = (nothing, nothing, counts)
    return result


def _spread(bounds: Bounds, usable: Sequence[int], files: int) -> Bounds:
    """Return bounds of some of the files as those of all: null where a file does not show, or not of its nulls."""
    back = np.full(files, -1, dtype=np.int64)
    back[list(usable)] = np.arange(len(usable))
    take = pa.array(back, mask=back < 0)
    low, high, nulls = (each.take(take) for each in bounds)
    silent = nulls.is_null()
    if nulls.null_count:
        low, high = (pc.if_else(silent, pa.scalar(None, each.type), each) for each in (low, high))
    return low, high, nulls
