"""A scan of a table: planned once, read by threads of this process within a bounded memory.

In the manner of pyiceberg's ``DataScan``: a `Scan` is a description until rows are asked of it. It speaks Arrow's C
stream interface, so that polars, DuckDB and pandas take it as it is.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.errors import UnsupportedError, cut_methods
from paimon_spark.read.aggregate import count_splits
from paimon_spark.read.few_rows import first_batch_rows
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.small_files import are_many_and_small, read_splits
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_ROWS

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import ReadPlan, RowView
    from paimon_spark.table.table import FileStoreTable

_BUFFERED_BYTES = 64 << 20
"""What one split has ready that nobody has taken yet."""
_WHOLE = (1 << 20, _BUFFERED_BYTES)
"""Most rows and bytes of a batch where the result is kept as a whole: fewer of them take a tenth less."""
_SPLITS_TOGETHER = 256
"""How many splits a thread reads where all are small."""


@cut_methods
@dataclass(frozen=True)
class ScanSplit:
    """A part of a scan that is read by itself, in another process too. Picklable: plain values only."""

    plan: ReadPlan
    """Of the scan, with this split alone."""

    def __repr__(self) -> str:
        files = [file.name for split in self.plan.splits for file in split.files]
        return f"ScanSplit({self.plan.table.path!r}, files={files!r})"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return to_arrow_schema(self.plan.fields)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table."""
        return self.to_reader().read_all()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return _with_schema(self.plan, self.plan.splits, self.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the rows to another library, as Arrow's C stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)


@cut_methods
@dataclass(frozen=True)
class Scan:
    """Rows of one version of a table: columns, a condition, a limit. The version is the one of the first look."""

    table: FileStoreTable
    """With the options of the read."""
    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: int | None = None
    threads: int | None = None
    """How many splits are read at once; None: as many as this process has cores. Fewer splits decode their columns side
    by side."""
    view: RowView = ROWS
    """The rows themselves, or a system table of rows."""

    def __repr__(self) -> str:
        columns = None if self.columns is None else list(self.columns)
        return f"Scan({self.table.path!r}, columns={columns!r}, where={self.where!r}, limit={self.limit!r})"

    @cached_property
    def _plan(self) -> ReadPlan:
        scan = TableScan.of(self.table, self.view)
        condition: Predicate | None = None if self.where is None else parse_filter(self.where, scan.columns)
        columns = None if self.columns is None else list(self.columns)
        return scan.select(columns=columns, predicate=condition, parallelism=self._threads, limit=self.limit).plan()

    @property
    def _threads(self) -> int:
        return self.threads or len(os.sched_getaffinity(0))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return to_arrow_schema(self._plan.fields)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read; None of a table without one, and of a read of changes."""
        return None if self._plan.snapshot is None else self._plan.snapshot.id

    def splits(self) -> list[ScanSplit]:
        """Return the parts of the scan, each to be read by itself. A limit is not theirs: the caller cuts the rows."""
        plan = self._plan
        return [ScanSplit(_with_splits(plan, (split,))) for split in plan.splits]

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches, in the order of the splits.

        Splits are read ahead by threads, each up to 64 MB, so memory is bounded however slowly the batches are taken.

        Raises:
            PaimonError: as of every read; errors of a split are raised when its rows are due.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table."""
        return pa.Table.from_batches(self._batches(_WHOLE), self.schema)

    def to_pandas(self, **options: Any) -> Any:
        """Return the rows as a DataFrame of pandas; `options` are those of ``pyarrow.Table.to_pandas``."""
        _library("pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """Return the rows as a DataFrame of polars."""
        return _library("polars").from_arrow(self.to_arrow())

    def to_duckdb(self, name: str, connection: Any = None) -> Any:
        """Make the rows a view of DuckDB.

        Args:
            name: of the view.
            connection: of DuckDB; a new one in memory when not given.

        Returns:
            The connection.
        """
        connection = connection or _library("duckdb").connect(":memory:")
        connection.register(name, self.to_arrow())
        return connection

    def count(self) -> int:
        """Return the number of rows; without a condition and a limit of metadata and keys alone, as far as possible."""
        plan = self._plan
        if plan.residual is None and plan.read is read_split:
            rows = count_splits(plan.table, plan.splits)
            return rows if self.limit is None else min(rows, self.limit)
        return sum(batch.num_rows for batch in self._batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the rows to another library, as Arrow's C stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _batches(self, most: tuple[int, int] = (DEFAULT_BATCH_ROWS, DEFAULT_BATCH_BYTES)) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        are_together = self.limit is None and are_many_and_small(plan.table, plan.splits)
        if plan.read is read_split and not are_together:
            few = len(plan.splits) < self._threads
            if self.limit is None:
                rows = most[0]
            else:
                rows = first_batch_rows(self.limit) if plan.residual is None else DEFAULT_BATCH_ROWS
            read = partial(read_split, batch_rows=rows, batch_bytes=most[1], use_threads=few)
            plan = replace(plan, read=read)
        batches = _read_ahead(plan, to_arrow_schema(plan.fields), self._threads)
        return batches if self.limit is None else _first(batches, self.limit)


def _library(name: str) -> Any:
    """The module of a library that a result is for.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise UnsupportedError(f"The rows are wanted for {name}, which is not installed: pip install {name}") from None


def _with_splits(plan: ReadPlan, splits: Sequence[DataSplit]) -> ReadPlan:
    return replace(plan, splits=tuple(splits))


def _with_schema(plan: ReadPlan, splits: Sequence[DataSplit], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in read_splits(plan.table, splits, plan.fields, plan.residual, read=plan.read):
        if batch.num_rows:
            yield batch if batch.schema.equals(schema) else batch.cast(schema)


def _first(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    while left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def _read_ahead(plan: ReadPlan, schema: pa.Schema, threads: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all splits in their order, while the next ones are read."""
    together = _SPLITS_TOGETHER if plan.read is read_split else 1
    parts = [plan.splits[at : at + together] for at in range(0, len(plan.splits), together)]
    if threads == 1 or len(parts) == 1:
        for splits in parts:
            yield from _with_schema(plan, splits, schema)
        return
    left = iter(parts)
    running: deque[_SplitThread] = deque()
    try:
        while True:
            for splits in islice(left, threads - len(running)):
                running.append(_SplitThread(_with_schema(plan, splits, schema)))
            if not running:
                return
            yield from running[0].batches()
            running.popleft()
    finally:
        for thread in running:
            thread.stop()


class _SplitThread:
    """A thread that reads some splits ahead of who takes their batches."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._source = batches
        self._ready: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._ended = self._stopped = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="paimon-read", daemon=True).start()

    def _run(self) -> None:
        try:
            for batch in self._source:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped or self._bytes < _BUFFERED_BYTES)
                    if self._stopped:
                        return
                    self._ready.append(batch)
                    self._bytes += batch.nbytes
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - it is raised where the batches are taken
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they come."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._ended)
                if not self._ready:
                    if self._error is not None:
                        raise self._error
                    return
                batch = self._ready.popleft()
                self._bytes -= batch.nbytes
                self._changed.notify_all()
            yield batch

    def stop(self) -> None:
        """End the thread after the batch that it reads."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
