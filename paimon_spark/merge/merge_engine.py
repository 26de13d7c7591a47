"""What every merge engine is: sorted key-value rows in, one row per key out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.merge.coded_columns import coded, decoded
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
