"""Small files of a task, read together.

To open a file and to find out what of it is read takes longer than to read a few rows, and to merge a few rows takes as
long as to merge thousands. So the rows of many small files become one batch, and what they share is found out once: the
mapping of their columns, their partition values, the filter. Buckets whose files are merged are merged at once: the
number of the split goes before their keys. Files in a store are asked for ahead.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from functools import cached_property
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.sort import whole_column
from paimon_spark.read.field_mapping import FieldMapping
from paimon_spark.read.file_read import passed_over
from paimon_spark.read.sections import runs_of
from paimon_spark.read.split import DataSplit
from paimon_spark.read.split_read import order_columns, read_split, results, with_filter_columns
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_ROWS
from paimon_spark.storage.read_ahead import FilesAhead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from paimon_spark.merge.merge_engine import MergeEngine
    from paimon_spark.read.sections import Runs
    from paimon_spark.read.split import SplitFile
    from paimon_spark.read.table_scan import ReadSplit
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.storage.arrow_layout import ColumnPlan
    from paimon_spark.storage.data_file import Source
    from paimon_spark.storage.small_parquet import SmallParquetFiles
    from paimon_spark.table.table import FileStoreTable

SMALL_FILE_BYTES: Final = 64 << 10
SMALL_FILE_ROWS: Final = 2_048
"""Larger files take longer to decode than to open."""
_COPIES: Final = 4
"""Of the rows of a merge: what is read, what is sorted, what comes out, and what the engine needs besides."""
_LEAST_FILES: Final = 8
"""Of fewer nothing is saved."""
_MANY_FILES: Final = 1_000
_MANY_FAR_FILES: Final = 50
"""In a store, of which Spark's own reader asks for one file after the other."""
_MANY_MERGED_FILES: Final = 30
"""Where some are merged: else the driver reads the keys of all, and Spark's own reader the files."""
_FEW_ROWS: Final = 1_000
_FEW_BYTES: Final = 32 << 10
"""Where files have no more on the average, this module reads them in less time than Spark's own reader does."""


def are_many_and_small(table: FileStoreTable, splits: Sequence[DataSplit]) -> bool:
    """Return whether splits of a table have so many files, and so small ones, that `read_splits` pays."""
    files = sum(len(split.files) for split in splits)
    least = _MANY_FILES if table.file_io.threads == 1 else _MANY_FAR_FILES
    if table.schema.kind.is_keyed and not all(split.raw_convertible for split in splits):
        least = min(least, _MANY_MERGED_FILES)
    if files < least:
        return False
    rows = sum(split.row_count for split in splits)
    return rows <= files * _FEW_ROWS and sum(split.size_bytes for split in splits) <= files * _FEW_BYTES


def read_splits(
    table: FileStoreTable,
    splits: Sequence[DataSplit],
    plan_fields: Sequence[DataField],
    predicate: Predicate | None = None,
    *,
    read: ReadSplit = read_split,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of splits, one split after the other, as `read` gives them of each; small files are read together.

    Args:
        table: the table of the plan.
        splits: of the plan.
        plan_fields: columns of the result.
        predicate: the filter.
        read: what reads a split.

    Raises:
        PaimonError: those of `read`.
    """
    if read is not read_split or passed_over(table) or sum(len(split.files) for split in splits) < _LEAST_FILES:
        yield from _one_by_one(table, splits, plan_fields, predicate, read)
        return
    parts = chain.from_iterable(_parts(table, split) for split in splits)
    for way, neighbours in groupby(parts, itemgetter(0)):
        some = [split for _, split in neighbours]
        reader = _reader_of(way, table, some, plan_fields, predicate)
        yield from _one_by_one(table, some, plan_fields, predicate) if reader is None else reader.rows()


def _one_by_one(
    table: FileStoreTable,
    splits: Iterable[DataSplit],
    plan_fields: Sequence[DataField],
    predicate: Predicate | None,
    read: ReadSplit = read_split,
) -> Iterator[pa.RecordBatch]:
    for split in splits:
        yield from read(table, split, plan_fields, predicate)


class _Way(Enum):
    ALONE = auto()
    """Each split for itself."""
    TOGETHER = auto()
    """One small file, whose rows are those of the table."""
    MERGED = auto()
    """Small files of a bucket that are merged."""


def _parts(table: FileStoreTable, split: DataSplit) -> Iterator[tuple[_Way, DataSplit]]:
    """Yield a split, or the files of one as splits, and how they are read."""
    from paimon_spark.read.plain_files import is_plain_split  # most tasks do without it

    kind, files = table.schema.kind, split.files
    small = list(map(_is_small, files))
    may_be = any(small) and (split.raw_convertible or not kind.has_data_evolution)
    if not may_be or any(file.row_groups for file in files):
        yield _Way.ALONE, split
    elif is_plain_split(split, has_keys=kind.is_keyed):
        for file, is_small in zip(files, small, strict=True):
            part = split if len(files) == 1 else split.with_files((file,))
            yield (_Way.TOGETHER if is_small else _Way.ALONE), part
    elif kind.is_keyed and all(small) and _is_merged_simply(table, split):
        yield _Way.MERGED, split
    else:
        yield _Way.ALONE, split


def _is_small(file: SplitFile) -> bool:
    return file.size <= SMALL_FILE_BYTES and file.row_count <= SMALL_FILE_ROWS


def _is_merged_simply(table: FileStoreTable, split: DataSplit) -> bool:
    """Whether the order of a bucket's files tells which rows are newer, as that of the files of each section does."""
    from paimon_spark.read.plain_files import is_plain_split

    options = table.options
    if options.needs_lookup or options.value("sequence.snapshot-ordering") or type(split) is not DataSplit:
        return False
    newest = sorted((file.min_seq, file.max_seq) for file in split.files if file.level == 0)
    apart = all(older[1] < newer[0] for older, newer in pairwise(newest))
    return apart and is_plain_split(split, has_keys=True, overlap=True)


def _reader_of(
    way: _Way,
    table: FileStoreTable,
    splits: Sequence[DataSplit],
    plan_fields: Sequence[DataField],
    predicate: Predicate | None,
) -> _Together | None:
    """Return what reads splits together; None where that gains nothing, or columns do not allow it."""
    if way is _Way.ALONE or sum(len(split.files) for split in splits) < _LEAST_FILES:
        return None
    kind = _Merged if way is _Way.MERGED else _Together
    reader = kind(table, splits, plan_fields, predicate)
    return reader if reader.is_possible else None


class _FileRows(NamedTuple):
    """The rows of a small file as it holds them."""

    split: DataSplit
    mapping: FieldMapping
    plan: ColumnPlan
    rows: pa.Table


class _Together:
    """Reads small files whose rows are those of the table."""

    def __init__(
        self,
        table: FileStoreTable,
        splits: Sequence[DataSplit],
        plan_fields: Sequence[DataField],
        predicate: Predicate | None,
    ) -> None:
        self._table = table
        self._splits = splits
        self._plan_fields = plan_fields
        self._predicate = predicate
        self._keys = frozenset(table.schema.partition_keys)
        self._readers: dict[int, tuple[FieldMapping, SmallParquetFiles]] = {}
        self._waiting: list[tuple[DataSplit, list[_FileRows]]] = []
        self._rows = self._bytes = 0

    @cached_property
    def _wanted(self) -> Sequence[DataField]:
        """The columns of the result, then those that only the filter uses."""
        return with_filter_columns(self._table, self._plan_fields, self._predicate)

    @cached_property
    def _fields(self) -> Sequence[DataField]:
        """The columns that are read, those of the partition among them."""
        return self._wanted

    @cached_property
    def _special(self) -> Sequence[DataField]:
        """Columns that are read behind them, which no schema has."""
        return ()

    @cached_property
    def _files(self) -> list[Sequence[SplitFile]]:
        """The files of each split, those with newer rows behind those with older ones."""
        return [split.files for split in self._splits]

    @property
    def _most_bytes(self) -> int:
        """Bytes of rows that wait."""
        return DEFAULT_BATCH_BYTES

    @cached_property
    def _own(self) -> list[DataField]:
        return [field for field in self._fields if field.name not in self._keys]

    @property
    def is_possible(self) -> bool:
        """Whether columns of the files are wanted, each of a type that has one form in files."""
        from paimon_spark.read.plain_files import has_one_form

        ids = {file.schema_id for split in self._splits for file in split.files}
        mappings = [self._mapping(schema_id) for schema_id in ids]
        kinds = [field.type for fields in (self._own, *(each.file_fields for each in mappings)) for field in fields]
        return all(each.file_fields for each in mappings) and all(map(has_one_form, kinds))

    def _mapping(self, schema_id: int) -> FieldMapping:
        return FieldMapping.of(self._table.schemas.get(schema_id).fields, self._own, {})

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the splits.

        A split that cannot be read so is read by `read_split`, which says what is wrong with it.
        """
        for split, files in zip(self._splits, self._files, strict=True):
            try:
                found = [self._read(split, file) for file in files]
            except Exception:  # noqa: BLE001 - read again below, which raises what it should
                found = [None]
            parts = [each for each in found if each is not None]
            if len(parts) < len(found):
                yield from self._flushed()
                yield from read_split(self._table, split, self._plan_fields, self._predicate)
                continue
            self._waiting.append((split, parts))
            self._rows += sum(part.rows.num_rows for part in parts)
            self._bytes += sum(part.rows.nbytes for part in parts)
            if self._rows >= DEFAULT_BATCH_ROWS or self._bytes >= self._most_bytes:
                yield from self._flushed()
        yield from self._flushed()

    @cached_property
    def _source(self) -> Source:
        file_io = self._table.file_io
        if file_io.threads == 1:
            return file_io
        return FilesAhead(file_io, [(file.path, file.size) for files in self._files for file in files])

    def _read(self, split: DataSplit, file: SplitFile) -> _FileRows | None:
        from paimon_spark.storage.small_parquet import SmallParquetFiles

        if file.schema_id not in self._readers:
            mapping = self._mapping(file.schema_id)
            reader = SmallParquetFiles(self._source, (*mapping.file_fields, *self._special))
            self._readers[file.schema_id] = mapping, reader
        mapping, reader = self._readers[file.schema_id]
        found = reader.read(file.path, file.size, file.row_count)
        return None if found is None else _FileRows(split, mapping, *found)

    def _flushed(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that wait."""
        waiting, self._waiting, self._rows, self._bytes = self._waiting, [], 0, 0
        if not waiting:
            return
        try:
            found = list(results(self._batches(waiting), self._plan_fields, self._predicate))
        except Exception:  # noqa: BLE001 - read again, which says in which file
            splits = (split for split, _ in waiting)
            yield from _one_by_one(self._table, splits, self._plan_fields, self._predicate)
            return
        yield from found

    def _batches(self, waiting: Sequence[tuple[DataSplit, list[_FileRows]]]) -> Sequence[pa.RecordBatch]:
        """The rows of some splits, of all wanted columns."""
        found: list[pa.RecordBatch] = self._table_of([part for _, parts in waiting for part in parts]).to_batches()
        return found

    def _table_of(self, parts: Sequence[_FileRows]) -> pa.Table:
        """The rows of files, of the columns that are read."""
        alike = groupby(parts, lambda part: (id(part.mapping), id(part.plan)))
        whole = pa.Table.from_batches([self._read_columns(list(some)) for _, some in alike]).combine_chunks()
        constants = self._constants(parts)
        columns = [
            constants[field.name] if field.name in constants else whole.column(field.name)
            for field in (*self._fields, *self._special)
        ]
        return pa.table(columns, schema=to_arrow_schema((*self._fields, *self._special)))

    def _read_columns(self, parts: Sequence[_FileRows]) -> pa.RecordBatch:
        """The rows of files of one layout, without the columns of the partition."""
        whole = pa.concat_tables([part.rows for part in parts])
        columns = [whole_column(whole, name) for name in whole.schema.names]
        held = parts[0].plan.apply(pa.RecordBatch.from_arrays(columns, schema=whole.schema))
        own = parts[0].mapping.batch(held)
        arrays = [*own.columns, *(held.column(field.name) for field in self._special)]
        return pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema((*self._own, *self._special)))

    def _constants(self, parts: Sequence[_FileRows]) -> dict[str, pa.Array]:
        """The columns of the partition that are read, by name."""
        schema = self._table.schema
        read = {field.name for field in self._fields}
        positions = [at for at, name in enumerate(schema.partition_keys) if name in read]
        if not positions:
            return {}
        types = [schema.field(name).type for name in schema.partition_keys]
        arrays = decode_rows([part.split.partition for part in parts], types, serialized=True, fields=positions)
        at_rows = pa.array(np.repeat(np.arange(len(parts)), [part.rows.num_rows for part in parts]))
        names = [schema.partition_keys[at] for at in positions]
        return {name: array.take(at_rows) for name, array in zip(names, arrays, strict=True)}


class _Merged(_Together):
    """Reads small files of several buckets, and merges those of each: a key of one bucket is another in each other."""

    @cached_property
    def _split_column(self) -> DataField:
        name = "_SPLIT"
        while self._table.schema.has_field(name):
            name = f"_{name}"
        return DataField(-1, name, IntType(nullable=False))

    @cached_property
    def _engine(self) -> MergeEngine:
        """The merge engine, for rows whose key begins with the number of their split."""
        schema = self._table.schema
        keys = (self._split_column.name, *schema.primary_keys)
        return merge_engine_for(replace(schema, fields=(self._split_column, *schema.fields), primary_keys=keys))

    @cached_property
    def _names(self) -> list[str]:
        """The columns of a merged row that are wanted; one by which rows are counted where none is."""
        return [field.name for field in self._wanted] or [self._engine.keys[-1]]

    @cached_property
    def _fields(self) -> Sequence[DataField]:
        """What the merge needs."""
        needed = set(self._engine.required_columns(self._names))
        wanted = {field.name: field for field in self._wanted}
        return [wanted.get(field.name, field) for field in self._table.schema.fields if field.name in needed]

    @cached_property
    def _special(self) -> Sequence[DataField]:
        """What else decides the order of rows, of the files of all splits."""
        found = {field.name: field for runs in self._runs for field in order_columns(runs)}
        return [found[name] for name in sorted(found)]

    @cached_property
    def _runs(self) -> list[Runs]:
        return [runs_of(split.files) for split in self._splits]

    @cached_property
    def _files(self) -> list[Sequence[SplitFile]]:
        return [[file for run in runs for file in run] for runs in self._runs]

    @property
    def _most_bytes(self) -> int:
        budget: int = self._table.options.value("read.merge.memory-budget")
        return min(DEFAULT_BATCH_BYTES, budget // _COPIES)

    def _batches(self, waiting: Sequence[tuple[DataSplit, list[_FileRows]]]) -> Sequence[pa.RecordBatch]:
        rows = self._table_of([part for _, parts in waiting for part in parts])
        counts = [sum(part.rows.num_rows for part in parts) for _, parts in waiting]
        numbers = pa.array(np.repeat(np.arange(len(waiting), dtype=np.int32), counts))
        rows = rows.add_column(0, to_arrow_schema([self._split_column]).field(0), numbers)
        merged = self._engine.merge(rows, drop_deletes=True, columns=self._names, key_value_columns=False)
        found: list[pa.RecordBatch] = merged.combine_chunks().to_batches()
        return found
