"""The difference of two states of a primary-key table (Java ``IncrementalDiffSplitRead.DiffMerger``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError
from paimon_spark.merge.elements import equality_codes
from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.merged_rows import output_table, take_rows
from paimon_spark.merge.segments import Indices, Mask
from paimon_spark.merge.sort import SEQUENCE_NUMBER, VALUE_KIND, sort_order, whole_column
from paimon_spark.spec.special_fields import RowKind, is_add

SIDE = "_SIDE"
"""Column of the input: 0 for rows of the earlier state, 1 for those of the later one."""


@dataclass(frozen=True, slots=True)
class Diff(MergeEngine):
    """Of each key the later row, where the earlier one differs or is missing.

    Attributes:
        layout: Keys of the rows.
        keep_deletes: Rows that only the earlier state has come as -D, and -D rows of the later one stay.
    """

    layout: KeyLayout
    keep_deletes: bool = False

    def required_columns(self, projection: Sequence[str]) -> list[str]:
        """The projection, the key and the mark of the side."""
        return list(dict.fromkeys([*projection, *self.layout.keys, SIDE]))

    def _merge_rows(self, rows: pa.Table, names: list[str], drop_deletes: bool, key_value_columns: bool) -> pa.Table:
        earlier, later = _pairs(rows, self.layout.keys)
        kinds = whole_column(rows, VALUE_KIND).to_numpy().copy()
        adds = is_add(kinds)
        both = np.flatnonzero((earlier >= 0) & (later >= 0))
        same = np.zeros(len(earlier), np.bool_)
        same[both] = adds[earlier[both]] == adds[later[both]]
        for name in names:
            both = both[same[both]]
            if not len(both):
                break
            column = whole_column(rows, name)
            same[both] = equal_values(take_rows(column, earlier[both]), take_rows(column, later[both]))
        gone = later < 0
        kinds[earlier[gone]] = RowKind.DELETE
        kept = np.where(gone, self.keep_deletes & adds[earlier], ~same)
        chosen = np.where(gone, earlier, later)[kept]
        if drop_deletes:
            chosen = chosen[adds[chosen]]
        numbers = take_rows(whole_column(rows, SEQUENCE_NUMBER), chosen) if key_value_columns else None
        return output_table(
            [(name, take_rows(whole_column(rows, name), chosen)) for name in names],
            rows.schema,
            numbers,
            pa.array(kinds[chosen]) if key_value_columns else None,
        )


def _pairs(rows: pa.Table, keys: Sequence[str]) -> tuple[Indices, Indices]:
    """For each key, in order, its row of the earlier and of the later state; -1 where there is none."""
    found = sort_order(rows.select(list(keys)), keys)
    sides = whole_column(rows, SIDE).to_numpy()[found.order]
    numbers = np.repeat(np.arange(len(found.starts)), found.counts)
    pairs = np.full((2, len(found.starts)), -1, np.int64)
    pairs[sides, numbers] = found.order
    if np.count_nonzero(pairs >= 0) != len(found.order):
        raise CorruptTableError(
            "A state of the table holds a key in two buckets: the difference of two states cannot be computed."
        )
    return pairs[0], pairs[1]


def equal_values(left: pa.Array, right: pa.Array) -> Mask:
    """Where values are the same: nulls and NaN equal themselves, 0.0 is not -0.0."""
    if pa.types.is_nested(left.type):
        codes = equality_codes(pa.concat_arrays([left, right]))
        return codes[: len(left)] == codes[len(left) :]  # type: ignore[no-any-return]
    nulls = pc.and_(left.is_null(), right.is_null()).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(left.type):
        a, b = (side.fill_null(0).to_numpy(zero_copy_only=False) for side in (left, right))
        bits = np.dtype(f"i{a.dtype.itemsize}")
        same = (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))
        valid = pc.and_(left.is_valid(), right.is_valid()).to_numpy(zero_copy_only=False)
        return nulls | (same & valid)  # type: ignore[no-any-return]
    equal = pc.equal(left, right).fill_null(False).to_numpy(zero_copy_only=False)
    return nulls | equal  # type: ignore[no-any-return]
