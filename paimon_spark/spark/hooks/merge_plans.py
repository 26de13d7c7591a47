"""A MERGE that Spark has analysed, as a statement that `sql.merge` runs: its expressions become Columns.

Everything the statement says stays Spark's own expressions: names, casts, defaults and stars are resolved by Spark.
On the driver, once per statement and attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from paimon_spark.spark.catalog.frames import tree_at
from paimon_spark.spark.columns.types import comes_through_arrow
from paimon_spark.spark.hooks.row_level_plans import Target
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import (
    aligned_inserts,
    column_ids,
    column_of,
    java_list,
    python_object,
    python_type,
    renamed_columns,
    scala_seq,
)
from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.sql.merge_strategy import (
    Action,
    BesideOldRows,
    Clause,
    ClauseShape,
    Comparison,
    Equality,
    MergeRows,
    MergeShape,
    MergeStatement,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spark.jvm.gateway import JavaObject

_KINDS = {"UpdateAction": Action.UPDATE, "DeleteAction": Action.DELETE, "InsertAction": Action.INSERT}
_SURE = {"AttributeReference", "Literal"}


@dataclass(frozen=True)
class _ResolvedClause:
    """One WHEN clause in expressions of Spark."""

    kind: Action
    condition: JavaObject | None
    values: Mapping[str, JavaObject]


@dataclass(frozen=True)
class AnalyzedMerge(MergeStatement):
    """A ``MergeIntoTable`` whose names are resolved."""

    target: Target
    plan: JavaObject

    @cached_property
    def _clauses(self) -> tuple[Sequence[_ResolvedClause], ...]:
        """The clauses: MATCHED, NOT MATCHED, NOT MATCHED BY SOURCE."""
        plan = self.plan
        lists = (plan.matchedActions(), plan.notMatchedActions(), plan.notMatchedBySourceActions())
        return tuple([self._resolved(action) for action in java_list(actions)] for actions in lists)

    def check(self) -> None:
        """Let Spark refuse values that the columns cannot hold, before anything is changed."""
        assert self._clauses

    def _resolved(self, action: JavaObject) -> _ResolvedClause:
        kind = _KINDS[action.getClass().getSimpleName()]
        condition = action.condition().get() if action.condition().isDefined() else None
        values: dict[str, JavaObject] = {}
        if kind is Action.UPDATE:
            values = self.target.assigned(self._filled(action.assignments()))
        elif kind is Action.INSERT:
            given = self._filled(action.assignments())
            aligned = aligned_inserts(self.target.gateway, self.target.relation.output(), given)
            pairs = zip(self.target.attributes, aligned, strict=True)
            values = {attribute.name(): assignment.value() for attribute, assignment in pairs}
        return _ResolvedClause(kind, condition, values)

    def _filled(self, assignments: JavaObject) -> JavaObject:
        """The assignments, with nulls for the fields that STRUCTs lack where the statement evolves the schema."""
        gateway = self.target.gateway
        if not python_object(gateway, self.target.relation.table()).loaded.evolves_schema:
            return assignments
        structs = new_object(gateway, "PaimonFilledStructs")
        filled = [
            compat.ASSIGNMENT(gateway, each.key(), structs.filled(each.value(), each.key().dataType(), None))
            for each in java_list(assignments)
        ]
        return scala_seq(gateway, filled)

    @property
    def actions(self) -> Collection[Action]:
        """What its clauses do."""
        return {action.kind for actions in self._clauses for action in actions}

    def rows(self, snapshot_id: int | None, locations: Sequence[str]) -> MergeRows:
        """Both sides at a snapshot; the source and subqueries read the same of the target."""
        target, old = self.target.side(snapshot_id, locations)
        at = _AtSnapshot(self.target, snapshot_id)
        columns = _Columns(self.target, at.tree)
        clauses = self._clauses_of(columns)
        source = at.tree(self._source())
        rows = MergeRows(
            target=target,
            source=self.target.frame(source),
            on=column_of(self.target.gateway, at.tree(self.plan.mergeCondition())),
            old={name: column_of(self.target.gateway, attribute) for name, attribute in old.items()},
            matched=clauses[0],
            not_matched=clauses[1],
            not_matched_by_source=clauses[2],
            shape=self.shape(),
            equalities=[Equality(part.column, columns.of(part.value)) for part in self._compared],
            narrow=target.where,
        )
        return replace(rows, beside=lambda: self._beside(rows, at, source, old))

    def _source(self) -> JavaObject:
        """The plan of the source, with those of its metadata columns that the statement names."""
        source, gateway = self.plan.sourceTable(), self.target.gateway
        named = column_ids(gateway, self.plan.references()) - column_ids(gateway, source.output())
        hidden = [column for column in java_list(source.metadataOutput()) if str(column.exprId()) in named]
        if not hidden:
            return source
        return compat.PROJECT(gateway, scala_seq(gateway, [*java_list(source.output()), *hidden]), source)

    @cached_property
    def _compared(self) -> list[_Compared]:
        """The parts of ON that compare a column of the target with a value of the source."""
        own = {str(attribute.exprId()): attribute.name() for attribute in self.target.attributes}
        others = column_ids(self.target.gateway, self.plan.sourceTable().output())
        found = []
        for part in self._parts:
            if part.getClass().getSimpleName() != "EqualTo":
                continue
            for column, value in ((part.left(), part.right()), (part.right(), part.left())):
                is_cast = column.getClass().getSimpleName() == "Cast"
                plain = column.child() if is_cast else column
                is_column = plain.getClass().getSimpleName() == "AttributeReference"
                if is_column and str(plain.exprId()) in own and self._named(value) <= others:
                    found.append(_Compared(own[str(plain.exprId())], value, not is_cast))
                    break
        return found

    @cached_property
    def _parts(self) -> list[JavaObject]:
        """The conditions that ON joins by AND."""
        return _conjuncts(self.plan.mergeCondition())

    def shape(self) -> MergeShape:
        """What the statement says."""
        return self._shape

    @cached_property
    def _shape(self) -> MergeShape:
        known = _Known()
        compared = [Comparison(part.column, known.number(part.value), part.same_type) for part in self._compared]
        matched, not_matched, by_source = (
            [
                ClauseShape(
                    action.kind,
                    action.condition is not None,
                    {name: known.number(value) for name, value in action.values.items()},
                )
                for action in actions
            ]
            for actions in self._clauses
        )
        return MergeShape(
            compared,
            len(compared) == len(self._parts),
            matched,
            not_matched,
            by_source,
            reads_target=lambda: self._read_columns,
            may_fail=self._may_fail,
            joins_itself=self._joins_itself,
        )

    @cached_property
    def _read_columns(self) -> Collection[str] | None:
        """The columns of the target that conditions or values name; None where they name a metadata column of it."""
        gateway, relation = self.target.gateway, self.target.relation
        if not self._read_ids.isdisjoint(column_ids(gateway, relation.metadataOutput())):
            return None
        return [column.name() for column in self.target.attributes if str(column.exprId()) in self._read_ids]

    @cached_property
    def _read_ids(self) -> set[str]:
        """The ids of the columns that conditions and values of clauses name."""
        return set[str]().union(*map(self._named, self._expressions))

    @property
    def _expressions(self) -> list[JavaObject]:
        """The conditions and values of all clauses."""
        actions = [action for actions in self._clauses for action in actions]
        values = [value for action in actions for value in action.values.values()]
        return [*values, *(action.condition for action in actions if action.condition is not None)]

    def _joins_itself(self) -> bool:
        """Whether what clauses read of the source comes through Arrow as it is, and no clause has a subquery.

        A subquery names columns of the rows around it, which have other names there.
        """
        if any(map(compat.SUBQUERY_EXPRESSION.of(self.target.gateway).hasSubquery, self._expressions)):
            return False
        return all(comes_through_arrow(python_type(column.dataType())) for column in self._read_of(self._source()))

    def _read_of(self, source: JavaObject) -> list[JavaObject]:
        """The columns of the source that conditions and values name."""
        return [column for column in java_list(source.output()) if str(column.exprId()) in self._read_ids]

    def _beside(
        self, rows: MergeRows, at: _AtSnapshot, source: JavaObject, old: Mapping[str, JavaObject]
    ) -> BesideOldRows:
        """How the clauses are evaluated over rows of the source, and old rows of the target, that nobody joined.

        Args:
            rows: both sides.
            at: lets subqueries read the snapshot.
            source: the plan of the source.
            old: the columns of the target as its files hold them.
        """
        gateway, target = self.target.gateway, self.target
        keys = python_object(gateway, target.relation.table()).loaded.table.schema.primary_keys
        read = self._read_of(source)

        def over(joined: DataFrame, names: Sequence[str]) -> MergeRows:
            own = [*(old[key] for key in keys), *read, *(old[name] for name in names)]
            given = java_list(java_frame(joined).queryExecution().analyzed().output())[: len(own)]
            held = [*given[: len(keys)], *given[len(own) - len(names) :]]
            columns = _Columns(target, lambda tree: renamed_columns(gateway, at.tree(tree), own, given))
            clauses = self._clauses_of(columns)
            return replace(
                rows,
                target=joined,
                old={name: column_of(gateway, column) for name, column in zip([*keys, *names], held, strict=True)},
                matched=clauses[0],
                not_matched=clauses[1],
            )

        return BesideOldRows([column_of(gateway, column) for column in read], over)

    def _clauses_of(self, columns: _Columns) -> list[list[Clause]]:
        """The clauses, of each kind in their order, as Columns."""
        return [[self._clause(action, columns) for action in actions] for actions in self._clauses]

    def _named(self, expression: JavaObject) -> set[str]:
        """The ids of the columns that an expression names."""
        return column_ids(self.target.gateway, expression.references())

    def _may_fail(self, columns: Collection[str]) -> bool:
        """Whether a condition, or a value of these columns, may be an error for some rows of the source."""
        actions = [action for actions in self._clauses for action in actions]
        conditions = [action.condition for action in actions if action.condition is not None]
        values = [_without_name(action.values[name]) for action in actions for name in columns & action.values.keys()]
        values = [value for value in values if value.getClass().getSimpleName() not in _SURE]
        return not all(self._is_sure(expression) for expression in (*conditions, *values))

    def _is_sure(self, expression: JavaObject) -> bool:
        """Whether an expression over the source has a value for every row."""
        from paimon_spark.spark.statements.sure_values import sure_type  # imports sqlglot

        return sure_type(expression.sql(), self._source_types) is not None

    @cached_property
    def _source_types(self) -> dict[tuple[str, ...], str]:
        """The types of the columns of the source, by the parts of their full names."""
        return {
            tuple(str(part).lower() for part in (*java_list(column.qualifier()), column.name())): str(
                column.dataType().simpleString()
            )
            for column in java_list(self.plan.sourceTable().output())
        }

    @staticmethod
    def _clause(action: _ResolvedClause, columns: _Columns) -> Clause:
        condition = None if action.condition is None else columns.of(action.condition)
        return Clause(action.kind, condition, {name: columns.of(value) for name, value in action.values.items()})


@dataclass
class _Columns:
    """Expressions as Columns: one object for all that are the same."""

    target: Target
    changed: Callable[[JavaObject], JavaObject]
    _known: dict[str, list[tuple[JavaObject, Column]]] = field(default_factory=dict)

    def of(self, expression: JavaObject) -> Column:
        """The expression as it is evaluated, without its name: an INSERT names its values, an UPDATE does not."""
        expression = _without_name(expression)
        same_text = self._known.setdefault(str(expression.toString()), [])
        for other, column in same_text:
            if expression.deterministic() and other.semanticEquals(expression):
                return column
        column = column_of(self.target.gateway, self.changed(expression))
        same_text.append((expression, column))
        return column


@dataclass(frozen=True)
class _Compared:
    """A column of the target that ON compares."""

    column: str
    value: JavaObject
    """Over the source."""
    same_type: bool
    """Whether the column is compared without a cast."""


@dataclass
class _Known:
    """Expressions as numbers: the same for those that are equal, but for their names and checks for NULL."""

    _numbers: dict[str, list[tuple[JavaObject, int]]] = field(default_factory=dict)
    _count: int = 0

    def number(self, expression: JavaObject) -> int:
        """The number of an expression."""
        plain = _plain(expression)
        same_text = self._numbers.setdefault(str(plain.toString()), [])
        for other, number in same_text:
            if other.semanticEquals(plain):
                return number
        self._count += 1
        same_text.append((plain, self._count))
        return self._count


def _without_name(value: JavaObject) -> JavaObject:
    while value.getClass().getSimpleName() == "Alias":
        value = value.child()
    return value


def _plain(value: JavaObject) -> JavaObject:
    """A value without its name, and without the check that it is not null."""
    while value.getClass().getSimpleName() in ("Alias", "AssertNotNull"):
        value = value.child()
    return value


def _conjuncts(condition: JavaObject) -> list[JavaObject]:
    """The conditions that are joined by AND."""
    if condition.getClass().getSimpleName() == "And":
        return [*_conjuncts(condition.left()), *_conjuncts(condition.right())]
    return [condition]


@dataclass(frozen=True)
class _AtSnapshot:
    """Makes queries read one snapshot of the target, where they name no other version of it."""

    target: Target
    snapshot_id: int | None

    def tree(self, tree: JavaObject) -> JavaObject:
        """Return a plan or an expression whose relations of the target read the snapshot."""
        if self.snapshot_id is None:
            return tree
        own = python_object(self.target.gateway, self.target.relation.table())
        return tree_at(self.target.gateway, tree, own.loaded.table, self.snapshot_id)


def merge_text(name: str, plan: JavaObject) -> str:
    """What EXPLAIN shows of a MERGE."""
    lists = (
        ("MATCHED", plan.matchedActions()),
        ("NOT MATCHED", plan.notMatchedActions()),
        ("NOT MATCHED BY SOURCE", plan.notMatchedBySourceActions()),
    )
    clauses = [
        f" WHEN {when}{_condition_text(action)} THEN {_KINDS[action.getClass().getSimpleName()].name}"
        for when, actions in lists
        for action in java_list(actions)
    ]
    return f"MERGE INTO {name} ON {plan.mergeCondition().sql()}{''.join(clauses)}"


def _condition_text(action: JavaObject) -> str:
    return f" AND {action.condition().get().sql()}" if action.condition().isDefined() else ""


def is_deterministic(plan: JavaObject) -> bool:
    """Whether the conditions of a MERGE have one value each; Spark refuses others."""
    actions = (*java_list(plan.matchedActions()), *java_list(plan.notMatchedActions()))
    actions = (*actions, *java_list(plan.notMatchedBySourceActions()))
    conditions = [action.condition().get() for action in actions if action.condition().isDefined()]
    return all(condition.deterministic() for condition in (plan.mergeCondition(), *conditions))
