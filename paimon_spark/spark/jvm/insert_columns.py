"""INSERT INTO t (some columns) on Spark 4.0, which fills left-out columns of V2 tables neither by default nor by NULL.

Later versions do it themselves. Here the parsed statement is completed: the columns that are left out are added to its
list and their defaults to its query. The parser that takes the place of Spark's (see `parser` for how) passes on every
other plan as it is; Python is asked about INSERT statements with a column list only.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.plan_tables import catalog_table, java_list, scala_seq
from paimon_spark.spec.filter_text import quoted_name

_CLASS = "PaimonInsertParser"
_INTERFACE = "org.apache.spark.sql.catalyst.parser.ParserInterface"
_INSERT = "org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement"
_PLAN = "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
_STATIC = 8  # java.lang.reflect.Modifier.STATIC


def install_insert_columns(gateway: Gateway, state: JavaObject) -> None:
    """Let the session of a session state leave out columns of an INSERT. Does nothing where Spark can, or when done."""
    parser = state.sqlParser()
    if not str(gateway.jvm.org.apache.spark.SparkContext.getOrCreate().version()).startswith("4.0."):
        return
    if not parser.getClass().getName().startswith("org.apache.spark."):
        return  # one of ours is there already, or a parser that we do not know
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_source(gateway))
    types = [gateway.java_class(_INTERFACE), gateway.java_class("java.util.function.Function")]
    constructor = compiler.getClassLoader().loadClass(_CLASS).getConstructor(gateway.array("java.lang.Class", types))
    hooked = constructor.newInstance(gateway.array("java.lang.Object", [parser, InsertProxy(gateway, state)]))
    gateway.field(state, "sqlParser").set(state, hooked)


class InsertProxy(Proxy):
    """Completes the column list of an INSERT into one of our tables; answers ``java.util.function.Function``."""

    interfaces = ("java.util.function.Function",)

    def __init__(self, gateway: Gateway, state: JavaObject) -> None:
        super().__init__(gateway)
        self.state = state

    def apply(self, statement: JavaObject) -> JavaObject:
        """The statement, completed where that is possible: else Spark says what is wrong with it."""
        try:
            return self._completed(statement)
        except (Py4JError, CapturedException):  # there is no such table, say
            return statement

    def andThen(self, _after: JavaObject) -> None:
        """Never called."""

    def compose(self, _before: JavaObject) -> None:
        """Never called."""

    def _completed(self, statement: JavaObject) -> JavaObject:
        table = catalog_table(self.gateway, self.state, statement.table())
        partition = dict(java_list(self.gateway, statement.partitionSpec()))
        if table is None or any(value.isEmpty() for value in partition.values()):
            return statement
        given = [str(name) for name in java_list(self.gateway, statement.userSpecifiedCols())]
        known = {name.lower() for name in (*given, *partition)}
        missing = [column for column in table.columns() if column.name().lower() not in known]
        values = [_default_of(column) for column in missing]
        if not missing or None in values:
            return statement
        items = [f"{value} AS {quoted_name(column.name())}" for value, column in zip(values, missing, strict=True)]
        select = self.state.sqlParser().parsePlan(f"SELECT *, {', '.join(items)} FROM rows")
        query = select.withNewChildren(scala_seq(self.gateway, [statement.query()]))
        columns = scala_seq(self.gateway, [*given, *(column.name() for column in missing)])
        return statement.copy(
            statement.table(),
            statement.partitionSpec(),
            columns,
            query,
            statement.overwrite(),
            statement.ifPartitionNotExists(),
            statement.byName(),
        )


def _default_of(column: JavaObject) -> str | None:
    """The value of a column that an INSERT leaves out, as SQL; None where there must be one."""
    default = column.defaultValue()
    if default is not None:
        return str(default.getSql())
    return f"CAST(NULL AS {column.dataType().sql()})" if column.nullable() else None


def _source(gateway: Gateway) -> str:
    """The parser in Java."""
    methods = [
        _method(method) for method in gateway.java_class(_INTERFACE).getMethods() if not method.getModifiers() & _STATIC
    ]
    return f"""
    public final class {_CLASS} implements {_INTERFACE} {{
        private final {_INTERFACE} spark;
        private final java.util.function.Function paimon;

        public {_CLASS}({_INTERFACE} spark, java.util.function.Function paimon) {{
            this.spark = spark;
            this.paimon = paimon;
        }}

        private {_PLAN} completed({_PLAN} plan) {{
            boolean some = plan instanceof {_INSERT} && (({_INSERT}) plan).userSpecifiedCols().nonEmpty();
            return some ? ({_PLAN}) paimon.apply(plan) : plan;
        }}
        {"".join(methods)}
    }}"""


def _method(method: Any) -> str:
    """One method that asks Spark's parser."""
    name = method.getName()
    types = [kind.getCanonicalName() for kind in method.getParameterTypes()]
    errors = [kind.getCanonicalName() for kind in method.getExceptionTypes()]
    declared = ", ".join(f"{kind} a{index}" for index, kind in enumerate(types))
    call = f"spark.{name}({', '.join(f'a{index}' for index in range(len(types)))})"
    throws = f" throws {', '.join(errors)}" if errors else ""
    answer = f"completed({call})" if name == "parsePlan" else call
    head = f"public {method.getReturnType().getCanonicalName()} {name}({declared}){throws}"
    return f"\n        {head} {{ return {answer}; }}"
