"""Writes that leave out columns on Spark 4.0, which does not fill them in V2 tables.

Later versions do it themselves. Here the analysed statement is completed: columns that are left out are added to its
query, with their defaults, and to its column list where it has one. Two lists of the analyser's rules get a rule more,
a Java class; Python is asked about writes by name only. An
INSERT is looked at when its query and its table are known, before Spark makes a write of it; what DataFrame writers
make is a write already, so it is looked at before Spark resolves it.
"""

from __future__ import annotations

from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.gateway import FUNCTION, Gateway, JavaObject, SessionProxy
from paimon_spark.spark.jvm.plan_tables import analyzed, catalog_table, is_proxy, java_list, java_map, scala_seq
from paimon_spark.spark.jvm.rules import add_rule
from paimon_spark.spark.jvm.spark_errors import CALL_ERRORS
from paimon_spark.spec.sql_text import quoted_name

_RULES = (compat.HINT_RULES, compat.RESOLUTION_RULES)
"""Before relations are resolved, and at the end of each round in which they are."""


def install_insert_columns(gateway: Gateway, state: JavaObject) -> None:
    """Let writes of a session leave out columns. Does nothing where Spark can, or when done."""
    if features.LEFT_OUT_COLUMNS.is_for(features.spark_version(gateway)):
        proxy = (FUNCTION, InsertProxy(gateway, state))
        add_rule(gateway, state, _RULES, "PaimonLeftOutColumns", proxy)


class InsertProxy(SessionProxy):
    """Completes the columns of a write into one of our tables; answers ``java.util.function.Function``."""

    def apply(self, statement: JavaObject) -> JavaObject:
        """Return the statement with all columns, or unchanged; then Spark raises its error."""
        try:
            return self._completed(statement)
        except CALL_ERRORS:  # there is no such table, say
            return statement

    def _completed(self, statement: JavaObject) -> JavaObject:
        insert = statement.getClass().getSimpleName() == "InsertIntoStatement"
        table = self._table(statement.table())
        partition = java_map(statement.partitionSpec()) if insert else {}
        if table is None or any(value.isEmpty() for value in partition.values()):
            return statement
        listed = [str(name) for name in java_list(statement.userSpecifiedCols())] if insert else []
        given = listed or self._names(statement.query())
        known = {name.lower() for name in (*given, *partition)}
        missing = [column for column in table.columns() if column.name().lower() not in known]
        values = [_default_of(column) for column in missing]
        if not missing or None in values:
            return statement
        items = [f"{value} AS {quoted_name(column.name())}" for value, column in zip(values, missing, strict=True)]
        select = self.state.sqlParser().parsePlan(f"SELECT *, {', '.join(items)} FROM rows")
        query = select.withNewChildren(scala_seq(self.gateway, [statement.query()]))
        if not insert:
            return statement.withNewQuery(query)
        return statement.copy(
            statement.table(),
            statement.partitionSpec(),
            scala_seq(self.gateway, [*listed, *(column.name() for column in missing)] if listed else []),
            query,
            statement.overwrite(),
            statement.ifPartitionNotExists(),
            statement.byName(),
        )

    def _names(self, query: JavaObject) -> list[str]:
        """Return the columns of a query, which DataFrame writers pass before its analysis."""
        return [str(column.name()) for column in java_list(analyzed(self.gateway, self.state, query).output())]

    def _table(self, relation: JavaObject) -> JavaObject | None:
        """Return the table of a relation, if the table is written in Python."""
        if relation.getClass().getSimpleName() != "DataSourceV2Relation":
            return catalog_table(self.gateway, self.state, relation)
        table = relation.table()
        return table if is_proxy(self.gateway, table) else None


def _default_of(column: JavaObject) -> str | None:
    """Return the value of a column that an INSERT leaves out, as SQL; None for a NOT NULL column without a default."""
    default = column.defaultValue()
    if default is not None:
        return str(default.getSql())
    return f"CAST(NULL AS {column.dataType().sql()})" if column.nullable() else None
