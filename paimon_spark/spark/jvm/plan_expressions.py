"""SQL text as expressions of Spark over the columns of a plan. On the driver."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.sql.classic.column import Column

from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import java_list, scala_seq


def resolved_expressions(gateway: Gateway, plan: JavaObject, texts: Sequence[str]) -> list[JavaObject]:
    """Expressions over the output of an optimised plan, as its optimizer would have them.

    Args:
        gateway: the JVM.
        plan: a logical plan; only its output is looked at.
        texts: SQL expressions that name its columns.
    """
    session = compat.CLASSIC_SESSION.of(gateway).active()
    nothing, none = scala_seq(gateway, []), gateway.jvm.scala.Option.empty()
    columns = compat.LOCAL_RELATION(gateway, plan.output(), nothing, False, none)
    parser = session.sessionState().sqlParser()
    new_id = compat.NAMED_EXPRESSION.of(gateway).newExprId
    named = [
        compat.ALIAS(gateway, parser.parseExpression(text), str(number), new_id(), nothing, none, nothing)
        for number, text in enumerate(texts)
    ]
    project = compat.PROJECT(gateway, scala_seq(gateway, named), columns)
    analyzed = compat.DATASET.of(gateway).ofRows(session, project).queryExecution().analyzed()
    replaced = compat.REPLACE_EXPRESSIONS.of(gateway).apply(analyzed)
    quick = _little_endian(gateway)
    found = [alias.child() for alias in java_list(replaced.projectList())]
    return found if quick is None else [expression.transformUp(quick) for expression in found]


def aligned_assignments(gateway: Gateway, output: JavaObject, assignments: JavaObject) -> list[JavaObject]:
    """An assignment for each column of a table that an UPDATE changes, cast and checked as Spark stores values."""
    utils = compat.ASSIGNMENTS.of(gateway)
    try:
        return java_list(utils.alignUpdateAssignments(output, assignments))  # 4.0
    except Py4JError as error:
        if getattr(error, "java_exception", None) is not None:
            raise
        return java_list(utils.alignUpdateAssignments(output, assignments, False, False))


def aligned_inserts(gateway: Gateway, output: JavaObject, assignments: JavaObject) -> list[JavaObject]:
    """An assignment for each column of a table that an INSERT of a MERGE fills, cast and checked; with defaults.

    Arguments as of `aligned_assignments`.
    """
    utils = compat.ASSIGNMENTS.of(gateway)
    try:
        return java_list(utils.alignInsertAssignments(output, assignments))  # 4.0
    except Py4JError as error:
        if getattr(error, "java_exception", None) is not None:
            raise
        return java_list(utils.alignInsertAssignments(output, assignments, False))


def column_of(gateway: Gateway, expression: JavaObject) -> Column:
    """An expression as a Column."""
    return Column(compat.EXPRESSION_UTILS.of(gateway).column(expression))


def renamed(gateway: Gateway, attribute: JavaObject, target: JavaObject) -> JavaObject:
    """An attribute under the name and the id of another, by which expressions over the other find it."""
    nothing, metadata = scala_seq(gateway, []), gateway.jvm.scala.Option.apply(target.metadata())
    return compat.ALIAS(gateway, attribute, target.name(), target.exprId(), nothing, metadata, nothing)


def _little_endian(gateway: Gateway) -> JavaObject | None:
    """Return what turns hexadecimal digits into ``Long.reverseBytes``; None where this Spark lacks the classes."""
    try:
        return new_object(gateway, "PaimonLittleEndian")
    except Py4JError:
        return None
