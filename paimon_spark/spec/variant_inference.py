"""Which types the values of a VARIANT column mostly have, by the first rows of a file.

Equals Java's ``InferVariantShreddingSchema`` for one file. Goes through the fields of objects, never through rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec import data_types as t
from paimon_spark.spec import variant_shredder as scalars
from paimon_spark.spec.variant_values import ARRAY, OBJECT, Names, Ragged, elements_of, fields_of

Longs = npt.NDArray[np.int64]

_MOST_FIELDS: Final = 1000
"""Of one object (Java: ``maxRowFieldSize``)."""
_LONG_DIGITS: Final = 19
_MOST_DIGITS: Final = 38
_COMPACT_DIGITS: Final = 18
_POWERS: Final = 10 ** np.arange(1, _LONG_DIGITS, dtype=np.int64)
_SIMPLE: Final = {scalars.DOUBLE: t.DoubleType(), scalars.DATE: t.DateType(), scalars.FLOAT: t.FloatType()}
"""Bytes and timestamps are not typed (`variant_shredder.shredded_type`)."""


@dataclass(frozen=True, slots=True)
class InferenceLimits:
    """How far a schema goes (`variant.shredding.*`)."""

    most_fields: int
    most_depth: int
    least_share: float
    """Of the rows that have a value, those that must have a field for it to be shredded."""


@dataclass(slots=True)
class _Objects:
    """Fields that objects have: how often, and what their values are."""

    fields: dict[str, tuple[int, _Seen]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Arrays:
    element: _Seen


_Seen = _Objects | _Arrays | t.DataType | None
"""What values are; None where all are null."""
_ANY: Final = t.VariantType()


@dataclass(slots=True)
class Inference:
    """The schemas of all VARIANT columns of a file, which share one limit of fields."""

    limits: InferenceLimits
    remaining: int

    @classmethod
    def of(cls, limits: InferenceLimits) -> Inference:
        """Begin with the first column."""
        return cls(limits, limits.most_fields)

    def schema(self, sample: pa.Array) -> t.DataType:
        """The type by which a column is shredded; VARIANT where values have nothing in common.

        Args:
            sample: values of the column: a struct of ``value`` and ``metadata``.

        Raises:
            DataError: a value is damaged.
        """
        known = sample.filter(sample.is_valid())
        names = Names.of(known.field("metadata"))
        seen = _seen(Ragged.of(known.field("value")), names, np.arange(len(known)), self.limits.most_depth)
        return self._kept(seen, math.ceil(len(known) * self.limits.least_share))

    def _kept(self, seen: _Seen, least: int) -> t.DataType:
        """What is shredded of what was seen; each value takes one field, each typed one another."""
        self.remaining -= 1
        if self.remaining <= 0 or seen is None or isinstance(seen, t.VariantType):
            return _ANY
        if isinstance(seen, _Objects):
            kept: list[t.DataField] = []
            for name, (count, inner) in seen.fields.items():
                if count >= least and self.remaining > 0:
                    kept.append(t.DataField(len(kept), name, self._kept(inner, least)))
            return t.RowType(tuple(kept)) if kept else _ANY
        if isinstance(seen, _Arrays):
            return t.ArrayType(self._kept(seen.element, least))
        self.remaining -= 1
        return _widened(seen)


def _widened(kind: t.DataType) -> t.DataType:
    if not isinstance(kind, t.DecimalType):
        return kind
    if kind.precision <= _COMPACT_DIGITS:
        return t.DecimalType(_COMPACT_DIGITS, kind.scale) if kind.scale else t.BigIntType()
    return t.DecimalType(_MOST_DIGITS, kind.scale)


def _seen(values: Ragged, names: Names, rows: Longs, depth: int) -> _Seen:
    """What some values are, all of them present."""
    if not len(values):
        return None
    basic = values.data[values.starts] & 3
    objects, arrays = np.flatnonzero(basic == OBJECT), np.flatnonzero(basic == ARRAY)
    scalar = _seen_scalars(values.take(np.flatnonzero(basic < OBJECT)))
    if (len(objects) > 0) + (len(arrays) > 0) + (scalar is not None) > 1:
        return _ANY
    if not len(objects) and not len(arrays):
        return scalar
    if depth <= 0:
        return _ANY
    if len(arrays):
        sizes, elements = elements_of(values.take(arrays))
        element = _seen(elements, names, np.repeat(rows[arrays], sizes), depth - 1)
        return _Arrays(_ANY if element is None else element)
    return _seen_objects(values.take(objects), names, rows[objects], depth)


def _seen_objects(values: Ragged, names: Names, rows: Longs, depth: int) -> _Objects:
    owner, ids, parts = fields_of(values)
    codes = names.codes_of(ids, rows[owner])
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    positions = dict(zip(found.tolist(), np.split(order, starts[1:]) if len(found) else [], strict=True))
    seen = _Objects()
    for code in sorted(positions, key=lambda code: int(names.ranks[code]))[:_MOST_FIELDS]:
        here = positions[code]
        seen.fields[names.names[code]] = len(here), _seen(parts.take(here), names, rows[owner[here]], depth - 1)
    return seen


def _seen_scalars(values: Ragged) -> t.DataType | None:
    kinds = scalars.scalar_kinds(values)
    families: set[t.DataType] = set()
    for kind in np.unique(kinds).tolist():
        if kind in (scalars.TRUE, scalars.FALSE):
            families.add(t.BooleanType())
        elif kind in (scalars.SHORT_STRING, scalars.LONG_STRING):
            families.add(t.VarCharType(t.VarCharType.MAX))
        elif scalars.INT1 <= kind <= scalars.INT8 or scalars.DECIMAL4 <= kind <= scalars.DECIMAL16:
            continue
        elif kind != _NULL:
            families.add(_SIMPLE.get(kind, _ANY))
    number = _seen_numbers(values, kinds)
    if number is not None:
        families.add(number)
    return None if not families else next(iter(families)) if len(families) == 1 else _ANY


_NULL: Final = 0


def _seen_numbers(values: Ragged, kinds: Longs) -> t.DataType | None:
    """The type that holds all integers and decimals."""
    whole = scalars.integers(values, kinds)[(kinds >= scalars.INT1) & (kinds <= scalars.INT8)]
    _, raw, scales = scalars.decimals(values, kinds)
    ranges, most_scale = [], 0
    if len(whole):
        digits = _digits(whole)
        if not len(raw):
            return t.BigIntType() if digits >= _LONG_DIGITS else t.DecimalType(digits, 0)
        ranges.append(digits)
    if not len(raw):
        return None
    low, high = (np.ascontiguousarray(part).view("<i8")[:, 0] for part in (raw[:, :8], raw[:, 8:]))
    small = np.flatnonzero((high == low >> 63) & (low != np.iinfo(np.int64).min))
    numbers, left = low[small], scales[small].copy()
    for _ in range(_COMPACT_DIGITS):  # zeros at the end count for nothing
        zero = (left > 0) & (numbers % 10 == 0)
        numbers, left = np.where(zero, numbers // 10, numbers), left - zero
    if len(small):
        counts = np.searchsorted(_POWERS, np.abs(numbers), side="right") + 1
        ranges.append(int(np.maximum(counts - left, 0).max()))
        most_scale = int(left.max())
    large = np.setdiff1d(np.arange(len(raw)), small)
    if len(large):
        size = np.abs(high[large].astype(float) * 2.0**64 + low[large].view(np.uint64))
        counts = np.minimum(np.floor(np.log10(size)).astype(np.int64) + 1, _MOST_DIGITS)
        ranges.append(int(np.maximum(counts - scales[large], 0).max()))
        most_scale = max(most_scale, int(scales[large].max()))
    digits = max(max(ranges) + most_scale, 1)
    return _ANY if digits > _MOST_DIGITS else t.DecimalType(digits, most_scale)


def _digits(numbers: Longs) -> int:
    most = max(abs(int(numbers.min())), abs(int(numbers.max())))
    return len(str(most))
