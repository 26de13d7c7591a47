"""Which way a MERGE goes, and why; and what its source tells about the rows of the target that it can match.

The way is answered from what a MERGE says and from its table, before anything is read or written. Every front tells the
`MergeShape` of its statement (clauses, and both sides at one snapshot); `strategy_of` is the one place that decides,
for EXPLAIN too.

Where ON compares columns of the target with values of the source, no row outside the range of these values matches: a
condition for the target's scan. The range is computed once per attempt, of a source that is at hand or small; files,
row groups and partitions outside of it are not read then. On the driver.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from paimon_spark.maintain.row_level import columns_kept_by_engine
from paimon_spark.read.key_lookup import has_plain_equality
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.session.connect_plans import is_cached
from paimon_spark.spark.session.pyspark_members import SourceSize, source_size
from paimon_spark.spark.session.session_settings import is_connect
from paimon_spark.spec import data_types as t
from paimon_spark.spec.data_types import CharType
from paimon_spark.spec.special_fields import RowKind
from paimon_spark.spec.sql_text import literal_text, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

_LEAST_ROWS = 200_000
"""Of a target: a smaller one is read as fast as the range is computed."""
_MOST_BYTES = 32 << 20
"""Of a source that is kept for the second look at it, as Spark's optimizer estimates it."""
_MOST_VALUES = 256
_WHOLE = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
_ORDERED = (
    *_WHOLE,
    spark_types.DecimalType,
    spark_types.StringType,
    spark_types.DateType,
    spark_types.TimestampNTZType,
)
"""Types whose values compare in files as they do in Spark, and have literals."""


@dataclass(frozen=True)
class Equality:
    """A part of ON, joined to the others by AND: a column of the target equals a value of the source."""

    column: str
    value: Column
    """Over the source."""


@contextlib.contextmanager
def kept_if_small(source: DataFrame, target_rows: int) -> Iterator[bool]:
    """Return whether a second look at the source costs little, and keep its rows in the meantime where that needs it.

    Args:
        source: the rows; nothing is evaluated here.
        target_rows: how many rows the target has.
    """
    if target_rows < _LEAST_ROWS:
        yield False
        return
    if is_connect(source.sparkSession):
        yield is_cached(source)
        return
    size = source_size(source, _MOST_BYTES)
    if size is not SourceSize.SMALL:
        yield size is SourceSize.AT_HAND
        return
    source.persist()
    try:
        yield True
    finally:
        source.unpersist()


def matching_rows(
    target: DataFrame,
    narrow: Callable[[str], DataFrame],
    source: DataFrame,
    equalities: Sequence[Equality],
    schema: TableSchema,
) -> DataFrame:
    """Return the target without rows that no row of the source matches, as far as that is known.

    It runs one job over the source, and one more where there are few values.

    Args:
        target: all rows.
        narrow: gives the target where SQL over its columns is true.
        source: is evaluated several times.
        equalities: each must hold for rows that match.
        schema: of the target.
    """
    usable = _usable(source, equalities, schema)
    if not usable:
        return target
    condition = _ranges(source, usable)
    return target if condition is None else narrow(condition)


def _ranges(source: DataFrame, usable: Sequence[Equality]) -> str | None:
    """Return SQL over columns of the target that is true where a row of the source matches; None if unknown."""
    bounds = [bound(pair.value) for pair in usable for bound in (sf.min, sf.max)]
    rows = source.agg(sf.count(sf.lit(1)), *bounds).collect()[0]
    few: list[set[Any]] = [set() for _ in usable]
    if rows[0] <= _MOST_VALUES:
        values = source.select(*(pair.value.alias(str(at)) for at, pair in enumerate(usable))).collect()
        few = [{row[at] for row in values} - {None} for at in range(len(usable))]
    conditions = []
    for at, pair in enumerate(usable):
        low, high = rows[1 + 2 * at], rows[2 + 2 * at]
        name = quoted_name(pair.column)
        if not (_has_literal(low) and _has_literal(high)):
            continue
        conditions.append(f"{name} >= {literal_text(low)} AND {name} <= {literal_text(high)}")
        if len(few[at]) > 0 and all(map(_has_literal, few[at])):
            conditions.append(f"{name} IN ({', '.join(map(literal_text, sorted(few[at])))})")
    return " AND ".join(conditions) or None


def _usable(source: DataFrame, equalities: Sequence[Equality], schema: TableSchema) -> list[Equality]:
    """Those whose values compare with the column as they are."""
    chosen = source.select(*(pair.value.alias(str(at)) for at, pair in enumerate(equalities))).schema
    found = []
    for pair, given in zip(equalities, chosen.fields, strict=True):
        if not schema.has_field(pair.column) or isinstance(schema.field(pair.column).type, CharType):
            continue
        own = to_spark_type(schema.field(pair.column).type)
        same = type(own) is type(given.dataType) or (isinstance(own, _WHOLE) and isinstance(given.dataType, _WHOLE))
        is_binary = not isinstance(given.dataType, spark_types.StringType) or given.dataType == spark_types.StringType()
        if isinstance(own, _ORDERED) and same and is_binary:
            found.append(pair)
    return found


def _has_literal(value: Any) -> bool:
    """Whether a value has a literal that does not depend on settings of the session."""
    if isinstance(value, str):
        return "\\" not in value and "'" not in value and len(value) < 1000
    return isinstance(value, int | Decimal | date | datetime)


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
    reads_target: Callable[[], Collection[str] | None]
    """The columns of the target that a condition or a value of a clause may name; None: nobody knows which.

    Asked only where it matters."""
    may_fail: Callable[[Collection[str]], bool]
    """Whether a condition, or a value of these columns, may be an error for some rows of the source.

    Asked only where it matters."""
    joins_itself: Callable[[], bool] = lambda: False
    """Whether its clauses can be evaluated over rows of both sides that Spark has not joined. As the others."""


class MergeWay(Enum):
    """How the rows of a MERGE are found and written."""

    UPSERT = "upsert"
    """The rows of the source are written as they are; the target is not read."""
    KEY_LOOKUP = "key lookup"
    """The source alone is shuffled; the tasks that write look up its keys in their buckets."""
    LOOKUP_JOIN = "lookup join"
    """The source alone is shuffled; tasks look up the old rows of its keys, Spark evaluates the clauses over both."""
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
    read = shape.reads_target()
    if read is not None and not read and _is_upsert(table.schema, shape) and _reads_nothing(table.schema):
        return MergeStrategy(MergeWay.UPSERT, "each row of the source becomes the row of its primary key")
    reason = _not_looked_up(table.schema, shape)
    if reason is not None:
        return MergeStrategy(MergeWay.KEY_JOIN, reason)
    reason = _not_decided_first(table.schema, shape, read)
    if reason is None:
        said = "ON compares the primary key alone, and clauses read the source alone"
        return MergeStrategy(MergeWay.KEY_LOOKUP, said)
    if read is None or not shape.joins_itself() or _has_unread_types(table.schema, read):
        return MergeStrategy(MergeWay.KEY_JOIN, reason)
    return MergeStrategy(MergeWay.LOOKUP_JOIN, f"ON compares the primary key alone, and {reason}")


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
    return None


def _not_decided_first(schema: TableSchema, shape: MergeShape, read: Collection[str] | None) -> str | None:
    """Why nobody can tell what each clause would make of a row of the source before its key is looked up; else None."""
    if read is None or read:
        return "a condition or a value of a clause reads the target"
    if shape.may_fail(_values_of_some_rows(schema, shape)):
        return "a condition or a value may be an error, maybe for a row of the source that no clause writes"
    return None


def _has_unread_types(schema: TableSchema, read: Collection[str]) -> bool:
    """Whether tasks do not look up columns as Spark reads them: it pads values of CHAR."""
    kinds = (*_NOT_LOOKED_UP, t.CharType)
    return any(t.contains_type(schema.field(name).type, kind) for name in read for kind in kinds)


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
class BesideOldRows:
    """Rows of the source that have the old rows of their keys beside them, as a join of both sides has them."""

    read: Sequence[Column]
    """The columns of the source that clauses read."""
    over: Callable[[DataFrame, Sequence[str]], MergeRows]
    """Of rows whose columns are the primary key, `read`, these columns of the target, and others: the statement whose
    target they are, and whose clauses and old columns can be evaluated over them."""


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
    beside: Callable[[], BesideOldRows] | None = None
    """How clauses are evaluated without a join; None where the shape does not say that they can be."""


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
