import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** An analyzer rule: gives a call of a catalog's function of SQL to it, and takes Spark's own call that it answers. */
public final class PaimonSqlFunctions extends Rule {
    public TreeNode apply(TreeNode plan) {
        return (TreeNode) (Object) ((LogicalPlan) plan).resolveExpressions(new Calls());
    }

    static final class Calls extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return function(node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            UnaryOperator function = function(node);
            return function == null ? otherwise.apply(node) : function.apply(node);
        }

        private static UnaryOperator function(Object node) {
            if (!(node instanceof ApplyFunctionExpression)) {
                return null;
            }
            Object function = ((ApplyFunctionExpression) node).function();
            boolean ours = function instanceof UnaryOperator
                    && java.lang.reflect.Proxy.isProxyClass(function.getClass());
            return ours ? (UnaryOperator) function : null;
        }
    }
}
