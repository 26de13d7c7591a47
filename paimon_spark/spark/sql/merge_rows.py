"""What a MERGE is, as a front tells it: clauses, and both sides at one snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.spark.sql.merge_pruning import Equality
from paimon_spark.spec.row_kind import RowKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.schema import TableSchema


class Action(Enum):
    """What a clause does with a row; the value is the row kind of what it writes."""

    INSERT = RowKind.INSERT
    UPDATE = RowKind.UPDATE_AFTER
    DELETE = RowKind.DELETE


@dataclass(frozen=True)
class Clause:
    """One WHEN clause. Of the clauses of its kind, the first whose condition is true counts for a row."""

    action: Action
    condition: Column | None = None
    values: Mapping[str, Column] = field(default_factory=dict)
    """By column, of its type: of an UPDATE those that get another value, of an INSERT all."""


@dataclass(frozen=True)
class MergeRows:
    """Both sides of a MERGE at one snapshot. All Columns can be evaluated on the join of `target` and `source`."""

    target: DataFrame
    source: DataFrame
    on: Column
    old: Mapping[str, Column]
    """The columns of the target as its files hold them, and the metadata columns that were asked for."""
    matched: Sequence[Clause]
    not_matched: Sequence[Clause]
    """INSERT only; conditions and values are over the source."""
    not_matched_by_source: Sequence[Clause]
    """UPDATE and DELETE; conditions and values are over the target."""
    upsert: bool = False
    """Whether each row of the source is either inserted or becomes the row of its primary key, with the same values.

    That is so where ON compares the whole primary key with what INSERT assigns to it, and nothing else, and UPDATE and
    INSERT, both without a condition, assign the same to every other column."""
    equalities: Sequence[Equality] = ()
    """Parts of ON by which a source tells what can match."""
    narrow: Callable[[str], DataFrame] | None = None
    """Gives the target where a condition, SQL over its columns, is true."""
    by_key: Mapping[str, Column] | None = None
    """For each column of the primary key the value over the source that ON compares it with.

    None where ON says anything else, a condition or a value names the target, or a clause assigns another key. There
    are no clauses NOT MATCHED BY SOURCE then, and equal values of two clauses are one object.
    """


class MergeStatement(ABC):
    """A MERGE as one front tells it."""

    @property
    @abstractmethod
    def actions(self) -> Collection[Action]:
        """What its clauses do."""

    @abstractmethod
    def rows(self, snapshot_id: int | None, places: Sequence[str]) -> MergeRows:
        """Both sides at a snapshot.

        Args:
            snapshot_id: what is read of the target, also where the source or a subquery names it; None: there is none.
            places: metadata columns of the target that are needed.
        """


def first_clause(clauses: Sequence[Clause], before: int) -> Column:
    """The number of the first clause whose condition is true, from `before` + 1; 0 where none is."""
    return reduce(
        lambda others, numbered: (
            sf.lit(numbered[0])
            if numbered[1].condition is None
            else sf.when(numbered[1].condition, sf.lit(numbered[0])).otherwise(others)
        ),
        reversed(list(enumerate(clauses, start=before + 1))),
        sf.lit(0),
    )


def columns_of_deletes(schema: TableSchema) -> frozenset[str]:
    """The columns of a -D row that count: its key, partition and order, NOT NULL columns; all where old values do."""
    options = schema.core_options
    engine = str(schema.options.get("merge-engine", "deduplicate")).strip().lower()
    if engine != "deduplicate" or options.changelog_producer == "input":
        return frozenset(schema.field_names)
    return frozenset(
        (
            *schema.primary_keys,
            *schema.partition_keys,
            *options.sequence_fields,
            *(column.name for column in schema.fields if not column.type.nullable),
        )
    )
