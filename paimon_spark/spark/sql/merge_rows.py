"""What a MERGE is, as a front tells it: clauses, and both sides at one snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.spark.sql.merge_pruning import Equality

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spark.sql.merge_strategy import Action, MergeShape


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
    shape: MergeShape
    """What the statement says, by which `strategy_of` chooses."""
    equalities: Sequence[Equality] = ()
    """Parts of ON by which a source tells what can match; those of its shape are among them."""
    narrow: Callable[[str], DataFrame] | None = None
    """Gives the target where a condition, SQL over its columns, is true."""


class MergeStatement(ABC):
    """A MERGE as one front tells it."""

    @property
    @abstractmethod
    def actions(self) -> Collection[Action]:
        """What its clauses do."""

    @abstractmethod
    def shape(self) -> MergeShape:
        """What it says, for EXPLAIN."""

    @abstractmethod
    def rows(self, snapshot_id: int | None, locations: Sequence[str]) -> MergeRows:
        """Both sides at a snapshot.

        Args:
            snapshot_id: what is read of the target, also where the source or a subquery names it; None: there is none.
            locations: metadata columns of the target that are needed.
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
