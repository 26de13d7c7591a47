"""How a compaction puts rows in order: by columns, or along a curve through them; and how that order is cut.

Equals Java's ``TableSorter`` and ``CoreOptions.clusteringStrategy`` in what is asked for. Whole columns at once.

Along a curve: rows that are near each other on a curve through several columns are near in every column. Java's
``ZIndexer`` and ``HilbertIndexer`` interleave the bits of the values themselves, so a text counts more than a small
number next to it. Here the ranks of values among those of the column are interleaved: every column counts alike,
whatever its type and range. The order of rows is no part of the format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from paimon_spark.errors import OptionError
from paimon_spark.spec.arrow_types import to_arrow_type

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

_PARTS = 1 << 12
"""Into how many parts a column is cut on a curve, at most."""
_FEW_COLUMNS = 5
"""From so many clustering columns on, `auto` is Hilbert's curve."""


Ranks = npt.NDArray[np.uint16]

_BITS = 15  # as many as Java's 63, where columns come to turns: small numbers lie on both curves alike
_ROWS_AT_ONCE = 1 << 16


class Curve(Enum):
    """How rows are put in order."""

    ORDER = "order"
    """By the first column, then by the next."""
    ZORDER = "zorder"
    HILBERT = "hilbert"


def can_be_ordered(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type have an order that files' statistics know."""
    texts = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary)
    scalars = (pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_temporal, pt.is_boolean)
    return any(is_kind(kind) for is_kind in (*texts, *scalars))


def curve_keys(columns: Sequence[Ranks], curve: Curve) -> pa.Array:
    """Return the location of each row on a curve, as bytes that compare as the positions do.

    Args:
        columns: the rank of each row in each column; of the same length.
        curve: z-order or Hilbert's.
    """
    count = len(columns[0])
    parts = [np.zeros((0, 2 * len(columns)), np.uint8)]
    for start in range(0, count, _ROWS_AT_ONCE):
        part = [column[start : start + _ROWS_AT_ONCE] for column in columns]
        parts.append(_interleaved(_hilbert(part) if curve is Curve.HILBERT else part))
    keys = np.ascontiguousarray(np.concatenate(parts))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(keys.shape[1]), count, [None, pa.py_buffer(keys)])


def _interleaved(columns: Sequence[Ranks]) -> npt.NDArray[np.uint8]:
    """The first bit of every column, then the second of each, and so on."""
    octets = np.stack([column.astype(">u2").view(np.uint8).reshape(-1, 2) for column in columns], axis=1)
    bits = np.unpackbits(octets, axis=2)  # row, column, bit
    return np.packbits(bits.transpose(0, 2, 1).reshape(len(bits), -1), axis=1)


def _hilbert(columns: Sequence[Ranks]) -> list[Ranks]:
    """Turn coordinates into a position on Hilbert's curve, whose bits are then interleaved (J. Skilling, 2004)."""
    axes = [column.copy() for column in columns]
    bits = [np.uint16(1 << bit) for bit in range(_BITS - 1, 0, -1)]
    for bit in bits:
        low = np.uint16(bit - 1)
        for axis in range(len(axes)):
            inverted = (axes[axis] & bit) != 0
            exchanged = np.where(inverted, np.uint16(0), (axes[0] ^ axes[axis]) & low)
            axes[0] ^= np.where(inverted, low, exchanged)
            if axis:
                axes[axis] ^= exchanged
    for axis in range(1, len(axes)):
        axes[axis] ^= axes[axis - 1]
    turned = np.zeros(len(axes[0]), np.uint16)
    for bit in bits:
        turned ^= np.where((axes[-1] & bit) != 0, np.uint16(bit - 1), np.uint16(0))
    return [axis ^ turned for axis in axes]


AskedOrder = tuple[Curve, tuple[str, ...]]
"""An order as a compaction is asked for it, not checked yet."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """An order of rows; picklable."""

    curve: Curve
    columns: tuple[str, ...]
    scales: tuple[pa.Array, ...] | None = None
    """On a curve: of each column values that cut it into equal parts, ascending; None where the rows that are sorted
    tell them."""

    @classmethod
    def of(cls, table: FileStoreTable, curve: Curve, columns: Sequence[str]) -> RowOrder:
        """Make an order of a table's rows.

        Raises:
            OptionError: there is no column, or one that the table has not or that has no order.
        """
        if not columns:
            raise OptionError("order column could not be empty")
        for name in columns:
            if not table.schema.has_field(name):
                raise OptionError(
                    f"Can't find column {name} in table columns. Possible columns are "
                    f"[{','.join(table.schema.field_names)}]"
                )
            kind = table.schema.field(name).type
            if not can_be_ordered(to_arrow_type(kind)):
                raise OptionError(f"Rows cannot be ordered by column {name}: its type {kind} has no order.")
        return cls(curve, tuple(columns))

    @classmethod
    def of_clustering(cls, table: FileStoreTable) -> RowOrder:
        """The order that ``clustering.columns`` and ``clustering.strategy`` ask for.

        Raises:
            OptionError: see `of`; or the strategy is unknown.
        """
        columns = clustering_columns(table.options)
        strategy = str(table.options.value("clustering.strategy"))
        if strategy == "auto":
            curve = Curve.ORDER if len(columns) == 1 else Curve.ZORDER if len(columns) < _FEW_COLUMNS else Curve.HILBERT
        else:
            curve = curve_named(strategy)
        return cls.of(table, curve, columns)

    def fields(self, table: FileStoreTable) -> tuple[DataField, ...]:
        """The columns of the table that the order looks at."""
        return tuple(table.schema.field(name) for name in dict.fromkeys(self.columns))

    def fitted(self, sample: pa.Table) -> RowOrder:
        """Return the order for rows of which some are known.

        Args:
            sample: at least the columns of the order.
        """
        if self.curve is Curve.ORDER:
            return self
        return replace(self, scales=tuple(_scale(_whole(sample.column(name))) for name in self.columns))

    def keys(self, rows: pa.Table) -> pa.Table:
        """Return columns whose ascending order is that of the rows; nulls come last."""
        columns = [_whole(rows.column(name)) for name in self.columns]
        if self.curve is not Curve.ORDER:
            scales = self.scales or self.fitted(rows).scales or ()
            ranks = [_ranks(scale, column) for scale, column in zip(scales, columns, strict=True)]
            columns = [curve_keys(ranks, self.curve)]
        return pa.table(columns, names=[str(at) for at in range(len(columns))])

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Return the rows in order; those that are equal in it keep theirs."""
        return rows.take(_order_of(self.keys(rows)))

    def cuts(self, sample: pa.Table, ranges: int) -> pa.Table:
        """Return the keys at which about equal ranges begin, all but the first range, distinct.

        Args:
            sample: some rows, at least the columns of the order.
            ranges: how many are wanted.
        """
        keys = self.keys(sample)
        if not sample.num_rows or ranges < 2:
            return keys.slice(0, 0)
        chosen = keys.take(_order_of(keys)).take(pa.array(np.arange(1, ranges) * sample.num_rows // ranges))
        return pa.table(chosen.group_by(chosen.column_names, use_threads=False).aggregate([])).select(keys.column_names)

    def range_numbers(self, cuts: pa.Table, rows: pa.Table) -> npt.NDArray[np.int64]:
        """Return for each row the number of its range: how many of the cuts are not above it."""
        return _counts_not_above(cuts, self.keys(rows).cast(cuts.schema))


def asked_order(
    table: FileStoreTable,
    strategy: str | None,
    columns: str | Sequence[str] | None,
    *,
    buckets: bool = False,
    idle_time: bool = False,
) -> AskedOrder | None:
    """Return the order that arguments of a compaction ask for; None where they ask for none.

    Args:
        table: what is compacted.
        strategy: ``order``, ``zorder``, ``hilbert``, or ``none``.
        columns: by which; a text names them with commas between.
        buckets: whether only some buckets are compacted.
        idle_time: whether only idle partitions are.

    Raises:
        OptionError: the arguments do not go together, or the table clusters its rows by itself.
    """
    names = [name.strip() for name in (columns.split(",") if isinstance(columns, str) else columns or ())]
    names = [name for name in names if name]
    if strategy is None or not strategy.strip() or strategy.lower() == "none":
        if names:
            raise OptionError('order_strategy "none" cannot work with order_by columns.')
        return None
    if idle_time:
        raise OptionError("sort compact do not support 'partition_idle_time'.")
    if buckets:
        raise OptionError("Specifying buckets is not supported for sort compact.")
    keys = table.schema.partition_keys
    if any(name in keys for name in names):
        raise OptionError(
            "order_by should not contain partition cols, because it is meaningless, your order_by cols are "
            f"[{', '.join(names)}], and partition cols are [{', '.join(keys)}]"
        )
    if table.options.value("clustering.incremental"):
        raise OptionError("The table has enabled incremental clustering, do not support sort compact.")
    return curve_named(strategy), tuple(names)


def clustering_columns(options: CoreOptions) -> list[str]:
    """The columns of the option ``clustering.columns``."""
    text = str(options.value("clustering.columns") or "")
    return [name.strip() for name in text.split(",") if name.strip()]


def clusters_writes(schema: TableSchema) -> bool:
    """Whether rows are put in order before they are written: ``clustering.columns``, without keys and buckets.

    Where compactions cluster by steps, ``clustering.incremental.optimize-write`` must ask for it. Java's
    ``PaimonSparkWriter``.
    """
    options = schema.core_options
    if schema.kind.has_buckets or not clustering_columns(options):
        return False
    return not options.value("clustering.incremental") or bool(options.value("clustering.incremental.optimize-write"))


def curve_named(strategy: str) -> Curve:
    """Return the order of this name.

    Raises:
        OptionError: there is none.
    """
    try:
        return Curve(strategy.lower())
    except ValueError:
        raise OptionError(
            f"cannot match type: {strategy} for ordering. It is one of order, zorder and hilbert."
        ) from None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.cast(column.type).chunks)


def _order_of(keys: pa.Table) -> pa.Array:
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])


def _counts_not_above(cuts: pa.Table, rows: pa.Table) -> npt.NDArray[np.int64]:
    """For each row how many of the cuts are not above it."""
    if not cuts.num_rows:
        return np.zeros(rows.num_rows, np.int64)
    order = _order_of(pa.concat_tables([cuts, rows])).to_numpy()  # cuts first: the sort is stable
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(order < cuts.num_rows)
    return numbers[cuts.num_rows :]


def _scale(column: pa.Array) -> pa.Array:
    """Values that cut a column into equal parts; none is the smallest, which cuts nothing and would shift all ranks."""
    values = column.drop_null()
    if not len(values):
        return values
    order = pc.sort_indices(values)
    positions = np.unique(np.arange(1, _PARTS) * len(values) // _PARTS)
    cuts = pc.unique(values.take(order.take(pa.array(positions))))
    return cuts.slice(1) if cuts[0] == values[order[0].as_py()] else cuts


def _ranks(scale: pa.Array, column: pa.Array) -> npt.NDArray[np.uint16]:
    cuts, rows = pa.table({"0": scale}), pa.table({"0": column.cast(scale.type)})
    return _counts_not_above(cuts, rows).astype(np.uint16)
