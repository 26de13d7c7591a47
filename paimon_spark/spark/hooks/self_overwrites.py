"""Overwrites of a table by rows that are made of it: ``INSERT OVERWRITE t SELECT … FROM t``, ``CREATE OR REPLACE``.

Like an UPDATE such a statement makes new rows of old ones. So its query reads one snapshot, with the rows of level 0
that plain reads leave out until they are compacted. An overwrite is refused as a conflict if another commit has changed
the partitions that it replaces since that snapshot: their rows would go unread. A rule of the analyzer, a Java class,
gives Python overwrites whose query reads a table of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.commit.conflict_detection import LAST_SAFE
from paimon_spark.errors import TableNotFoundError
from paimon_spark.read.postponed_read import refuse_self_overwrite
from paimon_spark.spark.catalog.frames import tree_at
from paimon_spark.spark.catalog.loading import load_catalog_table
from paimon_spark.spark.catalog.table import SavedTableProxy, TableProxy
from paimon_spark.spark.hooks.java_rules import add_rule
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import FUNCTION, FunctionProxy
from paimon_spark.spark.jvm.plan_tables import OPTIONS, is_proxy, java_map, python_object, with_field

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
    from paimon_spark.table.table import FileStoreTable

_CLASS = "PaimonSelfOverwrites"


def install_self_overwrites(gateway: Gateway, state: JavaObject) -> None:
    """Let overwrites of a session read the tables that they replace as a whole. Does nothing when done."""
    proxy = (FUNCTION, SelfOverwriteProxy(gateway))
    add_rule(gateway, state, (compat.RESOLUTION_RULES,), _CLASS, proxy)


class SelfOverwriteProxy(FunctionProxy):
    """Lets the query of an overwrite read one snapshot of its target; answers ``java.util.function.Function``."""

    def apply(self, command: JavaObject) -> JavaObject:
        """Return the command whose query reads a snapshot of the table; the same one where it does not read it."""
        replaces = command.getClass().getSimpleName() == "ReplaceTableAsSelect"
        table = self._replaced(command) if replaces else self._overwritten(command)
        latest = None if table is None else table.snapshots.latest()
        if table is None or latest is None:
            return command
        query = command.query()
        pinned = tree_at(self.gateway, query, table, latest.id)
        if pinned is query:
            return command
        refuse_self_overwrite(table, latest)
        names = [str(command.productElementName(number)) for number in range(command.productArity())]
        values = [command.productElement(number) for number in range(len(names))]
        values[names.index("query")] = pinned
        if not replaces:
            target, given = names.index("table"), names.index("writeOptions")
            own = self.gateway.string_dict(values[target].options().asCaseSensitiveMap())
            safe = {**java_map(values[given]), **own}.get(LAST_SAFE, str(latest.id))
            if own:  # Spark wants the same options of both, or of one only
                values[target] = with_field(values[target], OPTIONS, self.gateway.options({**own, LAST_SAFE: safe}))
            if not own or not values[given].isEmpty():
                values[given] = values[given].updated(LAST_SAFE, safe)
        return command.copy(*values)

    def _overwritten(self, command: JavaObject) -> FileStoreTable | None:
        proxy = python_object(self.gateway, command.table().table())
        if isinstance(proxy, TableProxy):
            return proxy.loaded.table
        return proxy.opened if isinstance(proxy, SavedTableProxy) else None

    def _replaced(self, command: JavaObject) -> FileStoreTable | None:
        named = command.name()
        if named.getClass().getSimpleName() != "ResolvedIdentifier":
            return None
        plugin, ident = named.catalog(), named.identifier()
        if not is_proxy(self.gateway, plugin):
            return None
        catalog = python_object(self.gateway, plugin).catalog
        try:
            return load_catalog_table(catalog, list(ident.namespace()), ident.name(), None).table
        except TableNotFoundError:  # it is created
            return None
