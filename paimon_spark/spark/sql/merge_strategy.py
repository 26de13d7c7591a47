"""Which way a MERGE goes, and why: answered from what it says and from its table, before anything is read or written.

Every front tells the `MergeShape` of its statement; `strategy_of` is the one place that decides, for EXPLAIN too.

What a MERGE is, as a front tells it: clauses, and both sides at one snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.maintain.row_level import columns_kept_by_engine
from paimon_spark.read.key_lookup import has_plain_equality
from paimon_spark.spark.sql.merge_pruning import Equality
from paimon_spark.spec import data_types as t
from paimon_spark.spec.special_fields import RowKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

_MOST_CLAUSES = 127
_NOT_LOOKED_UP = (t.VariantType, t.BlobType)


class Action(Enum):
    """What a clause does with a row; the value is the row kind of what it writes."""

    INSERT = RowKind.INSERT
    UPDATE = RowKind.UPDATE_AFTER
    DELETE = RowKind.DELETE


@dataclass(frozen=True)
class Comparison:
    """A part of ON, joined to the others by AND: a column of the target equals a value over the source."""

    column: str
    value: Hashable
    """Equal to that of a clause's value where both are the same expression."""
    same_type: bool
    """Whether the column is compared as it is, without a cast."""


@dataclass(frozen=True)
class ClauseShape:
    """One WHEN clause."""

    action: Action
    conditional: bool = False
    values: Mapping[str, Hashable] = field(default_factory=dict)
    """By column: of an UPDATE those that it assigns, of an INSERT all. Equal where both are the same expression."""


@dataclass(frozen=True)
class MergeShape:
    """What a MERGE says, as far as its strategy depends on it."""

    compared: Sequence[Comparison]
    compares_only: bool
    """Whether ON says nothing else."""
    matched: Sequence[ClauseShape]
    not_matched: Sequence[ClauseShape]
    not_matched_by_source: Sequence[ClauseShape]
    reads_target: Callable[[], bool]
    """Whether a condition or a value of a clause may name the target. Asked only where it matters."""
    may_fail: Callable[[Collection[str]], bool]
    """Whether a condition, or a value of these columns, may be an error for some rows of the source.

    Asked only where it matters."""


class MergeWay(Enum):
    """How the rows of a MERGE are found and written."""

    UPSERT = "upsert"
    """The rows of the source are written as they are; the target is not read."""
    KEY_LOOKUP = "key lookup"
    """The source alone is shuffled; the tasks that write look up its keys in their buckets."""
    KEY_JOIN = "key join"
    """Both sides are joined, and changed rows are written with their row kinds."""
    COMPANION_COLUMNS = "companion columns"
    """Both sides are joined, and the changed columns are written into companion files."""
    DELETION_VECTORS = "deletion vectors"
    """Both sides are joined, old rows are deleted by deletion vectors, new rows are appended."""
    FILE_REWRITE = "file rewrite"
    """Both sides are joined, and the files that hold changed rows are written anew."""
    APPEND = "append"
    """Rows of the source that match nothing are appended."""


@dataclass(frozen=True, slots=True)
class MergeStrategy:
    """The way of a MERGE, and why it is taken."""

    way: MergeWay
    reason: str

    def __str__(self) -> str:
        return f"{self.way.value} ({self.reason})"


def strategy_of(table: FileStoreTable, shape: MergeShape) -> MergeStrategy:
    """Choose how a MERGE is done.

    Args:
        table: the target with the options of the statement.
        shape: what the statement says.
    """
    if not table.schema.kind.is_keyed:
        return _without_key(table, shape)
    reason = _not_by_key(table.schema, shape)
    if reason is not None:
        return MergeStrategy(MergeWay.KEY_JOIN, reason)
    if _is_upsert(table.schema, shape) and _reads_nothing(table.schema):
        return MergeStrategy(MergeWay.UPSERT, "each row of the source becomes the row of its primary key")
    reason = _not_looked_up(table.schema, shape)
    if reason is not None:
        return MergeStrategy(MergeWay.KEY_JOIN, reason)
    said = "ON compares the primary key alone, and clauses read the source alone"
    return MergeStrategy(MergeWay.KEY_LOOKUP, said)


def has_own_buckets(schema: TableSchema) -> bool:
    """Whether each key has a bucket, where its rows meet."""
    return schema.kind.hashes_to_buckets or schema.kind.assigns_buckets


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


def kept_columns(schema: TableSchema, matched: Sequence[tuple[Action, Collection[str]]]) -> frozenset[str]:
    """The columns of old rows that clauses WHEN MATCHED write again.

    Args:
        schema: of a table with primary keys.
        matched: what each clause does, and the columns that it assigns.
    """
    of_deletes, by_engine = columns_of_deletes(schema), columns_kept_by_engine(schema)
    found: set[str] = set()
    for action, assigned in matched:
        if action is Action.DELETE:
            found |= of_deletes
        else:
            found |= set(schema.field_names) - set(assigned) - by_engine
    return frozenset(found - set(schema.primary_keys))


def _without_key(table: FileStoreTable, shape: MergeShape) -> MergeStrategy:
    """The strategy for a table without primary keys."""
    if not shape.matched and not shape.not_matched_by_source:
        return MergeStrategy(MergeWay.APPEND, "it only inserts")
    if table.schema.kind.has_data_evolution:
        return MergeStrategy(MergeWay.COMPANION_COLUMNS, "data-evolution.enabled = true")
    if table.options.deletion_vectors_enabled:
        return MergeStrategy(MergeWay.DELETION_VECTORS, "deletion-vectors.enabled = true")
    return MergeStrategy(MergeWay.FILE_REWRITE, "the table has no primary key and no deletion vectors")


def _not_by_key(schema: TableSchema, shape: MergeShape) -> str | None:
    """Why a row of the source does not show alone what becomes of the row of its key; None where it does."""
    keys = set(schema.primary_keys)
    compared = {part.column: part.value for part in shape.compared}
    if not shape.compares_only or len(shape.compared) > len(compared) or compared.keys() != keys:
        return "ON is not the equality of the whole primary key with values of the source"
    if not all(part.same_type for part in shape.compared):
        return "ON compares the primary key with values of other types"
    if shape.not_matched_by_source:
        return "WHEN NOT MATCHED BY SOURCE is about all rows of the target"
    for clause in (*shape.matched, *shape.not_matched):
        assigned = keys if clause.action is Action.INSERT else keys & clause.values.keys()
        if any(key not in clause.values or clause.values[key] != compared[key] for key in assigned):
            return "a clause assigns another primary key than ON compares"
    if shape.reads_target():
        return "a condition or a value of a clause reads the target"
    return None


def _is_upsert(schema: TableSchema, shape: MergeShape) -> bool:
    """Whether UPDATE and INSERT, both without a condition, make the same row of a row of the source."""
    clauses = (*shape.matched, *shape.not_matched)
    if [clause.action for clause in clauses] != [Action.UPDATE, Action.INSERT] or not shape.matched:
        return False
    if any(clause.conditional for clause in clauses):
        return False
    update, insert = (clause.values for clause in clauses)
    others = [name for name in schema.field_names if name not in schema.primary_keys]
    return all(name in update and name in insert and update[name] == insert[name] for name in others)


def _reads_nothing(schema: TableSchema) -> bool:
    """Whether an upsert needs not know which keys the table has: their rows only differ in their kinds."""
    options = schema.core_options
    return has_own_buckets(schema) and options.changelog_producer != "input" and options.rowkind_field is None


def _not_looked_up(schema: TableSchema, shape: MergeShape) -> str | None:
    """Why tasks cannot look up the keys of their rows; None where they can."""
    if len(shape.matched) + len(shape.not_matched) > _MOST_CLAUSES:
        return f"it has more than {_MOST_CLAUSES} clauses"
    for key in schema.primary_keys:
        if not has_plain_equality(schema.field(key).type):
            return f"equal values of the primary key column {key} are not always the same key"
    if schema.kind.assigns_buckets:
        # keys get their buckets before it is known whether they are written
        if not shape.not_matched or shape.not_matched[-1].conditional:
            return "rows of the source without a clause must get no bucket (dynamic buckets)"
    elif not schema.kind.hashes_to_buckets:
        return "a key has no bucket of its own before it is written"
    kept = kept_columns(schema, [(clause.action, clause.values.keys()) for clause in shape.matched])
    for name in sorted(kept):
        if any(t.contains_type(schema.field(name).type, kind) for kind in _NOT_LOOKED_UP):
            return f"column {name} keeps its values, and values of its type are not looked up"
    if shape.may_fail(_values_of_some_rows(schema, shape)):
        # tasks get what each clause would make of a row, before they know which of them writes it
        return "a condition or a value may be an error, maybe for a row of the source that no clause writes"
    return None


def _values_of_some_rows(schema: TableSchema, shape: MergeShape) -> frozenset[str]:
    """The columns but the primary key whose value in a row of the source is not written whatever the table holds."""
    clauses = (*shape.matched, *shape.not_matched)
    others = frozenset(schema.field_names) - set(schema.primary_keys)
    for sides in (shape.matched, shape.not_matched):
        if not sides or sides[-1].conditional:
            return others
    first = clauses[0].values
    same = {name for name in first if all(name in each.values and each.values[name] == first[name] for each in clauses)}
    return others - same


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
