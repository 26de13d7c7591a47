"""MERGE WITH SCHEMA EVOLUTION, and option `write.merge-schema` of MERGE: columns that only the source has are added.

Spark resolves ``UPDATE SET *`` and ``INSERT *`` by the columns of the target, and refuses assignments to columns that
it lacks. So a rule, a Java class, gives Python a MERGE before names are resolved. Python gives it a target that has the
columns already, and tells the stars by the columns of the source. They are added to the table when the statement runs.
Equals Java's ``MergeSchemaEvolutionHelper``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql.types import StructType

from paimon_spark.errors import TableNotFoundError
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.columns.merge_schema import with_columns
from paimon_spark.spark.columns.types import from_spark_struct
from paimon_spark.spark.hooks.widened_writes import KEYS, Target, WidenedWriteProxy, rules_of, widened
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.function_proxy import FUNCTION
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import java_list, scala_seq
from paimon_spark.spark.jvm.rules import add_rule
from paimon_spark.spark.jvm.spark_errors import JavaCallError
from paimon_spark.spec.schema_merge import MergeRules

_STARS = {"UpdateStarAction", "InsertStarAction"}


def install_widened_merges(gateway: Gateway, state: JavaObject) -> None:
    """Let MERGE of a session bring new columns. Does nothing when done."""
    proxy = (FUNCTION, WidenedMergeProxy(gateway, state))
    keys = ("[Ljava.lang.String;", gateway.strings(KEYS))
    add_rule(gateway, state, (compat.HINT_RULES,), "PaimonWidenedMerges", proxy, keys, first=True)


class WidenedMergeProxy(WidenedWriteProxy):
    """Gives a MERGE the table with the columns of its source; answers ``java.util.function.Function``."""

    def apply(self, statement: JavaObject) -> JavaObject:
        """Return the MERGE into the wider table; the same one where Spark refuses it, or the table is Spark's."""
        aliases, relation = [], statement.targetTable()
        while relation.getClass().getSimpleName() == "SubqueryAlias":
            aliases.append(relation)
            relation = relation.child()
        if relation.getClass().getSimpleName() != "UnresolvedRelation":
            return statement
        try:
            target = self.target_of(relation)
            if target is None:
                return statement
            rules = rules_of(target.options, target.loaded)
            if rules is None and statement.withSchemaEvolution():
                rules = MergeRules(widen=False, explicit=False)
            if rules is None:
                return statement
            mode = compat.COMMAND_EXECUTION_MODE.of(self.gateway).SKIP()
            source = self.state.executePlan(statement.sourceTable(), mode).analyzed()
        except (JavaCallError, CapturedException, TableNotFoundError):  # Spark says so
            return statement
        table = self._widened_table(statement, target, source, rules)
        named_relation = self.new_relation(table, target)
        named = compat.SUBQUERY_ALIASES.of(self.gateway).apply(
            scala_seq(self.gateway, [table.catalog_name, *target.loaded.name.split(".", 1)]), named_relation
        )
        for alias in reversed(aliases):
            named = compat.SUBQUERY_ALIASES.of(self.gateway).apply(alias.alias(), named)
        lists = (statement.matchedActions(), statement.notMatchedActions())
        columns = java_list(named_relation.output())
        actions = [
            scala_seq(self.gateway, [self._without_star(action, source, columns) for action in java_list(given)])
            for given in lists
        ]
        condition, others = statement.mergeCondition(), statement.notMatchedBySourceActions()
        return statement.copy(named, source, condition, *actions, others, False)

    def _widened_table(
        self, statement: JavaObject, target: Target, source: JavaObject, rules: MergeRules
    ) -> TableProxy:
        columns = self.schema_of(source)
        actions = [*java_list(statement.matchedActions()), *java_list(statement.notMatchedActions())]
        if not any(action.getClass().getSimpleName() in _STARS for action in actions):
            named = {name.lower() for action in actions for name in _assigned_names(action)}
            columns = StructType([field for field in columns.fields if field.name.lower() in named])
        merged = with_columns(target.loaded.table.schema, from_spark_struct(columns), rules)
        loaded = replace(target.loaded, evolves=True)
        if merged is not loaded.table.schema:
            loaded = widened(loaded, merged, rules)
        return TableProxy(self.gateway, target.catalog_name, loaded)

    def _without_star(self, action: JavaObject, source: JavaObject, columns: Sequence[JavaObject]) -> JavaObject:
        """Return an action that assigns each column of the source to that of its name.

        Fields that a STRUCT of the source lacks keep their values in an UPDATE, and are null in an INSERT.
        """
        kind = action.getClass().getSimpleName()
        if kind not in _STARS:
            return action
        attribute = compat.UNRESOLVED_ATTRIBUTE
        assignments = scala_seq(
            self.gateway,
            [
                compat.ASSIGNMENT(
                    self.gateway,
                    attribute(self.gateway, scala_seq(self.gateway, [own.name()])),
                    self._filled(own, columns, keeps=kind == "UpdateStarAction"),
                )
                for own in java_list(source.output())
            ],
        )
        if kind == "InsertStarAction":
            return compat.INSERT_ACTION(self.gateway, action.condition(), assignments)
        try:
            return compat.UPDATE_ACTION(self.gateway, action.condition(), assignments)  # 4.0
        except JavaCallError:
            return compat.UPDATE_ACTION(self.gateway, action.condition(), assignments, True)

    def _filled(self, own: JavaObject, columns: Sequence[JavaObject], *, keeps: bool) -> JavaObject:
        """Return a column of the source with the fields of STRUCTs that it lacks."""
        column = next((each for each in columns if str(each.name()).lower() == str(own.name()).lower()), None)
        if column is None:
            return own
        old = column if keeps else None
        return new_object(self.gateway, "PaimonFilledStructs").filled(own, column.dataType(), old)


def _assigned_names(action: Any) -> Sequence[str]:
    """The names of the columns that an action assigns, as far as they are plain."""
    if action.getClass().getSimpleName() not in ("UpdateAction", "InsertAction"):
        return []
    keys = [assignment.key() for assignment in java_list(action.assignments())]
    plain = [key for key in keys if key.getClass().getSimpleName() == "UnresolvedAttribute"]
    return [str(key.nameParts().last()) for key in plain]
