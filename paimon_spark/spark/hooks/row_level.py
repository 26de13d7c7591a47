"""DELETE, UPDATE and MERGE of a catalog's tables: Spark analyses the statement, `row_changes` or `merge` runs it.

Spark could hand rows to a Python writer only one by one, and would lose them (`docs/internals/spark_sql.md` Q1a). So
the analyzer gets one rule more, a Java class. It gives Python such a statement about one of its tables once names and
types are resolved, before Spark pads its CHAR columns. In its place Python gives a statement that Spark runs without
rows, on a table whose ``truncateTable`` does the work. So it does not matter how a statement came: with parameters, in
a script, behind EXPLAIN (which then runs nothing).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.system_table import SystemTableProxy
from paimon_spark.spark.catalog.table import STATEMENT_MARK, TableProxy
from paimon_spark.spark.columns.merge_schema import merge_schema
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.hooks.merge_plans import AnalyzedMerge, is_deterministic, merge_text
from paimon_spark.spark.hooks.row_level_plans import AnalyzedRows, Target
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import FUNCTION, FunctionProxy, Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.java_sources import java_class, new_object
from paimon_spark.spark.jvm.plan_tables import column_ids, python_object
from paimon_spark.spark.jvm.rules import add_rule
from paimon_spark.spark.jvm.spark_errors import JavaCallError
from paimon_spark.spark.sql.merge import run_merge
from paimon_spark.spark.sql.merge_strategy import strategy_of
from paimon_spark.spark.sql.row_changes import (
    refuse_older_state,
    run_delete,
    run_update,
    way_of_delete,
    way_of_update,
)

_TABLE_CLASS = "PaimonChangedTable"
_VERBS = {"DeleteFromTable": "deleted", "UpdateTable": "updated", "MergeIntoTable": "merged"}
_LONG_LIST = 1000
"""Every analysis of a condition walks through all values of an IN list: longer ones are made one expression."""


def install_row_level(gateway: Gateway, state: JavaObject) -> None:
    """Let DELETE, UPDATE and MERGE of a session's statements reach our tables. Calling it again does no harm."""
    java_class(gateway, _TABLE_CLASS)
    proxy = (FUNCTION, StatementProxy(gateway))
    structs = ("scala.PartialFunction", new_object(gateway, "PaimonAssignedStructs"))
    add_rule(gateway, state, (compat.RESOLUTION_RULES,), "PaimonRowLevelStatements", proxy, structs)


class StatementProxy(FunctionProxy):
    """Replaces a DELETE, UPDATE or MERGE by a statement that Spark can run; answers ``java.util.function.Function``."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._lists = new_object(gateway, "PaimonLongLists", ("java.lang.Integer", _LONG_LIST))

    def apply(self, statement: JavaObject) -> JavaObject:
        """Return the statement to run; the same one where the table is Spark's, or Spark refuses the statement.

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
        if not isinstance(table, TableProxy) or relation.identifier().isEmpty():
            return statement
        named = column_ids(self.gateway, statement.references())
        metadata = column_ids(self.gateway, relation.metadataOutput())
        target = Target(self.gateway, relation, with_metadata=not metadata.isdisjoint(named))
        work = self._work(target, table, statement)
        if work is None:
            return statement  # Spark refuses it
        emptied = new_object(
            self.gateway,
            _TABLE_CLASS,
            ("org.apache.spark.sql.connector.catalog.Table", relation.table()),
            ("java.util.concurrent.Callable", work),
            ("java.lang.String", STATEMENT_MARK),
        )
        catalog, ident = relation.catalog().get(), relation.identifier().get()
        named = compat.RESOLVED_TABLE.of(self.gateway).create(catalog, ident, emptied)
        return compat.TRUNCATE_TABLE(self.gateway, named)

    def _work(self, target: Target, table: TableProxy, statement: JavaObject) -> RowLevelProxy | None:
        """What runs a statement; None where Spark refuses it."""
        kind = statement.getClass().getSimpleName()
        if kind == "MergeIntoTable":
            return MergeProxy(target, table.loaded, statement) if is_deterministic(statement) else None
        deletes = kind == "DeleteFromTable"
        condition = statement.condition()
        if not deletes:
            condition = condition.get() if condition.isDefined() else None
        if condition is not None and not condition.deterministic():
            return None
        if condition is not None:
            condition = self._lists.shorten(condition)
        if deletes:
            return DeleteProxy(target, table.loaded, condition)
        return UpdateProxy(target, table.loaded, condition, statement.assignments())


def _relation(plan: JavaObject) -> JavaObject:
    """The relation below the aliases of a table."""
    while plan.getClass().getSimpleName() == "SubqueryAlias":
        plan = plan.child()
    return plan


class RowLevelProxy(Proxy):
    """A statement that can be run; answers ``java.util.concurrent.Callable``, which may throw any exception."""

    interfaces: ClassVar[tuple[str, ...]] = ("java.util.concurrent.Callable", "java.util.function.Supplier")
    statement: ClassVar[str]

    def __init__(self, target: Target, loaded: LoadedTable, condition: JavaObject | None) -> None:
        super().__init__(target.gateway)
        self.target = target
        self.loaded = loaded
        self.condition = condition

    def call(self) -> bool:
        """Run the statement. Called once, when Spark runs it.

        Raises:
            UnsupportedError: the table takes no such statement; nothing was written.
            PaimonError: as of every write.
        """
        refuse_older_state(self.loaded.options)
        self._run()
        return True

    def toString(self) -> str:
        """What plans show."""
        where = "" if self.condition is None else f" WHERE {self.condition.sql()}"
        return f"{self.statement} {self.loaded.name}{where}"

    def get(self) -> str:
        """What EXPLAIN shows besides: who does the work."""
        try:
            way = self._way()
        except (JavaCallError, CapturedException, PaimonError):  # the statement says so when it runs
            return ""
        return "" if way is None else f": {way}"

    def _way(self) -> str | None:
        """Who does the work."""
        return None

    @abstractmethod
    def _run(self) -> None:
        """Change the table."""


class DeleteProxy(RowLevelProxy):
    """DELETE FROM."""

    statement = "DELETE FROM"

    def _run(self) -> None:
        run_delete(self.loaded.table, AnalyzedRows(self.target, self.condition, {}))

    def _way(self) -> str | None:
        return way_of_delete(self.loaded.table, AnalyzedRows(self.target, self.condition, {}))


class UpdateProxy(RowLevelProxy):
    """UPDATE."""

    statement = "UPDATE"

    def __init__(
        self, target: Target, loaded: LoadedTable, condition: JavaObject | None, assignments: JavaObject
    ) -> None:
        super().__init__(target, loaded, condition)
        self.assignments = assignments

    def _run(self) -> None:
        values = self.target.assigned(self.assignments)
        run_update(self.loaded.table, values, AnalyzedRows(self.target, self.condition, values))

    def _way(self) -> str | None:
        values = self.target.assigned(self.assignments)
        return way_of_update(self.loaded.table, AnalyzedRows(self.target, self.condition, values))


class MergeProxy(RowLevelProxy):
    """MERGE INTO."""

    statement = "MERGE INTO"

    def __init__(self, target: Target, loaded: LoadedTable, plan: JavaObject) -> None:
        super().__init__(target, loaded, None)
        self.plan = plan
        self.merge = AnalyzedMerge(target, plan)

    def toString(self) -> str:
        """What EXPLAIN shows: the statement, and which way it goes."""
        text = merge_text(self.loaded.name, self.plan)
        try:
            strategy = strategy_of(self.loaded.table, self.merge.shape())
        except (JavaCallError, CapturedException):  # Spark refuses a value, and says so when the statement runs
            return text
        return f"{text}: {strategy}"

    def _run(self) -> None:
        table, rules = self.loaded.table, self.loaded.widened
        if rules is not None:
            self.merge.check()
            merged = merge_schema(table.with_latest_schema(), to_spark_struct(table.schema.fields), rules)
            table = merged.with_options(self.loaded.options)
        run_merge(table, self.merge)
