"""Temporary views of Connect sessions whose rows come from Paimon: a client keeps the plans that it made them of.

The server tells nobody what is behind the name of a view. A plan that was kept counts only while the server's view has
the hash that it had when it was made: one that was dropped, or made anew elsewhere, is not taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from paimon_spark.spark.session.connect_messages import RELATION, messages, paimon_loads
from paimon_spark.spark.session.plain_methods import plain, wrap_method
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GLOBAL = "global_temp"


@dataclass(frozen=True, slots=True)
class KeptView:
    """A temporary view as this client made it."""

    relation: Any
    """Its plan, a message of the protocol."""
    hash: int
    """Of the server's view."""
    views: Mapping[str, KeptView]
    """Those that its plan names, as they were then."""


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


def keep_view(rows: DataFrame, name: str, *, is_global: bool) -> None:
    """Keep the plan of a view that was just made, if its rows may come from Paimon; else forget the name."""
    spark, plan = rows.sparkSession, cast("Any", rows._plan)
    relation = plan.plan(spark.client)
    kept = _KEPT.setdefault(spark.client, {})
    key = f"{GLOBAL}.{name}".lower() if is_global else name.lower()
    named = "\n".join(_names(relation)).lower()
    views = {view: found for view, found in kept.items() if view.removeprefix(f"{GLOBAL}.") in named}
    kept.pop(key, None)
    if views or any(True for _ in paimon_loads(relation)):
        kept[key] = KeptView(relation, _hash(spark, key), views)


def kept_views(spark: SparkSession) -> Mapping[str, KeptView]:
    """The views by their names in lower case: one part, or ``global_temp`` and one."""
    return _KEPT.get(spark.client, {})


def is_as_kept(spark: SparkSession, key: str, view: KeptView) -> bool:
    """Whether the server's view is still the one that was kept."""
    from pyspark.errors import AnalysisException

    try:
        return _hash(spark, key) == view.hash
    except AnalysisException:  # it was dropped
        return False


def _hash(spark: SparkSession, key: str) -> int:
    parts = (GLOBAL, key.removeprefix(f"{GLOBAL}.")) if key.startswith(f"{GLOBAL}.") else (key,)
    return int(plain(spark.read.table)(".".join(map(quoted_name, parts))).semanticHash())


def _names(relation: Any) -> Iterator[str]:
    """Texts that may name views."""
    for found in messages(relation, RELATION):
        if found.HasField("sql"):
            yield found.sql.query
        elif found.HasField("read"):
            yield found.read.named_table.unparsed_identifier
