"""What a Connect client tells the loads of a plan before it sends it: filters right above them, and columns it names.

Spark gives neither to a source in Python. What a filter says is still decided by Spark; the options `filter` and
`columns` only spare reading what the plan does not use. A load gets them where this client knows the table: its
warehouse is registered, or its path is local. ``DataFrame.explain`` shows them: what is read of each Paimon table
stands behind the plan of Spark.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException

from paimon_spark.errors import PaimonError
from paimon_spark.options.core_options import AT_SNAPSHOT
from paimon_spark.spark.pushdown.connect_loads import is_fixed, known_table, may_pin, pin_of, refresh_views
from paimon_spark.spark.session.connect_plans import (
    EXPRESSION_STRING,
    READ,
    RELATION,
    SUBQUERY_ALIAS,
    UNRESOLVED_REGEX,
    UNRESOLVED_STAR,
    copied,
    is_paimon_load,
    load_options,
    loads_of,
    messages,
    paimon_loads,
    sent_plan,
)
from paimon_spark.spark.session.pyspark_members import plain, wrap_method
from paimon_spark.spark.source.source_options import COLUMNS, FILTER, read_request
from paimon_spark.spark.source.table_read import TableRead, metadata_source, scans_text
from paimon_spark.spark.sql.read_version import at_version
from paimon_spark.spec.data_types import CharType
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spark.pushdown.comparisons import Condition
    from paimon_spark.spark.statements.query_trees import Comparison
    from paimon_spark.spec.data_types import DataField

_STAR = re.compile(r"(?:^|[,(.])\s*\*")
_PATTERN = re.compile(r"`[^`]*[()*+?|\[\]][^`]*`|\bidentifier\s*\(", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_PASSING = frozenset(
    {"filter", "subquery_alias", "join", "sort", "limit", "offset", "with_columns", "with_columns_renamed"}
    | {"drop", "hint", "repartition"}
)
"""Relations that need no columns but those that they, or what is above them, name.

A sample is none: of ``randomSplit`` it puts the rows in an order by all columns first.
"""
_cached: WeakKeyDictionary[Any, set[int]] = WeakKeyDictionary()
"""By client: the ids of plans whose rows the server keeps. It would not find them under a changed load."""


_sent = threading.local()
"""`plan`: the last one of a thread, if a load of it has got the option `columns`."""


def install_push_down() -> None:
    """Let plans of Connect sessions tell Paimon's loads what is needed of them."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import SQL, LogicalPlan, WriteOperation, WriteOperationV2

    wrap_method(LogicalPlan, "to_proto", _to_proto)
    wrap_method(SQL, "command", _running)
    for kind, of_command in ((WriteOperation, "write_operation"), (WriteOperationV2, "write_operation_v2")):
        wrap_method(kind, "command", _writing(of_command))
    wrap_method(DataFrame, "persist", _caching(set.add))
    wrap_method(DataFrame, "unpersist", _caching(set.discard))


def _to_proto(own: Callable[..., Any]) -> Callable[..., Any]:
    def to_proto(self: Any, session: Any, *given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        relation = copied(self.plan(session))  # of a query's text PySpark gives the one that it keeps
        _sent.plan = self if push_down(relation, session) else None
        return own(sent_plan(relation), session, *given, **named)

    return to_proto


def _writing(field_name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``command`` of a write, whose rows are of loads, too."""

    def around(own: Callable[..., Any]) -> Callable[..., Any]:
        def command(self: Any, session: Any) -> Any:
            __tracebackhide__ = True
            made = own(self, session)
            rows = getattr(made, field_name).input
            _sent.plan = sent_plan(copied(rows)) if push_down(rows, session) else None
            return made

        return command

    return around


def _running(own: Callable[..., Any]) -> Callable[..., Any]:
    """``command`` of the text of a statement."""

    def command(self: Any, session: Any) -> Any:
        __tracebackhide__ = True
        refresh_views(self.plan(session), session, _cached.get(session, set()))
        return own(self, session)

    return command


def _caching(note: Callable[[set[int], int], None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``persist`` or ``unpersist``, which notes the id of the plan."""

    def around(own: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *given: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            client = self.sparkSession.client
            note(_cached.setdefault(client, set()), self._plan.plan(client).common.plan_id)
            return own(self, *given, **named)

        return call

    return around


def push_down(relation: Any, client: Any) -> bool:
    """Give the loads of a plan the filters and columns that it needs of them; the plan is changed in its place.

    Returns:
        Whether a load has fewer columns now.
    """
    refresh_views(relation, client, _cached.get(client, set()))
    work = _PushDown(relation, client, _cached.get(client, set()))
    with suppress(RecursionError):  # a plan of hundreds of steps, whose loads stay as they are
        paths = [_path(load) for load in paimon_loads(relation)]
        work.repeated.update(path for path, count in Counter(paths).items() if count > 1)
        if paths:
            work.visit(relation, (), is_cut=False)
    return bool(work.pruned)


def with_all_columns(client: Any, error: PySparkException) -> PySparkException:
    """Return an error of a column that is not there as it is of the plan without pruned columns: it names them all."""
    plan, _sent.plan = getattr(_sent, "plan", None), None
    if plan is None or not (error.getCondition() or "").startswith("UNRESOLVED_"):
        return error
    try:
        client.schema(plain(sent_plan(plan.plan(client)).to_proto)(client))
    except PySparkException as found:
        return found
    return error


@dataclass(frozen=True)
class _PushDown:
    plan: Any
    """The whole one."""
    client: Any
    cached: set[int]
    """Ids of plans below which nothing changes."""
    pins: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)
    """By store, path and branch: the option that names the snapshot of all loads of a table that name none."""
    repeated: set[str] = field(default_factory=set)
    """Paths that are loaded more than once: of equal loads the server takes one snapshot, of other ones maybe two."""
    pruned: list[str] = field(default_factory=list)
    """Paths of loads that have fewer columns now."""

    def visit(
        self, relation: Any, comparisons: Sequence[Comparison], above: Sequence[Condition] = (), *, is_cut: bool
    ) -> None:
        """Go down to the loads.

        Args:
            relation: a part of the plan.
            comparisons: what each of its rows must pass, or nothing above uses it.
            above: the same as conditions, for the sides of a join.
            is_cut: whether what is above uses those columns only that the plan names.
        """
        kind = relation.WhichOneof("rel_type")
        if kind is None or relation.common.plan_id in self.cached:
            return
        own = getattr(relation, kind)
        if kind == "read":
            if own.HasField("data_source") and not own.is_streaming:
                self._change(own.data_source, comparisons, is_cut=is_cut)
            return
        if kind == "with_relations" and own.root.HasField("sql"):
            self._visit_text(own, comparisons)
            return
        passed: tuple[Comparison, ...] = ()
        conditions: tuple[Condition, ...] = ()
        if kind in ("filter", "join"):
            from paimon_spark.spark.pushdown import comparisons as said  # sqlglot, which `register` spares
        if kind == "filter":
            passed = (*comparisons, *said.comparisons_of(own.condition, said.names_of(own.input)))
            conditions = (*above, (own.condition, True))
        elif kind == "subquery_alias":
            passed = tuple(comparisons)
        below = kind in ("project", "aggregate") or (is_cut and kind in _PASSING)
        inputs = {name: getattr(own, name) for name in ("input", "left", "right") if _has(own, name)}
        for name, one in inputs.items():
            if kind == "join":
                conditions = said.conditions_of_side(own, name, above)
                passed = tuple(said.comparisons_of_side(own, name, conditions))
            self.visit(one, passed, conditions, is_cut=below)
        for one in _relations_below(own):
            if not any(one is known for known in inputs.values()):
                self.visit(one, (), is_cut=False)

    def _visit_text(self, query: Any, comparisons: Sequence[Comparison]) -> None:
        """Go down to the rows that the text of a query names, and which its message carries."""
        from paimon_spark.spark.statements.query_trees import read_named  # sqlglot, as above

        query.root.common.ClearField("plan_id")  # the text would be taken for the one with the rows of another time
        asked = read_named(query.root.sql.query, comparisons)
        for one in query.references:
            kind = one.WhichOneof("rel_type")
            self.visit(one, asked.get(one.subquery_alias.alias, ()) if kind == "subquery_alias" else (), is_cut=False)

    def _change(self, load: Any, comparisons: Sequence[Comparison], *, is_cut: bool) -> None:
        """Tell a load which snapshot it is of and what is needed of it, where its table is known here."""
        if not is_paimon_load(load):
            return
        with suppress(PaimonError, OSError):  # the server says what is wrong, or reaches a store that we do not
            table = known_table(load)
            if table is None:
                return
            if may_pin(load, self.client) and not is_fixed(table):
                if table.place not in self.pins:
                    self.pins[table.place] = pin_of(table)
                load.options.update(self.pins[table.place])
            if AT_SNAPSHOT in load.options or _path(load) not in self.repeated:
                self._narrow(load, at_version(table, {}).schema.fields, comparisons, is_cut=is_cut)

    def _narrow(
        self, load: Any, fields: Sequence[DataField], comparisons: Sequence[Comparison], *, is_cut: bool
    ) -> None:
        own = {key.lower(): key for key in load.options}
        prunes = is_cut and COLUMNS not in own and self._names is not None
        if load.schema or not (comparisons or prunes):
            return
        from paimon_spark.spark.statements.query_trees import filter_option  # sqlglot, as above

        if COLUMNS in own:  # a name may be a column of a join's other side
            comparisons = [one for one in comparisons if not one.is_exact]
        compared = [one for one in fields if not isinstance(one.type, CharType)]  # Spark pads no literals here
        name = own.get(FILTER, FILTER)
        given = load.options.get(name, "")
        added = [one for one in comparisons if (filter_option([one], compared) or "") not in given]
        if condition := filter_option(added, compared):
            load.options[name] = f"({given}) AND {condition}" if given else condition
        wanted = [one.name for one in fields if self._is_named(one.name)] or [fields[0].name]
        if prunes and len(wanted) < len(fields):
            load.options[COLUMNS] = ", ".join(map(quoted_name, wanted))
            self.pruned.append(_path(load))

    def _is_named(self, column: str) -> bool:
        """Whether the plan may name a column."""
        name, (words, text) = column.lower(), self._names or (set(), "")
        return name in words if _WORD.fullmatch(name) else "`" in name or name in text

    @cached_property
    def _names(self) -> tuple[set[str], str] | None:
        """The words of the plan that may be columns, and its whole text; None where stars or patterns name columns."""
        if any(True for kind in (UNRESOLVED_STAR, UNRESOLVED_REGEX) for _ in messages(self.plan, kind)):
            return None
        expressions = [one.expression for one in messages(self.plan, EXPRESSION_STRING)]
        if any(_STAR.search(text) or _PATTERN.search(text) for text in expressions):
            return None
        text = "\n".join(_texts(self.plan)).lower()
        return set(_WORD.findall(text)), text


def _path(load: Any) -> str:
    return load_options(load).get("path", "").rstrip("/")


def _has(message: Any, name: str) -> bool:
    return name in message.DESCRIPTOR.fields_by_name and message.HasField(name)


def _relations_below(message: Any) -> Iterator[Any]:
    """The nearest relations in a message."""
    for found, value in message.ListFields():
        if found.message_type is None or found.message_type.GetOptions().map_entry:
            continue
        for part in [value] if hasattr(value, "DESCRIPTOR") else value:
            if part.DESCRIPTOR.full_name == RELATION:
                yield part
            else:
                yield from _relations_below(part)


def _texts(message: Any) -> Iterator[str]:
    """All that is text in a message; of a load its option `filter` alone."""
    if message.DESCRIPTOR.full_name == READ:
        yield from (text for key, text in message.data_source.options.items() if key.lower() == FILTER)
        return
    for found, value in message.ListFields():
        is_map = found.message_type is not None and found.message_type.GetOptions().map_entry
        is_one = isinstance(value, str | bytes | int | float) or hasattr(value, "DESCRIPTOR")
        parts = [*value.keys(), *value.values()] if is_map else [value] if is_one else value
        for part in parts:
            if isinstance(part, str):
                yield part
            elif hasattr(part, "DESCRIPTOR"):
                yield from _texts(part)


def install_explain() -> None:
    """Let DataFrames of Connect sessions say which files of Paimon tables they read."""
    from pyspark.sql.connect.dataframe import DataFrame

    wrap_method(DataFrame, "explain", _explain)


def _explain(own: Callable[..., None]) -> Callable[..., None]:
    def explain(self: Any, *given: Any, **named: Any) -> None:
        __tracebackhide__ = True
        own(self, *given, **named)
        lines = _scans(self)
        if lines:
            print(scans_text(lines))

    return explain


def _scans(frame: DataFrame) -> list[str]:
    """A line for each load of rows, once; of streams there is none."""
    from paimon_spark.spark.statements.query_trees import named_tables  # sqlglot, which `register` spares

    connected: Any = frame
    client = connected.sparkSession.client
    relation = copied(connected._plan.plan(client))
    push_down(relation, client)
    sent = type(connected)(sent_plan(relation), connected.sparkSession)
    loads = list(filter(is_paimon_load, loads_of(sent, named_tables)))
    if not loads or frame.isStreaming:
        return []
    names = _names(relation)
    return list(dict.fromkeys(line for load in loads if (line := _line(load, names)) is not None))


def _line(load: Any, names: Mapping[str, str]) -> str | None:
    """What is read of a table, under its name if the plan has one; None for a system table."""
    try:
        request = read_request(load_options(load))
        if metadata_source(request) is not None:
            return None
        return f"{names.get(request.path, request.path)} {TableRead.of(request).describe()}"
    except (PaimonError, OSError) as error:  # a store that only the server reaches, say
        return f"{load_options(load).get('path')} (this client cannot plan it: {error})"


def _names(relation: Any) -> dict[str, str]:
    """The names of tables that ``spark.table`` was given, by their paths."""
    named = {}
    for one in messages(relation, SUBQUERY_ALIAS):
        if one.qualifier and one.input.HasField("read"):
            path = load_options(one.input.read.data_source).get("path", "")
            named[path] = ".".join((*one.qualifier, one.alias))
    return named
