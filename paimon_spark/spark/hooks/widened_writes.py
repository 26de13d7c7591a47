"""Option `write.merge-schema` of writes by the catalog: columns that only the rows have reach the write.

Spark refuses rows with more columns than their table before it asks the table. So a rule, a Java class, gives Python a
write by name (``INSERT INTO … BY NAME``, ``writeTo``, ``saveAsTable``) before Spark compares columns, where the write
or the session sets the option. Python gives it a table that has those columns already. They are added to the real one
when the write is planned, so EXPLAIN changes nothing. Writes by position never add columns, as in the official
connector.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql.types import StructType

from paimon_spark.errors import TableNotFoundError
from paimon_spark.spark.catalog.loading import LoadedTable, all_settings, load_catalog_table, session_options
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.columns.merge_schema import with_columns
from paimon_spark.spark.columns.types import from_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import java_proxy
from paimon_spark.spark.jvm.function_proxy import FUNCTION, FunctionProxy
from paimon_spark.spark.jvm.gateway import Gateway, HeldWeakly, JavaObject
from paimon_spark.spark.jvm.plan_tables import catalog_ident, java_map, python_object
from paimon_spark.spark.jvm.rules import add_rule
from paimon_spark.spark.jvm.spark_errors import JavaCallError
from paimon_spark.spark.session.foreign_options import SAME_AS, as_paimon_options
from paimon_spark.spark.session.merge_options import MERGE_KEYS, MERGE_SCHEMA, merge_rules
from paimon_spark.spark.source.system_read import named_system_table
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.schema_merge import MergeRules

_ALIAS = next(key for key, same in SAME_AS.items() if same == MERGE_SCHEMA)
KEYS = (*MERGE_KEYS, _ALIAS)
_OPTIONS = 4  # field of DataSourceV2Relation
_PRIVILEGES = "__required_write_privileges__"  # Spark's own, of a relation that it has not resolved
_RULES = (compat.HINT_RULES, compat.RESOLUTION_RULES)
"""Before relations are resolved, and at the end of each round in which they are."""


def install_widened_writes(gateway: Gateway, state: JavaObject) -> None:
    """Let writes of a session bring new columns. Does nothing when done."""
    proxy = (FUNCTION, WidenedWriteProxy(gateway, state))
    keys = ("[Ljava.lang.String;", gateway.strings(KEYS))
    add_rule(gateway, state, _RULES, "PaimonWidenedWrites", proxy, keys, first=True)


@dataclass(frozen=True)
class Target:
    """What a write names."""

    catalog_name: str
    loaded: LoadedTable
    catalog: JavaObject
    """``Option[CatalogPlugin]``."""
    ident: JavaObject
    """``Option[Identifier]``."""
    options: Mapping[str, str]
    """Of the relation."""


class WidenedWriteProxy(FunctionProxy):
    """Gives a write the table with the columns of its rows; answers ``java.util.function.Function``."""

    state = HeldWeakly()

    def __init__(self, gateway: Gateway, state: JavaObject) -> None:
        super().__init__(gateway)
        self.state = state

    def apply(self, statement: JavaObject) -> JavaObject:
        """Return the write into the wider table; the same write without new columns, or where Spark refuses it.

        Raises:
            UnsupportedError: Paimon has no type for a new column.
        """
        try:
            target = self.target_of(statement.table())
            query = self.schema_of(statement.query())
        except (JavaCallError, CapturedException, TableNotFoundError):  # Spark says so
            return statement
        if target is None:
            return statement
        rules = rules_of({**target.options, **self._write_options(statement)}, target.loaded)
        if rules is None:
            return statement
        merged = with_columns(target.loaded.table.schema, from_spark_struct(query), rules)
        if merged is target.loaded.table.schema:
            return statement
        wide = TableProxy(self.gateway, target.catalog_name, widened(target.loaded, merged, rules))
        relation = self.new_relation(wide, target)
        if statement.getClass().getSimpleName() != "InsertIntoStatement":
            return statement.withNewTable(relation)
        values = [statement.productElement(number) for number in range(statement.productArity())]
        return statement.copy(relation, *values[1:])

    def target_of(self, relation: JavaObject) -> Target | None:
        """Return the Paimon table of a relation; None for a table of Spark's."""
        options = self.gateway.string_dict(relation.options().asCaseSensitiveMap())
        options = {key: value for key, value in options.items() if key != _PRIVILEGES}
        if relation.getClass().getSimpleName() == "DataSourceV2Relation":
            table = relation.table()
            if not self.gateway.jvm.java.lang.reflect.Proxy.isProxyClass(table.getClass()):
                return None
            found = python_object(self.gateway, table)
            if not isinstance(found, TableProxy):
                return None
            return Target(found.catalog_name, found.loaded, relation.catalog(), relation.identifier(), options)
        named = catalog_ident(self.gateway, self.state, relation)
        if named is None or named_system_table(named[1].name()) is not None:
            return None
        catalog, namespace, name = python_object(self.gateway, named[0]), list(named[1].namespace()), named[1].name()
        database = ".".join(namespace)
        session = session_options(all_settings(self.gateway), catalog.catalog_name, database, name, write=True)
        loaded = load_catalog_table(catalog.catalog, namespace, name, None, session=session)
        some = self.gateway.jvm.scala.Option.apply
        return Target(catalog.catalog_name, loaded, some(named[0]), some(named[1]), options)

    def _write_options(self, statement: JavaObject) -> dict[str, str]:
        if statement.getClass().getSimpleName() == "InsertIntoStatement":
            return {}
        return java_map(statement.writeOptions())

    def new_relation(self, table: TableProxy, target: Target) -> JavaObject:
        """Return a ``DataSourceV2Relation``. It is made without options, which differ between versions of Spark."""
        relation = compat.RELATION.of(self.gateway).create(java_proxy(table), target.catalog, target.ident)
        values = [relation.productElement(number) for number in range(relation.productArity())]
        values[_OPTIONS] = self.gateway.options(target.options)
        return relation.copy(*values)

    def schema_of(self, query: JavaObject) -> StructType:
        """Return the columns of a query, which DataFrame writers pass before its analysis."""
        if not query.resolved():
            mode = compat.COMMAND_EXECUTION_MODE.of(self.gateway).SKIP()
            query = self.state.executePlan(query, mode).analyzed()
        return StructType.fromJson(json.loads(query.schema().json()))


def rules_of(options: Mapping[str, str], loaded: LoadedTable) -> MergeRules | None:
    """How the columns of the table change: the options of a write win over the session's."""
    given = [as_paimon_options({key.lower(): value}) for key, value in options.items() if key.lower() in KEYS]
    return merge_rules(loaded.options, *given)


def widened(loaded: LoadedTable, schema: TableSchema, rules: MergeRules) -> LoadedTable:
    """The table as if it had a schema already, to which its write changes it."""
    return replace(loaded, table=replace(loaded.table, schema=schema), widened=rules)
