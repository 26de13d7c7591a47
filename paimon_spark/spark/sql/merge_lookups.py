"""The source of a MERGE whose tasks look up its keys: the columns that they get, and what they make of them.

Either what each clause would make of a row goes with it (`keyed_merge`), or what clauses read of it, and they are
evaluated when the old row stands beside it (`lookup_join`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from paimon_spark.maintain.row_level import columns_kept_by_engine
from paimon_spark.read.key_lookup import KeyLookup
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.jobs.keyed_merges import MATCHED, NOT_MATCHED, KeyedMerge, MergedColumn
from paimon_spark.spark.jobs.lookup_joins import LookupJoin
from paimon_spark.spark.sql.merge_strategy import (
    Action,
    Clause,
    MergeRows,
    columns_of_deletes,
    first_clause,
    kept_columns,
)
from paimon_spark.write.bucket_assignment import LOCATION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


def keyed_merge(table: FileStoreTable, rows: MergeRows, snapshot: Snapshot | None) -> tuple[DataFrame, KeyedMerge]:
    """Return the rows of the source and what tasks make of them.

    Args:
        table: the target with the options of the statement.
        rows: both sides of a MERGE whose strategy is `MergeWay.KEY_LOOKUP`.
        snapshot: what is read of the target.
    """
    schema = table.schema
    given = _Given(schema, rows)
    kept = kept_columns(schema, [(clause.action, clause.values.keys()) for clause in rows.matched])
    lookup = KeyLookup.planned(table, snapshot, set(kept))
    kinds = tuple(clause.action.value for clause in (*rows.matched, *rows.not_matched))
    return given.frame(), KeyedMerge(schema, given.names, tuple(given.columns), kinds, lookup)


def lookup_join(
    table: FileStoreTable,
    rows: MergeRows,
    snapshot: Snapshot | None,
    changes: Callable[[MergeRows, Sequence[str]], DataFrame],
) -> tuple[DataFrame, LookupJoin]:
    """Return the rows of the source, and how they get the old rows of their keys and become rows to write.

    Args:
        table: the target with the options of the statement.
        rows: both sides of a MERGE whose strategy is `MergeWay.LOOKUP_JOIN`.
        snapshot: what is read of the target.
        changes: gives the rows to write, and these columns behind them, of the statement `BesideOldRows.over`.
    """
    assert rows.beside is not None
    schema, beside = table.schema, rows.beside()
    kept = kept_columns(schema, [(clause.action, clause.values.keys()) for clause in rows.matched])
    wanted = {*kept, *(rows.shape.reads_target() or ())} - set(schema.primary_keys)
    old = tuple(field for field in schema.fields if field.name in wanted)
    compared = {part.column: part.value for part in rows.equalities}
    keys = [compared[key] for key in schema.primary_keys]
    lacks_key = reduce(lambda one, other: one | other, (key.isNull() for key in keys))
    is_inserted = first_clause(rows.not_matched, 0) > 0 if rows.not_matched else sf.lit(False)
    columns = [column.alias(str(at)) for at, column in enumerate((*keys, *beside.read))]
    source = rows.source.where(sf.when(lacks_key, is_inserted).otherwise(sf.lit(True))).select(*columns)
    names = [*schema.primary_keys, *(f"_PAIMON_READ_{at}" for at in range(len(beside.read)))]
    given = StructType(
        [StructField(name, field.dataType, True) for name, field in zip(names, source.schema.fields, strict=True)]
    )

    def evaluated(joined: DataFrame) -> DataFrame:
        both = beside.over(joined, [field.name for field in old])
        located = [LOCATION] if LOCATION in joined.columns else []
        return changes(both, located)

    return source, LookupJoin(schema, given, old, KeyLookup.planned(table, snapshot, wanted), evaluated)


class _Given:
    """The columns that tasks get: each value once, the keys under their names."""

    def __init__(self, schema: TableSchema, rows: MergeRows) -> None:
        self._rows = rows
        self._schema = schema
        compared = {part.column: part.value for part in rows.equalities}
        self._values: list[Column] = [compared[key] for key in schema.primary_keys]
        self._names: list[str] = list(schema.primary_keys)
        self._by_engine = columns_kept_by_engine(schema)
        kept_by_deletes = columns_of_deletes(schema)
        self.columns = [self._column(field, kept_by_deletes) for field in schema.fields]

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return (*self._names, MATCHED, NOT_MATCHED)

    def frame(self) -> DataFrame:
        """The rows of the source for which a clause may do something, with these columns."""
        rows = self._rows
        keys = self._values[: len(self._schema.primary_keys)]
        lacks_key = reduce(lambda one, other: one | other, (value.isNull() for value in keys))
        matched = sf.when(lacks_key, sf.lit(0)).otherwise(first_clause(rows.matched, 0))
        numbers = matched, first_clause(rows.not_matched, len(rows.matched))
        columns = [value.alias(str(at)) for at, value in enumerate(self._values)]
        columns += [
            number.cast("tinyint").alias(name) for number, name in zip(numbers, (MATCHED, NOT_MATCHED), strict=True)
        ]
        return rows.source.select(*columns).where((sf.col(MATCHED) > 0) | (sf.col(NOT_MATCHED) > 0))

    def _column(self, field: DataField, kept_by_deletes: frozenset[str]) -> MergedColumn:
        name, rows = field.name, self._rows
        if name in self._schema.primary_keys:
            at = self._names.index(name)
            return MergedColumn(at, at, (), ())
        matched = list(enumerate(rows.matched, 1))
        inserted = list(enumerate(rows.not_matched, 1 + len(rows.matched)))
        deletes = tuple(number for number, clause in matched if clause.action is Action.DELETE)
        kept = tuple(n for n, clause in matched if clause.action is Action.UPDATE and name not in clause.values)
        emptied, kept = (kept, ()) if name in self._by_engine else ((), kept)
        is_kept = name in kept_by_deletes
        at_matched = self._assigned(field, [pair for pair in matched if name in pair[1].values], MATCHED)
        at_inserted = self._assigned(field, inserted, NOT_MATCHED)
        shown = at_matched is not None or at_inserted is not None
        if is_kept:
            return MergedColumn(at_matched, at_inserted, (*kept, *deletes), emptied if shown else ())
        return MergedColumn(at_matched, at_inserted, kept, (*emptied, *deletes) if shown else ())

    def _assigned(self, field: DataField, clauses: Sequence[tuple[int, Clause]], chosen_by: str) -> int | None:
        """The position of the column with the values that some clauses give a column of the table."""
        values = [clause.values[field.name] for _, clause in clauses]
        if not values:
            return None
        if all(value is values[0] for value in values):
            known = next((at for at, value in enumerate(self._values) if value is values[0]), None)
            if known is not None:
                return known
            value = values[0]
        else:
            first = self._rows.matched if chosen_by == MATCHED else self._rows.not_matched
            number = first_clause(first, 0 if chosen_by == MATCHED else len(self._rows.matched))
            value = reduce(
                lambda others, pair: sf.when(number == pair[0], pair[1].values[field.name]).otherwise(others),
                clauses,
                sf.lit(None).cast(to_spark_type(field.type)),
            )
        self._values.append(value)
        self._names.append(f"_PAIMON_VALUE_{len(self._names)}")
        return len(self._values) - 1
