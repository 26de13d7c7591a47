"""Merging sorted runs in bounded memory: blocks of rows are loaded; rows that no unread row can change are merged.

Every run is sorted by key. Rows below the smallest last key among the loaded blocks of runs that have more to give are
complete: they are merged and given out, the others wait for the next blocks. A key is never split over two chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.memory import give_back
from paimon_spark.merge.coded_columns import bytes_of, table_of
from paimon_spark.merge.merge_engine import MergeEngine
from paimon_spark.merge.normalized_keys import fixed_values
from paimon_spark.merge.sort import sort_order

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
