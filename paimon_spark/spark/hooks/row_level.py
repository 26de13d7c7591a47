"""DELETE, UPDATE and MERGE of a catalog's tables: Spark analyses the statement, `row_changes` or `merge` runs it.

Spark could hand rows to a Python writer only one by one, and would lose them (`docs/internals/spark_sql.md` Q1a). So
the analyzer gets one rule more, a Java class. It gives Python such a statement about one of its tables once names and
types are resolved, before Spark pads its CHAR columns. In its place Python gives a command of its own
(`PaimonStatement.java`), which plans show by its name, with the statement and its strategy. So it does not matter how a
statement came: with parameters, in a script, behind EXPLAIN (which then runs nothing).
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql.types import LongType, StructField, StructType

from paimon_spark.commit.commit_metrics import measured_commits
from paimon_spark.commit.row_counts import counting
from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.catalog.format_table import FormatTableProxy
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.system_table import SystemTableProxy
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.columns.merge_schema import merge_schema
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.hooks.merge_plans import AnalyzedMerge, is_deterministic, merge_text
from paimon_spark.spark.hooks.row_level_plans import AnalyzedRows, Target
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.java_sources import java_class, new_object
from paimon_spark.spark.jvm.node_metrics import statement_metrics, statement_values
from paimon_spark.spark.jvm.plan_tables import column_ids, python_object
from paimon_spark.spark.jvm.rules import add_rule
from paimon_spark.spark.jvm.spark_errors import JavaCallError
from paimon_spark.spark.sql.merge import run_merge
from paimon_spark.spark.sql.merge_strategy import strategy_of
from paimon_spark.spark.sql.row_changes import (
    ChangeStrategy,
    change_by,
    delete_strategy,
    executor_of,
    refuse_older_state,
    update_strategy,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.spark.sql.merge_strategy import MergeStrategy

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

    def andThen(self, _after: JavaObject) -> None:
        """Never called."""

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
        named = column_ids(self.gateway, statement.references())
        metadata = column_ids(self.gateway, relation.metadataOutput())
        target = Target(self.gateway, relation, with_metadata=not metadata.isdisjoint(named))
        work = self._work(target, table, statement)
        if work is None:
            return statement  # Spark refuses it
        return new_object(
            self.gateway,
            _COMMAND_CLASS,
            ("java.lang.String", work.text()),
            ("java.lang.String", _strategy_text(work, explained=bool(explained))),
            ("java.lang.String", work.name),
            ("java.util.concurrent.Callable", work),
            ("java.lang.String", statement_metrics(self.gateway)),
            ("scala.collection.immutable.Seq", self._columns(work.counts)),
        )

    def _columns(self, names: Sequence[str]) -> JavaObject:
        """The attributes of a result of counts."""
        struct = StructType([StructField(name, LongType()) for name in names])
        return compat.ATTRIBUTES.of(self.gateway).toAttributes(java_struct(self.gateway, struct))

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

    interfaces: ClassVar[tuple[str, ...]] = ("java.util.concurrent.Callable",)
    name: ClassVar[str]
    """The name of the command in plans."""
    counts: ClassVar[tuple[str, ...]] = ("num_affected_rows",)
    """Of `RowCounts`: the columns of its result, those of Delta Lake."""

    def __init__(self, target: Target, loaded: LoadedTable) -> None:
        super().__init__(target.gateway)
        self.target = target
        self.loaded = loaded

    def call(self) -> str:
        """Run the statement; return the values of its metrics and counts. Called once, when Spark runs it.

        Raises:
            UnsupportedError: the table takes no such statement; nothing was written.
            PaimonError: as of every write.
        """
        refuse_older_state(self.loaded.options)
        with counting() as reported, measured_commits() as metrics:
            self._run()
        counts = (getattr(reported.counts, name) for name in self.counts)
        lines = ("" if count is None else str(count) for count in counts)
        return "\n".join((statement_values(reported.counts, metrics), *lines))

    def toString(self) -> str:
        """The statement."""
        return self.text()

    @abstractmethod
    def text(self) -> str:
        """The statement, as plans show it."""

    @property
    @abstractmethod
    def strategy(self) -> ChangeStrategy | MergeStrategy:
        """How the statement is done, and why."""

    @property
    def executor(self) -> str | None:
        """Who does the work; rows are read for the answer."""
        return None

    @abstractmethod
    def _run(self) -> None:
        """Change the table."""


def _strategy_text(work: RowLevelProxy, *, explained: bool) -> str | None:
    """How a statement is done and why, as plans show it; None where Spark or we refuse it, when it runs.

    Args:
        work: the statement.
        explained: whether rows may be read to say who does the work.
    """
    try:
        executor = work.executor if explained else None
        return f"strategy: {work.strategy}{'' if executor is None else f', {executor}'}"
    except (JavaCallError, CapturedException, PaimonError):  # raised again when the statement runs
        return None


class ChangeProxy(RowLevelProxy):
    """DELETE FROM or UPDATE: rows of one table, for which a condition is true."""

    head: ClassVar[str]

    @property
    @abstractmethod
    def rows(self) -> AnalyzedRows:
        """The rows that are changed, with their new values."""

    def __init__(self, target: Target, loaded: LoadedTable, condition: JavaObject | None) -> None:
        super().__init__(target, loaded)
        self.condition = condition

    def text(self) -> str:
        """The statement without the values that are assigned."""
        where = "" if self.condition is None else f" WHERE {self.condition.sql()}"
        return f"{self.head} {self.loaded.name}{where}"

    @property
    def executor(self) -> str | None:
        """Who does the work; rows are read for the answer."""
        return executor_of(self.loaded.table, self.strategy, self.rows)

    @property
    @abstractmethod
    def strategy(self) -> ChangeStrategy:
        """How the rows are changed, and why."""

    def _run(self) -> None:
        change_by(self.strategy, self.loaded.table, self.rows)


class DeleteProxy(ChangeProxy):
    """DELETE FROM."""

    name = "DELETE"
    head = "DELETE FROM"

    @cached_property
    def rows(self) -> AnalyzedRows:
        """The rows to delete."""
        return AnalyzedRows(self.target, self.condition, {})

    @cached_property
    def strategy(self) -> ChangeStrategy:
        """How the rows are deleted, and why."""
        return delete_strategy(self.loaded.table, self.rows)


class UpdateProxy(ChangeProxy):
    """UPDATE."""

    name = "UPDATE"
    head = "UPDATE"

    def __init__(
        self, target: Target, loaded: LoadedTable, condition: JavaObject | None, assignments: JavaObject
    ) -> None:
        super().__init__(target, loaded, condition)
        self.assignments = assignments

    @cached_property
    def rows(self) -> AnalyzedRows:
        """The rows to update, with their new values."""
        return AnalyzedRows(self.target, self.condition, self.target.assigned(self.assignments))

    @cached_property
    def strategy(self) -> ChangeStrategy:
        """How the rows are updated, and why."""
        return update_strategy(self.loaded.table, self.rows.values)


class MergeProxy(RowLevelProxy):
    """MERGE INTO."""

    name = "MERGE"
    counts = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")

    def __init__(self, target: Target, loaded: LoadedTable, plan: JavaObject) -> None:
        super().__init__(target, loaded)
        self.plan = plan
        self.merge = AnalyzedMerge(target, plan)

    def text(self) -> str:
        """The statement without the values that are assigned."""
        return merge_text(self.loaded.name, self.plan)

    @cached_property
    def strategy(self) -> MergeStrategy:
        """How the MERGE is done, and why."""
        return strategy_of(self.loaded.table, self.merge.shape())

    def _run(self) -> None:
        table, rules = self.loaded.table, self.loaded.widened
        if rules is not None:
            self.merge.check()
            merged = merge_schema(table.with_latest_schema(), to_spark_struct(table.schema.fields), rules)
            table = merged.with_options(self.loaded.options)
        run_merge(table, self.merge)
