"""The plan of a batch read: one snapshot, the columns, and the splits that tasks read.

Equals Java's ``SnapshotReaderImpl`` and the split generators (docs/format.md §7). Runs once per read, on the driver.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.read.expiry import expiry_told
from paimon_spark.read.key_ranks import key_ranks
from paimon_spark.read.pruning import bucket_groups
from paimon_spark.read.scan import scan_files
from paimon_spark.read.sections import has_no_deletes, is_raw_bucket, pack_ordered, sections_of
from paimon_spark.read.split import DataSplit, SplitFile
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.file_names import POSTPONE_BUCKET, data_file_format
from paimon_spark.spec.merge_validation import validate_merge_engine, validate_sequence_field
from paimon_spark.spec.predicate import Always, Predicate, all_of, fields, split_and
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.support import check_readable
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

ReadSplit = Callable[
    ["FileStoreTable", "DataSplit", "Sequence[DataField]", "Predicate | None"], "Iterator[pa.RecordBatch]"
]
"""Reads one split in a task: called with the plan's table, the split, the plan's columns and residual."""

_SLACK = 1.05
"""Files of one size must not miss an even share by a few bytes."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a batch read does."""

    snapshot: Snapshot | None
    """The snapshot that is read; None when the table has none, which reads as empty."""
    schema: TableSchema
    """Schema of the read: of the snapshot travelled to, else the latest; its options are the ones in effect."""
    fields: tuple[DataField, ...]
    """Columns of the result, in order."""
    splits: tuple[DataSplit, ...]
    residual: Predicate | None
    """What must still be judged row by row: `read` does, given this; None when planning has judged it all."""
    table: FileStoreTable
    """The table with `schema`, to be given to `read`."""
    read: ReadSplit = read_split
    """Reads a split, in a task. Picklable."""


def plan_read(
    table: FileStoreTable,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    parallelism: int = 1,
    limit: int | None = None,
) -> ReadPlan:
    """Plan a batch read of the table as its `scan.*` options say.

    Args:
        table: with its dynamic options.
        columns: of the result, in order; None is all of them.
        predicate: rows of the result are those for which it is true.
        parallelism: how many tasks can run at once: files that need no merging are cut into at least so many splits,
            as far as `source.split.open-file-cost` lets them.
        limit: the caller wants this many rows at most; where it can be told that fewer files hold them, only these
            are planned. The caller still cuts the rows.

    Raises:
        UnsupportedError: the table has a feature that is not supported yet.
        OptionError: scan options contradict each other, or a column does not exist.
        SnapshotNotFoundError: the snapshot or tag does not exist.
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    check_readable(table.schema)
    travelled, snapshot = travel(table)
    read_fields = _chosen(travelled.schema, columns, predicate)
    return plan_snapshot(travelled, snapshot, read_fields, predicate=predicate, parallelism=parallelism, limit=limit)


def plan_snapshot(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    read_fields: Sequence[DataField],
    *,
    predicate: Predicate | None = None,
    parallelism: int = 1,
    limit: int | None = None,
    only_level: int | None = None,
) -> ReadPlan:
    """Plan the read of one snapshot with the columns of a table as given, whatever its `scan.*` options say.

    Args:
        table: with the schema of the read; columns that the snapshot's files lack are null.
        snapshot: None plans nothing.
        read_fields: of the result, in order; without primary keys a ROW may have fewer fields than the table's.
        predicate: as in `plan_read`.
        parallelism: as in `plan_read`.
        limit: as in `plan_read`.
        only_level: read the files of this level alone.

    Raises:
        OptionError: an option of the reader names a column that the table has not.
        CorruptTableError: a metadata file is missing or cannot be read.
        SnapshotNotFoundError: a metadata file is missing because the snapshot has expired meanwhile.
    """
    if table.schema.primary_keys and table.schema.options != table.latest.options:
        validate_sequence_field(table.schema)  # options of the reader; else a task would find out
        validate_merge_engine(table.schema)
    if snapshot is None or predicate == Always(False):
        return ReadPlan(snapshot, table.schema, tuple(read_fields), (), predicate, table)
    with _without_gc(), expiry_told(table, snapshot.id):
        files = scan_files(table, snapshot, predicate)
        if only_level is not None:
            files = files.filter(files.levels == only_level)
        splits = splits_of(table, snapshot.id, files, parallelism)
    residual = judged_by_rows(table.schema, predicate)
    if limit is not None and residual is None:
        splits = enough_splits(splits, limit, has_keys=bool(table.schema.primary_keys))
    return ReadPlan(snapshot, table.schema, tuple(read_fields), tuple(splits), residual, table)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Pause the cycle collector: 20,000 manifest records hold no cycles, but looking for them doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _chosen(schema: TableSchema, columns: Sequence[str] | None, predicate: Predicate | None) -> tuple[DataField, ...]:
    names = {field.name: field for field in schema.fields}
    wanted = list(names) if columns is None else list(columns)
    unknown = [name for name in (*wanted, *(fields(predicate) if predicate is not None else ())) if name not in names]
    if unknown:
        raise OptionError(
            f"Column '{unknown[0]}' does not exist in schema {schema.id}; its columns are {', '.join(names)}."
        )
    return tuple(names[name] for name in wanted)


def judged_by_rows(schema: TableSchema, predicate: Predicate | None) -> Predicate | None:
    """Return the conjuncts that partition pruning has not judged exactly."""
    if predicate is None:
        return None
    partition_keys = set(schema.partition_keys)
    rest = [part for part in split_and(predicate) if not (fields(part) and fields(part) <= partition_keys)]
    said = all_of(rest)
    return None if said == Always(True) else said


def fair_share(files: Sequence[SplitFile], target: int, cost: int, parallelism: int) -> int:
    """The weight of a split that leaves none of the tasks that can run at once without work, `target` at most."""
    weight = sum(max(file.size, cost) for file in files)
    return min(target, max(cost, int(_SLACK * weight / max(1, parallelism))))


def splits_of(table: FileStoreTable, snapshot_id: int, files: ManifestColumns, parallelism: int = 1) -> list[DataSplit]:
    """Cut the files of every bucket into splits, buckets in the order in which they appear."""
    groups = [g for g in bucket_groups(files) if files.buckets[g[0]] != POSTPONE_BUCKET]
    all_files = split_files(table, files)
    target = table.options.split_target_size_bytes
    cost = table.options.split_open_file_cost_bytes
    share = fair_share(all_files, target, cost, parallelism) if parallelism > 1 else target
    result: list[DataSplit] = []
    ranks = None
    for group in groups:
        bucket = [all_files[i] for i in group]
        if not table.schema.primary_keys:
            bins = [(b, True) for b in _append_bins(bucket, target, share, cost)]
        elif is_raw_bucket(bucket):
            bins = [(b, True) for b in pack_ordered(bucket, lambda f: max(f.size, cost), share)]
        else:
            if ranks is None:
                ranks = key_ranks(
                    table, files.file_values("_MIN_KEY"), files.file_values("_MAX_KEY"), files.schema_ids.tolist()
                )
            sections = sections_of(bucket, ranks[0][group], ranks[1][group])
            packed = pack_ordered(sections, lambda s: max(sum(f.size for f in s), cost), target)
            flat = [[file for section in sections_here for file in section] for sections_here in packed]
            bins = [(b, len(b) == 1 and has_no_deletes(b[0])) for b in flat]
        first = group[0]
        partition, bucket_id = files.partitions[first], int(files.buckets[first])
        total = int(files.total_buckets[first])
        result.extend(DataSplit(snapshot_id, partition, bucket_id, total, _slim(b, raw), raw) for b, raw in bins)
    return result


def _slim(files: Sequence[SplitFile], raw: bool) -> tuple[SplitFile, ...]:
    """Leave out the keys of files that are read without merging."""
    if not raw:
        return tuple(files)
    return tuple(file._replace(min_key=b"", max_key=b"") if file.min_key or file.max_key else file for file in files)


def _append_bins(files: Sequence[SplitFile], target: int, share: int, cost: int) -> list[list[SplitFile]]:
    """Pack the files of an append bucket by sequence number, large Parquet files cut into slices of row groups."""
    ordered = sorted(files, key=lambda file: file.min_seq)
    pieces = [piece for file in ordered for piece in _sliced(file, target)]
    return pack_ordered(pieces, lambda file: max(file.size // file.share, cost), share)


def _sliced(file: SplitFile, target: int) -> list[SplitFile]:
    """Cut a large Parquet file into equal slices of its row groups."""
    count = round(file.size / target) if target > 0 else 1
    if file.format != "parquet" or count < 2:
        return [file]
    return [file._replace(row_groups=(i, count)) for i in range(count)]


def split_files(table: FileStoreTable, files: ManifestColumns) -> list[SplitFile]:
    """Turn manifest records into files of splits, in the same order; names and external paths are checked."""
    layout = DataLayout.of(table.schema)
    directories: dict[tuple[bytes, int], str] = {}
    partition_paths: dict[bytes, str] = {}
    names, external = files.file_names, files.file_values("_EXTERNAL_PATH")
    paths = []
    for place, name, elsewhere in zip(
        zip(files.partitions, files.buckets.tolist(), strict=True), names, external, strict=True
    ):
        directory = directories.get(place)
        if directory is None:
            partition, bucket = place
            path = partition_paths.get(partition)
            if path is None:
                path = partition_paths[partition] = layout.partition_path(partition)
            directory = directories[place] = layout.bucket_dir(table.path, path, bucket)
        paths.append(layout.data_file_path(directory, name, elsewhere))
    has_keys = bool(table.schema.primary_keys)
    keys = [files.file_values(name) if has_keys else repeat(b"") for name in ("_MIN_KEY", "_MAX_KEY")]
    numbers = [
        files.file_values(name)
        for name in (
            "_FILE_SIZE", "_ROW_COUNT", "_LEVEL", "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID",
            "_DELETE_ROW_COUNT",
        )
    ]  # fmt: skip
    formats = map(data_file_format, names)
    return list(
        map(SplitFile, names, paths, formats, *numbers, *keys, repeat(None), files.file_values("_FIRST_ROW_ID"))
    )


def enough_splits(splits: Sequence[DataSplit], limit: int, *, has_keys: bool) -> list[DataSplit]:
    """Return the first splits that hold ``limit`` rows for certain, all of them when they cannot be counted on.

    Merged splits cannot be counted, nor slices of files, nor old files with keys that may hold deletes.
    """
    chosen: list[DataSplit] = []
    rows = 0
    for split in splits:
        if rows >= limit:
            break
        chosen.append(split)
        if split.raw_convertible and all(
            file.row_groups is None and (file.delete_row_count == 0 or not has_keys) for file in split.files
        ):
            rows += split.row_count
    return chosen
