"""``df.mergeInto`` of Connect sessions, where it names a Paimon table of a registered catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.connect.names import context_of, parts_of, there
from paimon_spark.spark.session.plain_methods import wrap_method
from paimon_spark.spark.sql.merge_frames import GivenClause
from paimon_spark.spark.sql.merge_strategy import Action
from paimon_spark.spark.table.merges import Merge
from paimon_spark.spark.table.paimon_table import PaimonTable

if TYPE_CHECKING:
    from paimon_spark.spark.sql.warehouses import TableName

_GIVEN = "_paimon_clauses"
_SESSION = "_paimon_session"
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
        else:
            _merge_of(self, session, name).execute()

    return merge


def _merge_of(writer: Any, session: Any, name: TableName) -> Merge:
    from pyspark.sql.connect.dataframe import DataFrame

    source: Any = DataFrame(writer._source_plan, session)
    table = PaimonTable.for_path(session, name.path, **name.options)
    alias = _alias(writer._source_plan.plan(session.client))
    merge = table.merge(source, _unqualified(writer._condition, name), alias=name.table, source_alias=alias)
    clauses: dict[str, list[GivenClause]] = {"matched": [], "not_matched": [], "not_matched_by_source": []}
    for location, clause in getattr(writer, _GIVEN):
        if location == "not_matched_by_source" and clause.action is Action.UPDATE and clause.values is None:
            raise UnsupportedError("whenNotMatchedBySource().updateAll() has no source to take values from: update(…)")
        condition = None if clause.condition is None else _unqualified(clause.condition, name)
        values = clause.values and {_own(key, name): _unqualified(value, name) for key, value in clause.values.items()}
        clauses[location].append(GivenClause(clause.action, condition, values))
    return Merge(
        merge.table,
        merge.source,
        merge.on,
        merge.aliases,
        tuple(clauses["matched"]),
        tuple(clauses["not_matched"]),
        tuple(clauses["not_matched_by_source"]),
        bool(getattr(writer, "_schema_evolution_enabled", False)),
    )


def _alias(relation: Any) -> str:
    """Return the alias of a source, by which conditions name it; another where it has none."""
    if relation.WhichOneof("rel_type") == "subquery_alias":
        return str(relation.subquery_alias.alias)
    return "_paimon_source"


def _own(column: str, name: TableName) -> str:
    """Return a column of the table without the table's name before it."""
    parts = parts_of(column)
    whole = tuple(part.lower() for part in name.parts)
    for length in range(len(whole), 0, -1):
        if len(parts) > length and tuple(part.lower() for part in parts[:length]) == whole[-length:]:
            return ".".join(f"`{part}`" if not part.isidentifier() else part for part in parts[length:])
    return column


def _unqualified(column: Any, name: TableName) -> Any:
    """Return a Column in which the table's whole name before a column is its last part, the alias of the merge."""
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.expressions import Expression

    if not isinstance(column, Column):
        return column

    class Renamed(Expression):
        """An expression whose columns are named by the alias."""

        def to_plan(self, session: Any) -> Any:
            """The message of the protocol."""
            message = column.to_plan(session)
            _rename(message, name)
            return message

        def __repr__(self) -> str:
            return str(column)

    return Column(Renamed())


def _rename(message: Any, name: TableName) -> None:
    if message.DESCRIPTOR.full_name == "spark.connect.Expression.UnresolvedAttribute":
        parts = parts_of(message.unparsed_identifier)
        for length in (3, 2):
            whole = tuple(part.lower() for part in name.parts[-length:])
            if len(whole) == length and len(parts) > length and tuple(p.lower() for p in parts[:length]) == whole:
                message.unparsed_identifier = ".".join(f"`{part}`" for part in parts[length - 1 :])
                return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if hasattr(value, "DESCRIPTOR") else list(value):
                if hasattr(part, "DESCRIPTOR"):
                    _rename(part, name)
