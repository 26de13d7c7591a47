"""Which keys of overlapping sorted runs can have a merged row for which a condition on values is true.

Where a merge only moves the values of a column, the merged row has the value of one of the rows of its key, or null. So
a condition that is not true of null can be true of the merged row only if it is true of one of these rows. Keys and the
columns of the condition are read first; then all columns, but only the rows of the keys found. Runs in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Leaf, Or, Predicate, all_of, any_of, evaluate, fields, matching, split_and
from paimon_spark.storage.read_ahead import SMALL_FILE_BYTES

if TYPE_CHECKING:
    from paimon_spark.merge.merge_engine import MergeEngine
    from paimon_spark.read.file_read import FileRead
    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.data_types import DataField

LEAST_BYTES: Final = 4 << 20
"""Sections whose files are smaller are merged whole: reading twice costs more than it saves."""
_LEAST_COLUMNS: Final = 2
"""So many columns have to be left out of the first reading."""
_LEAST_ROWS: Final = 8_192
_MOST_PART: Final = 8
_MOST_BYTES: Final = 16 << 20
"""Where more than this part of the rows match, and more than a few, or their keys take more bytes, all are merged."""
_MOST_LITERALS: Final = 1_000
"""So many keys are pushed down to the files one by one; of more only their range."""


@dataclass(frozen=True, slots=True)
class MatchingKeys:
    """Values of each key column; the rows that count have one of them in each."""

    values: tuple[tuple[str, pa.Array], ...]

    @property
    def predicate(self) -> Predicate:
        """What is pushed down to files: the values, or their range where they are many."""
        return all_of(self._leaf(name, values) for name, values in self.values if _is_literal(values.type))

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these keys, and perhaps of others that have their values in each column."""
        for batch in batches:
            mask = None
            for name, values in self.values:
                found = pc.is_in(batch.column(name), value_set=values)
                mask = found if mask is None else pc.and_(mask, found)
            yield batch.filter(mask)

    @staticmethod
    def _leaf(name: str, values: pa.Array) -> Predicate:
        if len(values) <= _MOST_LITERALS:
            return Leaf("in", name, values.to_pylist())
        bounds = pc.min_max(values)
        return Leaf("between", name, (bounds["min"].as_py(), bounds["max"].as_py()))


def _is_literal(data_type: pa.DataType) -> bool:
    """Whether values of a type are the same as Python values."""
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_decimal, pa.types.is_boolean)
    return any(kind(data_type) for kind in kinds)


def conditions_on_rows(
    predicate: Predicate | None, columns: Sequence[DataField], engine: MergeEngine, *, one_row_wins: bool
) -> list[Predicate]:
    """Return conditions each of which is true of one of the rows of a key, if the predicate is of the merged row.

    Args:
        predicate: over the merged rows.
        columns: of the table that the predicate looks at, among others.
        engine: of the table.
        one_row_wins: whether the merged row is one of the rows of its key (`CoreOptions.one_row_wins`).
    """
    if predicate is None or fields(predicate) <= set(engine.keys):
        return []
    if one_row_wins:
        return [predicate]
    schema = to_arrow_schema(columns)
    nulls = pa.Table.from_arrays([pa.nulls(1, field.type) for field in schema], names=schema.names)
    return [
        part
        for part in split_and(predicate)
        if _of_single_columns(part)
        and fields(part) <= engine.moved_columns(list(fields(part)))
        and not evaluate(part, nulls)[0].as_py()
    ]


def _of_single_columns(predicate: Predicate) -> bool:
    """Whether it is of one column, or a disjunction of conditions of one column each."""
    if isinstance(predicate, Or):
        return all(_of_single_columns(child) for child in predicate.children)
    return len(fields(predicate)) == 1


def matching_keys(
    reader: FileRead,
    runs: Sequence[Sequence[SplitFile]],
    conditions: Sequence[Predicate],
    keys: Sequence[str],
    pushed: Predicate | None,
) -> MatchingKeys | None:
    """Find the keys of a section that have, for each condition, a row for which it is true.

    Args:
        reader: of the section, with all columns of the merge and the memory of its batches.
        runs: of the section.
        conditions: of `conditions_on_rows`.
        keys: columns of the key.
        pushed: what the predicate says of the keys alone.

    Returns:
        The keys, and perhaps some more; None where all rows are to be merged: the files are small, few columns are
        left out, or many rows match.

    Raises:
        CorruptTableError: a data file or schema file is missing or damaged.
    """
    tested = set().union(*map(fields, conditions)) | set(keys)
    columns = tuple(field for field in reader.fields if field.name in tested)
    if (
        not conditions
        or len(reader.fields) - len(columns) < _LEAST_COLUMNS
        or _bytes_that_count(reader, runs) < LEAST_BYTES
        or any(pa.types.is_floating(field.type) for field in to_arrow_schema(columns) if field.name in keys)
    ):
        return None
    first = replace(reader, fields=columns, special=(), dictionaries=frozenset(), ahead=None)
    either = any_of(conditions)
    most_rows = max(sum(file.row_count for run in runs for file in run), _LEAST_ROWS * _MOST_PART) // _MOST_PART
    found = {condition: _Found(most_rows) for condition in conditions}
    for batch in chain(*first.runs(runs, either if pushed is None else all_of((either, pushed)))):
        for condition in [c for c, rows in found.items() if not rows.add(matching(c, batch).select(list(keys)))]:
            del found[condition]
        if not found:
            return None
    by_name = {field.name: field for field in columns}
    schema = to_arrow_schema([by_name[key] for key in keys])
    fewest = pa.Table.from_batches(min(found.values(), key=lambda rows: rows.number).batches, schema)
    return MatchingKeys(tuple((name, pc.unique(fewest[name])) for name in keys))


def _bytes_that_count(reader: FileRead, runs: Sequence[Sequence[SplitFile]]) -> int:
    """Bytes of the files of which some columns can be read alone: small ones of a store come whole."""
    smallest = 0 if reader.table.file_io.threads == 1 else SMALL_FILE_BYTES
    return sum(file.size for run in runs for file in run if file.size > smallest)


@dataclass(slots=True)
class _Found:
    """The keys of the rows that match one condition."""

    most_rows: int
    number: int = 0
    size: int = 0
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> bool:
        """Keep the rows of a batch; return whether all of them are still few."""
        self.batches.append(batch)
        self.number, self.size = self.number + batch.num_rows, self.size + batch.nbytes
        return self.number <= self.most_rows and self.size <= _MOST_BYTES
