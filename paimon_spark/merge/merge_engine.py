"""What every merge engine is: sorted key-value rows in, one row per key out.

Columns that come as dictionaries are merged by their codes: strings that files hold once are made once, at the end.
Only columns whose values a merge moves and does not look at (`MergeEngine.moved_columns`). Merging then sees a column
of integers with the same nulls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.merge.sort import SEQUENCE_NUMBER, VALUE_KIND, KeyOrder, sort_order

_KEY_VALUE_COLUMNS = (SEQUENCE_NUMBER, VALUE_KIND)


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """How rows of a table are ordered before they are merged.

    Attributes:
        keys: Columns of the trimmed primary key.
        sequence_fields: Columns of ``sequence.field``.
        descending: ``sequence.field.sort-order`` is descending.
        merges_single_rows: A key with one row is merged as well, as in Java's lookup compaction; otherwise such a row
            passes as it is.
    """

    keys: tuple[str, ...]
    sequence_fields: tuple[str, ...] = ()
    descending: bool = False
    merges_single_rows: bool = False

    def sort(self, rows: pa.Table) -> KeyOrder:
        """The merge order of KeyValue rows."""
        return sort_order(rows, self.keys, self.sequence_fields, descending=self.descending)

    def with_order_columns(self, projection: Sequence[str]) -> list[str]:
        """The projection and, behind it, the columns that the order needs."""
        return list(dict.fromkeys([*projection, *self.keys, *self.sequence_fields]))


class MergeEngine(ABC):
    """Merges rows of equal keys into one. Immutable and picklable: it travels to tasks."""

    __slots__ = ()

    layout: KeyLayout

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the trimmed primary key, in key order."""
        return self.layout.keys

    @abstractmethod
    def required_columns(self, projection: Sequence[str]) -> list[str]:
        """The columns that must be read so that those of the projection can be merged.

        Args:
            projection: The columns wanted, in order.

        Returns:
            The projection, then what the engine needs besides: keys, ``sequence.field``, sequence groups. The KeyValue
            columns are always needed and not named.
        """

    def moved_columns(self, names: Sequence[str]) -> frozenset[str]:
        """Those of some columns whose values are moved only: that they may be dictionaries changes nothing."""
        return frozenset()

    def merge(
        self,
        rows: pa.Table,
        *,
        drop_deletes: bool,
        columns: Sequence[str] | None = None,
        key_value_columns: bool = True,
    ) -> pa.Table:
        """Merges KeyValue rows.

        Args:
            rows: KeyValue rows (``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` as the last two columns) in arrival order:
                sorted runs one after the other, oldest first, or unsorted rows in the order they were written. Rows
                with equal sequence numbers keep that order. They must have ``required_columns(columns)``. Sequence
                numbers may be missing where rows that arrive later are newer, kinds where no row is -U or -D; the
                result then has no KeyValue columns.
            drop_deletes: Leave out keys whose merged row is -U or -D.
            columns: Value columns of the result, in order; None: all of ``rows``.
            key_value_columns: Whether the result has ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` as its last two columns.

        Returns:
            One row per key, sorted by key, with the kind and sequence number that Java's merge function gives.

        Raises:
            DataError: A row cannot be merged: a retraction that the engine or a function does not take, a null in a
                NOT NULL column, an integer overflow.
        """
        names = [name for name in (rows.schema.names if columns is None else columns) if name not in _KEY_VALUE_COLUMNS]
        if not rows.num_rows:
            rows, dictionaries = coded(rows)
            return decoded(rows.select([*names, *(_KEY_VALUE_COLUMNS if key_value_columns else ())]), dictionaries)
        rows, dictionaries = coded(rows)
        return decoded(self._merge_rows(rows, names, drop_deletes, key_value_columns), dictionaries)

    @abstractmethod
    def _merge_rows(self, rows: pa.Table, names: list[str], drop_deletes: bool, key_value_columns: bool) -> pa.Table:
        """Merges at least one row; ``names`` are the value columns of the result."""


_SMALL_BYTES = 4 << 20

Dictionaries = Mapping[str, pa.Array]
"""The values of the codes, by column."""


def table_of(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return batches as one table; a column that is a dictionary in some of them only is one in none of the table."""
    if all(batch.schema == batches[0].schema for batch in batches):
        return pa.Table.from_batches(batches)
    columns, fields = [], []
    for at, field in enumerate(batches[0].schema):
        arrays = [batch.column(at) for batch in batches]
        if len({array.type for array in arrays}) > 1:
            arrays = [_plain(array) for array in arrays]
        columns.append(pa.chunked_array(arrays))
        fields.append(field.with_type(arrays[0].type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def coded(rows: pa.Table) -> tuple[pa.Table, Dictionaries]:
    """Return rows with codes in place of dictionaries, and what the codes mean."""
    dictionaries: dict[str, pa.Array] = {}
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            chunks = rows.column(at).unify_dictionaries().chunks
            dictionaries[field.name] = chunks[0].dictionary if chunks else pa.array([], field.type.value_type)
            codes = pa.chunked_array([chunk.indices for chunk in chunks], field.type.index_type)
            rows = rows.set_column(at, field.with_type(field.type.index_type), codes)
    return rows, dictionaries


def decoded(rows: pa.Table, dictionaries: Dictionaries) -> pa.Table:
    """Return rows with the values in place of codes."""
    for at, field in enumerate(rows.schema):
        values = dictionaries.get(field.name)
        if values is not None:
            chunks = [values.take(chunk) for chunk in rows.column(at).chunks]
            rows = rows.set_column(at, field.with_type(values.type), pa.chunked_array(chunks, values.type))
    return rows


def bytes_of(batch: pa.RecordBatch) -> int:
    """Return the bytes that a batch has once no column is a dictionary, or a bound where it is small."""
    size = int(batch.nbytes)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and len(column.dictionary):
            lengths = pc.binary_length(column.dictionary)
            bound = int(pc.max(lengths).as_py() or 0) * len(column)
            if bound > _SMALL_BYTES:
                bound = int(pc.sum(lengths.cast(pa.int64()).take(column.indices)).as_py() or 0)
            size += bound
    return size


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
