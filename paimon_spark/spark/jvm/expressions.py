"""SQL text as expressions of Spark over the columns of a plan. On the driver."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import java_list, scala_seq


def resolved_expressions(gateway: Gateway, plan: JavaObject, texts: Sequence[str]) -> list[JavaObject]:
    """Expressions over the output of an optimised plan, as its optimizer would have them.

    Args:
        gateway: the JVM.
        plan: a logical plan; only its output is looked at.
        texts: SQL expressions that name its columns.
    """
    catalyst = gateway.jvm.org.apache.spark.sql.catalyst
    classic = gateway.jvm.org.apache.spark.sql.classic
    session = classic.SparkSession.active()
    nothing, none = scala_seq(gateway, []), gateway.jvm.scala.Option.empty()
    columns = catalyst.plans.logical.LocalRelation(plan.output(), nothing, False, none)
    parser = session.sessionState().sqlParser()
    named = [
        catalyst.expressions.Alias(
            parser.parseExpression(text), str(number), catalyst.expressions.NamedExpression.newExprId(), nothing, none,
            nothing,
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip
    project = catalyst.plans.logical.Project(scala_seq(gateway, named), columns)
    analyzed = classic.Dataset.ofRows(session, project).queryExecution().analyzed()
    replaced = catalyst.optimizer.ReplaceExpressions.apply(analyzed)
    return [alias.child() for alias in java_list(gateway, replaced.projectList())]
