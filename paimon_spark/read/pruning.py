"""Which files a predicate can rule out: by bucket, by statistics of keys and values, by indexes, by whole buckets.

Equals Java's ``KeyValueFileStoreScan``, ``AppendOnlyFileStoreScan`` and ``BucketSelectConverter``
(docs/internals/format.md §13). Files of a primary-key table overlap, so a value predicate may rule out a file only
where no other file of its bucket can hold the same key; otherwise the bucket goes as a whole or stays as a whole.
Vectorised over all files of a plan.

The statistics are of files of many schemas at once, as in Java's ``SimpleStatsEvolution`` (docs/internals/format.md
§13): a column that the file lacks is all null; one that dense statistics leave out is unknown and rules out nothing; a
column whose type changed is used where the change keeps order.

Indexes rule out files and rows of files, as in Java's ``AppendOnlyFileStoreScan.testFileIndex`` and
``FileIndexEvaluator``. Here indexes in own files are read while the read is planned too, so that every reader is spared
the files, Spark's own as well. What an index says about rows is asked again where the file is read.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError
from paimon_spark.read.field_mapping import FieldMapping
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import DoubleType, FloatType, MapType
from paimon_spark.spec.file_index.answers import Answer, FileIndexes, may_match, tested
from paimon_spark.spec.file_index.container import IndexDamageError
from paimon_spark.spec.file_index.writer import index_settings
from paimon_spark.spec.hashing import bucket_ids
from paimon_spark.spec.predicate import Leaf, Or, Predicate, fields, split_and
from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.spec.stats import Bounds, evolve_stats
from paimon_spark.storage.store_options import redact
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.file_indexes import IndexLocation, index_location, opened

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest import SimpleStats
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.storage.file_io import FileIO
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


def bucket_groups(files: ManifestColumns) -> list[Any]:
    """Return positions of the files of each (partition, bucket), in the order in which the buckets appear.

    Each is a sequence of int: an array, since lists for a million files would take 40 MB.
    """
    known: dict[bytes, int] = {}
    keys = np.fromiter((known.setdefault(each, len(known)) for each in files.partitions), np.int64, len(files))
    keys <<= 32
    keys |= files.buckets.view(np.uint32)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.concatenate((np.zeros(min(1, len(keys)), np.int64), np.flatnonzero(keys[1:] != keys[:-1]) + 1))
    ends = np.append(starts[1:], len(keys))
    appearance = np.argsort(order[starts])
    bounds = zip(starts[appearance].tolist(), ends[appearance].tolist(), strict=True)
    return [array("q", order[start:end].tobytes()) for start, end in bounds]


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


def _layouts(files: ManifestColumns, *, keys: bool) -> Mapping[tuple[int, tuple[str, ...] | None], Sequence[int]]:
    """Return positions of the files whose statistics are laid out alike, by (schema id, dense columns)."""
    if len(files) and all(map(files.has_one_value, ("_SCHEMA_ID", "_VALUE_STATS_COLS", "_WRITE_COLS"))):
        first = files[:1]
        dense_here = None if keys else _columns_of_statistics(first)[0]
        return {(int(first.schema_ids[0]), dense_here): range(len(files))}
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
    low, high, nulls = bounds
    if len(usable) < files:
        back = np.full(files, -1, dtype=np.int64)
        back[list(usable)] = np.arange(len(usable))
        take = pa.array(back, mask=back < 0)
        low, high, nulls = (each.take(take) for each in bounds)
    silent = nulls.is_null()
    if nulls.null_count:
        low, high = (pc.if_else(silent, pa.scalar(None, each.type), each) for each in (low, high))
    return low, high, nulls


_Question = tuple[int, "Sequence[DataField]", Predicate]
"""A file by its number, its columns, a predicate over them."""

WITH_ROWS = "index leaves rows"
"""Name of the mask of files whose index leaves some rows out, or was not looked at yet."""

_MOST_FILES = 10_000
"""Index files that a plan reads at most; tasks read the others."""


def answer_of(
    file_io: FileIO,
    position: IndexLocation | None,
    columns: Sequence[DataField],
    predicate: Predicate | None,
    row_count: int,
) -> Answer:
    """Return what the indexes of one file say.

    Args:
        file_io: the store.
        position: of the indexes; None where there are none.
        columns: of the file, as its schema has them.
        predicate: over these columns; None is no condition.
        row_count: of the file.

    Raises:
        ExpiredFileError: the index file is missing.
        CorruptTableError: an index is damaged.
    """
    if position is None or predicate is None:
        return True
    types = {field.name: field.type for field in columns}
    for name, leaf in tested(predicate).items():
        of_map = types.get(leaf.field)
        if leaf.key is not None and isinstance(of_map, MapType):
            types[name] = of_map.value
    with opened(file_io, position) as container:
        wanted = tested(predicate)
        parts = [part for part in container.parts if part.column in wanted]
        if not parts:
            return True
        try:
            return FileIndexes(parts, container.read, types, row_count).answer(predicate)
        except IndexDamageError as error:
            shown = redact(position.path)
            raise CorruptTableError(f"The file index of {shown} cannot be read: {error}.", path=shown) from error


def index_masks(
    table: FileStoreTable, files: ManifestColumns, predicate: Predicate, candidates: Mask
) -> tuple[Mask, Mask]:
    """Return which files may hold matching rows, and of which the indexes leave only some rows. Runs on the driver.

    Args:
        table: with the schema of the read.
        files: of the snapshot.
        predicate: over the table's columns.
        candidates: the files that are looked at; the others are kept.

    Raises:
        CorruptTableError: an index is missing or damaged.
    """
    keep, some = np.ones(len(files), bool), np.zeros(len(files), bool)
    if not table.options.value("file-index.read.enabled") or not candidates.any():
        return keep, some
    embedded, extra = files.file_values("_EMBEDDED_FILE_INDEX"), files.file_values("_EXTRA_FILES")
    indexed = [i for i in np.flatnonzero(candidates).tolist() if embedded[i] is not None or extra[i]]
    if not indexed:
        return keep, some
    part = files.take(indexed)
    paths = DataLayout.of(table.schema).data_file_paths(table.path, part)
    positions = [index_location(embedded[i], extra[i], path) for i, path in zip(indexed, paths, strict=True)]
    counts = part.row_counts.tolist()
    questions = list(_questions(table, part.schema_ids.tolist(), positions, predicate))

    def ask(question: _Question) -> Answer:
        at, columns, of_file = question
        return answer_of(table.file_io, positions[at], columns, of_file, counts[at])

    later = [at for at, _, _ in questions if positions[at].embedded is None][_MOST_FILES:]  # type: ignore[union-attr]
    some[[indexed[at] for at in later]] = True
    asked = [question for question in questions if question[0] not in set(later)]
    with ThreadPoolExecutor(min(table.file_io.threads, max(1, len(asked)))) as pool:
        for (at, _, _), answer in zip(asked, pool.map(ask, asked), strict=True):
            keep[indexed[at]] = may_match(answer)
            some[indexed[at]] = not isinstance(answer, bool)
    return keep, some


def _questions(
    table: FileStoreTable, schema_ids: Sequence[int], positions: Sequence[IndexLocation | None], predicate: Predicate
) -> Iterator[_Question]:
    """Yield what is asked of which file: of those that may have an index of a column of the predicate."""
    groups: dict[int, list[int]] = {}
    for at, schema_id in enumerate(schema_ids):
        if positions[at] is not None:
            groups.setdefault(schema_id, []).append(at)
    partition_keys = set(table.schema.partition_keys)
    wanted = [table.schema.field(name) for name in sorted(fields(predicate) - partition_keys)]
    for schema_id, group in groups.items():
        then = table.schemas.get(schema_id)
        mapping = FieldMapping.of(then.fields, wanted, {})
        of_file = mapping.file_predicate(predicate)
        if of_file is None:
            continue
        known = _indexed_columns(table, then, mapping)
        separate = [at for at in group if positions[at].embedded is None]  # type: ignore[union-attr]
        if separate and not known & fields(of_file):
            position = positions[separate[-1]]
            assert position is not None
            with opened(table.file_io, position) as container:  # settings of a single write are in no schema
                names = {part.column for part in container.parts}
                known = names | {name.partition("[")[0] for name in names}  # of a key of a map ``column[key]``
        skipped = set() if known & fields(of_file) else set(separate)
        for at in group:
            if at not in skipped:
                yield at, then.fields, of_file


def _indexed_columns(table: FileStoreTable, then: TableSchema, mapping: FieldMapping) -> set[str]:
    """The columns of a file that options give an index: those of its schema, and those of the table now."""
    own = {setting.column for setting in index_settings(then.options)}
    now = {setting.column for setting in index_settings(table.schema.options)}
    return own | {each.source.name for each in mapping.columns if each.source is not None and each.target.name in now}
