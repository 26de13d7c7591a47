"""One unit of a compaction: files of a bucket are read, merged where key ranges overlap, and written as new files.

Equals Java's ``MergeTreeCompactRewriter`` and ``BaseAppendFileStoreWrite.compactRewrite``. Runs in tasks; memory is
bounded by ``read.merge.memory-budget`` and what the file format keeps of an open file.

Files that a compaction writes into one bucket: pieces of rows of any size are put together first.

Memory is bounded by ``read.merge.memory-budget`` and what the file format keeps of an open file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.maintain.compact.lookup_rewrite import LookupRewrite, rows_with_changelog
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.stream import block_bytes, merge_sorted_runs
from paimon_spark.read.audit_log import tracked_rows
from paimon_spark.read.data_evolution_read import read_files
from paimon_spark.read.file_read import FileRead, RecordExpiry
from paimon_spark.read.sections import runs_of
from paimon_spark.read.split_read import opened_in_order, partition_scalars
from paimon_spark.spec.manifest import DataFileMeta, FileSource
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER, without_retracts
from paimon_spark.write.data_file_spec import data_file_spec
from paimon_spark.write.rolling import RollingFiles
from paimon_spark.write.row_writers import physical_rows

if TYPE_CHECKING:
    from paimon_spark.read.split import SplitFile
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.data_file_spec import DataFileSpec

_TRACKED = (ROW_ID, SEQUENCE_NUMBER)
_LOG = logging.getLogger(__name__)

_CHUNK_ROWS = 1 << 18
_CHUNK_BYTES = 16 << 20
_FLUSH_BYTES = 64 << 20
"""A row group, so that files of a small budget have smaller ones."""


@dataclass(frozen=True, slots=True)
class DataEvolutionRows:
    """What the one new file of a table with data evolution takes over from the files whose columns it puts together."""

    first_row_id: int | None
    """None where the rows get new ids with the commit: some of them are deleted."""
    min_sequence: int
    max_sequence: int


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files of one bucket that become new files, in one go. Picklable and small: it travels to a task."""

    partition: bytes
    bucket: int
    level: int
    """Of the new files."""
    sections: tuple[tuple[SplitFile, ...], ...]
    """With keys: groups of files with overlapping key ranges, in key order. Without: single files, in row order."""
    drop_deletes: bool = False
    first_sequence: int = 0
    """Without keys: sequence number of the first row."""
    changelog: bool = False
    """Write the changelog of the rows as well: of those of level 0 where rows are looked up; otherwise `level` is the
    top level (``changelog-producer`` full-compaction)."""
    new_files: bool = True
    """Whether the rows are written; otherwise only their changelog is, and the files are upgraded as they are."""
    higher_runs: tuple[tuple[SplitFile, ...], ...] | None = None
    """Of tables with lookups: the runs above `level` that may hold older rows of the keys, the highest level first;
    None where no row of level 0 is rewritten."""
    data_evolution: DataEvolutionRows | None = None
    """With data evolution: the one section holds the files whose columns are put together, and one file comes of it."""

    @property
    def size_bytes(self) -> int:
        """Bytes to read."""
        return sum(file.size for files in (*self.sections, *(self.higher_runs or ())) for file in files)


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """What a rewrite made. Picklable and small: it is the answer of a task."""

    files: tuple[DataFileMeta, ...]
    """New data files, in key order (without keys: in row order)."""
    changelog_files: tuple[DataFileMeta, ...] = ()
    """Changelog files of the rewritten rows (``changelog-producer`` full-compaction and lookup)."""
    deletions: tuple[tuple[str, bytes], ...] = ()
    """Names of files of higher levels, and the positions of their rows (little-endian int64, ascending) that are
    replaced by new ones: with deletion vectors they are to be marked."""

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """All files that the rewrite made, to be deleted when it does not count."""
        return (*self.files, *self.changelog_files)


def rewrite_files(table: FileStoreTable, rewrite: Rewrite) -> RewriteResult:
    """Write the rows of some files into new ones and return these; on any error they are deleted.

    Args:
        table: with the schema and options that the new files get.
        rewrite: what to read.

    Raises:
        CorruptTableError: a data file is missing or damaged.
        DataError: the merge engine cannot take a row.
    """
    schema = table.schema
    directory = table.paths.bucket_dir(table.paths.partition_path(rewrite.partition), rewrite.bucket)
    spec = output_spec(table, rewrite)
    output = OutputFiles(table, spec, directory, FileSource.COMPACT, first_sequence=rewrite.first_sequence)
    log_spec = data_file_spec(schema, level=rewrite.level, changelog=True) if schema.kind.is_keyed else spec
    lookup = _lookup(table, rewrite)
    log = OutputFiles(table, log_spec, directory, FileSource.APPEND)
    try:
        for rows, changelog in _pieces(table, rewrite) if lookup is None else lookup.pieces():
            if rewrite.new_files:
                output.write(rows)
            if changelog is not None:
                log.write(changelog)
        deletions = () if lookup is None else lookup.deletions.packed()
        result = RewriteResult(_numbered(output.close(), rewrite), log.close(), deletions)
    except BaseException:
        output.abort()
        log.abort()
        raise
    _LOG.info(
        "Compacted %d files (%d bytes) of %s to %d files of level %d, with %d changelog files.",
        sum(map(len, rewrite.sections)),
        rewrite.size_bytes,
        directory,
        len(result.files),
        rewrite.level,
        len(result.changelog_files),
    )
    return result


def output_spec(table: FileStoreTable, rewrite: Rewrite) -> DataFileSpec:
    """Return how the new files of a rewrite are written."""
    schema = table.schema
    if rewrite.data_evolution is not None:  # companion files stay, and the rows keep their one range of ids
        if rewrite.data_evolution.first_row_id is None:  # new ids: no companion files, all columns go along
            schema = replace(schema, options={k: v for k, v in schema.options.items() if k != "vector.file.format"})
        return replace(data_file_spec(schema, limit_rows=False), companions=(), target_size_bytes=2**62)
    # rows that are moved take their ids with them
    columns = (*schema.fields, *_TRACKED) if table.options.row_tracking_enabled else None
    return data_file_spec(schema, level=rewrite.level, limit_rows=False, columns=columns)


def _numbered(files: tuple[DataFileMeta, ...], rewrite: Rewrite) -> tuple[DataFileMeta, ...]:
    """Give the file of a table with data evolution its row ids and sequence numbers."""
    rows = rewrite.data_evolution
    if rows is None:
        return files
    return tuple(  # none, if all of its rows are deleted
        replace(
            file,
            file_source=file.file_source if rows.first_row_id is not None else FileSource.APPEND,
            first_row_id=rows.first_row_id,
            min_sequence_number=rows.min_sequence,
            max_sequence_number=rows.max_sequence,
        )
        for file in files
    )


def _lookup(table: FileStoreTable, rewrite: Rewrite) -> LookupRewrite | None:
    if rewrite.higher_runs is None:
        return None
    return LookupRewrite(
        table,
        rewrite.partition,
        rewrite.sections,
        rewrite.higher_runs,
        changelog=rewrite.changelog,
        drop_deletes=rewrite.drop_deletes,
    )


def _pieces(table: FileStoreTable, rewrite: Rewrite) -> Iterator[tuple[pa.Table | pa.RecordBatch, pa.Table | None]]:
    """Yield rows of the new files, and rows of the changelog that come with them."""
    if rewrite.changelog:
        yield from rows_with_changelog(table, rewrite.partition, rewrite.sections, rewrite.level)
        return
    batches = _merged(table, rewrite) if table.schema.kind.is_keyed else appended_rows(table, rewrite)
    for batch in batches:
        yield batch, None


def appended_rows(table: FileStoreTable, rewrite: Rewrite) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are left of files of a table without keys, as new files hold them."""
    fields, constants = tuple(table.schema.fields), partition_scalars(table, rewrite.partition)
    if rewrite.data_evolution is not None:
        plain = output_spec(table, rewrite).value_fields  # those of companion files stay there
        yield from read_files(FileRead(table, plain, constants), rewrite.sections[0], None)
        return
    reader = FileRead(table, fields, constants)
    for section in rewrite.sections:
        if table.options.row_tracking_enabled:
            yield from tracked_rows(reader, section)
        else:
            yield from reader.run(section, None)


def _merged(table: FileStoreTable, rewrite: Rewrite) -> Iterator[pa.RecordBatch]:
    constants = partition_scalars(table, rewrite.partition)
    for section in rewrite.sections:
        runs = runs_of(section)
        if len(runs) == 1:
            # every key comes once, and Java gives a single row to no merge function
            reader = FileRead(
                table, tuple(table.schema.fields), constants, key_value=True, expiry=RecordExpiry.of(table)
            )
            rows = reader.run(runs[0], None)
            yield from map(without_retracts, rows) if rewrite.drop_deletes else rows
        else:
            yield from _merged_section(table, runs, constants, drop_deletes=rewrite.drop_deletes)


def _merged_section(
    table: FileStoreTable, runs: Sequence[Sequence[SplitFile]], constants: dict[str, pa.Scalar], *, drop_deletes: bool
) -> Iterator[pa.RecordBatch]:
    budget = table.options.value("read.merge.memory-budget")
    most = block_bytes(budget, len(runs))
    reader = FileRead(
        table,
        tuple(table.schema.fields),
        constants,
        key_value=True,
        batch_bytes=most,
        expiry=RecordExpiry.of(table),
    ).for_files(opened_in_order(runs))
    yield from merge_sorted_runs(
        reader.runs(runs, None),
        merge_engine_for(table.schema),
        budget_bytes=budget,
        drop_deletes=drop_deletes,
        replacing=sum(run[0].level > 0 for run in runs) if table.options.needs_lookup else 0,
    )


class OutputFiles:
    """Rolling files of one kind, data or changelog; not for concurrent use."""

    def __init__(
        self,
        table: FileStoreTable,
        spec: DataFileSpec,
        directory: str,
        source: FileSource,
        *,
        first_sequence: int = 0,
    ) -> None:
        """Open nothing yet.

        Args:
            table: whose files they are.
            spec: how they are written.
            directory: the bucket's.
            source: what the metadata says of their making.
            first_sequence: without keys: sequence number of the first row.
        """
        self._spec = spec
        self._files = RollingFiles(
            table.file_io, spec, directory, spec.file_names(), next_sequence=first_sequence, source=source
        )
        budget = int(table.options.value("read.merge.memory-budget"))
        self._chunk_bytes, self._flush_bytes = min(_CHUNK_BYTES, budget // 8), min(_FLUSH_BYTES, budget // 4)
        self._parts: list[pa.Table] = []
        self._rows = self._bytes = self._unflushed = 0

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Take rows: the columns of the table, with keys also ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``."""
        if not rows.num_rows:
            return
        self._parts.append(pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= _CHUNK_ROWS or self._bytes >= self._chunk_bytes:
            self._write_parts()

    def _write_parts(self) -> None:
        rows = pa.concat_tables(self._parts)
        self._parts, self._rows, self._bytes = [], 0, 0
        self._files.write(physical_rows(rows, self._spec) if self._spec.keyed else rows)
        self._unflushed += rows.nbytes
        if self._unflushed >= self._flush_bytes:
            self._files.flush()
            self._unflushed = 0

    def close(self) -> tuple[DataFileMeta, ...]:
        """Write what is left and return all files."""
        if self._parts:
            self._write_parts()
        return self._files.close()

    def abort(self) -> None:
        """Give up and delete the files."""
        self._parts = []
        self._files.abort()
