"""DELETE, UPDATE and MERGE of our tables as analyzed statements: what runs when Spark runs the command.

Imported by the first such statement of a session.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.commit.row_counts import counting, measured_commits
from paimon_spark.errors import PaimonError
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.hooks.merge_plans import AnalyzedMerge, is_deterministic, merge_text
from paimon_spark.spark.hooks.row_level_plans import AnalyzedRows, Target
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.node_metrics import statement_values
from paimon_spark.spark.jvm.plan_tables import column_ids
from paimon_spark.spark.jvm.spark_errors import JavaCallError
from paimon_spark.spark.session.session_options import refuse_older_state
from paimon_spark.spark.source.write_target import merge_schema
from paimon_spark.spark.sql.merge import check_actions, run_merge
from paimon_spark.spark.sql.merge_strategy import strategy_of
from paimon_spark.spark.sql.row_changes import (
    ChangeStrategy,
    change_by,
    check_change,
    delete_strategy,
    executor_of,
    update_strategy,
)

if TYPE_CHECKING:
    from paimon_spark.spark.sql.merge_strategy import MergeStrategy


class RowLevelProxy(AnswerProxy):
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
        return self.text

    @property
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

    @property
    def refusal(self) -> str | None:
        """Why the table does not take the statement, in one line; None where it does. Metadata may be read for it."""
        try:
            self._check()
        except PaimonError as error:
            return str(error).partition("\n")[0]
        return None

    @abstractmethod
    def _check(self) -> None:
        """Refuse what the table does not take."""

    @abstractmethod
    def _run(self) -> None:
        """Change the table."""


def strategy_text(work: RowLevelProxy, *, explained: bool) -> str | None:
    """How a statement is done and why, as plans show it; None where Spark or we refuse it, when it runs.

    Args:
        work: the statement.
        explained: whether EXPLAIN asks: then metadata and rows may be read to say whether it is refused, and who does
            the work.
    """
    try:
        refusal = work.refusal if explained else None
        if refusal is not None:
            return f"refused: {refusal}"
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

    @cached_property
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

    def _check(self) -> None:
        check_change(self.strategy, self.loaded.table)

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

    @cached_property
    def text(self) -> str:
        """The statement without the values that are assigned."""
        return merge_text(self.loaded.name, self.plan)

    @cached_property
    def strategy(self) -> MergeStrategy:
        """How the MERGE is done, and why."""
        return strategy_of(self.loaded.table, self.merge.shape())

    def _check(self) -> None:
        check_actions(self.loaded.table, self.merge.actions)

    def _run(self) -> None:
        table, rules = self.loaded.table, self.loaded.widened
        if rules is not None:
            self.merge.check()
            merged = merge_schema(table.with_latest_schema(), to_spark_struct(table.schema.fields), rules)
            table = merged.with_options(self.loaded.options)
        run_merge(table, self.merge)


def statement_work(
    gateway: Gateway, relation: JavaObject, loaded: LoadedTable, statement: JavaObject, long_lists: JavaObject
) -> RowLevelProxy | None:
    """Return what runs a statement; None where Spark refuses it.

    Args:
        gateway: of the session.
        relation: the table in Spark's plan.
        loaded: the table.
        statement: the node of Catalyst.
        long_lists: the object that shortens long lists of a condition.
    """
    named = column_ids(gateway, statement.references())
    metadata = column_ids(gateway, relation.metadataOutput())
    target = Target(gateway, relation, with_metadata=not metadata.isdisjoint(named))
    kind = statement.getClass().getSimpleName()
    if kind == "MergeIntoTable":
        return MergeProxy(target, loaded, statement) if is_deterministic(statement) else None
    deletes = kind == "DeleteFromTable"
    condition = statement.condition()
    if not deletes:
        condition = condition.get() if condition.isDefined() else None
    if condition is not None and not condition.deterministic():
        return None
    if condition is not None:
        condition = long_lists.shorten(condition)
    if deletes:
        return DeleteProxy(target, loaded, condition)
    return UpdateProxy(target, loaded, condition, statement.assignments())
