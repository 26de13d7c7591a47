"""Aggregate functions over values that are formats of their own, such as bitmaps and sketches.

These are the only functions that go over values in Python: they are taken apart one by one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from paimon_spark.merge.collection_aggregators import CombiningAggregator
from paimon_spark.merge.segments import Segments


class UniteBytes(CombiningAggregator):
    """The union of the values of a key: null is the identity; a value that meets no other stays byte for byte."""

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Unites pairs."""
        pairs = zip(held.to_pylist(), value.to_pylist(), strict=True)
        return pa.array([self._united(pair) for pair in pairs], held.type)

    def combine_all(self, values: pa.Array, segments: Segments) -> pa.Array:
        """Unites the values of each segment."""
        taken = values.take(pa.array(segments.rows)).to_pylist()
        ends = np.append(segments.starts[1:], len(taken)).tolist()
        parts = (taken[start:end] for start, end in zip(segments.starts.tolist(), ends, strict=True))
        return pa.array([self._united(part) for part in parts], values.type)

    def _united(self, values: Iterable[bytes | None]) -> bytes | None:
        present = [value for value in values if value is not None]
        if len(present) < 2:
            return present[0] if present else None
        return self._union(present)

    @abstractmethod
    def _union(self, values: list[bytes]) -> bytes:
        """The union of two values or more, in the order in which they came.

        Raises:
            DataError: a value is damaged.
        """
