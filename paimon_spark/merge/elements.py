"""Elements of lists and maps as flat arrays: equality codes, first and last occurrences, regrouping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.merge.aggregators import valid_mask
from paimon_spark.merge.segments import Indices, Mask
from paimon_spark.merge.sort import dense_ranks


def equality_codes(values: pa.Array) -> Indices:
    """A number per value; two values have the same number when Java's equality holds. Nulls equal each other."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not len(values):
        return np.empty(0, np.int64)
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int64)
    if pa.types.is_struct(values.type):
        codes = valid_mask(values).astype(np.int64)
        for child in values.flatten():
            codes = pair_codes(codes, equality_codes(child))
        return codes
    if pa.types.is_map(values.type) or pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _list_codes(values)
    return dense_ranks([values])


def dense_codes(codes: Indices) -> Indices:
    """The codes numbered from 0 without gaps."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def pair_codes(left: Indices, right: Indices) -> Indices:
    """A number per pair of codes, below 2^31 or without gaps."""
    if not len(left):
        return left
    if int(left.max() + 1) * (int(right.max()) + 1) >= 2**62:
        left, right = dense_codes(left), dense_codes(right)
    joint = left * (int(right.max()) + 1) + right
    return joint if int(joint.max()) < 2**31 else dense_codes(joint)


def _list_codes(values: pa.Array) -> Indices:
    """Codes of lists: folded over the position in the list (as many steps as the longest list has elements)."""
    lists = Lists.of(values)
    if pa.types.is_map(values.type):
        elements = pair_codes(equality_codes(lists.children[0]), equality_codes(lists.children[1]))
    else:
        elements = equality_codes(lists.children[0])
    counts, starts = lists.counts, lists.starts
    codes = pair_codes(lists.valid.astype(np.int64), counts)
    for position in range(int(counts.max()) if len(counts) else 0):
        longer = np.flatnonzero(counts > position)
        step = np.zeros(len(counts), np.int64)
        step[longer] = elements[starts[longer] + position] + 1
        codes = pair_codes(codes, step)
    return codes


@dataclass(frozen=True, slots=True)
class Lists:
    """A list or map array taken apart.

    Attributes:
        type: Its type.
        children: The element array, or keys and values of a map; they hold exactly the elements, in order.
        counts: Elements of each list; 0 for null.
        valid: Where the list is not null.
    """

    type: pa.DataType
    children: tuple[pa.Array, ...]
    counts: Indices
    valid: Mask

    @staticmethod
    def of(values: pa.Array) -> Lists:
        """Takes an array apart."""
        values = values.take(pa.array(np.arange(len(values))))  # no offset, nothing behind nulls
        counts = np.diff(values.offsets.to_numpy()).astype(np.int64) if len(values) else np.empty(0, np.int64)
        size = int(counts.sum())
        children = (values.keys, values.items) if pa.types.is_map(values.type) else (values.values,)
        return Lists(values.type, tuple(child.slice(0, size) for child in children), counts, valid_mask(values))

    @property
    def starts(self) -> Indices:
        """Where each list starts in the children."""
        return np.cumsum(self.counts) - self.counts

    @property
    def owners(self) -> Indices:
        """For each element the number of its list."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def joined(self, starts: Indices) -> Lists:
        """The lists of each run put together; a run of nulls only is null.

        Args:
            starts: Where each run of lists starts; no run is empty.
        """
        if not len(starts):
            return Lists(
                self.type, tuple(child.slice(0, 0) for child in self.children), starts, starts.astype(np.bool_)
            )
        counts = np.add.reduceat(self.counts, starts)
        return Lists(self.type, self.children, counts, np.logical_or.reduceat(self.valid, starts))

    def chosen(self, elements: Indices) -> Lists:
        """Only these elements, which must be sorted by owner."""
        counts = np.bincount(self.owners[elements], minlength=len(self.counts)).astype(np.int64)
        indices = pa.array(elements)
        return Lists(self.type, tuple(child.take(indices) for child in self.children), counts, self.valid)

    def to_array(self) -> pa.Array:
        """The array."""
        offsets = pa.array(np.concatenate(([0], np.cumsum(self.counts))).astype(np.int32))
        mask = None if self.valid.all() else pa.array(~self.valid)
        if pa.types.is_map(self.type):
            plain = pa.MapArray.from_arrays(offsets, *self.children)
            buffers = [_validity(self.valid), plain.buffers()[1]]
            entries = pa.StructArray.from_arrays(
                list(self.children), fields=[self.type.key_field, self.type.item_field]
            )
            return pa.Array.from_buffers(self.type, len(self.counts), buffers, children=[entries])
        return pa.ListArray.from_arrays(offsets, self.children[0], type=self.type, mask=mask)


def _validity(valid: Mask) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def first_occurrences(owners: Indices, codes: Indices) -> Mask:
    """Where an element is the first of its owner with its code."""
    return _edge_occurrences(owners, codes, last=False)


def last_occurrences(owners: Indices, codes: Indices) -> Mask:
    """Where an element is the last of its owner with its code."""
    return _edge_occurrences(owners, codes, last=True)


def _edge_occurrences(owners: Indices, codes: Indices, *, last: bool) -> Mask:
    found = np.zeros(len(codes), np.bool_)
    if len(codes):
        joint = pair_codes(owners, codes)
        order = np.argsort(joint, kind="stable")
        changes = joint[order][1:] != joint[order][:-1]
        edge = np.append(changes, True) if last else np.concatenate(([True], changes))
        found[order[edge]] = True
    return found


def groups_of(joint: Indices) -> tuple[Indices, Indices]:
    """Elements sorted by code (stable), and where each code starts among them."""
    order = np.argsort(joint, kind="stable")
    ordered = joint[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(joint) else order[:0]
    return order, starts


def occurrence_numbers(joint: Indices) -> Indices:
    """For each element, how many equal ones stand before it."""
    order, starts = groups_of(joint)
    numbers = np.empty(len(joint), np.int64)
    counts = np.diff(starts, append=len(joint))
    numbers[order] = np.arange(len(joint)) - np.repeat(starts, counts)
    return numbers
