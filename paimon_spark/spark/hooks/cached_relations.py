"""Rows that Spark has cached (``cache()``, CACHE TABLE) are read again after this process has changed their table.

Spark does so after its own statements, for tables of the same name. It does not know of procedures, methods,
`paimon_spark.sql`, saves by path, and of a table under another name. Other processes are not noticed: REFRESH TABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.spark_errors import MISFITS
from paimon_spark.table.watchers import WATCHERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
    from paimon_spark.table.table import FileStoreTable

_PINNED = "#"
"""In the text of a load that stays on its snapshot."""


def watch_changes(gateway: Gateway) -> None:
    """Let Spark read cached rows again after each change of their table."""
    WATCHERS[gateway.gateway] = lambda table: refresh_cached(gateway, table)


def refresh_cached(gateway: Gateway, table: FileStoreTable) -> None:
    """Let Spark read again, when they are next needed, cached rows that a table has part in."""
    session = compat.CLASSIC_SESSION.of(gateway).active()
    cache = session.sharedState().cacheManager()
    if cache.isEmpty():
        return
    done: list[JavaObject] = []
    for relation in _relations(gateway, cache, f"{table.path}@{table.branch}?"):
        if any(relation.fastEquals(other) for other in done):
            continue
        done.append(relation)
        try:
            cache.recacheByPlan(session, relation)
        except MISFITS:  # it can no longer be read, such as a column that was dropped
            cache.uncacheQuery(session, relation, True)


def _relations(gateway: Gateway, cache: JavaObject, name: str) -> Iterator[JavaObject]:
    """The relations of a table in plans of cached rows."""
    kept = compat.CACHED_PLANS.get(gateway, cache)
    plans = [kept.apply(at).plan() for at in range(kept.size())]
    for plan in plans:
        leaves = plan.collectLeaves()
        for at in range(leaves.size()):
            leaf = leaves.apply(at)
            if leaf.getClass().getName() == compat.RELATION.name:
                text = str(leaf.table().toString())
                if text.startswith(name) and _PINNED not in text[len(name) :]:
                    yield leaf
