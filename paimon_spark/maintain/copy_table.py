"""A table's latest rows in another table, by copies of its files (Java: ``CopyFilesProcedure``).

Files get new names, so that a second copy does not meet the first. Java gives all files the target's schema and keeps
the old names in deletion vectors; here a file keeps the columns that it was written with, and its deleted rows.

Managed blob files are copied too. Java leaves the descriptors as they are, so that the copy needs the source. Here data
files are written again with other descriptors; rows keep their order, so that deletion vectors and statistics stay
right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import CommitStateUnknownError, CorruptTableError, OptionError, SchemaError, UnsupportedError
from paimon_spark.read.blob_values import ManagedBlobs
from paimon_spark.spec.file_names import (
    BLOB_REFERENCES_SUFFIX,
    MANAGED_BLOB_SUFFIX,
    POSTPONE_BUCKET,
    check_file_name,
    data_file_format,
    index_file_names,
)
from paimon_spark.spec.manifest import HASH_INDEX, DataFileMeta, FileKind, IndexManifestEntry
from paimon_spark.storage.blob_descriptor import LOCATION, ManagedBlobName, encode_references, rename, uris
from paimon_spark.storage.blob_format import leaves, with_leaves
from paimon_spark.storage.confinement import confined
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.new_schema import undo_create
from paimon_spark.table.paths import TablePaths, plain_path
from paimon_spark.table.schema_store import SchemaStore
from paimon_spark.table.table import create_table, load_table, table_exists
from paimon_spark.write.data_file_spec import data_file_spec
from paimon_spark.write.message import CommitMessage, NewHashes

if TYPE_CHECKING:
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


class ManagedBlobCopies:
    """Writes data files again, and notes which managed blob files are to be copied."""

    def __init__(self, source: FileStoreTable, target: FileStoreTable, token: str) -> None:
        """Copy nothing yet.

        Args:
            source: the table that is copied.
            target: its copy.
            token: what makes names of new files differ from all others.
        """
        self._source = source
        self._target = target
        self._token = token
        self._managed_blobs = ManagedBlobs(source)
        self._new: dict[str, str] = {}
        self.made: list[str] = []
        """Files that were written."""

    @property
    def blob_files(self) -> dict[str, str]:
        """Paths of managed blob files of the source, with those of their copies."""
        return dict(self._new)

    def rewrite(self, file: DataFileMeta, new: DataFileMeta, path: str, target: str) -> DataFileMeta:
        """Write a data file and its list of managed blob files into the copy; return its metadata.

        Raises:
            CorruptTableError: a row names no managed blob file of the source.
        """
        schema = self._source.schemas.get(file.schema_id)
        fields = data_file_spec(schema, level=file.level).physical_fields
        directory, needed = target.rpartition("/")[0], set[str]()
        columns = [field.name for field in schema.fields if field.name in schema.managed_blob_fields]
        self.made += [target, target + BLOB_REFERENCES_SUFFIX]
        with open_data_file(
            self._source.file_io, path, data_file_format(file.file_name), file.file_size, options=schema.options
        ) as reader:
            held = [field for field in fields if field.name in reader.schema.names]
            options = self._target.options
            writer = create_data_file(
                self._target.file_io,
                target,
                data_file_format(target),
                held,
                compression=options.file_compression_at(file.level),
                zstd_level=options.zstd_level,
                options=options.to_dict(),
            )
            try:
                for batch in self._renamed(reader.read_batches(held), columns, directory, needed):
                    writer.write(batch)
                result = writer.close()
            except BaseException:
                writer.abort()
                raise
        blob_files = (ManagedBlobName.of_uri(uri) for uri in needed)
        references = encode_references(blob_file for blob_file in blob_files if blob_file is not None)
        self._target.file_io.write_bytes(target + BLOB_REFERENCES_SUFFIX, references)
        extra = [name for name in new.extra_files if not name.endswith(BLOB_REFERENCES_SUFFIX)]
        sidecar = f"{new.file_name}{BLOB_REFERENCES_SUFFIX}"
        return replace(new, file_size=result.size_bytes, extra_files=(*extra, sidecar))

    def _renamed(
        self, batches: Iterator[pa.RecordBatch], columns: list[str], directory: str, needed: set[str]
    ) -> Iterator[pa.RecordBatch]:
        """Give descriptors the paths of the copied managed blob files."""
        for batch in batches:
            found = batch
            for name in columns:
                at = found.schema.get_field_index(name)
                column = found.column(at)
                values = leaves(column)
                names = {}
                for uri in uris(pc.binary_slice(values, 0, -LOCATION), self._source.path):
                    names[uri] = self._copied(self._managed_blobs.path(uri), directory)
                needed.update(names.values())
                found = found.set_column(at, found.schema.field(at), with_leaves(column, rename(values, names)))
            yield found

    def _copied(self, blob_file: str, directory: str) -> str:
        """The path of a managed blob file's copy; the first data file that names it has it in its directory."""
        if blob_file not in self._new:
            self._new[blob_file] = f"{directory}/data-{self._token}-{len(self._new)}{MANAGED_BLOB_SUFFIX}"
        return self._new[blob_file]


_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file to copy."""

    source: str
    target: str
    size_bytes: int


CopyExecutor = Callable[["FileStoreTable", "FileStoreTable", Sequence[FileCopy]], None]
"""Copies files of one table into another: here, or in tasks."""


def copy_table(
    source: FileStoreTable,
    path: str,
    options: Mapping[str, str],
    partitions: Predicate | None = None,
    *,
    execute: CopyExecutor | None = None,
) -> FileStoreTable:
    """Copy the latest snapshot of a table; return the target.

    A target that is there must have the same keys, buckets and format, and all columns of the source: rows have null in
    others. Its partitions of the same values are replaced, or all of its rows if it has none.

    Args:
        source: the branch that is copied.
        path: the target's directory; the table is made where there is none.
        options: of the target's store.
        partitions: a condition over partition columns; all rows when not given.
        execute: copies the files; this process does when not given.

    Raises:
        SchemaError: the target lacks columns, has other keys, buckets or another format.
        UnsupportedError: rows have ids, or are postponed.
        CommitConflictError: rivals won too often; nothing was changed.
    """
    if source.options.row_tracking_enabled:
        raise UnsupportedError(
            f"Table {source.path} has 'row-tracking.enabled', and ids of rows are not copied: write its rows into the "
            "other table (INSERT INTO … SELECT)."
        )
    exists = table_exists(path, options=options)
    one, other = f"{plain_path(path)}/", f"{plain_path(source.paths.root)}/"
    is_one_store = FileIO.for_path(path, options).address == source.file_io.address
    if is_one_store and (one.startswith(other) or other.startswith(one)):
        raise OptionError(f"Table {source.path} cannot be copied into itself, nor into what lies in it or around it.")
    snapshot = source.snapshots.latest()
    target = _resumed(source, path, options) if exists else _created(source, path, options)
    try:
        _copy_rows(source, target, snapshot, partitions, execute or copy_here, created=not exists)
    except CommitStateUnknownError:
        raise
    except BaseException:
        if not exists:
            undo_create(path, options)
        raise
    return target


def _copy_rows(
    source: FileStoreTable,
    target: FileStoreTable,
    snapshot: Snapshot | None,
    partitions: Predicate | None,
    execute: CopyExecutor,
    *,
    created: bool,
) -> None:
    ids = {schema.id: schema.id for schema in source.schemas.all()} if created else _same_schemas(source, target)
    if snapshot is None:
        return
    plan = _Plan(source, target, ids)

    def discard() -> None:
        target.file_io.delete_files([*(copy.target for copy in plan.copies), *plan.blob_files.made])

    try:
        plan.add(snapshot, partitions)
        execute(source, target, plan.copies)
    except BaseException:
        discard()
        raise
    whole = not source.schema.partition_keys
    with undone_where_void(discard):
        commit(
            target.as_if({"overwrite-upgrade": "false"}),
            plan.messages(),
            overwrite=OverwriteSpec.static() if whole else OverwriteSpec.dynamic(),
        )


class _Plan:
    """Which files are copied where, and what is committed then."""

    def __init__(self, source: FileStoreTable, target: FileStoreTable, schema_ids: Mapping[int, int]) -> None:
        self._source = source
        self._target = target
        self._schema_ids = schema_ids
        self._index_names = index_file_names()
        self._files: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
        self._index: dict[tuple[bytes, int], list[IndexManifestEntry]] = {}
        self._hashes: dict[tuple[bytes, int], NewHashes] = {}
        self._token = str(uuid4())
        self.blob_files = ManagedBlobCopies(source, target, self._token)
        self.copies: list[FileCopy] = []

    def add(self, snapshot: Snapshot, partitions: Predicate | None) -> None:
        """Take the files of a snapshot."""
        live = self._source.manifests.live_columns(snapshot, predicate=partitions)
        paths = DataLayout.of(self._source.schema).data_file_paths(self._source.paths.root, live)
        names: dict[tuple[bytes, int, str], str] = {}
        for number, (entry, path) in enumerate(zip(live, paths, strict=True)):
            if entry.bucket == POSTPONE_BUCKET:
                raise UnsupportedError(f"Rows of table {self._source.path} are postponed: compact it, then copy it.")
            old = entry.file
            name = f"data-{self._token}-{number}{_ending(old.file_name)}"
            names[entry.partition, entry.bucket, old.file_name] = name
            extra = [_renamed(extra, old.file_name, name) for extra in old.extra_files]
            new = replace(
                old,
                file_name=name,
                extra_files=tuple(extra),
                external_path=None,
                schema_id=self._schema_id(old),
                value_stats_cols=self._columns_of_statistics(old),
            )
            location = entry.partition, entry.bucket, entry.total_buckets
            directory, there = path.rpartition("/")[0], self._target.paths.data_file_path(*location[:2], new)
            rewritten = bool(self._source.schemas.get(old.schema_id).managed_blob_fields)
            if rewritten:
                new = self.blob_files.rewrite(old, new, path, there)
            else:
                self.copies.append(FileCopy(path, there, old.file_size))
            self._files.setdefault(location, []).append(new)
            copied_to = there.rpartition("/")[0]
            for before, after in zip(old.extra_files, extra, strict=True):
                if rewritten and before.endswith(BLOB_REFERENCES_SUFFIX):
                    continue
                here = f"{directory}/{check_file_name(before, path=directory)}"
                self.copies.append(FileCopy(here, f"{copied_to}/{check_file_name(after, path=copied_to)}", -1))
        self.copies += [FileCopy(blob_file, copied, -1) for blob_file, copied in self.blob_files.blob_files.items()]
        self._add_index(snapshot, names)

    def _add_index(self, snapshot: Snapshot, names: Mapping[tuple[bytes, int, str], str]) -> None:
        """Take the index files of the buckets, with the new names of the data files."""
        locations = {location[:2] for location in self._files}
        for entry in self._source.manifests.index_entries(snapshot):
            if (entry.partition, entry.bucket) not in locations:
                continue
            vectors = entry.deletion_vectors
            if vectors is not None:
                keys = ((entry.partition, entry.bucket, meta.data_file_name) for meta in vectors)
                known = [(meta, names.get(key)) for meta, key in zip(vectors, keys, strict=True)]
                vectors = tuple(replace(meta, data_file_name=name) for meta, name in known if name is not None)
            new = replace(
                entry,
                kind=FileKind.ADD,
                file_name=self._index_names.next(),
                external_path=None,
                deletion_vectors=vectors,
            )
            location = entry.partition, entry.bucket
            path = self._source.paths.index_file_path(entry)
            self.copies.append(FileCopy(path, self._target.paths.index_file_path(new), entry.file_size))
            if entry.index_type == HASH_INDEX:
                self._hashes[location] = NewHashes(entry.row_count, b"", new.file_name, entry.file_size)
            else:
                self._index.setdefault(location, []).append(new)

    def _schema_id(self, file: DataFileMeta) -> int:
        found = self._schema_ids.get(file.schema_id)
        if found is None:
            raise SchemaError(
                f"No schema of table {self._target.path} has the columns with which file {file.file_name} of "
                f"{self._source.path} was written (its schema {file.schema_id}): copy into a new table."
            )
        return found

    def _columns_of_statistics(self, file: DataFileMeta) -> tuple[str, ...] | None:
        """The columns that a file has statistics of; those of the source where the target's schema has more columns."""
        columns = self._source.schemas.get(file.schema_id).fields
        if file.value_stats_cols is not None or self._target.schemas.get(self._schema_id(file)).fields == columns:
            return file.value_stats_cols
        return tuple(column.name for column in columns)

    def messages(self) -> list[CommitMessage]:
        """Return what is committed."""
        return [
            CommitMessage(
                *location,
                tuple(files),
                new_index=self._hashes.get(location[:2]),
                index_changes=tuple(self._index.get(location[:2], ())),
            )
            for location, files in self._files.items()
        ]


def copy_here(source: FileStoreTable, target: FileStoreTable, copies: Sequence[FileCopy]) -> None:
    """Copy files in this process."""
    for copy in copies:
        copy_file(source.file_io, target.file_io, copy)


def copy_file(source: FileIO, target: FileIO, copy: FileCopy) -> None:
    """Copy one file; a part of it is deleted when that fails.

    Raises:
        CorruptTableError: the source has not the size that the table says.
    """
    try:
        size = 0
        with source.open_input(copy.source) as reading, target.open_output(copy.target) as writing:
            found = reading.size()
            while chunk := reading.read(_CHUNK_BYTES):
                writing.write(chunk)
                size += len(chunk)
        if copy.size_bytes not in (-1, size):
            raise CorruptTableError(
                f"File {copy.source} has {size} bytes, but its table says {copy.size_bytes}.", path=copy.source
            )
        if size != found:
            raise CorruptTableError(f"File {copy.source} had {found} bytes, and {size} when read.", path=copy.source)
    except BaseException:
        with contextlib.suppress(Exception):
            target.delete_quietly(copy.target)
        raise


def _created(source: FileStoreTable, path: str, options: Mapping[str, str]) -> FileStoreTable:
    """Make a table with all schemas of another one: its files were written with any of them."""
    first, *later = (_without_path(schema) for schema in source.schemas.all())
    target = create_table(path, first, options=options)
    return _with_schemas(target, later, options)


def _resumed(source: FileStoreTable, path: str, options: Mapping[str, str]) -> FileStoreTable:
    """Return the target that is there; a copy that was stopped while it made the table gets the schemas it lacks."""
    target = load_table(path, options=options)
    there, all_of_source = target.schemas.all(), [_without_path(schema) for schema in source.schemas.all()]
    begun = [_without_path(schema) for schema in there] == all_of_source[: len(there)]
    if begun and len(there) < len(all_of_source) and target.snapshots.latest_id() is None:
        return _with_schemas(target, all_of_source[len(there) :], options)
    return target


def _with_schemas(table: FileStoreTable, schemas: Sequence[TableSchema], options: Mapping[str, str]) -> FileStoreTable:
    store = SchemaStore(confined(table.file_io, table.paths.root), TablePaths(table.paths.root))
    for schema in schemas:
        store.commit_next(lambda _, schema=schema: schema)  # type: ignore[misc]
    return load_table(table.address, options=options)


def _without_path(schema: TableSchema) -> TableSchema:
    return schema.with_options({key: value for key, value in schema.options.items() if key != "path"})


def _same_schemas(source: FileStoreTable, target: FileStoreTable) -> dict[int, int]:
    """Return, for the source's schemas, those of the target with the same columns.

    Raises:
        SchemaError: the tables do not fit (Java's ``CopySchemaOperator.checkCompatible``).
    """
    ours, theirs = source.schema, target.schema
    for what, one, other in (
        ("bucket", source.options.bucket, target.options.bucket),
        ("format", source.options.value("file.format"), target.options.value("file.format")),
        ("primary keys", set(ours.primary_keys), set(theirs.primary_keys)),
        ("partition keys", list(ours.partition_keys), list(theirs.partition_keys)),
        ("fields", [], [field.name for field in ours.fields if field not in theirs.fields]),
    ):
        if one != other:
            raise SchemaError(f"source table {what} is not compatible with existed paimon table {what}: {target.path}")
    there = target.schemas.all()
    return {schema.id: found for schema in source.schemas.all() if (found := _fitting(schema, there)) is not None}


def _fitting(schema: TableSchema, others: Sequence[TableSchema]) -> int | None:
    """The one of other schemas that has the same columns, or else the first that has more columns than these."""
    same = [other.id for other in others if other.fields == schema.fields]
    return next(iter(same or [o.id for o in others if all(field in o.fields for field in schema.fields)]), None)


def _ending(name: str) -> str:
    """The extensions of a data file's name, such as ``.zst.parquet``."""
    _, dot, ending = name.rpartition("-")[2].partition(".")
    return dot + ending


def _renamed(extra: str, old: str, new: str) -> str:
    return new + extra.removeprefix(old) if extra.startswith(old) else f"{new}.{extra}"
