"""Aggregate function listagg: joined texts (Java ``FieldListaggAgg`` as of 2.x, which skips blank texts)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.merge.aggregators import Merged
from paimon_spark.merge.collection_aggregators import CombiningAggregator, pair_starts, where
from paimon_spark.merge.elements import Lists, equality_codes, first_occurrences
from paimon_spark.merge.segments import Indices, Mask, Segments
from paimon_spark.merge.stream import take_rows

# Character.isWhitespace
_BLANKS = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)


def filled_mask(texts: pa.Array) -> Mask:
    """Where a text is neither null nor blank."""
    lengths = pc.binary_length(pc.utf8_trim(texts, characters=_BLANKS)).fill_null(0)
    return lengths.to_numpy() > 0  # type: ignore[no-any-return]


class ListAgg(CombiningAggregator):
    """listagg: newer texts behind, late ones in front; with ``distinct`` a newer text adds only its new tokens."""

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Appends the newer text."""
        held_filled, value_filled = filled_mask(held), filled_mask(value)
        pairs = np.arange(2 * len(held)).reshape(2, -1).T.ravel()
        texts = take_rows(pa.concat_arrays([held, value]), pairs)
        both = held_filled & value_filled
        joined = self._joined(texts, np.repeat(both, 2), pair_starts(len(held)))
        return where(both, joined, where(value_filled, value, held))

    def merge(self, values: pa.Array, segments: Segments) -> Merged:
        """Joins the texts of all rows: late ones, latest first, then those in order."""
        if self.options.distinct and not self.options.delimiter:
            return self._fold(values, segments)  # tokens that were joined without a delimiter are one token
        fallback = np.full(len(segments.starts), -1, np.int64)
        if segments.late is not None:
            fallback = segments.last_where(segments.late)  # Java: a late text stands while nothing filled came
        texts = take_rows(values, segments.latest_first)
        filled = filled_mask(texts)
        any_filled = np.logical_or.reduceat(filled, segments.starts) if len(segments.starts) else filled
        return where(any_filled, self._joined(texts, filled, segments.starts), take_rows(values, fallback))

    def _joined(self, texts: pa.Array, used: Mask, starts: Indices) -> pa.Array:
        """For each run of texts the used ones joined; null where none is used."""
        owners = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(texts)))
        rows = np.flatnonzero(used)
        pieces, owners = take_rows(texts, rows), owners[rows]
        if self.options.distinct:
            pieces, owners = self._distinct(pieces, owners)
        counts = np.bincount(owners, minlength=len(starts)).astype(np.int64)
        offsets = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pieces), self.options.delimiter)
        return where(counts > 0, joined.cast(texts.type), pa.nulls(len(starts), texts.type))

    def _distinct(self, texts: pa.Array, owners: Indices) -> tuple[pa.Array, Indices]:
        """The first text of each owner as a whole, then of the others each token that has not come before."""
        lists = Lists.of(pc.split_pattern(texts, self.options.delimiter or " "))
        tokens = lists.children[0]
        of_text = lists.owners
        first_texts = np.concatenate(([True], owners[1:] != owners[:-1])) if len(owners) else np.empty(0, np.bool_)
        new = first_occurrences(owners[of_text], equality_codes(tokens)) & filled_mask(tokens)
        added = np.flatnonzero(new & ~first_texts[of_text])
        whole = np.flatnonzero(first_texts)
        pieces = pa.concat_arrays([take_rows(texts, whole), take_rows(tokens, added)])
        text_numbers = np.concatenate([whole, of_text[added]])
        order = np.argsort(text_numbers, kind="stable")
        return take_rows(pieces, order), owners[text_numbers[order]]
