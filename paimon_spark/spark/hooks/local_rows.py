"""Rows that a scan knows without reading become constants of the query, so that no Spark task is run for them.

Spark plans such a scan (``LocalScan``: what metadata answers) as a table in the driver, but gives the columns their
names in a step that runs as a job. An optimizer rule turns the scan into Spark's own ``LocalRelation``, and what is
computed of it as well. The rule is a Java class, compiled by Janino like the parser (see `parser`); it asks Python
nothing.
"""

from __future__ import annotations

from py4j.protocol import Py4JError

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import java_list

_CLASS = "PaimonLocalRows"
_CATALYST = "org.apache.spark.sql.catalyst"
_RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation"
_SCAN = "org.apache.spark.sql.connector.read.LocalScan"
_MOST_ROWS = 1000
_SOURCE = f"""
    public final class {_CLASS} extends {_CATALYST}.rules.Rule {{
        public {_CATALYST}.trees.TreeNode apply({_CATALYST}.trees.TreeNode plan) {{
            {_CATALYST}.trees.TreeNode changed = plan.transform(new LocalScans());
            if (changed == plan) {{
                return plan;
            }}
            return {_CATALYST}.optimizer.ConvertToLocalRelation$.MODULE$.apply(
                ({_CATALYST}.plans.logical.LogicalPlan) changed);
        }}

        static final class LocalScans extends scala.runtime.AbstractPartialFunction {{
            public boolean isDefinedAt(Object node) {{
                if (!(node instanceof {_RELATION})) {{
                    return false;
                }}
                Object scan = (({_RELATION}) node).scan();
                return scan instanceof {_SCAN} && java.lang.reflect.Proxy.isProxyClass(scan.getClass());
            }}

            public Object applyOrElse(Object node, scala.Function1 otherwise) {{
                if (!isDefinedAt(node)) {{
                    return otherwise.apply(node);
                }}
                {_RELATION} relation = ({_RELATION}) node;
                {_CATALYST}.InternalRow[] rows = (({_SCAN}) relation.scan()).rows();
                if (rows.length > {_MOST_ROWS}) {{
                    return node;
                }}
                return new {_CATALYST}.plans.logical.LocalRelation(
                    relation.output(),
                    scala.jdk.javaapi.CollectionConverters.asScala(java.util.Arrays.asList(rows)).toList(),
                    false,
                    scala.Option.apply(null));
            }}
        }}
    }}"""


def install_local_rows(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of the session of a session state know the rule. Calling it again does no harm.

    Where this Spark does not know the classes that the rule is made of, nothing is done: a small job is all it saves.
    """
    methods = state.experimentalMethods()
    rules = methods.extraOptimizations()
    if _CLASS in [rule.getClass().getName() for rule in java_list(gateway, rules)]:
        return
    try:
        java_class = gateway.compiled(_SOURCE).loadClass(_CLASS)
        rule = java_class.getConstructor(gateway.array("java.lang.Class", [])).newInstance(
            gateway.array("java.lang.Object", [])
        )
    except Py4JError:
        return
    getattr(methods, "extraOptimizations_$eq")(rules.appended(rule))
