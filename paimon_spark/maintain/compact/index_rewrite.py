"""Rebuilding the indexes of data files, as the table's options say now (Java: ``RewriteFileIndexProcedure``).

Data files stay as they are: a COMPACT snapshot takes each out and adds it again with other indexes. What is rebuilt is
what the options ask for; indexes that they no longer ask for go. Old index files stay for older snapshots.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import OptionError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.files.deletion import delete_files
from paimon_spark.merge.stream import block_bytes
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.sections import columns_of
from paimon_spark.read.split import SplitFile
from paimon_spark.spec.file_index.writer import INDEX_SUFFIX, FileIndexBuilder, IndexSetting, for_file, value_type
from paimon_spark.spec.file_names import POSTPONE_BUCKET, is_blob_file
from paimon_spark.table.file_indexes import FileIndexSpec, keep_indexes
from paimon_spark.table.support import check_writable
from paimon_spark.write.message import CommitMessage

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexRewrite:
    """One data file whose indexes are rebuilt. Picklable: it travels to a task."""

    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def size_bytes(self) -> int:
        """Bytes to read, at most."""
        return self.file.file_size


@dataclass(frozen=True, slots=True)
class IndexesRewritten:
    """What a rewrite of indexes did."""

    snapshot_id: int | None
    """Of the new snapshot; None where nothing was to be done."""
    partitions: int
    """Partitions with files whose indexes are others now."""
    files: int
    """Files whose indexes are others now."""


IndexExecutor = Callable[["FileStoreTable", Sequence[IndexRewrite]], Iterable["DataFileMeta"]]
"""Rebuilds indexes, here or in tasks; answers with the metadata of each file, in order."""


def rewrite_indexes_here(table: FileStoreTable, rewrites: Sequence[IndexRewrite]) -> list[DataFileMeta]:
    """Rebuild indexes one after the other; on an error, what was written is deleted."""
    done: list[DataFileMeta] = []
    try:
        for rewrite in rewrites:
            done.append(rewrite_index(table, rewrite))
    except BaseException:
        discard_indexes(table, rewrites, done)
        raise
    return done


def rewrite_file_index(
    table: FileStoreTable, partitions: Predicate | None = None, *, execute: IndexExecutor = rewrite_indexes_here
) -> IndexesRewritten:
    """Rebuild the indexes of a table's data files. Runs on the driver.

    Args:
        table: with the ``file-index.…`` options, dynamic ones too.
        partitions: over partition columns; None is every partition.
        execute: does the work.

    Raises:
        OptionError: an option asks for an index that cannot be.
        CommitConflictError: another commit took away a file; nothing is changed and no file is left.
        CommitStateUnknownError: it is not known whether the commit took place.
        CorruptTableError: a file is missing or damaged.
    """
    check_writable(table.schema)
    FileIndexSpec.of(table.schema, table.schema.field_names)
    snapshot = table.snapshots.latest_to_follow()
    if snapshot is None:
        return IndexesRewritten(None, 0, 0)
    live = table.manifests.live_columns(snapshot, predicate=partitions)
    rewrites = [
        IndexRewrite(entry.partition, entry.bucket, entry.total_buckets, entry.file)
        for entry in live.filter(live.buckets != POSTPONE_BUCKET)
        if not is_blob_file(entry.file.file_name)
    ]
    indexed = list(execute(table, rewrites))
    changed = [(old, new) for old, new in zip(rewrites, indexed, strict=True) if new != old.file]
    if not changed:
        _LOG.info("No indexes to rewrite in %s (snapshot %d).", table.path, snapshot.id)
        return IndexesRewritten(None, 0, 0)
    messages = [
        CommitMessage(
            old.partition, old.bucket, old.total_buckets, (), compact_before=(old.file,), compact_after=(new,)
        )
        for old, new in changed
    ]
    with undone_where_void(lambda: discard_indexes(table, rewrites, indexed)):
        snapshot_id = commit(table, messages, after_commit=maintenance(table))
    return IndexesRewritten(snapshot_id, len({old.partition for old, _ in changed}), len(changed))


def rewrite_index(table: FileStoreTable, rewrite: IndexRewrite) -> DataFileMeta:
    """Rebuild the indexes of one file and return its new metadata; an index file of its own gets a new name.

    Raises:
        CorruptTableError: the data file is missing or damaged.
    """
    file = rewrite.file
    path = table.paths.data_file_path(rewrite.partition, rewrite.bucket, file)
    columns = columns_of(table.schemas.get(file.schema_id), file.write_cols)
    settings = _settings_of_file(table, columns)
    old = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    others = tuple(name for name in file.extra_files if name not in old)
    if not settings:
        return replace(file, extra_files=others, embedded_file_index=None)
    wanted = {setting.column for setting in settings}
    fields = tuple(field for field in columns if field.name in wanted)
    builder = FileIndexBuilder(settings, {field.name: field.type for field in fields})
    most = block_bytes(int(table.options.value("read.merge.memory-budget")), 1)
    for batch in FileRead(table, fields, {}, batch_bytes=most).batches(SplitFile.of(file, path), None):
        builder.add(batch)
    threshold = int(table.options.value("file-index.in-manifest-threshold"))
    # a name of its own: another rewrite at the same time must not have the same file, which the loser deletes
    own = f"{path}-{uuid4().hex[:12]}-1{INDEX_SUFFIX}"
    embedded, written = keep_indexes(table.file_io, builder.finish(), own, threshold_bytes=threshold)
    return replace(file, extra_files=(*others, *written), embedded_file_index=embedded)


def _settings_of_file(table: FileStoreTable, columns: Sequence[DataField]) -> tuple[IndexSetting, ...]:
    """The settings by the names that the file's columns have; without those that its types do not take."""
    names, types = {field.id: field.name for field in columns}, {field.name: field.type for field in columns}
    old_names = {field.name: names[field.id] for field in table.schema.fields if field.id in names}
    found = for_file(FileIndexSpec.of(table.schema, table.schema.field_names).settings, old_names)
    return tuple(setting for setting in found if _is_possible(setting, types))


def _is_possible(setting: IndexSetting, types: Mapping[str, DataType]) -> bool:
    try:
        value_type(setting, types[setting.column])
    except OptionError:
        return False
    return True


def discard_indexes(
    table: FileStoreTable, rewrites: Sequence[IndexRewrite], indexed: Sequence[DataFileMeta | None]
) -> None:
    """Delete the index files that a rewrite has made and that no snapshot refers to.

    Args:
        table: whose they are.
        rewrites: what was to be done.
        indexed: the new metadata of each file; None where there is none, and fewer where it was not reached.
    """
    paths = []
    for rewrite, new in zip(rewrites, indexed, strict=False):
        directory = table.paths.data_file_path(rewrite.partition, rewrite.bucket, rewrite.file).rpartition("/")[0]
        made = () if new is None else [name for name in new.extra_files if name not in rewrite.file.extra_files]
        paths += [f"{directory}/{name}" for name in made]
    if paths:
        delete_files(table, paths)
