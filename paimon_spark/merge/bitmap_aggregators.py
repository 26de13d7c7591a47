"""Aggregate functions rbm32 and rbm64: the union of serialized roaring bitmaps.

Source: Java ``FieldRoaringBitmap32Agg``, ``FieldRoaringBitmap64Agg``.
"""

from __future__ import annotations

from paimon_spark.errors import DataError
from paimon_spark.merge.aggregators import AggregateOptions
from paimon_spark.merge.roaring64 import Bitmap64
from paimon_spark.merge.united_bytes import UniteBytes
from paimon_spark.spec.roaring import Bitmap32


class UniteBitmaps(UniteBytes):
    """rbm32, rbm64."""

    def __init__(self, options: AggregateOptions) -> None:
        super().__init__(options)
        self._form: type[Bitmap32] | type[Bitmap64] = Bitmap64 if options.function == "rbm64" else Bitmap32

    def _union(self, values: list[bytes]) -> bytes:
        try:
            united = self._form.decode(values[0])
            for bitmap in values[1:]:
                united.add_all(self._form.decode(bitmap))  # type: ignore[arg-type]
        except DataError as error:
            raise DataError(f"{error} (column '{self.options.field}', {self.options.function})") from None
        return united.encode()
