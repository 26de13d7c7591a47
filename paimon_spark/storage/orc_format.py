"""ORC data files through pyarrow: a stripe at a time in, rows gathered to stripes out.

Types as in Java's ``OrcTypeUtil``: TIME is an int, TIMESTAMP a timestamp without zone, LTZ an instant. Java finds
columns by name; the ids of fields are in the attribute ``paimon.id`` of each node, as Java writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from paimon_spark.errors import CorruptTableError, DataError, UnsupportedError
from paimon_spark.options import CoreOptions
from paimon_spark.spec import data_types as t
from paimon_spark.spec import predicate as predicates
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.storage import arrow_layout, parquet_columns
from paimon_spark.storage.arrow_layout import ColumnPlan, corrupt_as, each_as_corrupt
from paimon_spark.storage.data_file import (
    DataFileReader,
    FileResult,
    NewFile,
    Source,
    StoreFileWriter,
    Wanted,
)
from paimon_spark.storage.orc_footer import decode, decoded_bytes, read_tail, signed, stripe_parts, writer_zone
from paimon_spark.storage.orc_timestamps import FarTimestamps, is_far, needs_restoring, nested_parts, restored

_LEGACY_TIMESTAMPS: Final = "orc.timestamp-ltz.legacy.type"
_ID_ATTRIBUTE: Final = "paimon.id"
_CODECS: Final[Mapping[str, str]] = {
    "zstd": "zstd",
    "snappy": "snappy",
    "zlib": "zlib",
    "gzip": "zlib",
    "lz4": "lz4",
    "none": "uncompressed",
    "uncompressed": "uncompressed",
    "null": "uncompressed",
}
_STRIPE_BYTES: Final = 64 << 20
_WRITE_BATCH_BYTES: Final = 8 << 20
_PER_SECOND: Final[Mapping[str, int]] = {"ms": 10**3, "us": 10**6, "ns": 10**9}


class OrcReader(DataFileReader):
    """Reads one ORC file."""

    def __init__(self, file_io: Source, path: str, size: int | None, options: Mapping[str, str]) -> None:
        self.path = path
        self._far: FarTimestamps | None = None
        self._legacy_timestamps = options.get(_LEGACY_TIMESTAMPS, "true").strip().lower() == "true"
        with corrupt_as(path, "ORC"):
            self._source = file_io.open_input(path, size)
            self.size_bytes = self._source.size()
            self._tail = read_tail(self._source)
            self._file = orc.ORCFile(self._source)
            self.schema = self._file.schema
            self.num_rows = self._file.nrows
            self.row_group_rows = self._tail.stripe_rows
            if sum(self.row_group_rows) != self.num_rows or len(self.row_group_rows) != self._file.nstripes:
                raise CorruptTableError("The ORC footer contradicts itself about the number of rows", path=path)

    def _read(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The wanted columns (see DataFileReader); the library has no threads of its own."""
        fields, batch_rows = wanted.fields, wanted.batch_rows
        plan = ColumnPlan.of(self.schema, fields, self.path)
        stripes = range(self.num_row_groups) if wanted.row_groups is None else wanted.row_groups
        types = [self.schema.field(name).type for name in plan.sources]
        if not plan.sources:
            yield from plan.rows_without_columns(sum(self.row_group_rows[at] for at in stripes), batch_rows)
            return
        zone = self._legacy_zone(fields)
        for batch in self._batches(stripes, plan, batch_rows, wanted.batch_bytes):
            of_batch = plan if batch.schema.types == types else ColumnPlan.of(batch.schema, fields, self.path)
            for start in range(0, batch.num_rows, batch_rows):
                with corrupt_as(self.path, "ORC"):
                    result = _restored(of_batch.apply(batch.slice(start, batch_rows)), fields, zone)
                    if wanted.predicate is not None:
                        result = predicates.matching(wanted.predicate, result)
                if result.num_rows:
                    yield result

    def _batches(
        self, stripes: Sequence[int], plan: ColumnPlan, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Whole stripes, or where these are larger in memory than a batch may be, parts of them."""
        names = plan.sources
        with corrupt_as(self.path, "ORC"):
            sizes = decoded_bytes(self._tail, stripes, names)
            large = max(sizes, default=0) > batch_bytes
            whole = not large or any(is_far(self._tail, stripe, name) for stripe in stripes for name in names)
        if not whole:
            counts = [self.row_group_rows[at] for at in stripes]
            fitting = min(batch_bytes * rows // size for rows, size in zip(counts, sizes, strict=True) if size)
            rows = max(1, min(batch_rows, fitting))
            parts = stripe_parts(self._source, names, self.row_group_rows, set(stripes), rows)
            yield from each_as_corrupt(parts, self.path, "ORC")
            return
        for stripe in stripes:
            with corrupt_as(self.path, "ORC"):
                batch = self._read_stripe(stripe, plan)
                self._check_counts(stripe, batch)
            yield batch

    def prune_row_groups(self, predicate: predicates.Predicate) -> list[int]:
        """Stripes that may match, by the statistics of the file's tail."""
        everything = list(range(self.num_row_groups))
        if len(self._tail.stripe_statistics) != self.num_row_groups:
            return everything
        stats: dict[str, tuple[pa.Array, pa.Array, pa.Array]] = {}
        with corrupt_as(self.path, "ORC"):
            for name in predicates.fields(predicate):
                at = self._tail.columns.get(name)
                if at is None or any(at >= len(stripe) for stripe in self._tail.stripe_statistics):
                    continue
                messages = [stripe[at] for stripe in self._tail.stripe_statistics]
                found = _stats_arrays(messages, self.row_group_rows, self.schema.field(name).type)
                if found is not None:
                    stats[name] = found
        if not stats or not everything:
            return everything
        keep = prune_stats(predicate, stats, pa.array(self.row_group_rows, pa.int64()))
        return [at for at in everything if keep[at]]

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _read_stripe(self, stripe: int, plan: ColumnPlan) -> pa.RecordBatch:
        """The plan's columns as the file types them, timestamps far from 1970 in the units of the plan."""
        far = [name for name in plan.sources if is_far(self._tail, stripe, name)]
        near = [name for name in plan.sources if name not in far]
        columns = dict.fromkeys(plan.sources)
        if near:
            batch = self._file.read_stripe(stripe, columns=near)
            columns.update(zip(batch.schema.names, batch.columns, strict=True))
        if far:
            self._far = self._far or FarTimestamps(self._source, self._tail, self.path)
            batch = self._far.read_stripe(stripe, far, plan.schema)
            columns.update(zip(far, batch.columns, strict=True))
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _check_counts(self, stripe: int, batch: pa.RecordBatch) -> None:
        """Check rows and, where the file has statistics, values that are not null."""
        if batch.num_rows != self.row_group_rows[stripe]:
            raise CorruptTableError("An ORC stripe has another number of rows than its footer", path=self.path)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            at = self._tail.columns[name]
            if stripe < len(self._tail.stripe_statistics) and at < len(self._tail.stripe_statistics[stripe]):
                recorded = decode(self._tail.stripe_statistics[stripe][at]).get(1)
                if recorded is not None and recorded[-1] != len(column) - column.null_count:
                    raise CorruptTableError(
                        f"Column '{name}' has {len(column) - column.null_count} values in an ORC stripe whose "
                        f"statistics say {recorded[-1]}",
                        path=self.path,
                    )

    def _legacy_zone(self, fields: Sequence[t.DataField]) -> str:
        """Time zone that local-zoned timestamps were shifted by, empty where they are instants."""
        if not (self._legacy_timestamps and any(needs_restoring(field.type, "?") for field in fields)):
            return ""
        with corrupt_as(self.path, "ORC"):
            return writer_zone(self._source, self._tail)


def _restored(batch: pa.RecordBatch, fields: Sequence[t.DataField], zone: str) -> pa.RecordBatch:
    columns = [restored(column, field.type, zone) for column, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _stats_arrays(
    messages: Sequence[bytes], rows: Sequence[int], kind: pa.DataType
) -> tuple[pa.Array, pa.Array, pa.Array] | None:
    """(minima, maxima, null counts) of one column by stripe, or None for kinds without usable statistics."""
    bounds: list[tuple[Any, Any]] = []
    nulls: list[int | None] = []
    for message, count in zip(messages, rows, strict=True):
        fields = decode(message)
        nulls.append(count - fields[1][-1] if 1 in fields else None)
        bounds.append(_bounds(fields, kind))
    if pa.types.is_nested(kind):
        return None
    low, high = zip(*bounds, strict=True)
    storage = pa.int32() if pa.types.is_date(kind) else kind
    minima, maxima = pa.array(low, storage), pa.array(high, storage)
    if pa.types.is_date(kind):
        minima, maxima = minima.view(kind), maxima.view(kind)
    return minima, maxima, pa.array(nulls, pa.int64())


def _bounds(fields: Mapping[int, list[Any]], kind: pa.DataType) -> tuple[Any, Any]:
    for is_kind, field, value in _BOUNDS:
        if is_kind(kind) and field in fields:
            inner = decode(fields[field][-1])
            return value(inner.get(1), kind), value(inner.get(2), kind)
    return None, None


def _number(values: list[Any] | None, _kind: pa.DataType) -> int | None:
    return signed(values[-1]) if values else None


def _text(values: list[Any] | None, _kind: pa.DataType) -> str | None:
    try:
        return values[-1].decode() if values else None
    except UnicodeDecodeError:
        return None


def _decimal(values: list[Any] | None, kind: pa.Decimal128Type) -> Decimal | None:
    try:
        return Decimal(values[-1].decode()).quantize(Decimal(1).scaleb(-kind.scale)) if values else None
    except (InvalidOperation, UnicodeDecodeError):
        return None


_BOUNDS: Sequence[tuple[Callable[[pa.DataType], bool], int, Callable[[list[Any] | None, Any], Any]]] = (
    (pa.types.is_integer, 2, _number),
    (pa.types.is_date, 7, _number),
    (pa.types.is_string, 4, _text),
    (pa.types.is_decimal, 6, _decimal),
)
"""Kinds of types, the field of their statistics, and how a bound is read."""


class OrcWriter(StoreFileWriter):
    """Writes one ORC file."""

    def __init__(self, new: NewFile) -> None:
        super().__init__(new)
        fields, settings = new.fields, CoreOptions(new.options)
        codec = (settings.value("orc.compress") or new.compression).strip().lower()
        if codec not in _CODECS:
            raise UnsupportedError(
                f"ORC files with the compression '{codec}' cannot be written. "
                f"Set 'file.compression' to one of {', '.join(sorted(_CODECS))}."
            )
        for field in fields:
            _check_type(field.type, field.name)
        self._logical = to_arrow_schema(fields)
        physical = parquet_columns.physical_schema(fields, id_key=_ID_ATTRIBUTE)
        self._physical = pa.schema([field.with_type(_without_time(field.type)) for field in physical])
        self._target = new.file_io.open_output(new.path)
        self._writer = orc.ORCWriter(
            self._target,
            compression=_CODECS[codec],
            compression_block_size=256 << 10,
            stripe_size=settings.value("orc.stripe.size") or settings.value("file.block-size") or _STRIPE_BYTES,
            row_index_stride=settings.value("orc.row.index.stride"),
            dictionary_key_size_threshold=settings.value("orc.dictionary.key.threshold"),
        )
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._raw_bytes = self._rows = 0
        self._closed = False

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if batch.num_rows:
                self._pending.append(self._to_physical(batch))
                self._pending_bytes += batch.nbytes
                self._rows += batch.num_rows
        if self._pending_bytes >= _WRITE_BATCH_BYTES:
            self._flush()

    @property
    def bytes_written(self) -> int:
        """Bytes in the file and half of those that wait for their stripe."""
        written = 0 if self._closed else self._target.tell()
        unseen = self._raw_bytes % _STRIPE_BYTES if written else self._raw_bytes
        return int(written + (unseen + self._pending_bytes) // 2)

    def close(self) -> FileResult:
        """Write the last stripe and the footer."""
        try:
            if self._pending or not self._rows:
                self._flush()
            self._writer.close()
            size = self._target.tell()
            self._target.close()
            self._closed = True
        except BaseException:
            self.abort()
            raise
        return FileResult(self.path, size, self._rows)

    def abort(self) -> None:
        """Close and delete the file."""
        self._closed = True
        super().abort()

    def _to_physical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.names != self._logical.names:
            raise ValueError(f"rows have the columns {batch.schema.names}, the file has {self._logical.names}")
        columns = []
        for array, logical, physical in zip(batch.columns, self._logical, self._physical, strict=True):
            convert = arrow_layout.conversion(array.type, logical.type)
            array = convert(array) if convert else array
            if pa.types.is_nested(array.type):
                array = arrow_layout.with_nulls_pushed_down(array)
            _refuse_fractions_before_1970(array, logical.name)
            columns.append(arrow_layout.relabel(array, physical.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._physical)

    def _flush(self) -> None:
        self._writer.write(pa.Table.from_batches(self._pending, self._physical))
        self._raw_bytes += self._pending_bytes
        self._pending, self._pending_bytes = [], 0


def _refuse_fractions_before_1970(array: pa.Array, name: str) -> None:
    """Refuse what pyarrow writes wrongly: seconds rounded towards 1970 with negative nanoseconds, which nobody reads.

    Raises:
        DataError: a timestamp before 1970, at any depth, has a fraction of a second.
    """
    if pa.types.is_nested(array.type):
        start, end = 0, len(array)
        if not pa.types.is_struct(array.type):  # a slice of lists has the items of all
            start, end = (array.offsets[at].as_py() for at in (0, -1))
        for part in nested_parts(array):
            _refuse_fractions_before_1970(part.slice(start, end - start), name)
    elif pa.types.is_timestamp(array.type) and array.type.unit != "s":
        values = array.view(pa.int64())
        before = np.asarray(values.filter(pc.less(values, 0)))
        if (before % _PER_SECOND[array.type.unit]).any():
            raise DataError(
                f"Column '{name}' holds a timestamp before 1970 with a fraction of a second, which cannot be written "
                "to ORC files. Set the table option 'file.format' to 'parquet'."
            )


def _check_type(kind: t.DataType, name: str) -> None:
    match kind:
        case t.VariantType() | t.VectorType() | t.GeometryType() | t.GeographyType():
            raise UnsupportedError(
                f"Column '{name}': ORC files cannot hold {kind.sql()}. Use 'file.format' = 'parquet'."
            )
        case t.ArrayType() | t.MultisetType():
            _check_type(kind.element, name)
        case t.MapType():
            _check_type(kind.key, name)
            _check_type(kind.value, name)
        case t.RowType():
            for field in kind.fields:
                _check_type(field.type, f"{name}.{field.name}")
        case _:
            return


def _without_time(kind: pa.DataType) -> pa.DataType:
    """TIME as int, since ORC has no time of day."""
    return arrow_layout.with_inner_types(kind, lambda leaf: pa.int32() if pa.types.is_time(leaf) else leaf)
