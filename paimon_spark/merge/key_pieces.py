"""A large table of rows in pieces of whole keys, in key order, so that a merge never copies all of it at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.merge.sort import sort_order

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
