"""``df.mergeInto`` of Connect sessions, where it names a Paimon table of a registered catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import AnalysisException

from paimon_spark.errors import UnsupportedError
from paimon_spark.read.metadata_columns import METADATA_COLUMNS
from paimon_spark.spark.session.pyspark_members import replace_in_error, wrap_method
from paimon_spark.spark.sql.merge_frames import GivenClause
from paimon_spark.spark.sql.merge_strategy import Action
from paimon_spark.spark.statements.expressions import (
    Relation,
    path_without_qualifiers,
    qualifiers_length,
    with_aliases,
    with_other_aliases,
)
from paimon_spark.spark.table.handle import TableHandle
from paimon_spark.spark.table.rows import Merge
from paimon_spark.spark.text.context import context_of, parts_of, there
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column

    from paimon_spark.spark.sql.warehouses import TableName

_GIVEN = "_paimon_clauses"
_SESSION = "_paimon_session"
_NO_NAME = ("_paimon_source",)
_KEEPING = frozenset(
    {
        "subquery_alias",
        "filter",
        "limit",
        "offset",
        "sort",
        "deduplicate",
        "sample",
        "repartition",
        "repartition_by_expression",
        "hint",
        "drop",
    }
)
"""Relations whose columns are those below them, with the names of the tables that qualify them."""
_KINDS = {
    "WhenMatched": ("matched", {"updateAll": Action.UPDATE, "update": Action.UPDATE, "delete": Action.DELETE}),
    "WhenNotMatched": ("not_matched", {"insertAll": Action.INSERT, "insert": Action.INSERT}),
    "WhenNotMatchedBySource": (
        "not_matched_by_source",
        {"updateAll": Action.UPDATE, "update": Action.UPDATE, "delete": Action.DELETE},
    ),
}


def install_merges() -> None:
    """Let merges of Connect sessions name Paimon tables. Calling it again does no harm."""
    from pyspark.sql.connect.merge import MergeIntoWriter

    wrap_method(MergeIntoWriter, "__init__", _begin)
    wrap_method(MergeIntoWriter, "merge", _merge)
    for kind, (location, methods) in _KINDS.items():
        for method, action in methods.items():
            wrap_method(getattr(MergeIntoWriter, kind), method, _clause(location, action))


def _begin(own: Callable[..., None]) -> Callable[..., None]:
    def begin(self: Any, plan: Any, session: Any, *given: Any, **named: Any) -> None:
        own(self, plan, session, *given, **named)
        setattr(self, _SESSION, session)
        setattr(self, _GIVEN, [])

    return begin


def _clause(location: str, action: Action) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(own: Callable[..., Any]) -> Callable[..., Any]:
        def add(self: Any, *values: Mapping[str, Any], **named: Mapping[str, Any]) -> Any:
            given = values[0] if values else named.get("assignments")
            getattr(self.writer, _GIVEN, []).append((location, GivenClause(action, self._condition, given)))
            return own(self, *values, **named)

        return add

    return around


def _merge(own: Callable[..., None]) -> Callable[..., None]:
    def merge(self: Any) -> None:
        __tracebackhide__ = True
        session = getattr(self, _SESSION, None)
        context = None if session is None else context_of(session)
        name = None if context is None else there(context, self._target_table)
        if name is None:
            own(self)
            return
        try:
            _merge_of(self, session, name).execute()
        except AnalysisException as error:
            replace_in_error(error, f"`{_NO_NAME[0]}`.", "")  # the caller gave the source no alias
            raise

    return merge


def _merge_of(writer: Any, session: Any, name: TableName) -> Merge:
    from pyspark.sql.connect.dataframe import DataFrame

    handle = TableHandle(session, name.path, name.options)
    source: Any = DataFrame(writer._source_plan, session)
    given = _Given.of(writer._source_plan.plan(session.client), name, lambda: source.columns, session)
    clauses: dict[str, list[GivenClause]] = {"matched": [], "not_matched": [], "not_matched_by_source": []}
    for location, clause in getattr(writer, _GIVEN):
        if location == "not_matched_by_source" and clause.action is Action.UPDATE and clause.values is None:
            raise UnsupportedError("whenNotMatchedBySource().updateAll() has no source to take values from: update(…)")
        clauses[location].append(given.clause(clause))
    return Merge(
        handle,
        source,
        given.conditions(writer._condition),
        (given.own.alias, given.other.alias),
        tuple(clauses["matched"]),
        tuple(clauses["not_matched"]),
        tuple(clauses["not_matched_by_source"]),
        bool(getattr(writer, "_schema_evolution_enabled", False)),
    )


@dataclass(frozen=True)
class _Given:
    """Turns what a caller gives into expressions over the aliases of both sides: SQL where it is plain."""

    own: Relation
    other: Relation
    sources: frozenset[int]
    """The plans whose columns are those of the source."""
    session: Any

    @classmethod
    def of(cls, source: Any, name: TableName, columns: Callable[[], Collection[str]], session: Any) -> _Given:
        """For a source, the message of the protocol; it has another alias than any table where it has none."""
        plans, parts = {source.common.plan_id}, _NO_NAME
        while _keeps_columns(source):
            kind = source.WhichOneof("rel_type")
            if kind == "subquery_alias" and parts == _NO_NAME:
                parts = (*source.subquery_alias.qualifier, source.subquery_alias.alias)
            source = getattr(source, kind).input
            plans.add(source.common.plan_id)
        own_columns = (*name.load().schema.field_names, *METADATA_COLUMNS)
        own, other = with_other_aliases(
            Relation(name.parts, lambda: own_columns, name.table), Relation(parts, columns, parts[-1])
        )
        return cls(own, other, frozenset(plans), session)

    def clause(self, given: GivenClause) -> GivenClause:
        """A clause."""
        condition = given.condition if given.condition is None else self._expression(given.condition)
        values = given.values and {self._assigned(key): self._expression(value) for key, value in given.values.items()}
        return GivenClause(given.action, condition, values)

    def conditions(self, on: Any) -> tuple[str | Column, ...]:
        """The conditions that AND joins in ON."""
        return tuple(self._plain(part, on) for part in _conjuncts(self._renamed(on)))

    def _expression(self, column: Any) -> str | Column:
        return self._plain(self._renamed(column), column)

    def _assigned(self, column: str) -> str:
        """A column of the table, or a field, without the table's name before it."""
        path = path_without_qualifiers(parts_of(column), self.own)
        return ".".join(part if part.isidentifier() else quoted_name(part) for part in path) or column

    def _renamed(self, column: Any) -> Any:
        """The message of a Column, or of SQL, in which aliases stand for whole names."""
        from pyspark.sql.connect.functions import expr

        given: Any = expr(column) if isinstance(column, str) else column
        message = given.to_plan(self.session.client)
        self._rename(message)
        return message

    def _rename(self, message: Any) -> None:
        kind = message.DESCRIPTOR.full_name.rpartition(".")[2]
        if kind == "ExpressionString":
            message.expression = with_aliases(message.expression, (self.own, self.other))
        elif kind == "UnresolvedAttribute":
            self._rename_attribute(message)
        for field, value in message.ListFields():
            if field.message_type is not None:
                for part in [value] if hasattr(value, "DESCRIPTOR") else list(value):
                    if hasattr(part, "DESCRIPTOR"):
                        self._rename(part)

    def _rename_attribute(self, message: Any) -> None:
        names = parts_of(message.unparsed_identifier)
        if message.HasField("plan_id"):
            found, length = ([self.other] if self._is_of_source(message, names) else []), 0
        else:
            found, length = qualifiers_length(names, (self.own, self.other))
        if len(found) == 1:
            message.ClearField("plan_id")
            message.unparsed_identifier = ".".join(map(quoted_name, (found[0].alias, *names[length:])))

    def _is_of_source(self, message: Any, names: tuple[str, ...]) -> bool:
        """Whether ``df["x"]`` names a column of the source."""
        is_plain = message.plan_id in self.sources and not message.is_metadata_column
        return is_plain and bool(names) and self.other.has(names[0])

    def _plain(self, message: Any, column: Any) -> str | Column:
        """A message, which is a part of a Column, as SQL; as a Column where it is more than names and SQL."""
        from pyspark.sql.connect.column import Column as ConnectColumn
        from pyspark.sql.connect.expressions import Expression

        text = _text(message)
        if text is not None:
            return text
        words = f"{column} {self.own.alias} {self.other.alias}"

        class Renamed(Expression):
            """An expression whose columns are named by the aliases."""

            def to_plan(self, session: Any) -> Any:
                """The message of the protocol."""
                return message

            def __repr__(self) -> str:
                """Words that are at least those of the expression, as `Named` asks for."""
                return words

        made: Any = ConnectColumn(Renamed())
        return cast("Column", made)


def _keeps_columns(relation: Any) -> bool:
    """Whether the columns of a relation are some of those below it, so that the same names qualify them."""
    kind = relation.WhichOneof("rel_type")
    if kind == "project" and relation.project.HasField("input"):
        chosen = [expression.WhichOneof("expr_type") for expression in relation.project.expressions]
        return all(one in ("unresolved_attribute", "unresolved_star") for one in chosen)
    return kind in _KEEPING


def _conjuncts(message: Any) -> Iterator[Any]:
    function = message.unresolved_function
    if message.WhichOneof("expr_type") == "unresolved_function" and function.function_name == "and":
        for argument in function.arguments:
            yield from _conjuncts(argument)
    else:
        yield message


def _text(message: Any) -> str | None:
    """Return SQL, a column or the equality of two columns as SQL; None of any other expression."""
    match message.WhichOneof("expr_type"):
        case "expression_string":
            return str(message.expression_string.expression)
        case "unresolved_attribute" if not message.unresolved_attribute.HasField("plan_id"):
            name = message.unresolved_attribute.unparsed_identifier
            return None if "/" in name else ".".join(map(quoted_name, parts_of(name))) or None
        case "unresolved_function" if message.unresolved_function.function_name == "==":
            sides = [_text(argument) for argument in message.unresolved_function.arguments]
            return None if None in sides else " = ".join(f"({side})" for side in sides)
    return None
