"""What the indexes of a file say about a predicate: which rows it leaves (Java: ``FileIndexPredicate``).

An answer is True (any row may match), False (none can) or the rows that may match. It may hold rows that do not match,
never the other way round: the filter is still applied to what is read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from paimon_spark.spec.data_types import DataType
from paimon_spark.spec.file_index.container import FileIndexPart, IndexDamageError, ReadBytes, Section
from paimon_spark.spec.file_index.range_bitmap import BsiReader, RangeBitmapReader
from paimon_spark.spec.file_index.value_indexes import BitmapReader, BloomFilterReader
from paimon_spark.spec.file_index.values import Bound, bound_of, key_kind
from paimon_spark.spec.file_index.writer import BITMAP, BLOOM_FILTER, BSI, supports
from paimon_spark.spec.predicate import And, Leaf, Not, Or, Predicate, fold
from paimon_spark.spec.roaring import Bits, no_bits

Answer = bool | Bits
"""True: any row may match. False: none can. Else the rows that may."""

_MOST_ROWS = 1 << 28
"""Of a file whose rows an index is asked for; one bit for each row takes 32 MB then."""
_NEGATED = {
    "eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "in": "not_in", "not_in": "in",
    "is_null": "is_not_null", "is_not_null": "is_null",
}  # fmt: skip

_Reader = BloomFilterReader | BitmapReader | BsiReader | RangeBitmapReader


class FileIndexes:
    """The indexes of one file, read as far as predicates ask."""

    def __init__(
        self, parts: Sequence[FileIndexPart], read: ReadBytes, types: Mapping[str, DataType], row_count: int
    ) -> None:
        """Read nothing yet.

        Args:
            parts: the container's head.
            read: reads bytes of the container.
            types: of the columns, when the file was written; of a key of a map also, as ``column[key]``.
            row_count: of the file.
        """
        self._parts = parts
        self._read = read
        self._types = types
        self._count = row_count
        self._readers: dict[FileIndexPart, _Reader] = {}

    def answer(self, predicate: Predicate) -> Answer:
        """Which rows a predicate over the file's columns leaves.

        Raises:
            IndexDamageError: an index cannot be read.
        """
        try:
            return fold(predicate, self._leaf, _all, _any, bool)
        except (struct.error, ValueError, IndexError, OverflowError) as error:
            raise IndexDamageError("its bytes end too early, or say what cannot be") from error

    def _leaf(self, leaf: Leaf, negated: bool) -> Answer:
        result: Answer = True
        name = name_of(leaf)
        if name not in self._types or self._count > _MOST_ROWS:
            return True
        for part in self._parts:
            if part.column != name or not supports(part.index_type, self._types[name]):
                continue
            if part.start is None:
                return negated or leaf.op in ("is_null", "eq_null_safe", "not_in", "ne")
            answer = self._one(self._reader(part), leaf, negated)
            result = answer if result is True else _all([result, answer])
            if not may_match(result):
                return False
        return result

    def _reader(self, part: FileIndexPart) -> _Reader:
        if part not in self._readers:
            assert part.start is not None
            section = Section(self._read, part.start, part.length)
            kind = key_kind(self._types[part.column])
            assert kind is not None
            if part.index_type == BLOOM_FILTER:
                self._readers[part] = BloomFilterReader(section, kind)
            elif part.index_type == BSI:
                self._readers[part] = BsiReader(section, self._count)
            else:
                reader = BitmapReader if part.index_type == BITMAP else RangeBitmapReader
                self._readers[part] = reader(section, kind, self._count)
        return self._readers[part]

    def _one(self, reader: _Reader, leaf: Leaf, negated: bool) -> Answer:
        data_type = self._types[name_of(leaf)]
        op = leaf.op
        if negated and op not in _NEGATED:
            if op == "between":
                ends = zip(("lt", "gt"), leaf.literals, strict=True)
                low, high = (replace(leaf, op=of, literals=(at,)) for of, at in ends)
                return _any([self._one(reader, low, False), self._one(reader, high, False)])
            if op != "eq_null_safe":
                return True
            if leaf.literals[0] is None:
                return _nulls(reader, there=True)
            other = self._one(reader, replace(leaf, op="ne"), False)
            return _any([_nulls(reader, there=False), other])
        op = _NEGATED[op] if negated else op
        if op in ("is_null", "is_not_null"):
            return _nulls(reader, there=op == "is_not_null")
        if op == "eq_null_safe":
            if leaf.literals[0] is None:
                return _nulls(reader, there=False)
            op = "eq"
        if None in leaf.literals and op != "in":
            return False
        bounds = [bound_of(literal, data_type) for literal in leaf.literals if literal is not None]
        known = [bound for bound in bounds if bound is not None]
        return True if len(known) < len(bounds) else _compared(reader, op, known, self._count)


def name_of(leaf: Leaf) -> str:
    """The name of what a leaf tests, as indexes have it (Java ``FileIndexCommon.toMapKey``)."""
    return leaf.field if leaf.key is None else f"{leaf.field}[{leaf.key}]"


def tested(predicate: Predicate) -> dict[str, Leaf]:
    """A leaf of each column, and of each key of a map, that a predicate tests, by the names that indexes have."""
    match predicate:
        case Leaf():
            return {name_of(predicate): predicate}
        case And() | Or():
            return {name: leaf for child in predicate.children for name, leaf in tested(child).items()}
        case Not():
            return tested(predicate.child)
    return {}


def _compared(reader: _Reader, op: str, bounds: Sequence[Bound], count: int) -> Answer:
    keys = [key for bound in bounds for key in bound.equal]
    match op:
        case "eq" | "in":
            return reader.may_hold(keys) if isinstance(reader, BloomFilterReader) else reader.equal(keys)
        case "ne" | "not_in":
            if isinstance(reader, BloomFilterReader) or any(bound.coarse for bound in bounds):
                return True
            return reader.not_null() & ~reader.equal(keys)
    if isinstance(reader, BloomFilterReader | BitmapReader):
        return True
    match op:
        case "lt":
            return _below(reader, bounds[0], inclusive=False, count=count)
        case "le":
            return _below(reader, bounds[0], inclusive=True, count=count)
        case "gt":
            return _above(reader, bounds[0], inclusive=False)
        case "ge":
            return _above(reader, bounds[0], inclusive=True)
        case "between":
            low, high = bounds
            return _above(reader, low, inclusive=True) & _below(reader, high, inclusive=True, count=count)
    return True


def _above(reader: BsiReader | RangeBitmapReader, bound: Bound, *, inclusive: bool) -> Bits:
    """The rows above a literal; of one that is between two keys, those above the lower key."""
    if bound.below is None:
        return reader.not_null()
    if bound.coarse:
        return reader.above(bound.below, inclusive=True)
    if inclusive and bound.exact and bound.least is not None:
        return reader.above(bound.least, inclusive=True)
    return reader.above(bound.below, inclusive=False)


def _below(reader: BsiReader | RangeBitmapReader, bound: Bound, *, inclusive: bool, count: int) -> Bits:
    if bound.below is None:
        return no_bits(count)
    if not inclusive and bound.exact and bound.least is not None:
        return reader.below(bound.least, inclusive=False)
    return reader.below(bound.below, inclusive=True)


def _nulls(reader: _Reader, *, there: bool) -> Answer:
    if isinstance(reader, BloomFilterReader):
        return True
    return reader.not_null() if there else reader.null()


def may_match(answer: Answer) -> bool:
    """Whether any row may match."""
    return bool(answer) if isinstance(answer, bool) else bool(np.any(answer))


def _all(answers: list[Answer]) -> Answer:
    rows: Bits | None = None
    for answer in answers:
        if answer is False:
            return False
        if answer is not True:
            rows = answer if rows is None else rows & answer
    return True if rows is None else rows if may_match(rows) else False


def _any(answers: list[Answer]) -> Answer:
    rows: Bits | None = None
    for answer in answers:
        if answer is True:
            return True
        if answer is not False:
            rows = answer if rows is None else rows | answer
    return False if rows is None else rows
