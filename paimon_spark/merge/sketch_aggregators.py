"""Aggregate functions hll_sketch and theta_sketch: unions of Apache DataSketches' sketches.

Source: Java ``FieldHllSketchAgg``, ``FieldThetaSketchAgg``, ``HllSketchUtil``, ``ThetaSketch``. The library
``datasketches`` unites them pair by pair, as Java does, into the bytes that Java writes.
"""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from typing import Any

from paimon_spark.errors import DataError, UnsupportedError
from paimon_spark.merge.aggregators import AggregateOptions
from paimon_spark.merge.united_bytes import UniteBytes

_LG_ENTRIES = 12  # DEFAULT_NOMINAL_ENTRIES of Java's union is 4096, whatever the sketches have
_PREAMBLE_LONGS, _FLAGS, _SAMPLING = 0, 5, slice(12, 16)
_SINGLE_BYTES, _IS_SINGLE = 16, 0x20
_WHOLE = b"\x00\x00\x80\x3f"  # 1.0f


class UniteSketches(UniteBytes):
    """A union of sketches."""

    def __init__(self, options: AggregateOptions) -> None:
        super().__init__(options)
        self._library()  # its absence is told on the driver

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
    """hll_sketch: the result is HLL_4, compact."""

    def _union_of_two(self, library: Any, held: bytes, sketch: bytes) -> bytes:
        newer = library.hll_sketch.deserialize(sketch)
        union = library.hll_union(newer.lg_config_k)
        union.update(newer)
        union.update(library.hll_sketch.deserialize(held))
        return bytes(union.get_result(library.tgt_hll_type.HLL_4).serialize_compact())


class UniteThetaSketches(UniteSketches):
    """theta_sketch: the result is ordered and compact."""

    def _union_of_two(self, library: Any, held: bytes, sketch: bytes) -> bytes:
        union = library.theta_union(_LG_ENTRIES)
        for part in (held, sketch):
            union.update(library.compact_theta_sketch.deserialize(part))
        return _as_java_writes(bytearray(union.get_result().serialize()))


def _as_java_writes(theta: bytearray) -> bytes:
    """Fills in what Java writes into a compact sketch and the library leaves out."""
    if theta[_PREAMBLE_LONGS] & 0x3F > 1:
        theta[_SAMPLING] = _WHOLE
    elif len(theta) == _SINGLE_BYTES:
        theta[_FLAGS] |= _IS_SINGLE
    return bytes(theta)
