"""Temporary views of Connect sessions whose rows come from Paimon: a client keeps the plans that it made them of.

The server tells nobody what is behind the name of a view. A plan that was kept counts only while the server's view has
the hash that it had when it was made: one that was dropped, or made anew elsewhere, is not taken for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from pyspark.errors import UnsupportedOperationException

from paimon_spark.spark.session.connect_messages import RELATION, messages, paimon_loads
from paimon_spark.spark.session.plain_methods import plain, wrap_method
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
