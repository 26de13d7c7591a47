"""Data files whose VARIANT columns are shredded, by a schema of the options or by the first rows.

Equals Java's ``VariantShreddingWritePlanFactory`` with ``InferShreddingWritePlanWriter``, and
``InferVariantShreddingSchema`` for one file: which types the values of a column mostly have. That goes through the
fields of objects, never through rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import OptionError
from paimon_spark.options import CoreOptions
from paimon_spark.spec import data_types as t
from paimon_spark.spec import variant_shredder as scalars
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.variant_shredder import OPTION, configured_schemas, shredded, shredded_type
from paimon_spark.spec.variant_values import ARRAY, OBJECT, Names, Ragged, elements_of, fields_of
from paimon_spark.storage.data_file import DataFileWriter, FileResult

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


_MOST_SAMPLE_BYTES: Final = 64 << 20
"""Rows that wait until the schema is known. Java: any number of bytes."""

Open = Callable[[Sequence[t.DataField]], DataFileWriter]
"""Starts the file, given its columns."""


@dataclass(frozen=True, slots=True)
class Shredding:
    """How VARIANT columns are shredded."""

    schemas: Mapping[str, t.DataType] | None
    """By the names of columns; None where they are inferred."""
    limits: InferenceLimits
    sample_rows: int

    @staticmethod
    def of(fields: Sequence[t.DataField], options: Mapping[str, str]) -> Shredding | None:
        """What the options of a table ask for; None where its columns are written as they are.

        Raises:
            OptionError: the schema of the options cannot be used, or a limit is not positive.
        """
        settings = CoreOptions(options)
        text: str | None = settings.value(OPTION)
        infers = bool(settings.value("variant.inferShreddingSchema"))
        if (text is None and not infers) or not any(_holds_variants(field.type) for field in fields):
            return None
        width = _positive(settings, "variant.shredding.maxSchemaWidth")
        depth = _positive(settings, "variant.shredding.maxSchemaDepth")
        rows = _positive(settings, "variant.shredding.maxInferBufferRow")
        share = float(settings.value("variant.shredding.minFieldCardinalityRatio"))
        schemas = None if text is None else configured_schemas(text)
        return Shredding(schemas, InferenceLimits(width, depth, share), rows)

    def fields(self, fields: Sequence[t.DataField], sample: pa.Table | None) -> list[t.DataField]:
        """The columns of the file.

        Args:
            fields: of the rows.
            sample: the first rows; needed where schemas are inferred.
        """
        if self.schemas is not None:
            return [
                replace(f, type=shredded_type(self.schemas[f.name], nullable=f.type.nullable))
                if f.name in self.schemas and isinstance(f.type, t.VariantType)
                else f
                for f in fields
            ]
        assert sample is not None
        inference = Inference.of(self.limits)
        columns = [column.combine_chunks() for column in sample.columns]
        return [
            replace(f, type=_inferred(f.type, column, inference)) for f, column in zip(fields, columns, strict=True)
        ]


def _positive(settings: CoreOptions, key: str) -> int:
    value: int = settings.value(key)
    if value < 1:
        raise OptionError(f"The option '{key}' must be at least 1, but is {value}.")
    return value


def _holds_variants(kind: t.DataType) -> bool:
    """Whether VARIANTs are in a column, or in ROWs of it: those in lists and maps are not shredded."""
    if isinstance(kind, t.RowType):
        return any(_holds_variants(field.type) for field in kind.fields)
    return isinstance(kind, t.VariantType)


def _inferred(kind: t.DataType, values: pa.Array, inference: Inference) -> t.DataType:
    if isinstance(kind, t.VariantType):
        return shredded_type(inference.schema(_plain(values)), nullable=kind.nullable)
    if isinstance(kind, t.RowType) and _holds_variants(kind):
        inner = values.flatten()
        fields = [replace(f, type=_inferred(f.type, v, inference)) for f, v in zip(kind.fields, inner, strict=True)]
        return replace(kind, fields=tuple(fields))
    return kind


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _shredded(kind: t.DataType, physical: t.DataType, values: pa.Array) -> pa.Array:
    """A column as the file has it."""
    if kind is physical or kind == physical:
        return values
    assert isinstance(physical, t.RowType)
    if isinstance(kind, t.VariantType):
        return shredded(values, physical)
    assert isinstance(kind, t.RowType)
    inner = values.flatten()  # null where the ROW is
    children = [
        values.field(at) if one.type == other.type else _shredded(one.type, other.type, inner[at])
        for at, (one, other) in enumerate(zip(kind.fields, physical.fields, strict=True))
    ]
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(to_arrow_type(physical)), mask=mask)


class ShreddingWriter(DataFileWriter):
    """Writes one file; where the schema is inferred, the first rows wait for it."""

    def __init__(self, path: str, fields: Sequence[t.DataField], shredding: Shredding, open_file: Open) -> None:
        self.path = path
        self._fields = tuple(fields)
        self._shredding = shredding
        self._open = open_file
        self._physical: list[t.DataField] = []
        self._schema: pa.Schema | None = None
        self._writer: DataFileWriter | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        if shredding.schemas is not None:
            self._begin()

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if self._writer is not None:
                self._writer.write(self._to_physical(batch))
                continue
            self._pending.append(batch)
            self._pending_rows += batch.num_rows
            self._pending_bytes += batch.nbytes
            if self._pending_rows >= self._shredding.sample_rows or self._pending_bytes >= _MOST_SAMPLE_BYTES:
                self._begin()

    def flush(self) -> None:
        """Write out pending rows."""
        if self._writer is None and self._pending:
            self._begin()
        if self._writer is not None:
            self._writer.flush()

    @property
    def bytes_written(self) -> int:
        """Estimate of the file's size."""
        return self._pending_bytes // 2 if self._writer is None else self._writer.bytes_written

    def close(self) -> FileResult:
        """Finish the file."""
        try:
            writer = self._writer or self._begin()
        except BaseException:
            self.abort()
            raise
        return writer.close()

    def abort(self) -> None:
        """Give up; a file that was not started yet leaves nothing."""
        self._pending = []
        if self._writer is not None:
            self._writer.abort()

    def _begin(self) -> DataFileWriter:
        schema = to_arrow_schema(self._fields)
        sample = pa.Table.from_batches(self._pending, schema) if self._shredding.schemas is None else None
        if sample is not None:
            sample = sample.slice(0, self._shredding.sample_rows)
        self._physical = self._shredding.fields(self._fields, sample)
        self._schema = to_arrow_schema(self._physical)
        self._writer = self._open(self._physical)
        pending, self._pending = self._pending, []
        for batch in pending:
            self._writer.write(self._to_physical(batch))
        return self._writer

    def _to_physical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            _shredded(one.type, other.type, column)
            for one, other, column in zip(self._fields, self._physical, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
