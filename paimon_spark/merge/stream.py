"""Merging sorted runs in bounded memory: blocks of rows are loaded; rows that no unread row can change are merged.

Every run is sorted by key. Rows below the smallest last key among the loaded blocks of runs that have more to give are
complete: they are merged and given out, the others wait for the next blocks. A key is never split over two chunks. The
result of a merge is columns taken from rows in merge order, or computed. A large table of rows comes in pieces of whole
keys, in key order, so that a merge never copies all of it at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.memory import give_back
from paimon_spark.merge.aggregators import Merged
from paimon_spark.merge.merge_engine import MergeEngine, bytes_of, table_of
from paimon_spark.merge.segments import Indices, Mask
from paimon_spark.merge.sort import SEQUENCE_NUMBER, VALUE_KIND, KeyOrder, fixed_values, sort_order, whole_column
from paimon_spark.spec.special_fields import is_retract

_LEAST_BLOCK_BYTES = 64 << 10
_PARTS = 8
"""The budget in blocks of each run: two are loaded, what is merged of them is copied twice (whole columns, and those of
the result), and two are for what decodes them and for whoever takes the result.
"""


def block_bytes(budget_bytes: int, runs: int) -> int:
    """How large one batch of each run may be so that all that a merge of the runs holds fits the budget.

    Args:
        budget_bytes: ``read.merge.memory-budget``.
        runs: Number of sorted runs merged together.
    """
    return max(_LEAST_BLOCK_BYTES, budget_bytes // (_PARTS * max(runs, 1)))


def merge_sorted_runs(
    runs: Sequence[Iterator[pa.RecordBatch]],
    engine: MergeEngine,
    *,
    budget_bytes: int,
    drop_deletes: bool,
    columns: Sequence[str] | None = None,
    key_value_columns: bool = True,
    replacing: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Merges sorted runs; runs in the task that reads or writes them.

    Args:
        runs: For each run, oldest first, its KeyValue rows sorted by key. Batches larger than the budget's share of a
            run (see ``block_bytes``) are taken as they are. Columns that the engine only moves may be dictionaries.
        engine: The merge engine of the table.
        budget_bytes: Memory for all that the merge holds: loaded rows, their copies, decoders.
        drop_deletes: Leave out keys whose merged row is -U or -D.
        columns: Value columns of the result, in order; None: all.
        key_value_columns: Whether the result has the KeyValue columns at its end.
        replacing: The first so many runs are levels of a table with lookups: a row there is merged from those of the
            runs before it, so that only the last of a key counts (Java ``LookupMergeFunction``).

    Yields:
        Merged rows, sorted by key over all batches.
    """
    for ready in aligned_batches(runs, engine.keys, budget_bytes=budget_bytes):
        if sum(map(bool, ready[:replacing])) > 1:
            ready[:replacing] = [_last_of_keys([batch for run in ready[:replacing] for batch in run], engine.keys)]
        merged = engine.merge(
            table_of([batch for run in ready for batch in run]),
            drop_deletes=drop_deletes,
            columns=columns,
            key_value_columns=key_value_columns,
        )
        del ready
        yield from merged.to_batches()


def aligned_batches(
    runs: Sequence[Iterator[pa.RecordBatch]], keys: Sequence[str], *, budget_bytes: int, followers: int = 0
) -> Iterator[list[list[pa.RecordBatch]]]:
    """Cuts sorted runs at the same keys; all rows of a key come in one piece.

    Args:
        runs: For each run its rows sorted by key; runs may have different columns besides the keys.
        keys: Key columns, in key order.
        budget_bytes: Memory for the rows that are loaded at one time, and for the merge of each piece.
        followers: The first so many runs are only of interest where the others have rows: reading ends with these.

    Yields:
        For each run the batches of the next piece, in key order over all pieces; not all are empty.
    """
    blocks = [_RunBlocks(run, keys) for run in runs]
    share = max(budget_bytes // (_PARTS * max(len(blocks), 1)), 1)
    while True:
        for block in blocks[followers:]:
            block.load(share)
        if not any(block.has_rows for block in blocks[followers:]):
            return
        for block in blocks[:followers]:
            block.load(share)
        open_ends = [block.last_key() for block in blocks if block.has_rows and not block.exhausted]
        bound = min(open_ends) if open_ends else None
        ready = [block.take_below(bound) for block in blocks]
        if any(ready):
            yield ready
            del ready
            give_back()  # freed blocks would add to the next ones
            continue
        # one key fills a whole block: load more of the run that ends first
        for block in blocks:
            if block.has_rows and not block.exhausted and block.last_key() == bound:
                block.load_next()


def _last_of_keys(batches: Sequence[pa.RecordBatch], keys: Sequence[str]) -> list[pa.RecordBatch]:
    """The last row of each key."""
    rows = pa.Table.from_batches(batches)
    order = sort_order(rows.select(list(keys)), keys)
    if len(order.starts) == rows.num_rows:
        return list(batches)
    kept = np.zeros(rows.num_rows, np.bool_)
    kept[order.order[order.starts + order.counts - 1]] = True
    return list(rows.filter(pa.array(kept)).to_batches())


class _RunBlocks:
    """The loaded and not yet merged rows of one run."""

    def __init__(self, run: Iterator[pa.RecordBatch], keys: Sequence[str]) -> None:
        self._run = run
        self._keys = keys
        self._batches: list[pa.RecordBatch] = []
        self.exhausted = False

    @property
    def has_rows(self) -> bool:
        """Whether rows are loaded."""
        return bool(self._batches)

    def load(self, share_bytes: int) -> None:
        """Loads batches until the run has its share of the budget."""
        loaded = sum(map(bytes_of, self._batches))
        if loaded >= share_bytes:
            return
        while loaded < share_bytes and not self.exhausted:
            before = len(self._batches)
            self.load_next()
            loaded += sum(map(bytes_of, self._batches[before:]))

    def load_next(self) -> None:
        """Loads one more batch."""
        batch = next(self._run, None)
        if batch is None:
            self.exhausted = True
        elif batch.num_rows:
            self._batches.append(batch)

    def last_key(self) -> tuple[Any, ...]:
        """The greatest loaded key, comparable with those of other runs."""
        batch = self._batches[-1]
        return self._key(batch, batch.num_rows - 1)

    def take_below(self, bound: tuple[Any, ...] | None) -> list[pa.RecordBatch]:
        """Gives out the rows whose key is below the bound (None: all)."""
        taken: list[pa.RecordBatch] = []
        while self._batches:
            batch = self._batches[0]
            if bound is None or self._key(batch, batch.num_rows - 1) < bound:
                taken.append(self._batches.pop(0))
                continue
            cut = self._rows_below(batch, bound)
            if cut:
                taken.append(batch.slice(0, cut))
                self._batches[0] = batch.slice(cut)
            break
        return taken

    def _rows_below(self, batch: pa.RecordBatch, bound: tuple[Any, ...]) -> int:
        low, high = 0, batch.num_rows
        while low < high:
            middle = (low + high) // 2
            if self._key(batch, middle) < bound:
                low = middle + 1
            else:
                high = middle
        return low

    def _key(self, batch: pa.RecordBatch, row: int) -> tuple[Any, ...]:
        return tuple(_comparable(batch.column(name).slice(row, 1)) for name in self._keys)


def _comparable(cell: pa.Array) -> tuple[Any, ...]:
    """One key value as a tuple that compares like Java's comparator: null first, bytes unsigned."""
    if pa.types.is_dictionary(cell.type):
        cell = cell.dictionary_decode()
    if cell.null_count:
        return ()
    value = cell[0]
    if pa.types.is_string(cell.type) or pa.types.is_large_string(cell.type):
        return (value.as_py().encode(),)
    if pa.types.is_binary(cell.type) or pa.types.is_large_binary(cell.type) or pa.types.is_decimal(cell.type):
        return (value.as_py(),)
    return (int(fixed_values(cell)[0]),)


Numbers = npt.NDArray[np.int32] | npt.NDArray[np.int64]
"""Numbers of rows."""
_MOST_SHORT_ROWS = 1 << 29


class MergeInput:
    """KeyValue rows in merge order, with their columns at hand as whole arrays.

    Attributes:
        rows: The rows as given.
        key_order: Their merge order.
        newest: For each key its last row.
    """

    def __init__(self, rows: pa.Table, key_order: KeyOrder) -> None:
        self.rows = rows
        self.key_order = key_order
        self.newest: Indices = key_order.order[np.append(key_order.starts[1:], rows.num_rows) - 1]
        self._columns: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        """A column as one array."""
        if name not in self._columns:
            self._columns[name] = whole_column(self.rows, name)
        return self._columns[name]

    def moved_column(self, name: str) -> pa.Array:
        """A column as one array that is not kept, for a single use: columns may be large."""
        return self._columns[name] if name in self._columns else whole_column(self.rows, name)

    @cached_property
    def kinds(self) -> npt.NDArray[np.int8]:
        """Row kinds (`RowKind`)."""
        if VALUE_KIND not in self.rows.schema.names:
            return np.zeros(self.rows.num_rows, np.int8)
        return self.column(VALUE_KIND).to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def sequences(self) -> Indices:
        """Sequence numbers; zeros where the order of arrival says it all."""
        if SEQUENCE_NUMBER not in self.rows.schema.names:
            return np.zeros(self.rows.num_rows, np.int64)
        return self.column(SEQUENCE_NUMBER).to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def has_retracts(self) -> bool:
        """Whether any row is -U or -D."""
        return VALUE_KIND in self.rows.schema.names and bool(is_retract(self.kinds).any())

    @cached_property
    def keys_with_retracts(self) -> Mask:
        """For each key, whether one of its rows is -U or -D."""
        if not self.has_retracts:
            return np.zeros(len(self.key_order.starts), np.bool_)
        retracts = is_retract(self.kinds)[self.key_order.order]
        return np.logical_or.reduceat(retracts, self.key_order.starts)

    @cached_property
    def newest_numbers(self) -> Numbers:
        """`newest`, in four bytes where results with computed values fit: columns start from these numbers."""
        return self.newest.astype(np.int32) if self.rows.num_rows < _MOST_SHORT_ROWS else self.newest

    def take(self, name: str, indices: Indices) -> pa.Array:
        """A column at these rows; -1 gives null."""
        return take_rows(self.column(name), indices)


def take_rows(column: pa.Array, indices: Numbers) -> pa.Array:
    """The values at these positions; -1 gives null."""
    if len(indices) and bool((indices < 0).any()):
        return column.take(pa.array(indices, mask=indices < 0))
    return column.take(pa.array(indices))


class MergedColumn:
    """One column of the result: for each key a row of the input, a computed value or null."""

    def __init__(self, column: pa.Array, rows: Numbers) -> None:
        self._column = column
        self._pool = [column]
        self._size = len(column)
        self._rows: Numbers = rows
        self._owned = False

    @property
    def values(self) -> pa.Array:
        """The input column."""
        return self._column

    def put(self, keys: Indices, merged: Merged, rows: Indices | None = None) -> None:
        """Sets the values of these keys.

        Args:
            keys: Numbers of the keys.
            merged: For each of them a position in ``rows`` (-1: null), or the values themselves.
            rows: Input rows that the positions mean; None when they are input rows already.
        """
        if not self._owned:
            self._rows, self._owned = self._rows.copy(), True
        if isinstance(merged, np.ndarray):
            self._rows[keys] = merged if rows is None else np.where(merged < 0, -1, rows[merged])
            return
        if isinstance(merged, pa.ChunkedArray):
            merged = merged.combine_chunks()
        self._rows[keys] = np.arange(self._size, self._size + len(merged))
        self._pool.append(merged)
        self._size += len(merged)

    def clear(self) -> None:
        """Makes the value of every key null."""
        self._rows, self._owned = np.full(len(self._rows), -1, np.int64), True

    def result(self, kept: Indices | None) -> pa.Array:
        """The column, for the kept keys (None: all)."""
        pool = self._pool[0] if len(self._pool) == 1 else pa.concat_arrays(self._pool)
        return take_rows(pool, self._rows if kept is None else self._rows[kept])


def rows_table(merging: MergeInput, winners: Indices, names: Sequence[str], *, key_value_columns: bool) -> pa.Table:
    """These rows of the input, one per key and in key order, with the named columns and the KeyValue columns last."""
    wanted = [*names, *((SEQUENCE_NUMBER, VALUE_KIND) if key_value_columns else ())]
    if len(winners) == merging.rows.num_rows and bool((winners[1:] > winners[:-1]).all()):
        return merging.rows.select(wanted)
    taken = {name: take_rows(merging.moved_column(name), winners) for name in wanted}
    return output_table(
        [(name, taken[name]) for name in names], merging.rows.schema, taken.get(SEQUENCE_NUMBER), taken.get(VALUE_KIND)
    )


def output_table(
    columns: Sequence[tuple[str, pa.Array]], schema: pa.Schema, sequences: pa.Array | None, kinds: pa.Array | None
) -> pa.Table:
    """The merged columns under the fields of the input, with the KeyValue columns last."""
    fields = [schema.field(name) for name, _ in columns]
    arrays = [array for _, array in columns]
    for name, array in ((SEQUENCE_NUMBER, sequences), (VALUE_KIND, kinds)):
        if array is not None:
            fields.append(schema.field(name))
            arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


_PIECE_BYTES: Final = 16 << 20


def key_pieces(rows: pa.Table, keys: Sequence[str], *, piece_bytes: int = _PIECE_BYTES) -> Iterator[pa.Table]:
    """Yield the rows of a table in pieces of about a size; a table that is not much larger is one piece.

    Args:
        rows: in order of arrival, in any number of chunks.
        keys: columns by which rows are equal.
        piece_bytes: size of a piece; rows of equal keys stay together, whatever they take.

    Yields:
        Rows in order of arrival, whose keys are greater than those of the piece before.
    """
    pieces = -(-rows.nbytes // max(piece_bytes, 1))
    if pieces <= 2 or rows.num_rows < 2:
        yield rows
        return
    order = sort_order(rows.select(list(keys)), keys)
    wanted = np.linspace(0, rows.num_rows, pieces + 1).astype(np.int64)[1:-1]
    nearest = np.minimum(np.searchsorted(order.starts, wanted), len(order.starts) - 1)
    bounds = np.unique(np.append(order.starts[nearest], 0))
    batches = rows.to_batches()
    ends = np.cumsum([batch.num_rows for batch in batches])
    positions = order.order
    del order
    for start, end in pairwise([*bounds.tolist(), rows.num_rows]):
        yield _gathered(batches, ends, np.sort(positions[start:end]), rows.schema)


def _gathered(batches: Sequence[pa.RecordBatch], ends: np.ndarray, numbers: np.ndarray, schema: pa.Schema) -> pa.Table:
    """Return the rows with these numbers, which ascend."""
    cuts = np.searchsorted(numbers, ends)
    parts = []
    start = first = 0
    for batch, cut, end in zip(batches, cuts.tolist(), ends.tolist(), strict=True):
        if cut > start:
            whole = cut - start == batch.num_rows
            parts.append(batch if whole else batch.take(pa.array(numbers[start:cut] - first)))
        start, first = cut, end
    return pa.Table.from_batches(parts, schema)
