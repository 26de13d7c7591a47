"""Which keys of overlapping sorted runs can have a merged row for which a condition on values is true.

Where a merge only moves the values of a column, the merged row has the value of one of the rows of its key, or null. So
a condition that is not true of null can be true of the merged row only if it is true of one of these rows. Keys and the
columns of the condition are read first; then all columns, but only the rows of the keys found. Runs in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Leaf, Or, Predicate, all_of, any_of, evaluate, fields, matching, split_and

if TYPE_CHECKING:
    from paimon_spark.merge.merge_engine import MergeEngine
    from paimon_spark.read.file_read import FileRead
    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.data_types import DataField

LEAST_BYTES: Final = 4 << 20
"""Sections whose files are smaller are merged whole: reading twice costs more than it saves."""
_LEAST_COLUMNS: Final = 2
"""So many columns have to be left out of the first reading."""
_FIRST_ROWS: Final = 1 << 16
"""After so many rows it is known how many match."""
_MOST_PART: Final = 8
"""Where more than this part of the rows match, all are merged."""
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
        or sum(file.size for run in runs for file in run) < LEAST_BYTES
        or any(pa.types.is_floating(field.type) for field in to_arrow_schema(columns) if field.name in keys)
    ):
        return None
    first = replace(reader, fields=columns, special=(), dictionaries=frozenset())
    either = any_of(conditions)
    found: dict[Predicate, list[pa.RecordBatch]] = {condition: [] for condition in conditions}
    rows = 0
    for file in (file for run in runs for file in run):
        for batch in first.batches(file, either if pushed is None else all_of((either, pushed))):
            for condition, parts in found.items():
                parts.append(matching(condition, batch).select(list(keys)))
        rows += file.row_count
        for condition in [c for c, parts in found.items() if _are_many(parts, rows)]:
            del found[condition]
        if not found:
            return None
    by_name = {field.name: field for field in columns}
    schema = to_arrow_schema([by_name[key] for key in keys])
    tables = [pa.Table.from_batches(parts, schema) for parts in found.values()]
    fewest = min(tables, key=lambda table: table.num_rows)
    return MatchingKeys(tuple((name, pc.unique(fewest[name])) for name in keys))


def _are_many(parts: Sequence[pa.RecordBatch], rows: int) -> bool:
    return bool(sum(part.num_rows for part in parts) * _MOST_PART > max(rows, _FIRST_ROWS))
