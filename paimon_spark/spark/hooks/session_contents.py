"""What this package puts into the state of a session, and into the states that Spark clones of it.

Spark clones the session of a streaming query, and that of a DataFrame which is cached, without the catalogs and rules
that were put into it. So one proxy for each session state makes the clones, and knows what belongs into them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from paimon_spark.spark.hooks.java_rules import Install
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.plan_tables import python_object
from paimon_spark.spark.jvm.spark_errors import MISFITS, misfit_reason

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
