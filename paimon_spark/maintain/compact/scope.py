"""Which partitions and buckets a compaction looks at, and their deletion vectors.

The vectors are as the snapshot has them, and as each step leaves them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.commit.overwrite import PartitionScope
from paimon_spark.errors import OptionError
from paimon_spark.maintain.compact.step import BucketFiles, small_file_bytes
from paimon_spark.options import OPTIONS
from paimon_spark.spec.deletion_vector import positions_of
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, FileKind, IndexManifestEntry
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.deletion_vectors import FileKey, Vectors, deleted_rows, vector_locations, vectors_of
from paimon_spark.table.partitions import range_predicate, time_of_partition
from paimon_spark.write.deletion_vectors import DeletedRows, changed_vectors, delete_index_files

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class CompactScope:
    """Which part of a table is compacted; all of it by default."""

    partitions: Predicate | None = None
    """Over partition columns; None is every partition."""
    buckets: frozenset[int] | None = None
    """None is every bucket."""
    idle_time: timedelta | None = None
    """Only partitions that got their newest file at least so long ago."""
    locations: frozenset[tuple[bytes, int]] | None = None
    """Only these pairs of partition (serialized) and bucket; None is all."""

    def bucket_files(self, table: FileStoreTable, snapshot: Snapshot, *, only_small: bool = True) -> list[BucketFiles]:
        """Return the live files that may be compacted, bucket by bucket. Runs on the driver.

        Args:
            table: with dynamic options.
            snapshot: its files.
            only_small: of a table without buckets take only small files, and those with many deleted rows.

        Raises:
            CorruptTableError: a manifest is missing or cannot be read.
        """
        near = self.partitions
        if near is None and self.locations is not None:
            near = range_predicate(table, {partition for partition, _ in self.locations})
        live = table.manifests.live_columns(snapshot, predicate=near)
        live = live.filter(live.buckets != POSTPONE_BUCKET)
        if self.buckets is not None:
            live = live.filter(np.isin(live.buckets, list(self.buckets)))
        if self.locations is not None:
            locations = zip(live.partitions, live.buckets.tolist(), strict=True)
            live = live.filter(np.array([location in self.locations for location in locations], dtype=bool))
        live = live.filter(self._wanted(table, live))
        if only_small and not table.schema.kind.has_buckets:
            small = live.file_sizes < small_file_bytes(table.options, keyed=False)
            due = np.flatnonzero(small | much_deleted(table, live, vectors_of(table, snapshot)))
            live = live.take(due[: int(table.options.value("compaction.file-num-limit"))])
        return _by_bucket(live)

    def _wanted(self, table: FileStoreTable, live: ManifestColumns) -> npt.NDArray[np.bool_]:
        """Say for each file whether its partition is idle long enough and has not expired."""
        unwanted = _expired(table, live.partitions)
        if self.idle_time is not None:
            limit = (datetime.now() - self.idle_time - _EPOCH) // timedelta(milliseconds=1)  # both are wall clocks
            times = live.file_values("_CREATION_TIME")
            unwanted |= {p for p, millis in zip(live.partitions, times, strict=True) if (millis or 0) > limit}
        return np.array([partition not in unwanted for partition in live.partitions], dtype=bool)


def _expired(table: FileStoreTable, partitions: Sequence[bytes]) -> set[bytes]:
    """Partitions that are about to be dropped, where ``compaction.skip-expired-partitions`` leaves them alone."""
    options = table.options
    age: timedelta | None = options.get(OPTIONS["partition.expiration-time"])
    by_values = options.value("partition.expiration-strategy") == "values-time"
    if age is None or not by_values or not options.value("compaction.skip-expired-partitions"):
        return set()
    layout, before = DataLayout.of(table.schema), datetime.now() - age
    times = {partition: time_of_partition(layout, options, partition) for partition in set(partitions)}
    return {partition for partition, time in times.items() if time is not None and time < before}


def _by_bucket(live: ManifestColumns) -> list[BucketFiles]:
    groups: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in live:
        groups.setdefault((entry.partition, entry.bucket), []).append(entry)
    return [BucketFiles(p, bucket, e[0].total_buckets, _files(e)) for (p, bucket), e in groups.items()]


def _files(entries: Sequence[ManifestEntry]) -> tuple[DataFileMeta, ...]:
    return tuple(entry.file for entry in entries)


def scope_of(
    table: FileStoreTable,
    *,
    partitions: Sequence[Mapping[str, str | None]] | None = None,
    where: str | None = None,
    buckets: Sequence[int] | str | None = None,
    idle_time: timedelta | None = None,
    zone: tzinfo | None = None,
) -> CompactScope:
    """Return the part of a table that arguments name.

    Args:
        table: whose partitions and buckets.
        partitions: values of some or all partition columns, as texts that are cast; any of these is compacted.
        where: instead, an SQL condition over the partition columns.
        buckets: numbers of buckets, or a text such as ``"0,3-5"``.
        idle_time: only partitions that got their newest file at least so long ago.
        zone: of times in ``where`` that name none; this machine's when not given.

    Raises:
        OptionError: the table has no partitions, a name or number is none of the table's, or both ``partitions`` and
            ``where`` are given.
    """
    if partitions is not None and where is not None:
        raise OptionError("partitions and where cannot be used together.")
    chosen = None
    if partitions is not None or where is not None:
        keys = table.schema.partition_keys
        if not keys:
            raise OptionError("Table should be a partitioned table when using partition predicate.")
        chosen = _condition(table, where, zone) if where is not None else _specs(table, partitions or ())
    return CompactScope(chosen, None if buckets is None else _buckets(table, buckets), idle_time)


def _condition(table: FileStoreTable, where: str, zone: tzinfo | None) -> Predicate:
    from paimon_spark.spec.sql_filter import parse_filter  # brings the SQL parser along

    keys = table.schema.partition_keys
    columns = [field for field in table.schema.fields if field.name in keys]
    try:
        return parse_filter(where, columns, time_zone=zone)
    except OptionError as error:
        raise OptionError(
            f"Only partition predicate is supported, your predicate is {where}, but partition keys are "
            f"[{', '.join(keys)}]: {error}"
        ) from None


def _specs(table: FileStoreTable, partitions: Sequence[Mapping[str, str | None]]) -> Predicate | None:
    keys = table.schema.partition_keys
    unknown = sorted({name for spec in partitions for name in spec} - set(keys))
    if unknown:
        raise OptionError(
            f"Partition keys [{', '.join(unknown)}] are invalid. Available partition keys are [{', '.join(keys)}]"
        )
    return PartitionScope(table, partitions).predicate


def parse_partitions(text: str) -> list[dict[str, str]]:
    """Return the partition values of a text such as ``dt=2024-01-01,hh=0;dt='2024-01-02'``.

    Raises:
        OptionError: the text is not of this form.
    """
    return [_parse_spec(part) for part in text.split(";")]


def _parse_spec(text: str) -> dict[str, str]:
    spec: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"Invalid key-value string '{pair}'. Please use format 'key=value'.")
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        spec[name.strip()] = value[1:-1] if quoted else value
    return spec


def _buckets(table: FileStoreTable, buckets: Sequence[int] | str) -> frozenset[int]:
    kind, count, mode = table.schema.kind, table.options.bucket, table.schema.kind.bucket_mode
    if not kind.hashes_to_buckets:
        raise OptionError(
            f"Specifying buckets is only supported for fixed-bucket tables, but the table bucket mode is {mode.name}."
        )
    found: set[int] = set()
    for token in buckets.split(",") if isinstance(buckets, str) else map(str, buckets):
        match = _RANGE.fullmatch(token.strip())
        if match is None:
            raise OptionError(f"Invalid integer or range: '{token.strip()}'.")
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise OptionError(f"Integer range start {first} must not be greater than end {last}.")
        if last >= count:
            raise OptionError(f"Integer or range '{token.strip()}' is out of range [0, {count}).")
        found.update(range(first, last + 1))
    return frozenset(found)


class VectorChanges:
    """The vectors of a table while it is compacted; tables without have none."""

    def __init__(self, table: FileStoreTable, snapshot: Snapshot) -> None:
        """Read the index manifest of the snapshot that is compacted."""
        self._table = table
        found = table.manifests.index_entries(snapshot) if table.options.deletion_vectors_enabled else []
        self._before = [entry for entry in found if entry.index_type == DELETION_VECTORS_INDEX]
        self._now = list(self._before)
        self._written: list[IndexManifestEntry] = []
        self.locations: Vectors = vector_locations(table, self._now)
        live = set(table.manifests.live_columns(snapshot).file_names) if self.locations else set()
        self._stale = [key for key in self.locations if key[2] not in live]

    def apply(self, deleted: Sequence[DeletedRows], dropped: Collection[FileKey]) -> None:
        """Mark rows and forget files; writes index files."""
        staying = [rows for rows in deleted if (rows.partition, rows.bucket, rows.file_name) not in dropped]
        dropped = [key for key in dropped if key in self.locations]
        if not staying and not dropped:
            return
        changed = {(rows.partition, rows.bucket) for rows in staying} | {key[:2] for key in dropped}
        dropped += [key for key in self._stale if key[:2] in changed and key in self.locations]
        changes = changed_vectors(self._table, self._now, staying, dropped)
        added = [entry for entry in changes if entry.kind == FileKind.ADD]
        gone = {entry.file_name for entry in changes if entry.kind == FileKind.DELETE}
        self._written += added
        self._now = [entry for entry in self._now if entry.file_name not in gone] + added
        self.locations = vector_locations(self._table, self._now)

    def moved(self, partition: bytes, bucket: int, old: Sequence[DataFileMeta], new: DataFileMeta) -> list[DeletedRows]:
        """Return the deleted rows of a file that holds the rows of others, by row id; none where they have no vector.

        Raises:
            CorruptTableError: an index file is missing or damaged.
        """
        found = []
        for file in old:
            location = self.locations.get((partition, bucket, file.file_name))
            if location is not None:
                positions = positions_of(deleted_rows(self._table.file_io, location, file.row_count), file.row_count)
                found.append(positions + ((file.first_row_id or 0) - (new.first_row_id or 0)))
        if not found:
            return []
        return [DeletedRows(partition, bucket, new.file_name, new.row_count, np.unique(np.concatenate(found)))]

    def changes(self, partition: bytes, bucket: int) -> tuple[IndexManifestEntry, ...]:
        """Return how the commit changes the index files of a bucket: those to delete, then those to add."""
        before, now = (
            {entry.file_name: entry for entry in some if (entry.partition, entry.bucket) == (partition, bucket)}
            for some in (self._before, self._now)
        )
        return (
            *(replace(entry, kind=FileKind.DELETE) for name, entry in before.items() if name not in now),
            *(entry for name, entry in now.items() if name not in before),
        )

    def discard(self, *, superseded: bool) -> None:
        """Delete index files that were written: all of them, or those that a later step has replaced."""
        kept = {entry.file_name for entry in self._now} if superseded else set()
        delete_index_files(self._table, self._unneeded(kept))

    def _unneeded(self, kept: Collection[str]) -> Iterable[IndexManifestEntry]:
        return [entry for entry in self._written if entry.file_name not in kept]


def much_deleted(table: FileStoreTable, files: ManifestColumns, vectors: Vectors) -> npt.NDArray[np.bool_]:
    """Tell of which files a larger share is deleted than ``compaction.delete-ratio-threshold``, or nobody knows."""
    most = float(table.options.value("compaction.delete-ratio-threshold"))
    if not vectors:
        return np.zeros(len(files), dtype=bool)
    keys = zip(files.partitions, files.buckets.tolist(), files.file_names, strict=True)
    locations = map(vectors.get, keys)
    shares = [
        0.0 if location is None else np.inf if location.cardinality is None else location.cardinality
        for location in locations
    ]
    due: npt.NDArray[np.bool_] = np.array(shares) > files.row_counts * most
    return due
