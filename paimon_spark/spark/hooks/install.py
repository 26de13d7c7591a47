"""Installs the hooks of ``format("paimon")`` in a session and in its clones.

One of them lets rows that Spark has cached (``cache()``, CACHE TABLE) be read again after this process has changed
their table. Spark does so after its own statements, for tables of the same name. It does not know of procedures,
methods, `paimon_spark.sql`, saves by path, and of a table under another name. Other processes are not noticed: REFRESH
TABLE.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from paimon_spark.commit.publish import WATCHERS
from paimon_spark.errors import PaimonError
from paimon_spark.spark.catalog.row_write import rows_of_plan
from paimon_spark.spark.hooks import java_rules
from paimon_spark.spark.hooks.format_plans import has_format_plans, install_format_plans
from paimon_spark.spark.hooks.self_overwrites import install_self_overwrites
from paimon_spark.spark.hooks.session_contents import Contents, Hook, install_feature, is_whole, put_into
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, gateway_of
from paimon_spark.spark.jvm.spark_errors import MISFITS
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.session.rows_at_hand import FINDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def install_rows_at_hand(gateway: Gateway, state: JavaObject) -> None:
    """Let the driver change few rows itself: it reads and evaluates them while Spark optimises their query."""
    java_rules.LOCAL_ROWS(gateway, state)
    FINDERS[gateway.context] = partial(rows_of_plan, gateway)


PLAN_HOOKS: tuple[Hook, ...] = (
    (features.INPUT_FILE_NAMES, java_rules.install_input_file_names),
    (features.LOCAL_ROWS, java_rules.LOCAL_ROWS),
    (features.VARIANT_PATHS, java_rules.VARIANT_PATHS),
    (features.PARTITION_FILTERS, java_rules.PARTITION_FILTERS),
    (features.MAP_KEYS, java_rules.MAP_KEYS),
    (features.POSITION_FILTERS, java_rules.POSITION_FILTERS),
    (features.SELF_OVERWRITES, install_self_overwrites),
    (features.DISTRIBUTED_WRITES, java_rules.DISTRIBUTED_WRITES),
    (features.LOCAL_WRITES, java_rules.DISTRIBUTED_WRITES),
    (features.LOCAL_CHANGES, install_rows_at_hand),
    (features.DRIVER_READS, java_rules.install_driver_reads),
    (features.REBALANCED_WRITES, java_rules.DISTRIBUTED_WRITES),
    (features.BUCKETED_SCANS, java_rules.install_bucketed_scans),
    (features.NATIVE_PARTS, java_rules.NATIVE_PARTS),
)
"""What scans and writes of ours need in a session state, whether a catalog or ``format("paimon")`` plans them."""
FORMAT_HOOKS: tuple[Hook, ...] = (
    (features.FORMAT_PLANS, install_format_plans),
    (features.STREAM_COLUMNS, java_rules.STREAM_COLUMNS),
    *PLAN_HOOKS,
)
"""What ``format("paimon")`` needs in a session state."""


def install_format(spark: SparkSession) -> bool:
    """Let ``format("paimon")`` of a classic session be planned as by a catalog; False where nothing was to be done.

    Clones of the session are as well. Where Spark does not let us, the plain source stays, and the log says so.
    """
    try:
        gateway = gateway_of(spark)
    except PaimonError as error:
        features.note_loss(features.FORMAT_PLANS, str(error))
        return False
    state = java_state(spark)
    if has_format_plans(gateway, state):
        return False

    for feature in (features.PATH_TRAVEL, features.SMALL_BATCHES, features.STREAMS):
        is_whole(gateway, feature)
    install_feature(gateway, features.CACHED_RELATIONS, partial(watch_changes, gateway))
    put_into(gateway, state, Contents(FORMAT_HOOKS))
    return True


def shuffles_saves(spark: SparkSession) -> bool:
    """Return whether rows of ``df.write.format("paimon")`` of a classic session are shuffled by bucket."""
    gateway = gateway_of(spark)
    lacking = features.missing_of(gateway, features.DISTRIBUTED_WRITES)
    return not lacking and has_format_plans(gateway, java_state(spark))
