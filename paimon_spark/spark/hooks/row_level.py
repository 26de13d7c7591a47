"""DELETE, UPDATE and MERGE of a catalog's tables: Spark analyses the statement, `row_changes` or `merge` runs it.

Spark could hand rows to a Python writer only one by one, and would lose them (`docs/internals/spark_sql.md` Q1a). So
the analyzer gets one rule more, a Java class. It gives Python such a statement about one of its tables once names and
types are resolved, before Spark pads its CHAR columns. In its place Python gives a command of its own
(`PaimonStatement.java`), which plans show by its name, with the statement and its strategy. So it does not matter how a
statement came: with parameters, in a script, behind EXPLAIN (which then runs nothing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.types import LongType, StructField, StructType

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.catalog.format_table import FormatTableProxy
from paimon_spark.spark.catalog.system_table import SystemTableProxy
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.hooks.java_rules import add_rule
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import java_proxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.java_sources import java_class, new_object
from paimon_spark.spark.jvm.node_metrics import statement_metrics
from paimon_spark.spark.jvm.plan_tables import python_object

if TYPE_CHECKING:
    from collections.abc import Sequence


_COMMAND_CLASS = "PaimonStatement"
_ASKED = "java.util.function.BiFunction"
_VERBS = {"DeleteFromTable": "deleted", "UpdateTable": "updated", "MergeIntoTable": "merged"}
_LONG_LIST = 1000
"""Every analysis of a condition walks through all values of an IN list: longer ones are made one expression."""


def install_row_level(gateway: Gateway, state: JavaObject) -> None:
    """Let DELETE, UPDATE and MERGE of a session's statements reach our tables. Calling it again does no harm."""
    java_class(gateway, _COMMAND_CLASS)
    proxy = (_ASKED, StatementProxy(gateway))
    structs = ("scala.PartialFunction", new_object(gateway, "PaimonAssignedStructs"))
    add_rule(gateway, state, (compat.RESOLUTION_RULES,), "PaimonRowLevelStatements", proxy, structs)


class StatementProxy(Proxy):
    """Replaces a DELETE, UPDATE or MERGE by a command that Spark can run; answers ``java.util.function.BiFunction``."""

    interfaces: ClassVar[tuple[str, ...]] = (_ASKED,)

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._lists = new_object(gateway, "PaimonLongLists", ("java.lang.Integer", _LONG_LIST))

    def apply(self, statement: JavaObject, explained: JavaObject) -> JavaObject:
        """Return the command to run; the same statement where the table is Spark's, or Spark refuses the statement.

        Args:
            statement: the node of Catalyst.
            explained: whether EXPLAIN asks for the plan: then rows may be read to say who does the work.

        Raises:
            UnsupportedError: the table is a system table.
        """
        kind = statement.getClass().getSimpleName()
        relation = _relation(statement.targetTable() if kind == "MergeIntoTable" else statement.table())
        table = python_object(self.gateway, relation.table())
        if isinstance(table, SystemTableProxy):
            raise UnsupportedError(
                f"rows of system table {table.table_name} cannot be {_VERBS[kind]}: it is for reading"
            )
        if isinstance(table, FormatTableProxy):
            raise UnsupportedError(
                f"rows of format table {table.table_name} cannot be {_VERBS[kind]}: INSERT OVERWRITE replaces them"
            )
        if not isinstance(table, TableProxy) or relation.identifier().isEmpty():
            return statement
        from paimon_spark.spark.hooks.row_level_statements import statement_work, strategy_text  # much code

        work = statement_work(self.gateway, relation, table.loaded, statement, self._lists)
        if work is None:
            return statement  # Spark refuses it
        return new_object(
            self.gateway,
            _COMMAND_CLASS,
            ("java.lang.String", work.text),
            ("java.lang.String", strategy_text(work, explained=bool(explained))),
            ("java.lang.String", work.name),
            ("java.util.concurrent.Callable", java_proxy(work)),
            ("java.lang.String", statement_metrics(self.gateway)),
            ("scala.collection.immutable.Seq", self._columns(work.counts)),
        )

    def _columns(self, names: Sequence[str]) -> JavaObject:
        """The attributes of a result of counts."""
        struct = StructType([StructField(name, LongType()) for name in names])
        return compat.ATTRIBUTES.of(self.gateway).toAttributes(java_struct(self.gateway, struct))


def _relation(plan: JavaObject) -> JavaObject:
    """The relation below the aliases of a table."""
    while plan.getClass().getSimpleName() == "SubqueryAlias":
        plan = plan.child()
    return plan
