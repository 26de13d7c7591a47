"""``files`` and ``file_key_ranges``: the data files of one version, one row each.

Equal Java's ``FilesTable`` and ``FileKeyRangesTable``. Rows are made for some files at a time, so that memory holds
little more than the rows. Statistics are in the columns of the table as it is read (Java ``SimpleStatsEvolution``):
columns are matched by field id, a column that a file lacks is all null, values of an older type are cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.casts import cast_array
from paimon_spark.spec.data_types import ArrayType, IntType
from paimon_spark.spec.file_names import data_file_format
from paimon_spark.spec.manifest import FileSource
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER
from paimon_spark.table.system.definition import (
    LONG,
    STRING,
    TIME,
    Found,
    key_texts,
    map_texts,
    object_texts,
    partition_names,
    partition_texts,
    required,
    system_table,
    table_of,
)
from paimon_spark.table.time_travel import travel
from paimon_spark.table.two_branches import partitions_with_files, two_branches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.manifest import SimpleStats
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.data_layout import DataLayout
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.table.two_branches import BranchState

    Rows = Callable[["LiveFiles", ManifestColumns, Sequence[int]], Mapping[str, Any]]

_ARITY_BYTES = 4

Texts = tuple[pa.Array, pa.Array, pa.Array]
"""Null count, minimum and maximum of one column for several files, as texts."""


def value_stats_texts(table: FileStoreTable, files: ManifestColumns) -> Texts:
    """Null counts, minima and maxima of all columns of the table: ``{a=1, b=null}`` per file."""
    parts: list[Texts] = []
    order: list[int] = []
    for (schema_id, names), at in _layouts(files).items():
        then = table.schemas.get(schema_id)
        stats = [files.value_stats[i] for i in at]
        counts = pa.array(files.row_counts[np.array(at, dtype=np.int64)], pa.int64())
        columns = _columns(then, names, stats, counts, table.schema.fields)
        parts.append(tuple(map_texts([(n, t[k]) for n, t in columns.items()], len(at)) for k in range(3)))
        order += at
    if not parts:
        nothing = pa.array([], pa.string())
        return nothing, nothing, nothing
    back = pa.array(np.argsort(np.array(order, dtype=np.int64)))
    nulls, minima, maxima = (pa.concat_arrays([part[k] for part in parts]).take(back) for k in range(3))
    return nulls, minima, maxima


def _layouts(files: ManifestColumns) -> dict[tuple[int, tuple[str, ...] | None], list[int]]:
    """Positions of the files by schema and by the columns that their statistics cover."""
    groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
    named = zip(files.file_values("_VALUE_STATS_COLS"), files.file_values("_WRITE_COLS"), strict=True)
    for i, (schema_id, (dense, written)) in enumerate(zip(files.schema_ids.tolist(), named, strict=True)):
        names = written if dense is None else dense
        groups.setdefault((schema_id, None if names is None else tuple(names)), []).append(i)
    return groups


def _columns(
    then: TableSchema,
    names: tuple[str, ...] | None,
    stats: Sequence[SimpleStats],
    counts: pa.Array,
    wanted: Sequence[DataField],
) -> dict[str, Texts]:
    known = {field.name: field for field in (*then.fields, ROW_ID, SEQUENCE_NUMBER)}
    covered = list(then.fields) if names is None else [known[name] for name in names if name in known]
    arity = len(covered).to_bytes(_ARITY_BYTES, "big")
    usable = [
        i
        for i, each in enumerate(stats)
        if each.min_values[:_ARITY_BYTES] == arity and len(each.null_counts) == len(covered)
    ]
    location = {field.id: i for i, field in enumerate(covered)}
    there = {field.id for field in then.fields}
    unknown = pa.nulls(len(stats), pa.string())
    shown = [field for field in wanted if field.id in location] if usable else []
    texts = iter(_decoded(covered, [location[field.id] for field in shown], [stats[i] for i in usable], shown))
    found: dict[str, Texts] = {}
    for field in wanted:
        if field.id not in there:
            found[field.name] = (pc.cast(counts, pa.string()), unknown, unknown)
        elif field.id in location and usable:
            found[field.name] = _spread(next(texts), usable, len(stats))
        else:
            found[field.name] = (unknown, unknown, unknown)
    return found


def _decoded(
    covered: Sequence[DataField], at: Sequence[int], stats: Sequence[SimpleStats], targets: Sequence[DataField]
) -> Iterator[Texts]:
    """Yield the texts of the columns at positions of the statistics, each in the type of its target."""
    types = [field.type.with_nullable(True) for field in covered]
    low = decode_rows([each.min_values for each in stats], types, serialized=True, fields=at)
    high = decode_rows([each.max_values for each in stats], types, serialized=True, fields=at)
    for position, target, *bounds in zip(at, targets, low, high, strict=True):
        nulls = pa.array([each.null_counts[position] for each in stats], pa.int64())
        minimum, maximum = (_shown(bound, types[position], target.type.with_nullable(True)) for bound in bounds)
        yield pc.cast(nulls, pa.string()), minimum, maximum


def _shown(bounds: pa.Array, data_type: DataType, wanted: DataType) -> pa.Array:
    try:
        return object_texts(bounds if data_type == wanted else cast_array(bounds, data_type, wanted), wanted)
    except DataError:  # a text that is no value of the new type: nothing is known
        return pa.nulls(len(bounds), pa.string())


def _spread(texts: Texts, at: Sequence[int], count: int) -> Texts:
    """Texts of some files as those of all, the others null."""
    if len(at) == count:
        return texts
    back = np.full(count, -1, dtype=np.int64)
    back[list(at)] = np.arange(len(at))
    take = pa.array(back, mask=back < 0)
    return texts[0].take(take), texts[1].take(take), texts[2].take(take)


class LiveFiles:
    """The live files of one version of one branch, of every level.

    Partitions are numbered in the order in which their first file appears.
    """

    def __init__(self, state: BranchState) -> None:
        self.table, self.snapshot = state
        self.texts: list[str] = []
        """Each partition as ``{2024-01-01, a}``."""
        self.names: list[str] = []
        """Each partition as ``dt=2024-01-01/hh=1``."""
        self._numbers: dict[bytes, int] = {}
        self._directories: dict[tuple[bytes, int], str] = {}

    @property
    def partitions(self) -> list[bytes]:
        """The bytes of each partition."""
        return list(self._numbers)

    def chunks(self) -> Iterator[ManifestColumns]:
        """Yield the files in the order of the manifests, with those of the postpone bucket (``bucket`` = -2)."""
        if self.snapshot is not None:
            yield from self.table.manifests.live_chunks(self.snapshot)

    def chunks_in_buckets(self) -> Iterator[ManifestColumns]:
        """Yield the files without those of the postpone bucket, as in Java."""
        for chunk in self.chunks():
            yield chunk.filter(chunk.buckets >= 0)

    def partition_numbers(self, partitions: Sequence[bytes]) -> list[int]:
        """Number partitions; new ones get their texts and names."""
        new = [partition for partition in dict.fromkeys(partitions) if partition not in self._numbers]
        if new:
            self._numbers |= {partition: len(self._numbers) + i for i, partition in enumerate(new)}
            self.texts += partition_texts(self.table, new).to_pylist()
            self.names += partition_names(self.table, new)
        return [self._numbers[partition] for partition in partitions]

    def by_name(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The rank of each partition's name among all."""
        ranks = np.empty(len(self.names), dtype=np.int64)
        ranks[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        return ranks

    def paths(self, files: ManifestColumns) -> list[str]:
        """The path of each file.

        Raises:
            CorruptTableError: a file's name or external path leads out of where the table's files may lie.
        """
        layout = self._layout
        return [
            layout.data_file_path(self._directory(partition, bucket), name, external)
            for partition, bucket, name, external in zip(
                files.partitions,
                files.buckets.tolist(),
                files.file_names,
                files.file_values("_EXTERNAL_PATH"),
                strict=True,
            )
        ]

    def key_texts(self, files: ManifestColumns, key: str) -> pa.Array:
        """Least or greatest keys (``_MIN_KEY``, ``_MAX_KEY``) as ``[1, a]``; null of files without keys."""
        rows = files.file_values(key)
        texts = np.full(len(files), None, dtype=object)
        for schema_id in np.unique(files.schema_ids).tolist():
            schema = self.table.schemas.get(schema_id)
            types = [schema.field(name).type for name in schema.trimmed_primary_keys]
            arity = len(types).to_bytes(_ARITY_BYTES, "big")
            at = [i for i in np.flatnonzero(files.schema_ids == schema_id) if rows[i][:_ARITY_BYTES] == arity]
            if types and at:
                keys = decode_rows([rows[i] for i in at], types, serialized=True)
                texts[at] = key_texts(keys, types, len(at)).to_numpy(zero_copy_only=False)
        return pa.array(texts, pa.string())

    @property
    def _layout(self) -> DataLayout:
        layout = self.table.paths.layout
        assert layout is not None
        return layout

    def _directory(self, partition: bytes, bucket: int) -> str:
        found = self._directories.get((partition, bucket))
        if found is None:
            found = self.table.paths.bucket_dir(self.table.paths.partition_path(partition), bucket)
            self._directories[partition, bucket] = found
        return found


def own_files(table: FileStoreTable) -> LiveFiles:
    """The files of the version that a table's scan options name, of its own branch alone.

    Raises:
        SnapshotNotFoundError: there is no such version.
    """
    return LiveFiles(travel(table))


def partition_sources(table: FileStoreTable) -> list[LiveFiles]:
    """Where a read takes partitions from: a partition that the first has is not taken from the second.

    Raises:
        SnapshotNotFoundError: there is no such version.
        PaimonError: the branches that are read have not the same columns.
    """
    own = travel(table)
    both = two_branches(*own)
    return [LiveFiles(state) for state in ((own,) if both is None else (both.first, both.second))]


def files_shown(table: FileStoreTable) -> Iterator[tuple[LiveFiles, ManifestColumns]]:
    """Yield the files in buckets that tables of files show, some at a time.

    They are those of the partitions that the table's own branch has; where a read takes such a partition from another
    branch that comes first (`scan.primary-branch`), those of that branch, as in Java.

    Raises:
        SnapshotNotFoundError: there is no such version.
        PaimonError: the branches that are read have not the same columns.
    """
    own = travel(table)
    both = two_branches(*own)
    if both is None or both.own_first:
        live = LiveFiles(own)
        for files in live.chunks_in_buckets():
            yield live, files
        return
    mine, theirs = partitions_with_files(both.own), partitions_with_files(both.other)
    for state, wanted in ((both.other, mine & theirs), (both.own, mine - theirs)):
        live = LiveFiles(state)
        for files in live.chunks_in_buckets():
            yield live, files.filter(np.array([partition in wanted for partition in files.partitions], dtype=bool))


def wall_clock(millis: Sequence[int | None] | pa.Array) -> pa.Array:
    """Creation times of files, which are wall clock times already."""
    values = millis if isinstance(millis, pa.Array) else pa.array(millis, pa.int64())
    return values.view(pa.timestamp("ms"))


_COMMON_TYPES: dict[str, DataType] = {
    "partition": STRING,
    "bucket": required(IntType()),
    "file_path": required(STRING),
    "file_format": required(STRING),
    "schema_id": required(LONG),
    "level": required(IntType()),
    "record_count": required(LONG),
    "file_size_in_bytes": required(LONG),
    "min_key": STRING,
    "max_key": STRING,
}
"""The first columns of both tables."""
_SOURCES: dict[int | None, str | None] = {None: None, **{source.value: source.name for source in FileSource}}


def _key_ranges(live: LiveFiles, files: ManifestColumns, numbers: Sequence[int]) -> dict[str, Any]:
    return {
        "partition": [live.texts[number] for number in numbers],
        "bucket": pa.array(files.buckets),
        "file_path": live.paths(files),
        "file_format": [data_file_format(name) for name in files.file_names],
        "schema_id": pa.array(files.schema_ids),
        "level": pa.array(files.levels),
        "record_count": pa.array(files.row_counts),
        "file_size_in_bytes": pa.array(files.file_sizes),
        "min_key": live.key_texts(files, "_MIN_KEY"),
        "max_key": live.key_texts(files, "_MAX_KEY"),
        "first_row_id": files.file_values("_FIRST_ROW_ID"),
    }


def _all_columns(live: LiveFiles, files: ManifestColumns, numbers: Sequence[int]) -> dict[str, Any]:
    nulls, minima, maxima = value_stats_texts(live.table, files)
    return {
        **_key_ranges(live, files, numbers),
        "null_value_counts": nulls,
        "min_value_stats": minima,
        "max_value_stats": maxima,
        "min_sequence_number": files.file_values("_MIN_SEQUENCE_NUMBER"),
        "max_sequence_number": files.file_values("_MAX_SEQUENCE_NUMBER"),
        "creation_time": wall_clock(files.file_values("_CREATION_TIME")),
        "deleteRowCount": files.file_values("_DELETE_ROW_COUNT"),
        "file_source": [_SOURCES[source] for source in files.file_values("_FILE_SOURCE")],
        "write_cols": files.file_values("_WRITE_COLS"),
    }


def _by_bucket(table: FileStoreTable, fields: Sequence[DataField], rows: Rows) -> pa.Table:
    """Rows of the living files, by partition and bucket."""
    parts = [table_of(fields, {field.name: [] for field in fields})]
    names: list[str] = []
    buckets: list[int] = []
    for live, files in files_shown(table):
        of_these = live.partition_numbers(files.partitions)
        parts.append(table_of(fields, rows(live, files, of_these)))
        names += [live.names[number] for number in of_these]
        buckets += files.buckets.tolist()
    found = pa.concat_tables(parts)
    ranks = {name: rank for rank, name in enumerate(sorted(set(names)))}
    locations = np.array([ranks[name] for name in names], dtype=np.int64)
    order = np.lexsort((np.array(buckets, dtype=np.int64), locations))
    return found if (np.diff(order) == 1).all() else found.take(order)


@system_table(
    "files",
    **_COMMON_TYPES,
    null_value_counts=required(STRING),
    min_value_stats=required(STRING),
    max_value_stats=required(STRING),
    min_sequence_number=LONG,
    max_sequence_number=LONG,
    creation_time=TIME,
    deleteRowCount=LONG,
    file_source=STRING,
    first_row_id=LONG,
    write_cols=ArrayType(element=STRING),
)
def _files(table: FileStoreTable) -> Found:
    """The living files, with all that manifests say of them."""
    return _by_bucket(table, _files.fields, _all_columns)


@system_table("file_key_ranges", **_COMMON_TYPES, first_row_id=LONG)
def _file_key_ranges(table: FileStoreTable) -> Found:
    """The living files with their keys."""
    return _by_bucket(table, _file_key_ranges.fields, _key_ranges)
