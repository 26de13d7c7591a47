"""Small files of a task, read together.

To open a file and to find out what of it is read takes longer than to read a few rows. So the rows of many small
files that need no merging become one batch, and what they share is found out once: the mapping of their columns, their
partition values, the filter. Files in a store are asked for ahead.
"""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from paimon_spark.read.field_mapping import FieldMapping
from paimon_spark.read.file_read import passed_over
from paimon_spark.read.split_read import read_split, results, with_filter_columns
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_ROWS
from paimon_spark.storage.read_ahead import FilesAhead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.read.table_scan import ReadSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.storage.arrow_layout import ColumnPlan
    from paimon_spark.table.table import FileStoreTable

SMALL_FILE_BYTES: Final = 64 << 10
SMALL_FILE_ROWS: Final = 2_048
"""Larger files take longer to decode than to open."""
_LEAST_FILES: Final = 8
"""Of fewer nothing is saved."""
_MANY_FILES: Final = 1_000
_MANY_FAR_FILES: Final = 50
"""In a store, of which Spark's own reader asks for one file after the other."""
_FEW_ROWS: Final = 1_000
_FEW_BYTES: Final = 32 << 10
"""Where files have no more on the average, this module reads them in less time than Spark's own reader does."""


def are_many_and_small(table: FileStoreTable, splits: Sequence[DataSplit]) -> bool:
    """Return whether splits of a table have so many files, and so small ones, that `read_splits` pays."""
    files = sum(len(split.files) for split in splits)
    if files < (_MANY_FILES if table.file_io.threads == 1 else _MANY_FAR_FILES):
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
        for split in splits:
            yield from read(table, split, plan_fields, predicate)
        return
    parts = chain.from_iterable(_parts(table, split) for split in splits)
    for schema_id, neighbours in groupby(parts, itemgetter(0)):
        some = [split for _, split in neighbours]
        together = None if schema_id is None else _Together.of(table, schema_id, plan_fields, predicate)
        if together is None or len(some) < _LEAST_FILES:
            for split in some:
                yield from read_split(table, split, plan_fields, predicate)
        else:
            yield from together.rows(some)


def _parts(table: FileStoreTable, split: DataSplit) -> Iterator[tuple[int | None, DataSplit]]:
    """Yield a split, or the files of one as splits; of small files whose rows are those of the table, their schema."""
    from paimon_spark.read.plain_files import is_plain_split  # most tasks do without it

    kind, files = table.schema.kind, split.files
    may_be = any(map(_is_small, files)) and (split.raw_convertible or not kind.has_data_evolution)
    if not may_be or not is_plain_split(split, has_keys=kind.is_keyed) or any(file.row_groups for file in files):
        yield None, split
        return
    for file in files:
        part = split if len(files) == 1 else split.with_files((file,))
        yield (file.schema_id if _is_small(file) else None), part


def _is_small(file: SplitFile) -> bool:
    return file.size <= SMALL_FILE_BYTES and file.row_count <= SMALL_FILE_ROWS


class _Together:
    """Reads the small files of one schema."""

    def __init__(
        self,
        table: FileStoreTable,
        mapping: FieldMapping,
        fields: Sequence[DataField],
        plan_fields: Sequence[DataField],
        predicate: Predicate | None,
    ) -> None:
        self._table = table
        self._mapping = mapping
        self._fields = fields
        self._plan_fields = plan_fields
        self._predicate = predicate
        self._waiting: list[tuple[DataSplit, pa.Table]] = []
        self._plan: ColumnPlan | None = None
        self._rows = self._bytes = 0

    @classmethod
    def of(
        cls,
        table: FileStoreTable,
        schema_id: int,
        plan_fields: Sequence[DataField],
        predicate: Predicate | None,
    ) -> _Together | None:
        """Return what reads such files; None where no column of theirs is wanted, or one of a type of several forms."""
        from paimon_spark.read.plain_files import has_one_form

        fields = with_filter_columns(table, plan_fields, predicate)
        own = [field for field in fields if field.name not in table.schema.partition_keys]
        mapping = FieldMapping.of(table.schemas.get(schema_id).fields, own, {})
        if not mapping.file_fields or not all(has_one_form(field.type) for field in (*mapping.file_fields, *own)):
            return None
        return cls(table, mapping, fields, plan_fields, predicate)

    def rows(self, splits: Sequence[DataSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of splits of one file each.

        A file that cannot be read so is read by `read_split`, which says what is wrong with it.
        """
        from paimon_spark.storage.small_parquet import SmallParquetFiles

        file_io = self._table.file_io
        files = [(split.files[0].path, split.files[0].size) for split in splits]
        source = FilesAhead(file_io, files) if file_io.threads > 1 else file_io
        reader = SmallParquetFiles(source, self._mapping.file_fields)
        for split, (path, size) in zip(splits, files, strict=True):
            try:
                found = reader.read(path, size, split.files[0].row_count)
            except Exception:  # noqa: BLE001 - read again below, which raises what it should
                found = None
            if found is None:
                yield from self._flushed()
                yield from read_split(self._table, split, self._plan_fields, self._predicate)
                continue
            plan, rows = found
            if plan is not self._plan:
                yield from self._flushed()
                self._plan = plan
            self._waiting.append((split, rows))
            self._rows += rows.num_rows
            self._bytes += rows.nbytes
            if self._rows >= DEFAULT_BATCH_ROWS or self._bytes >= DEFAULT_BATCH_BYTES:
                yield from self._flushed()
        yield from self._flushed()

    def _flushed(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that wait."""
        waiting, self._waiting, self._rows, self._bytes = self._waiting, [], 0, 0
        if not waiting:
            return
        try:
            found = list(results([self._batch(waiting)], self._plan_fields, self._predicate))
        except Exception:  # noqa: BLE001 - read again, which says in which file
            for split, _ in waiting:
                yield from read_split(self._table, split, self._plan_fields, self._predicate)
            return
        yield from found

    def _batch(self, waiting: Sequence[tuple[DataSplit, pa.Table]]) -> pa.RecordBatch:
        """Return the rows of files, of all columns."""
        assert self._plan is not None
        whole = pa.concat_tables([rows for _, rows in waiting]).combine_chunks()
        columns = [pa.array([], column.type) if not column.num_chunks else column.chunk(0) for column in whole.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=whole.schema)
        own = iter(self._mapping.batch(self._plan.apply(batch)).columns)
        constants = self._constants(waiting)
        arrays = [constants[field.name] if field.name in constants else next(own) for field in self._fields]
        return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in self._fields])

    def _constants(self, waiting: Sequence[tuple[DataSplit, pa.Table]]) -> dict[str, pa.Array]:
        """Return the partition columns that are read, by name."""
        schema = self._table.schema
        wanted = {field.name for field in self._fields}
        positions = [at for at, name in enumerate(schema.partition_keys) if name in wanted]
        if not positions:
            return {}
        types = [schema.field(name).type for name in schema.partition_keys]
        arrays = decode_rows([split.partition for split, _ in waiting], types, serialized=True, fields=positions)
        counts = [rows.num_rows for _, rows in waiting]
        at_rows = pa.array(np.repeat(np.arange(len(waiting)), counts))
        names = [schema.partition_keys[at] for at in positions]
        return {name: array.take(at_rows) for name, array in zip(names, arrays, strict=True)}
