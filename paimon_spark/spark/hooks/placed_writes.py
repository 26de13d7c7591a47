"""Rows of a write come to their buckets' tasks: the shuffle that a write asks for is told Paimon's own bucket.

A V2 write can ask Spark for rows that are clustered by columns, or by functions whose Java class every executor has:
Paimon's bucket is neither. So an optimizer rule, a Java class compiled by Janino, gives the query of a write to the
write itself once Spark has put the shuffle into it (``V2Writes``), and takes the query that it answers. Where this
Spark does not know the classes that the rule is made of, rows stay clustered by the columns of their keys: that is
right, and leaves a file of every task in every bucket.
"""

from __future__ import annotations

from py4j.protocol import Py4JError

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import java_list

_CLASS = "PaimonPlacedWrites"
_CATALYST = "org.apache.spark.sql.catalyst"
_PLANS = f"{_CATALYST}.plans.logical"
_SOURCE = f"""
    public final class {_CLASS} extends {_CATALYST}.rules.Rule {{
        public {_CATALYST}.trees.TreeNode apply({_CATALYST}.trees.TreeNode plan) {{
            return plan.transform(new Writes());
        }}

        static final class Writes extends scala.runtime.AbstractPartialFunction {{
            public boolean isDefinedAt(Object node) {{
                return write(node) != null;
            }}

            public Object applyOrElse(Object node, scala.Function1 otherwise) {{
                Object write = write(node);
                if (write == null) {{
                    return otherwise.apply(node);
                }}
                {_PLANS}.V2WriteCommand command = ({_PLANS}.V2WriteCommand) node;
                Object query = command.query();
                Object placed = ((java.util.function.Function) write).apply(query);
                return placed == query ? node : command.withNewQuery(({_PLANS}.LogicalPlan) placed);
            }}

            private static Object write(Object node) {{
                scala.Option write = scala.Option.apply(null);
                if (node instanceof {_PLANS}.AppendData) {{
                    write = (({_PLANS}.AppendData) node).write();
                }} else if (node instanceof {_PLANS}.OverwriteByExpression) {{
                    write = (({_PLANS}.OverwriteByExpression) node).write();
                }} else if (node instanceof {_PLANS}.OverwritePartitionsDynamic) {{
                    write = (({_PLANS}.OverwritePartitionsDynamic) node).write();
                }}
                boolean ours = write.isDefined()
                    && write.get() instanceof java.util.function.Function
                    && java.lang.reflect.Proxy.isProxyClass(write.get().getClass());
                return ours ? write.get() : null;
            }}
        }}
    }}"""


def install_placed_writes(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of the session of a session state know the rule. Calling it again does no harm."""
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
