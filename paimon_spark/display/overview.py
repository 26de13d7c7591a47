"""A table at a glance: what it is, how large, its newest snapshots, and the shape of its LSM trees.

What a notebook shows, made on the driver from metadata files. It stays quick for a huge table: bytes are summed only
over a bounded number of files, and the LSM picture has a bounded number of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from paimon_spark.display.texts import bytes_text, counted, records_text
from paimon_spark.options import is_secret
from paimon_spark.spec.schema import BucketMode
from paimon_spark.table.system.files import own_files
from paimon_spark.table.system.groups import grouped

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_MOST_FILES_SUMMED = 20_000
_NEWEST = 5
_HIDDEN = "******"
MOST_COLUMNS = 24
"""Columns of an LSM picture; more buckets than these are summed."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What a table is and holds."""

    path: str
    branch: str
    schema: TableSchema
    options: tuple[tuple[str, str], ...]
    """Sorted; of credentials only the keys."""
    newest: tuple[Snapshot, ...]
    """The newest snapshots, latest first."""
    snapshot_count: int
    tags: tuple[str, ...]
    branches: tuple[str, ...]
    """Without the main one."""
    files: int
    """Data files of the latest snapshot, of every level."""
    bytes: int | None
    """Their size; None where there are too many to sum up."""

    @property
    def size_text(self) -> str:
        """Bytes, files and records for people."""
        records = records_text(self.records, keyed=self.schema.kind.is_keyed)
        return f"{bytes_text(self.bytes)}, {counted(self.files, 'file')}, {records}"

    @property
    def records(self) -> int:
        """Rows of the data files, before merging."""
        return 0 if not self.newest else self.newest[0].total_record_count or 0


@dataclass(frozen=True, slots=True)
class Cell:
    """The files of one level in one column of an LSM picture."""

    files: int = 0
    bytes: int = 0
    records: int = 0

    def __add__(self, other: Cell) -> Cell:
        return Cell(self.files + other.files, self.bytes + other.bytes, self.records + other.records)


@dataclass(frozen=True, slots=True)
class LsmShape:
    """How many files of which size lie in which level of which bucket, in one version of a table."""

    path: str
    snapshot_id: int | None
    has_levels: bool
    """Whether the table has a primary key: the files of others all lie in level 0."""
    summed: str
    """What a column is: ``bucket``, ``partition``, ``buckets`` or ``partitions``."""
    columns: tuple[str, ...]
    groups: tuple[tuple[str, int], ...]
    """Partitions with the number of columns that each has; empty where columns are not of partitions' buckets."""
    levels: tuple[int, ...]
    cells: tuple[tuple[Cell, ...], ...]
    """By level, then by column."""
    buckets: int
    """Buckets with files, of all partitions."""

    def of_level(self, at: int) -> Cell:
        """Sums of a level (its position in `levels`)."""
        return sum(self.cells[at], Cell())

    @property
    def total(self) -> Cell:
        """Sums of all."""
        return sum((self.of_level(at) for at in range(len(self.levels))), Cell())


def overview(table: FileStoreTable) -> Overview:
    """Look at a table and its latest snapshot.

    Raises:
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    ids = table.snapshots.ids()
    newest = tuple(table.snapshots.get(snapshot_id) for snapshot_id in reversed(ids[-_NEWEST:]))
    files, size = _sizes(table, newest[0]) if newest else (0, 0)
    options = sorted(table.schema.options.items())
    return Overview(
        path=table.path,
        branch=table.branch,
        schema=table.schema,
        options=tuple((key, _HIDDEN if is_secret(key) else value) for key, value in options),
        newest=newest,
        snapshot_count=len(ids),
        tags=tuple(sorted(table.tags.names())),
        branches=tuple(sorted(table.branches.names())),
        files=files,
        bytes=size,
    )


def _sizes(table: FileStoreTable, snapshot: Snapshot) -> tuple[int, int | None]:
    """Files and bytes of a snapshot."""
    manifests = table.manifests.data_manifests(snapshot)
    entries = sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)
    if entries > _MOST_FILES_SUMMED:
        return sum(manifest.num_added_files - manifest.num_deleted_files for manifest in manifests), None
    chunks = list(table.manifests.live_chunks(snapshot, statistics=False))
    return sum(map(len, chunks)), sum(int(chunk.file_sizes.sum()) for chunk in chunks)


def kind_of(schema: TableSchema) -> str:
    """What kind of table it is, in words: ``primary-key table (deduplicate)``."""
    return f"primary-key table ({schema.core_options.merge_engine})" if schema.kind.is_keyed else "append table"


def buckets_of(schema: TableSchema) -> str:
    """How its rows find their bucket, in words."""
    match schema.bucket_mode:
        case BucketMode.HASH_FIXED:
            return f"{schema.core_options.bucket}, by {', '.join(schema.bucket_keys)}"
        case BucketMode.BUCKET_UNAWARE:
            return "none"
        case BucketMode.POSTPONE_MODE:
            return "postponed until compaction"
        case BucketMode.KEY_DYNAMIC:
            return "dynamic, keys move between partitions"
    return "dynamic"


def lsm_shape(table: FileStoreTable, *, most_columns: int = MOST_COLUMNS) -> LsmShape:
    """Look at the levels of all buckets of the version that the table's scan options name.

    One column is a bucket; where there are more than `most_columns`, a partition with all its buckets; where there are
    more of these too, several neighbours.

    Raises:
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    live = own_files(table)
    sums = grouped(live, live.chunks(), ["partition", "bucket", "level"]).to_pylist()
    rank = live.by_name().tolist()
    buckets = sorted({(rank[row["partition"]], row["bucket"]) for row in sums})
    names = sorted(live.names)
    columns = _columns(names, buckets, most_columns)
    column_of = {bucket: at for at, (_, members) in enumerate(columns.parts) for bucket in members}
    has_levels = table.schema.kind.is_keyed
    top = live.table.options.num_levels - 1
    levels = tuple(sorted({row["level"] for row in sums} | ({0, top} if has_levels else {0})))
    cells = [[Cell()] * len(columns.parts) for _ in levels]
    for row in sums:
        at = column_of[rank[row["partition"]], row["bucket"]]
        level = levels.index(row["level"])
        cells[level][at] += Cell(row["file_count"], row["file_size_in_bytes"], row["record_count"])
    return LsmShape(
        path=table.path,
        snapshot_id=None if live.snapshot is None else live.snapshot.id,
        has_levels=has_levels,
        summed=columns.summed,
        columns=tuple(label for label, _ in columns.parts),
        groups=columns.groups,
        levels=levels,
        cells=tuple(map(tuple, cells)),
        buckets=len(buckets),
    )


BucketRank = tuple[int, int]
"""A bucket: the rank of its partition's name, and its number."""


@dataclass(frozen=True, slots=True)
class _Columns:
    summed: str
    parts: list[tuple[str, list[BucketRank]]]
    """Label and members of each column."""
    groups: tuple[tuple[str, int], ...] = ()


def _columns(names: Sequence[str], buckets: Sequence[BucketRank], most: int) -> _Columns:
    partitioned = names not in ([], [""])
    if len(buckets) <= most:
        parts = [(str(bucket), [(partition, bucket)]) for partition, bucket in buckets]
        by_partition = groupby(buckets, key=lambda bucket: bucket[0])
        groups = tuple((names[partition], len(list(members))) for partition, members in by_partition)
        return _Columns("bucket", parts, groups if partitioned else ())
    if not partitioned:
        return _Columns("buckets", [(_span(part, 1, str), list(part)) for part in _shares(buckets, most)])
    of_partitions = [
        (partition, list(members)) for partition, members in groupby(buckets, key=lambda bucket: bucket[0])
    ]
    if len(of_partitions) <= most:
        return _Columns("partition", [(names[partition], members) for partition, members in of_partitions])
    shares = [[bucket for _, members in share for bucket in members] for share in _shares(of_partitions, most)]
    return _Columns("partitions", [(_span(part, 0, names.__getitem__), part) for part in shares])


def _shares(items: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """Neighbours together, in `most` shares of nearly equal length."""
    bounds = [len(items) * i // most for i in range(most + 1)]
    return [items[start:end] for start, end in pairwise(bounds) if end > start]


def _span(part: Sequence[BucketRank], at: int, shown: Any) -> str:
    first, last = part[0][at], part[-1][at]
    return str(shown(first)) if first == last else f"{shown(first)} … {shown(last)}"
