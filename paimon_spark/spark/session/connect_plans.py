"""Plans of Connect sessions whose loads are changed before they go to the server.

What ``pyspark.sql.connect`` calls a plan is known here only as a message of the protocol, whose loads are found by the
protocol's own description. The ids by which Columns name a DataFrame stay. A temporary view whose plan this client has
kept is replaced by that plan where a load in it is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from paimon_spark.spark.session.connect_messages import (
    LOAD,
    RELATION,
    RELATION_COMMON,
    SUBQUERY,
    UNRESOLVED_ATTRIBUTE,
    UNRESOLVED_REGEX,
    UNRESOLVED_STAR,
    copied,
    messages,
)
from paimon_spark.spark.session.connect_views import KeptView, is_as_kept, kept_views
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Change = Callable[[Any], bool]
"""Is given a load (``Read.DataSource``, with `format`, `options` and `paths`), may change it, and tells whether it
did."""
NamesOf = Callable[[str], Sequence[tuple[tuple[str, ...], int, int, str | None]] | None]
"""The tables that a query names: parts, where the name begins and ends, alias; None for one that is not understood."""
_TABLE = re.compile(r"^\s*TABLE\s+", re.IGNORECASE)
_VIEW = re.compile(r"View \(((?:`(?:[^`]|``)*`\.?)+),")
_INDENT = re.compile(r"[ :|+-]*")
_PAIMON = re.compile(r"RelationV2\[.*\] paimon\b")
_IDS = (RELATION_COMMON, SUBQUERY, UNRESOLVED_ATTRIBUTE, UNRESOLVED_STAR, UNRESOLVED_REGEX)


def with_loads(frame: DataFrame, change: Change, names_of: NamesOf) -> DataFrame:
    """Return a DataFrame whose loads are changed; the same one where none is."""
    plan: Any = frame._plan
    client: Any = frame.sparkSession.client
    relation = plan.plan(client)
    if not _Changes(client, change, names_of).made(relation, kept_views(client)):
        return frame
    return type(frame)(sent_plan(relation), frame.sparkSession)


def sent_plan(relation: Any) -> Any:
    """Return a plan of PySpark's that is a message as it is."""
    from pyspark.sql.connect.plan import LogicalPlan

    class Sent(LogicalPlan):
        def __init__(self) -> None:
            super().__init__(None)

        def plan(self, session: Any) -> Any:
            """A copy of the message, which may be changed."""
            return copied(relation)

    return Sent()


def loads_of(frame: DataFrame, names_of: NamesOf) -> list[Any]:
    """The loads in the plan of a DataFrame, and in those of the views that it names; arguments as of `with_loads`."""
    found = []

    def look(load: Any) -> bool:
        found.append(load)
        return False

    with_loads(frame, look, names_of)
    return found


def rows_of_view(view: KeptView, change: Change, names_of: NamesOf) -> Any:
    """Return the plan of a view with changed loads, those of the views that it names too.

    None where none is changed, or where it names tables or views besides, which may be others by now.
    """
    rows = copied(view.relation)
    changed = _Changes(None, change, names_of).made(rows, view.views, checked=True)
    _renumber(rows)  # the server keeps plans by their numbers
    return rows if changed and _names_nothing(rows, names_of) else None


def _names_nothing(relation: Any, names_of: NamesOf) -> bool:
    """Whether a plan carries all rows that it names."""
    carried = {one.subquery_alias.alias for one in messages(relation, RELATION) if one.HasField("subquery_alias")}
    for one in messages(relation, RELATION):
        if one.HasField("read") and one.read.HasField("named_table"):
            return False
        if one.HasField("sql"):
            tables = names_of(_TABLE.sub("SELECT * FROM ", one.sql.query))
            if tables is None or any(len(parts) > 1 or parts[0] not in carried for parts, *_ in tables):
                return False
    return True


@dataclass(frozen=True)
class _Changes:
    """Changes of the loads in a plan, and in those of the views that it names."""

    client: Any
    change: Change
    names_of: NamesOf

    def made(self, relation: Any, views: Mapping[str, KeptView], *, checked: bool = False) -> bool:
        """Change a relation in its place, and tell whether anything was.

        Args:
            relation: the message.
            views: what names mean.
            checked: whether the views are known to be those that the names mean.
        """
        changed = [self.change(load) for load in list(messages(relation, LOAD))]
        found = list(messages(relation, RELATION)) if views else []
        carrying = [one for one in found if one.HasField("with_relations") and one.with_relations.root.HasField("sql")]
        roots = [one.with_relations.root for one in carrying]
        changed += [self._text(one, one.with_relations.root, views, checked=checked) for one in carrying]
        for one in found:
            if one.HasField("read") and one.read.HasField("named_table"):
                changed.append(self._named(one, views, checked=checked))
            elif one.HasField("sql") and not any(one is root for root in roots):
                changed.append(self._text(one, None, views, checked=checked))
        return any(changed)

    def _named(self, found: Any, views: Mapping[str, KeptView], *, checked: bool) -> bool:
        key = found.read.named_table.unparsed_identifier.replace("`", "").lower()
        rows = self._rows(key, views, checked=checked)
        if rows is None:
            return False
        found.subquery_alias.input.CopyFrom(rows)  # the other kind of relation goes, its plan's id stays
        found.subquery_alias.alias = key.split(".")[-1]
        return True

    def _text(self, found: Any, query: Any, views: Mapping[str, KeptView], *, checked: bool) -> bool:
        """Let a query (without DataFrames: the relation itself) carry the plans of views that it names."""
        text, at = _TABLE.sub("SELECT * FROM ", (found if query is None else query).sql.query), 0
        pieces: list[str] = []
        rows: dict[str, Any] = {}
        for parts, start, end, alias in sorted(self.names_of(text) or (), key=lambda name: name[1]):
            key = ".".join(parts).lower()
            plan = self._rows(key, views, checked=checked)
            if plan is None:
                continue
            name = f"_paimon_view_{len(rows)}_{_fresh_id()}"
            rows[name] = plan
            pieces += [text[at:start], name, "" if alias is not None else f" AS {quoted_name(parts[-1])}"]
            at = end
        if not rows:
            return False
        if query is None:
            query = copied(found)
            query.common.plan_id = _fresh_id()
            found.with_relations.root.CopyFrom(query)
            query = found.with_relations.root
        query.sql.query = "".join([*pieces, text[at:]])
        for name, plan in rows.items():
            reference = found.with_relations.references.add()
            reference.common.plan_id = _fresh_id()
            reference.subquery_alias.alias = name
            reference.subquery_alias.input.CopyFrom(plan)
        return True

    def _rows(self, key: str, views: Mapping[str, KeptView], *, checked: bool) -> Any:
        """The changed plan of a view; None where nothing in it is changed, or it is not what the name means now."""
        view = views.get(key)
        if view is None:
            return None
        rows = copied(view.relation)
        if not self.made(rows, view.views, checked=True):
            return None
        if not checked and not is_as_kept(self.client, key, view):
            return None
        _renumber(rows)
        return rows


def _renumber(relation: Any) -> None:
    """Give a copy of a plan ids of its own: the plan may be there a second time."""
    plans = messages(relation, _IDS[0])
    fresh = {common.plan_id: _fresh_id() for common in plans if common.HasField("plan_id")}
    for kind in _IDS:
        for found in messages(relation, kind):
            if found.plan_id in fresh:
                found.plan_id = fresh[found.plan_id]


def _fresh_id() -> int:
    from pyspark.sql.connect.plan import LogicalPlan

    fresh: Any = LogicalPlan._fresh_plan_id  # untyped
    return int(fresh())


def unknown_views(frame: DataFrame) -> list[str]:
    """Names of temporary views in a plan of Connect that read Paimon, and whose plans this client has not kept."""
    connected: Any = frame
    relations = list(messages(connected._plan.plan(frame.sparkSession.client), RELATION))
    if not any(one.HasField("sql") or one.read.HasField("named_table") for one in relations):
        return []
    text = connected._explain_string(extended=True)
    lines = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0].splitlines()
    carried = {one.subquery_alias.alias for one in relations if one.HasField("subquery_alias")}
    client = connected.sparkSession.client
    kept = kept_views(client)
    found = []
    for number, line in enumerate(lines):
        named = _VIEW.search(line)
        if named is None or not any(map(_PAIMON.search, _below(lines, number))):
            continue
        name = named[1].replace("`", "")
        view = kept.get(name.lower())
        if name not in carried and (view is None or not is_as_kept(client, name.lower(), view)):
            found.append(name)
    return found


def _below(lines: Sequence[str], number: int) -> Iterator[str]:
    """The lines of the nodes below a node of a plan's text."""
    indent = _indent(lines[number])
    return takewhile(lambda line: _indent(line) > indent, lines[number + 1 :])


def _indent(line: str) -> int:
    found = _INDENT.match(line)
    return 0 if found is None else found.end()


def is_cached(frame: DataFrame) -> bool:
    """Whether the user has cached a DataFrame of a Connect session, or its rows are in its plan."""
    plan: Any = frame._plan
    client: Any = frame.sparkSession.client
    relation = plan.plan(client)
    while relation.WhichOneof("rel_type") in ("subquery_alias", "project", "to_df", "with_columns"):
        relation = getattr(relation, relation.WhichOneof("rel_type")).input
    if relation.WhichOneof("rel_type") in ("local_relation", "range"):
        return True
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk)
