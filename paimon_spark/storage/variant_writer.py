"""Data files whose VARIANT columns are shredded, by a schema of the options or by the first rows.

Equals Java's ``VariantShreddingWritePlanFactory`` with ``InferShreddingWritePlanWriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from paimon_spark.errors import OptionError
from paimon_spark.options import CoreOptions
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.variant_inference import Inference, InferenceLimits
from paimon_spark.spec.variant_shredder import OPTION, configured_schemas, shredded, shredded_type
from paimon_spark.storage.data_file import DataFileWriter, FileResult

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
