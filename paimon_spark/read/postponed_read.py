"""Postponed rows (``bucket`` = -2), merged with the others when read: `postpone.merge-on-read`.

Equals Java's ``PostponeMergeReadBuilder`` and ``MergeFileSplitRead.createPostponeMergeReader``: postponed rows come
after all rows of real buckets, in their order, and `sequence.field` counts before that. Spark shuffles nothing here:
each split of a partition reads all of its postponed files, and takes the rows of its own buckets.

Files of postponed rows (``bucket`` = -2): which there are, and their rows as they came.

Java: ``PostponeUtils.groupPostponeFiles``. Rows of one writer are read in their order. Java gives different writers
none, so that an older INSERT may win over a newer one: here the writer that began first comes first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.stream import block_bytes, merge_sorted_runs
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.incremental_read import filter_and_project, merged_with_kinds
from paimon_spark.read.pruning import bucket_groups, stats_mask
from paimon_spark.read.split import DataSplit, SplitFile
from paimon_spark.read.split_generator import fair_share, generate_splits, split_files
from paimon_spark.read.split_read import partition_constants, partition_scalars, read_split, with_filter_columns
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.file_names import POSTPONE_BUCKET, postponed_writer
from paimon_spark.spec.hashing import bucket_ids
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.predicate import Predicate, fields, implied_by
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.snapshot_identity import snapshot_expiry_errors

if TYPE_CHECKING:
    from paimon_spark.merge.merge_engine import MergeEngine
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_OPTION = "postpone.merge-on-read"
_BUFFERS = 4
"""Equal shares of the budget: postponed rows, their sorted copy, the merge of real buckets, the last merge."""


@dataclass(frozen=True, slots=True)
class PostponedSplit(DataSplit):
    """Files of some real buckets of a partition, then all of its postponed files: it takes a share of their rows.

    `total_buckets` is the number of buckets by which postponed rows are shared out.
    """

    real_counts: tuple[int, ...] = ()
    """How many of the files belong to each real bucket."""
    share: tuple[int, int] = (0, 1)
    """(i, n): the rows of those buckets whose number modulo n is i."""

    @property
    def real(self) -> list[Sequence[SplitFile]]:
        """Files of the real buckets, by bucket."""
        ends = [0, *accumulate(self.real_counts)]
        return [self.files[start:end] for start, end in pairwise(ends)]

    @property
    def postponed(self) -> Sequence[SplitFile]:
        """Postponed files, writer by writer, each in the order of writing."""
        return self.files[sum(self.real_counts) :]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain split and the rest."""
        restore, arguments = DataSplit.__reduce__(self)
        return _restored, (restore(*arguments), self.real_counts, self.share)


def _restored(split: DataSplit, real_counts: tuple[int, ...], share: tuple[int, int]) -> PostponedSplit:
    position = split.partition, split.bucket, split.total_buckets
    return PostponedSplit(split.snapshot_id, *position, split.files, False, split.branch, real_counts, share)


def merges_postponed(table: FileStoreTable) -> bool:
    """Whether reads of a table's rows merge in the postponed ones."""
    return table.schema.kind.postpones_buckets and bool(table.options.value(_OPTION))


def refuse_changes(table: FileStoreTable) -> None:
    """Refuse a read of changes, which has no whole state to merge postponed rows with; Java's words.

    Raises:
        UnsupportedError: the table merges postponed rows when read.
    """
    if merges_postponed(table):
        raise UnsupportedError(
            "Postpone merge-on-read requires a full snapshot scan, but found scan mode 'incremental'. Read changes "
            f"with '{_OPTION}' = 'false'."
        )


def refuse_self_overwrite(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Refuse an overwrite by rows that are made of the table itself, whose query does not see postponed rows.

    # Java: they are dropped.

    Raises:
        UnsupportedError: rows are postponed, and reads do not merge them in.
    """
    if _has_unread_postponed(table, snapshot):
        raise UnsupportedError(
            f"Rows of table {table.path} are postponed, and an overwrite of the table from itself would drop them "
            f"unread. Take them into buckets first (CALL sys.compact), or set '{_OPTION}' = 'true'."
        )


def hides_rows(table: FileStoreTable, snapshot: Snapshot) -> bool:
    """Whether plain reads of a snapshot leave rows out: postponed ones, or level 0 until it is compacted."""
    if _has_unread_postponed(table, snapshot):
        return True
    skips = table.options.batch_scan_skips_level_0
    return skips and bool((table.manifests.live_columns(snapshot, statistics=False).levels == 0).any())


def _has_unread_postponed(table: FileStoreTable, snapshot: Snapshot) -> bool:
    if not table.schema.kind.postpones_buckets or merges_postponed(table):
        return False
    return bool((table.manifests.live_columns(snapshot, statistics=False).buckets == POSTPONE_BUCKET).any())


def postponed_splits(
    table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None, parallelism: int
) -> list[DataSplit] | None:
    """Return the splits of a snapshot with postponed rows; None where reads are as always: it has none.

    Files are left out by partitions and keys only: a postponed row may replace any value. Level 0 is never
    hidden, as in Java. Runs on the driver.

    Args:
        table: that `merges_postponed`.
        snapshot: what to read.
        predicate: over the table's columns.
        parallelism: how many tasks can run at once.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read, or a postponed file has no name of one.
    """
    partitions = implied_by(predicate, table.schema.partition_keys)
    keys = implied_by(predicate, table.schema.trimmed_primary_keys)
    files = table.manifests.live_columns(snapshot, predicate=partitions, statistics=keys is not None)
    postponed = files.filter(files.buckets == POSTPONE_BUCKET)
    if not len(postponed) and not table.options.batch_scan_skips_level_0:
        return None
    real = files.filter(files.buckets != POSTPONE_BUCKET)
    if keys is not None and len(real):
        real = real.filter(stats_mask(table, real, keys, keys=True))
    merged = set(postponed.partitions)
    alone = np.array([partition not in merged for partition in real.partitions], dtype=bool)
    vectors = vectors_of(table, snapshot)
    result = generate_splits(table, snapshot.id, real.filter(alone), parallelism, vectors=vectors)
    real = real.filter(~alone)
    of_real, buckets = split_files(table, real, vectors), _buckets(real)
    of_postponed = _in_order(postponed, split_files(table, postponed, vectors))
    for partition in dict.fromkeys(postponed.partitions):
        mine = {b: [of_real[i] for i in at] for (own, b), at in buckets.items() if own == partition}
        totals = {int(real.total_buckets[i]) for (own, _), at in buckets.items() if own == partition for i in at}
        result += _shared(table, snapshot.id, partition, totals, mine, of_postponed[partition], parallelism)
    return result


def _buckets(files: ManifestColumns) -> dict[tuple[bytes, int], list[int]]:
    return {(files.partitions[at[0]], int(files.buckets[at[0]])): at for at in bucket_groups(files)}


def _in_order(files: ManifestColumns, described: Sequence[SplitFile]) -> dict[bytes, list[SplitFile]]:
    """The postponed files of each partition, in the order of `postponed_files.by_writer`."""
    times = files.file_values("_CREATION_TIME")
    writers: dict[tuple[bytes, str], list[SplitFile]] = {}
    for i in sorted(range(len(files)), key=lambda i: times[i] or 0):
        writers.setdefault((files.partitions[i], postponed_writer(described[i].name)), []).append(described[i])
    found: dict[bytes, list[SplitFile]] = {}
    for (partition, _), ordered in writers.items():
        found.setdefault(partition, []).extend(ordered)
    return found


def _shared(
    table: FileStoreTable,
    snapshot_id: int,
    partition: bytes,
    totals: set[int],
    real: dict[int, list[SplitFile]],
    postponed: list[SplitFile],
    parallelism: int,
) -> Iterator[PostponedSplit]:
    """Cut a partition into shares of its buckets; without real ones their number is free."""
    target, cost = table.options.split_target_size_bytes, table.options.split_open_file_cost_bytes
    every = [*postponed, *(file for files in real.values() for file in files)]
    size = sum(max(file.size, cost) for file in every)
    share = fair_share([file.size for file in every], target, cost, parallelism) if parallelism > 1 else target
    number = min(max(1, -(-size // max(1, share))), max(1, parallelism) if not totals else max(totals))
    if len(totals) > 1:
        number = 1  # never written so; one task takes all
    total = max(totals, default=number)
    for i in range(number):
        own = [real[bucket] for bucket in sorted(real) if bucket % number == i]
        counts = tuple(map(len, own))
        files = (*(file for files in own for file in files), *postponed)
        position = snapshot_id, partition, POSTPONE_BUCKET, total
        yield PostponedSplit(*position, files, False, None, counts, (i, number))


def read_postponed(
    table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split of `postponed_splits`; arguments and errors as of `read_split`."""
    if not isinstance(split, PostponedSplit):
        yield from read_split(table, split, plan_fields, predicate)
        return
    read_fields = with_filter_columns(table, plan_fields, predicate)
    with snapshot_expiry_errors(table, split.snapshot_id), ExitStack() as spilled:
        yield from filter_and_project(_merged(table, split, read_fields, predicate, spilled), plan_fields, predicate)


def _merged(
    table: FileStoreTable,
    split: PostponedSplit,
    read_fields: tuple[DataField, ...],
    predicate: Predicate | None,
    spilled: ExitStack,
) -> Iterator[pa.RecordBatch]:
    engine, budget = merge_engine_for(table.schema), int(table.options.value("read.merge.memory-budget")) // _BUFFERS
    names = [field.name for field in read_fields] or [engine.keys[0]]
    pushed = implied_by(predicate, table.schema.trimmed_primary_keys)
    needed = {*engine.required_columns(names), *table.schema.bucket_keys, *(fields(pushed) if pushed else ())}
    merge_fields = tuple(field for field in table.schema.fields if field.name in needed)
    reader = FileRead(table, merge_fields, partition_constants(table, split), key_value=True).as_query()
    runs = [merged_with_kinds(reader, files, budget // len(split.real), pushed) for files in split.real if files]
    runs += _postponed_runs(reader, split, engine, budget, pushed, spilled)
    yield from merge_sorted_runs(
        runs, engine, budget_bytes=budget, drop_deletes=True, columns=names, key_value_columns=False
    )


def _postponed_runs(
    reader: FileRead,
    split: PostponedSplit,
    engine: MergeEngine,
    budget: int,
    pushed: Predicate | None,
    spilled: ExitStack,
) -> list[Iterator[pa.RecordBatch]]:
    """The postponed rows of a split in sorted runs, numbered after the rows of real buckets; the last one in memory."""
    next_number = max((file.max_seq for files in split.real for file in files), default=-1) + 1
    runs: list[Iterator[pa.RecordBatch]] = []
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in reader.run(split.postponed, pushed):
        rows = _own_rows(reader.table, split, batch)
        if not rows.num_rows:
            continue
        numbers = pa.array(np.arange(next_number, next_number + rows.num_rows, dtype=np.int64))
        next_number += rows.num_rows
        at = rows.schema.get_field_index(SEQUENCE_NUMBER.name)
        held.append(rows.set_column(at, rows.schema.field(at), numbers))
        size += held[-1].nbytes
        if size > budget:
            runs.append(_on_disk(_sorted(held, engine), block_bytes(budget, len(split.real) + 1), spilled))
            held, size = [], 0
    return [*runs, iter(_sorted(held, engine).to_batches())] if held else runs


def _own_rows(table: FileStoreTable, split: PostponedSplit, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a split's own buckets."""
    own, number = split.share
    if number == 1:
        return batch
    keys = [table.schema.field(name) for name in table.schema.bucket_keys]
    columns, function = [batch.column(key.name) for key in keys], table.options.value("bucket-function.type")
    buckets = bucket_ids(columns, [key.type for key in keys], split.total_buckets, function)
    return batch.filter(pa.array(buckets % number == own))


def _sorted(rows: list[pa.RecordBatch], engine: MergeEngine) -> pa.Table:
    """Rows merged by key, as a writer's buffer is before it becomes a file."""
    return engine.merge(pa.Table.from_batches(rows), drop_deletes=False)


def _on_disk(rows: pa.Table, batch_bytes: int, spilled: ExitStack) -> Iterator[pa.RecordBatch]:
    """Write rows to a temporary file and read them from there, in batches of a size."""
    file = spilled.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    most = max(1, rows.num_rows * batch_bytes // max(1, rows.nbytes))
    with pa.ipc.new_stream(file, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=most)
    file.seek(0)
    return iter(pa.ipc.open_stream(file))


@dataclass(frozen=True, slots=True)
class PostponedFiles:
    """The postponed files of one writer in one partition, in the order in which they were written."""

    partition: bytes
    files: tuple[SplitFile, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)


def postponed_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Those of postponed rows."""
    return [entry for entry in entries if entry.bucket == POSTPONE_BUCKET]


def by_writer(table: FileStoreTable, files: Iterable[tuple[bytes, str, DataFileMeta]]) -> list[PostponedFiles]:
    """Put files of one writer together; the writer that began first comes first.

    Args:
        table: whose they are.
        files: partition, the writer's prefix and the file, in the order of the manifests.
    """
    found: dict[tuple[bytes, str], list[DataFileMeta]] = {}
    for partition, writer, file in sorted(files, key=lambda given: given[2].creation_time_millis or 0):
        found.setdefault((partition, writer), []).append(file)
    result = []
    for (partition, _), ordered in found.items():
        paths = (table.paths.data_file_path(partition, POSTPONE_BUCKET, file) for file in ordered)
        result.append(
            PostponedFiles(partition, tuple(SplitFile.of(f, path) for f, path in zip(ordered, paths, strict=True)))
        )
    return result


def postponed_schema(table: FileStoreTable) -> pa.Schema:
    """The columns of postponed rows: those of the table, and the row kind."""
    return to_arrow_schema([*table.schema.fields, VALUE_KIND])


def read_postponed_rows(
    table: FileStoreTable, groups: Sequence[PostponedFiles], batch_bytes: int = DEFAULT_BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of writers, one after the other, as `postponed_schema` says. Runs in tasks.

    Args:
        table: whose rows they are.
        groups: the files.
        batch_bytes: most bytes of a batch.

    Raises:
        CorruptTableError: a file is missing or damaged.
    """
    schema = postponed_schema(table)
    for group in groups:
        constants = partition_scalars(table, group.partition)
        reader = FileRead(table, tuple(table.schema.fields), constants, key_value=True, batch_bytes=batch_bytes)
        for batch in reader.run(group.files, None):
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
