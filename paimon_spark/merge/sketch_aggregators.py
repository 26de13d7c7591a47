"""Aggregate functions over values that are formats of their own: hll_sketch, theta_sketch, rbm32 and rbm64.

These are the only functions that go over values in Python: they are taken apart one by one.

- Sketches (Java ``FieldHllSketchAgg``, ``FieldThetaSketchAgg``, ``HllSketchUtil``, ``ThetaSketch``): the library
  ``datasketches`` unites them pair by pair, as Java does, into the bytes that Java writes.
- Serialized roaring bitmaps (Java ``FieldRoaringBitmap32Agg``, ``FieldRoaringBitmap64Agg``): their union.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.errors import DataError, UnsupportedError
from paimon_spark.merge.aggregators import AggregateOptions
from paimon_spark.merge.collection_aggregators import CombiningAggregator
from paimon_spark.merge.segments import Segments
from paimon_spark.spec.roaring import Bitmap32, Bitmap64


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


_LG_ENTRIES = 12  # DEFAULT_NOMINAL_ENTRIES of Java's union is 4096, whatever the sketches have
_PREAMBLE_LONGS, _FLAGS, _SEED_HASH, _SAMPLING = 0, 5, slice(6, 8), slice(12, 16)
_SINGLE_BYTES, _IS_EMPTY, _IS_SINGLE = 16, 0x04, 0x20
_WHOLE = b"\x00\x00\x80\x3f"  # 1.0f
_MODE, _ACCUMULATOR = 7, slice(8, 16)  # of an HLL sketch, whose flags are at the same place
_REGISTERS, _OUT_OF_ORDER = 2, 0x10


class UniteSketches(UniteBytes):
    """A union of sketches."""

    def __init__(self, options: AggregateOptions) -> None:
        super().__init__(options)
        self._library()  # its absence is reported on the driver

    def _library(self) -> Any:
        """The module, imported in each process: it is not pickled with the engine."""
        try:
            return import_module("datasketches")
        except ImportError:
            raise UnsupportedError(
                f"Aggregate function '{self.options.function}' (column '{self.options.field}') needs the Python "
                "package 'datasketches', which is not installed: pip install datasketches."
            ) from None

    def _union(self, values: list[bytes]) -> bytes:
        held, library = values[0], self._library()
        for sketch in values[1:]:
            try:
                held = self._union_of_two(library, held, sketch)
            except (ValueError, IndexError, RuntimeError, MemoryError) as error:
                raise DataError(
                    f"Column '{self.options.field}' holds bytes that are no sketch of function "
                    f"'{self.options.function}': {error}"
                ) from None
        return held

    @abstractmethod
    def _union_of_two(self, library: Any, held: bytes, sketch: bytes) -> bytes:
        """Java's union of two sketches."""


class UniteHllSketches(UniteSketches):
    """hll_sketch: the result is HLL_4, compact.

    Where few values (coupons) meet registers, Java goes on estimating by its accumulator; the library does not where
    the sketch of the registers is larger than the union, or was out of order already.
    """

    def _union_of_two(self, library: Any, held: bytes, sketch: bytes) -> bytes:
        newer, older = (library.hll_sketch.deserialize(part) for part in (sketch, held))
        lg_k = newer.lg_config_k
        if _has_registers(sketch) == _has_registers(held):
            return self._in_order(library, lg_k, newer, older)
        is_late = bool((sketch if _has_registers(sketch) else held)[_FLAGS] & _OUT_OF_ORDER)
        parts = (
            _registers(library, part, min(lg_k, part.lg_config_k)) if _has_registers(given) else part
            for part, given in ((newer, sketch), (older, held))
        )
        union = bytearray(self._in_order(library, lg_k, *parts))
        union[_FLAGS] |= _OUT_OF_ORDER if is_late else 0
        return bytes(union)

    @staticmethod
    def _in_order(library: Any, lg_k: int, newer: Any, older: Any) -> bytes:
        union = library.hll_union(lg_k)
        union.update(newer)
        union.update(older)
        return bytes(union.get_result(library.tgt_hll_type.HLL_4).serialize_compact())


def _has_registers(hll: bytes) -> bool:
    """Whether a sketch holds registers, and not single values."""
    return hll[_MODE] & 0x3 == _REGISTERS


def _registers(library: Any, sketch: Any, lg_k: int) -> Any:
    """A sketch with so many registers; where it was out of order its accumulator begins anew."""
    union = library.hll_union(lg_k)
    union.update(sketch)
    made = bytearray(union.get_result(library.tgt_hll_type.HLL_8).serialize_updatable())
    if made[_FLAGS] & _OUT_OF_ORDER:
        made[_FLAGS] &= ~_OUT_OF_ORDER
        made[_ACCUMULATOR] = bytes(8)
    return library.hll_sketch.deserialize(bytes(made))


class UniteThetaSketches(UniteSketches):
    """theta_sketch: the result is ordered and compact."""

    def _union_of_two(self, library: Any, held: bytes, sketch: bytes) -> bytes:
        union = library.theta_union(_LG_ENTRIES)
        for part in (held, sketch):
            union.update(library.compact_theta_sketch.deserialize(part))
        return _as_java_writes(bytearray(union.get_result().serialize()))


def _as_java_writes(theta: bytearray) -> bytes:
    """Fills in what Java writes into a compact sketch and the library leaves out; an empty one has no hash there."""
    if theta[_PREAMBLE_LONGS] & 0x3F > 1:
        theta[_SAMPLING] = _WHOLE
    elif len(theta) == _SINGLE_BYTES:
        theta[_FLAGS] |= _IS_SINGLE
    elif theta[_FLAGS] & _IS_EMPTY:
        theta[_SEED_HASH] = bytes(2)
    return bytes(theta)


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
