"""Statistics of Parquet footers as arrays of the columns' types, and those of a whole file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_field
from paimon_spark.storage.data_file import ColumnStats

_RAW: Final = ("min_raw", "max_raw")
_TYPED: Final = ("min", "max")


def stats_arrays(found: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Footer statistics of one column over many row groups as arrays of its type; unknown ones are null."""
    nulls = pa.array([s.null_count if s is not None and s.has_null_count else None for s in found], pa.int64())
    bounded = [s is not None and s.has_min_max for s in found]
    if pa.types.is_temporal(kind) or pa.types.is_integer(kind):
        raw = pa.int64() if kind.bit_width == 64 else pa.int32()
        low, high = ([getattr(s, end) if b else None for s, b in zip(found, bounded, strict=True)] for end in _RAW)
        if any(value is not None and not isinstance(value, int) for value in low):
            return pa.nulls(len(found), kind), pa.nulls(len(found), kind), nulls
        physical = [pa.array(values, raw) for values in (low, high)]
        minima, maxima = (a.cast(kind) if pa.types.is_integer(kind) else a.view(kind) for a in physical)
        return minima, maxima, nulls
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes_bound(found, bounded, "min_raw", kind), _bytes_bound(found, bounded, "max_raw", kind), nulls
    low, high = ([getattr(s, end) if b else None for s, b in zip(found, bounded, strict=True)] for end in _TYPED)
    if pa.types.is_floating(kind):
        # Writers leave NaN out of the statistics, and NaN is greater than everything: the maximum is not known.
        low, high = [None if value is None or value != value else value for value in low], [None] * len(found)
    return pa.array(low, kind), pa.array(high, kind), nulls


def _bytes_bound(found: Sequence[Any], bounded: Sequence[bool], end: str, kind: pa.DataType) -> pa.Array:
    raw = [getattr(s, end) if b else None for s, b in zip(found, bounded, strict=True)]
    if pa.types.is_binary(kind):
        return pa.array(raw, kind)
    return pa.array([None if value is None else _text(value) for value in raw], kind)


def _text(value: bytes | str) -> str | None:
    """A bound cut inside a character is not a string: unknown."""
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def column_stats(metadata: pq.FileMetaData, fields: Sequence[t.DataField]) -> dict[str, ColumnStats]:
    """Statistics of the whole file from the footer just written.

    Nested columns and those that Java orders otherwise than Parquet (floating point, because of NaN) are left out.
    """
    leaves = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    result: dict[str, ColumnStats] = {}
    for field in fields:
        kind = to_arrow_field(field).type
        leaf = leaves.get(field.name)
        if leaf is None or pa.types.is_nested(kind) or pa.types.is_floating(kind):
            continue
        found = [metadata.row_group(at).column(leaf).statistics for at in range(metadata.num_row_groups)]
        if not all(s is not None and s.has_null_count for s in found):
            continue
        empty = all(s.num_values == 0 for s in found)
        if not empty and not all(s.has_min_max or s.num_values == 0 for s in found):
            continue
        minima, maxima, nulls = stats_arrays(found, _footer_type(kind))
        if len(found) == 1:  # most files: their statistics are these, without a search
            result[field.name] = ColumnStats(_scalar(minima[0], kind), _scalar(maxima[0], kind), nulls[0].as_py() or 0)
            continue
        result[field.name] = ColumnStats(
            _scalar(pc.min(minima), kind),
            _scalar(pc.max(maxima), kind),
            pc.sum(nulls).as_py() or 0,
        )
    return result


def _footer_type(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("ms", kind.tz) if pa.types.is_timestamp(kind) and kind.unit == "s" else kind


def _scalar(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    return (value if value.type == kind else value.cast(kind)) if value.is_valid else None
