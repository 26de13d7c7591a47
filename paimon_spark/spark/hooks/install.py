"""Installs the hooks of ``format("paimon")`` in a session, and what this package puts into its state in its clones.

Spark clones the session of a streaming query, and that of a DataFrame which is cached, without the catalogs and rules
that were put into it. So one proxy for each session state makes the clones, and knows what belongs into them.

One of the hooks lets rows that Spark has cached (``cache()``, CACHE TABLE) be read again after this process has changed
their table. Spark does so after its own statements, for tables of the same name. It does not know of procedures,
methods, `paimon_spark.sql`, saves by path, and of a table under another name. Other processes are not noticed: REFRESH
TABLE.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from paimon_spark.commit.publish import WATCHERS
from paimon_spark.errors import PaimonError
from paimon_spark.spark.catalog.row_write import rows_of_plan
from paimon_spark.spark.hooks import java_rules
from paimon_spark.spark.hooks.format_plans import has_format_plans, install_format_plans
from paimon_spark.spark.hooks.java_rules import Install
from paimon_spark.spark.hooks.self_overwrites import install_self_overwrites
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy, gateway_of
from paimon_spark.spark.jvm.plan_tables import python_object
from paimon_spark.spark.jvm.spark_errors import MISFITS, misfit_reason
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.session.rows_at_hand import FINDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.table.table import FileStoreTable

Hook = tuple[features.Feature, Install]
"""A feature, and what it needs in a session state."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What is put into a session state, each thing once."""

    hooks: tuple[Hook, ...] = ()
    catalogs: Mapping[str, JavaObject] = field(default_factory=dict)
    """Name -> the Java proxy of a catalog."""

    def with_more(self, more: Contents) -> Contents:
        """Return both; a catalog takes the place of one of the same name."""
        return Contents(tuple(dict.fromkeys((*self.hooks, *more.hooks))), {**self.catalogs, **more.catalogs})


def put_into(gateway: Gateway, state: JavaObject, contents: Contents) -> None:
    """Put hooks and catalogs into a session state, and into those that Spark clones of it from now on.

    What this Spark lacks is left out, and the log says so.
    """
    follower = clone_follower(gateway, state)
    there = Contents() if follower is None else follower.contents
    if contents.catalogs:
        catalogs = compat.CATALOGS.get(gateway, state.catalogManager())
        for name, catalog in contents.catalogs.items():
            catalogs.put(name, catalog)
    done: set[Install] = set()
    for feature, hook in contents.hooks:
        if (feature, hook) in there.hooks:
            continue
        if hook in done:  # by another feature that needs it
            is_whole(gateway, feature)
        elif install_feature(gateway, feature, partial(hook, gateway, state)):
            done.add(hook)
    if follower is None:
        install_feature(gateway, features.CLONES, partial(_follow_clones, gateway, state, contents))
    else:
        follower.contents = there.with_more(contents)


def is_whole(gateway: Gateway, feature: features.Feature) -> bool:
    """Return whether this Spark has all members of a feature; log which one it lacks."""
    missing = features.missing_of(gateway, feature)
    if missing:
        features.note_loss(feature, f"there is no {', '.join(missing)}")
    return not missing


def install_feature(gateway: Gateway, feature: features.Feature, hook: Callable[[], None]) -> bool:
    """Install one feature, or log that the session goes without it; return whether it is there."""
    if not is_whole(gateway, feature):
        return False
    try:
        hook()
    except MISFITS as error:
        features.note_loss(feature, misfit_reason(error))
        return False
    return True


def clone_follower(gateway: Gateway, state: JavaObject) -> CloneFollower | None:
    """Return what clones a session state; None where that is Spark's own function."""
    if not is_whole(gateway, features.CLONES):
        return None
    function = compat.CREATE_CLONE.get(gateway, state)
    if not str(function.toString()).startswith(CloneFollower.__name__):
        return None
    found: CloneFollower = python_object(gateway, function)
    return found


def _follow_clones(gateway: Gateway, state: JavaObject, contents: Contents) -> None:
    original = compat.CREATE_CLONE.get(gateway, state)
    compat.CREATE_CLONE.set(gateway, state, CloneFollower(gateway, original, contents))


class CloneFollower(Proxy):
    """Clones the state of a session as Spark does, and puts into the clone what the session has."""

    interfaces = ("scala.Function2",)

    def __init__(self, gateway: Gateway, original: JavaObject, contents: Contents) -> None:
        super().__init__(gateway)
        self.original = original
        self.contents = contents
        self._installing: set[int] = set()

    def apply(self, session: JavaObject, state: JavaObject) -> JavaObject:
        """Called on the driver when a streaming query starts, or a DataFrame is cached."""
        clone = self.original.apply(session, state)
        thread = threading.get_ident()
        if thread in self._installing:  # Spark 4.1 asks a session that is being cloned for its state: clones again
            return clone
        self._installing.add(thread)
        try:
            put_into(self.gateway, clone, self.contents)
        finally:
            self._installing.discard(thread)
        return clone

    def curried(self) -> JavaObject:
        """Return what Spark's own function returns."""
        return self.original.curried()

    def tupled(self) -> JavaObject:
        """Return what Spark's own function returns."""
        return self.original.tupled()


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
    (features.MERGED_SUBQUERIES, java_rules.install_merged_subqueries),
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
