"""Aggregate functions rbm32 and rbm64: the union of serialized roaring bitmaps.

Source: Java ``FieldRoaringBitmap32Agg``, ``FieldRoaringBitmap64Agg``. Bitmaps are taken apart one by one: this is
the only function that goes over values in Python, since each of them is a format of its own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.merge.aggregators import AggregateOptions
from paimon_spark.merge.collection_aggregators import CombiningAggregator
from paimon_spark.merge.roaring64 import Bitmap64
from paimon_spark.merge.segments import Segments
from paimon_spark.spec.roaring import Bitmap32


class UniteBitmaps(CombiningAggregator):
    """rbm32, rbm64: null is the identity; a bitmap that meets no other stays byte for byte."""

    def __init__(self, options: AggregateOptions) -> None:
        super().__init__(options)
        self._form: type[Bitmap32] | type[Bitmap64] = Bitmap64 if options.function == "rbm64" else Bitmap32

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Unites pairs."""
        pairs = zip(held.to_pylist(), value.to_pylist(), strict=True)
        return pa.array([self._united(pair) for pair in pairs], held.type)

    def combine_all(self, values: pa.Array, segments: Segments) -> pa.Array:
        """Unites the bitmaps of each segment."""
        taken = values.take(pa.array(segments.rows)).to_pylist()
        ends = np.append(segments.starts[1:], len(taken)).tolist()
        parts = (taken[start:end] for start, end in zip(segments.starts.tolist(), ends, strict=True))
        return pa.array([self._united(part) for part in parts], values.type)

    def _united(self, bitmaps: list[bytes | None] | tuple[bytes | None, ...]) -> bytes | None:
        present = [bitmap for bitmap in bitmaps if bitmap is not None]
        if len(present) < 2:
            return present[0] if present else None
        try:
            united = self._form.decode(present[0])
            for bitmap in present[1:]:
                united.add_all(self._form.decode(bitmap))  # type: ignore[arg-type]
        except DataError as error:
            raise DataError(f"{error} (column '{self.options.field}', {self.options.function})") from None
        return united.encode()
