"""Parts of the stripes of an ORC file: pyarrow reads stripes whole, but its data sets read batches of some rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

import pyarrow as pa

_READ_AHEAD = 32
"""Batches that Arrow always reads ahead in its own thread (``MakeBackgroundGenerator``)."""


def stripe_parts(
    source: pa.NativeFile, columns: list[str], stripe_rows: Sequence[int], stripes: Collection[int], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read stripes in file order.

    Args:
        source: the open file.
        columns: top-level columns.
        stripe_rows: rows of each stripe of the file.
        stripes: which of them.
        batch_rows: most rows in memory, which are those of many batches.

    Raises:
        ValueError: the file has another number of rows.
    """
    from pyarrow import dataset  # pulls in pandas where that is installed, and each Python worker would pay for it

    starts = [0, *accumulate(stripe_rows)]
    scanner = dataset.Scanner.from_fragment(
        dataset.OrcFileFormat().make_fragment(source),
        columns=columns,
        batch_size=max(1, batch_rows // _READ_AHEAD),
        batch_readahead=0,
        fragment_readahead=0,
        use_threads=False,
    )
    done = 0
    for batch in scanner.to_batches():
        first, done = done, done + batch.num_rows
        for at in range(bisect_right(starts, first) - 1, bisect_left(starts, done)):
            if at in stripes:
                low, high = max(starts[at], first), min(starts[at + 1], done)
                yield batch.slice(low - first, high - low)
    if done != starts[-1]:
        raise ValueError(f"its stripes have {done} rows, but {starts[-1]} by its footer")
