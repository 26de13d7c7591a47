"""Data files and deletion vectors of a Paimon snapshot as entries of Iceberg manifests.

Equals Java's ``IcebergCommitCallback.collectFileChanges``, ``createDvManifestFileMetas`` and ``IcebergDataFileMeta``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.data_types import DecimalType
from paimon_spark.spec.iceberg.manifests import Content, IcebergEntry, IcebergFile, Status
from paimon_spark.spec.iceberg.metadata import publishes_vectors
from paimon_spark.spec.iceberg.types import has_bounds, is_nan, plain_values, value_bytes
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, FileKind, ManifestEntry
from paimon_spark.spec.stats import decode_stats

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_ARITY_BYTES = 4
_POSITION_DELETES = 1


@dataclass(frozen=True, slots=True)
class Changes:
    """What a snapshot changes for readers of Iceberg."""

    added: dict[str, ManifestEntry]
    """By path as the metadata spells it: files that they see now."""
    removed: dict[str, ManifestEntry]
    """Files that they see no more, if they have seen them."""
    only_adds: bool
    """Whether the snapshot deletes no file at all."""


class FileReader:
    """Turns entries of Paimon into those of Iceberg; knows which files their readers see."""

    def __init__(self, table: FileStoreTable, location: str) -> None:
        self._table = table
        self._location = location
        self._types: list[DataType] = [field.type for field in table.schema.partition_fields]
        self._partitions: dict[bytes, tuple[Any, ...]] = {}
        options = table.options
        self.vectors = publishes_vectors(options)
        """Whether deletion vectors are reported."""
        self._keyed = table.schema.kind.is_keyed
        self._shows_level_0 = self._keyed and not options.batch_scan_skips_level_0
        self._least_level = 1 if self.vectors else options.num_levels - 1

    def is_seen(self, entry: ManifestEntry) -> bool:
        """Whether a file holds rows as they are: of tables with keys those of the top level."""
        return not self._keyed or entry.file.level >= self._least_level

    def path(self, entry: ManifestEntry) -> str:
        """The path of a data file as the metadata spells it."""
        return self._spelled(self._table.paths.data_file_path(entry.partition, entry.bucket, entry.file))

    def _spelled(self, path: str) -> str:
        root = self._table.path + "/"
        return f"{self._location}/{path[len(root) :]}" if path.startswith(root) else path

    def changes(self, entries: Iterable[ManifestEntry]) -> Changes:
        """What the entries of one snapshot change: a file whose level changes is removed and added."""
        added, removed, only_adds = dict[str, ManifestEntry](), dict[str, ManifestEntry](), True
        for entry in entries:
            if entry.kind == FileKind.DELETE:
                only_adds = False
                removed[self.path(entry)] = entry
            elif self.is_seen(entry):
                added[self.path(entry)] = entry
        for path in added:
            removed.pop(path, None)
        return Changes(added, removed, only_adds)

    def live(self, snapshot: Snapshot) -> Iterator[list[ManifestEntry]]:
        """Yield the files of a snapshot that readers of Iceberg see, some at a time."""
        alone = self._alone(snapshot) if self._shows_level_0 else frozenset()
        for chunk in self._table.manifests.live_chunks(snapshot):
            yield [entry for entry in chunk if self.is_seen(entry) or entry.file.file_name in alone]

    def _alone(self, snapshot: Snapshot) -> frozenset[str]:
        """The files that are all that their bucket has, and delete no row: as Java shows a table's first rows."""
        buckets = defaultdict[tuple[bytes, int], list[tuple[str, bool]]](list)
        for chunk in self._table.manifests.live_chunks(snapshot, statistics=False):
            deletes = chunk.file_values("_DELETE_ROW_COUNT")
            for key, name, count in zip(
                zip(chunk.partitions, chunk.buckets.tolist(), strict=True), chunk.file_names, deletes, strict=True
            ):
                if key[1] >= 0:
                    buckets[key].append((name, count == 0))
        return frozenset(found[0][0] for found in buckets.values() if len(found) == 1 and found[0][1])

    def partition_values(self, partitions: Iterable[bytes]) -> dict[bytes, tuple[Any, ...]]:
        """Partition values as Avro holds them, by partition bytes."""
        new = [each for each in dict.fromkeys(partitions) if each not in self._partitions]
        if new:
            rows = decode_rows([each[_ARITY_BYTES:] for each in new], self._types) if self._types else []
            columns = [_avro_values(column, each) for column, each in zip(rows, self._types, strict=True)]
            values = zip(*columns, strict=True) if columns else iter(() for _ in new)
            self._partitions.update(zip(new, values, strict=True))
        return self._partitions

    def entries(self, files: Sequence[ManifestEntry], snapshot_id: int) -> list[IcebergEntry]:
        """The entries of files that a snapshot adds, in their order."""
        partitions = self.partition_values(entry.partition for entry in files)
        bounds = self._bounds(files)
        return [
            _added(
                IcebergFile(
                    path=self.path(entry),
                    format=_format_of(entry.file.file_name),
                    partition=partitions[entry.partition],
                    record_count=entry.file.row_count,
                    size=entry.file.file_size,
                    null_counts=bounds[at][0],
                    lower_bounds=bounds[at][1],
                    upper_bounds=bounds[at][2],
                ),
                snapshot_id,
            )
            for at, entry in enumerate(files)
        ]

    def _bounds(
        self, files: Sequence[ManifestEntry]
    ) -> list[tuple[dict[int, int], dict[int, bytes], dict[int, bytes]]]:
        """Null counts, minima and maxima of each file, by field id."""
        found: list[tuple[dict[int, int], dict[int, bytes], dict[int, bytes]]] = [({}, {}, {}) for _ in files]
        alike = defaultdict[tuple[int, tuple[str, ...] | None], list[int]](list)
        for at, entry in enumerate(files):
            alike[entry.file.schema_id, entry.file.value_stats_cols].append(at)
        for (schema_id, names), locations in alike.items():
            schema = self._table.schemas.get(schema_id)
            fields = list(schema.fields) if names is None else [schema.field(name) for name in names]
            stats = [files[at].file.value_stats for at in locations]
            if not fields or any(len(each.null_counts) != len(fields) for each in stats):
                continue
            for field, (low, high, nulls) in zip(
                fields, decode_stats(stats, [field.type for field in fields]), strict=True
            ):
                columns = _bytes_of(field, low), _bytes_of(field, high)
                for at, null_count, lower, upper in zip(locations, nulls.to_pylist(), *columns, strict=True):
                    if null_count is not None:
                        found[at][0][field.id] = null_count
                    if lower is not None and upper is not None:
                        found[at][1][field.id], found[at][2][field.id] = lower, upper
        return found

    def vector_entries(self, snapshot: Snapshot) -> list[IcebergEntry]:
        """The deletion vectors of a snapshot.

        Raises:
            CorruptTableError: one does not say how many rows it deletes, which readers check.
        """
        index = self._table.manifests.index_entries(snapshot)
        found = [entry for entry in index if entry.index_type == DELETION_VECTORS_INDEX]
        partitions = self.partition_values(entry.partition for entry in found)
        entries = []
        for entry in found:
            path = self._table.paths.index_file_path(entry)
            directory = self._table.paths.bucket_dir(self._table.paths.partition_path(entry.partition), entry.bucket)
            for vector in entry.deletion_vectors or ():
                if vector.cardinality is None:
                    raise CorruptTableError(
                        f"A deletion vector of {vector.data_file_name} has no cardinality.", path=path
                    )
                file = IcebergFile(
                    path=self._spelled(path),
                    format="puffin",
                    partition=partitions[entry.partition],
                    record_count=vector.cardinality,
                    size=entry.file_size,
                    content=Content(_POSITION_DELETES),
                    null_counts=None,
                    lower_bounds=None,
                    upper_bounds=None,
                    referenced_data_file=self._spelled(f"{directory}/{vector.data_file_name}"),
                    content_offset=vector.offset,
                    content_size=vector.length,
                )
                entries.append(_added(file, snapshot.id))
        return entries


def _added(file: IcebergFile, snapshot_id: int) -> IcebergEntry:
    return IcebergEntry(Status.ADDED, snapshot_id, snapshot_id, snapshot_id, file)


def _format_of(name: str) -> str:
    return name.rpartition(".")[2]


def _avro_values(column: pa.Array, data_type: DataType) -> list[Any]:
    values = plain_values(column, data_type)
    if isinstance(data_type, DecimalType):
        return [None if value is None else value_bytes(value, data_type) for value in values]
    return values


def _bytes_of(field: DataField, column: pa.Array) -> list[bytes | None]:
    """Bounds of a column as Iceberg's bytes; None for those that it must not have, such as NaN."""
    try:
        if not has_bounds(field.type):
            return [None] * len(column)
        values = plain_values(column, field.type)
    except (UnsupportedError, pa.ArrowInvalid):  # a column that the table has no more
        return [None] * len(column)
    return [None if each is None or is_nan(each) else value_bytes(each, field.type) for each in values]
