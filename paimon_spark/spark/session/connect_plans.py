"""Plans of Connect sessions whose loads are changed before they go to the server, and plans kept of temporary views.

What ``pyspark.sql.connect`` calls a plan is known here only as a message of the protocol, whose loads are found by the
protocol's own description. The ids by which Columns name a DataFrame stay.

A client keeps the plans of which it made temporary views whose rows come from Paimon. The server tells nobody what is
behind the name of a view. A plan that was kept counts only while the server's view has the hash that it had when it was
made: one that was dropped, or made anew elsewhere, is not taken for it. A view is replaced by its plan where a load in
it is changed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from pyspark.errors import UnsupportedOperationException

from paimon_spark.spark.session.pyspark_members import plain, wrap_method
from paimon_spark.spark.session.session_settings import is_paimon_format
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RELATION = "spark.connect.Relation"
RELATION_COMMON = "spark.connect.RelationCommon"
READ = "spark.connect.Read"
LOAD = "spark.connect.Read.DataSource"
SUBQUERY_ALIAS = "spark.connect.SubqueryAlias"
SUBQUERY = "spark.connect.SubqueryExpression"
EXPRESSION_STRING = "spark.connect.Expression.ExpressionString"
UNRESOLVED_ATTRIBUTE = "spark.connect.Expression.UnresolvedAttribute"
UNRESOLVED_STAR = "spark.connect.Expression.UnresolvedStar"
UNRESOLVED_REGEX = "spark.connect.Expression.UnresolvedRegex"


def messages(message: Any, kind: str) -> Iterator[Any]:
    """The messages of a kind anywhere in a message, itself among them."""
    if message.DESCRIPTOR.full_name == kind:
        yield message
    for found, value in message.ListFields():
        if found.message_type is None:
            continue
        is_map = found.message_type.GetOptions().map_entry
        parts = value.values() if is_map else [value] if hasattr(value, "DESCRIPTOR") else value
        for part in parts:
            if hasattr(part, "DESCRIPTOR"):
                yield from messages(part, kind)


def is_paimon_load(load: Any) -> bool:
    """Whether a load (``Read.DataSource``) is one of ``format("paimon")``."""
    return is_paimon_format(load.format)


def paimon_loads(message: Any) -> Iterator[Any]:
    """The loads of Paimon anywhere in a message."""
    return filter(is_paimon_load, messages(message, LOAD))


def load_options(load: Any) -> dict[str, str]:
    """The options of a load, its path among them."""
    return {**load.options, **({"path": load.paths[0]} if load.paths else {})}


def copied(message: Any) -> Any:
    """A copy of a message, which may be changed."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


GLOBAL = "global_temp"
_WORD = re.compile(r"\w+")

State = tuple[str | None, int]
"""Of a table: the id of its latest snapshot, and the time of its schema."""


@dataclass(frozen=True, slots=True)
class KeptView:
    """A temporary view as this client made it."""

    relation: Any
    """Its plan, a message of the protocol."""
    hash: int
    """Of the server's view."""
    views: Mapping[str, KeptView]
    """Those that its plan names, as they were then."""
    takes_rows: bool = False
    """Whether it is a table to Spark, into which rows can be written."""
    made_millis: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    states: Mapping[tuple[str, ...], State] | None = None
    """Of its tables, by store, path and branch, when it was made anew; None where it is as the user made it."""


_KEPT: WeakKeyDictionary[Any, dict[str, KeptView]] = WeakKeyDictionary()


def install_views() -> None:
    """Let DataFrames of Connect sessions keep the views that are made of them. Calling it again does no harm."""
    from pyspark.sql.connect.dataframe import DataFrame

    for method in ("createTempView", "createOrReplaceTempView"):
        wrap_method(DataFrame, method, _keeping(is_global=False))
    for method in ("createGlobalTempView", "createOrReplaceGlobalTempView"):
        wrap_method(DataFrame, method, _keeping(is_global=True))


def _keeping(*, is_global: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def around(own: Callable[..., None]) -> Callable[..., None]:
        def create(self: Any, name: str) -> None:
            __tracebackhide__ = True
            own(self, name)
            keep_view(self, name, is_global=is_global)

        return create

    return around


def keep_view(rows: DataFrame, name: str, *, is_global: bool, takes_rows: bool = False) -> None:
    """Keep the plan of a view that was just made, if its rows may come from Paimon; else forget the name.

    Args:
        rows: of the view.
        name: of the view.
        is_global: whether it is one of all sessions.
        takes_rows: whether it is a table to Spark, into which rows can be written.
    """
    client, plan = rows.sparkSession.client, cast("Any", rows._plan)
    relation = plan.plan(client)
    kept = _KEPT.setdefault(client, {})
    if name[:1] == name[-1:] == "`":
        name = name[1:-1].replace("``", "`")
    key = f"{GLOBAL}.{name}".lower() if is_global else name.lower()
    views = views_named(client, relation)
    kept.pop(key, None)
    if not views and not any(True for _ in paimon_loads(relation)):
        return
    with suppress(UnsupportedOperationException):  # of a server that tells no hashes, as Sail: it follows tables
        kept[key] = KeptView(relation, hash_of_view(client, key), views, takes_rows=takes_rows)


def kept_views(client: Any) -> MutableMapping[str, KeptView]:
    """The views of a client by their names in lower case: one part, or ``global_temp`` and one."""
    return _KEPT.get(client, {})


def views_named(client: Any, relation: Any) -> dict[str, KeptView]:
    """The kept views that a relation may name."""
    kept = kept_views(client)
    if not kept:
        return {}
    words = set(_WORD.findall("\n".join(_names(relation)).lower()))
    return {key: view for key, view in kept.items() if words.issuperset(_WORD.findall(key.removeprefix(f"{GLOBAL}.")))}


def is_as_kept(client: Any, key: str, view: KeptView) -> bool:
    """Whether the server's view is still the one that was kept."""
    from pyspark.errors import AnalysisException

    try:
        return hash_of_view(client, key) == view.hash
    except AnalysisException:  # it was dropped
        return False


def hash_of_view(client: Any, key: str) -> int:
    """What the server says of the plan behind the name of a view."""
    return int(client.semantic_hash(plain(plan_of_view(key).to_proto)(client)))


def plan_of_view(key: str) -> Any:
    """The plan of PySpark's that names a view."""
    from pyspark.sql.connect.plan import Read

    parts = (GLOBAL, key.removeprefix(f"{GLOBAL}.")) if key.startswith(f"{GLOBAL}.") else (key,)
    return Read(".".join(map(quoted_name, parts)))


def _names(relation: Any) -> Iterator[str]:
    """Texts that may name views."""
    for found in messages(relation, RELATION):
        if found.HasField("sql"):
            yield found.sql.query
        elif found.HasField("read"):
            yield found.read.named_table.unparsed_identifier


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
