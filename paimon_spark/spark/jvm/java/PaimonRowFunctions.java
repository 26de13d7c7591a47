import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** An optimizer rule: gives a call of a function of ours to the function itself, and takes the expression it answers. */
public final class PaimonRowFunctions extends Rule {
    public TreeNode apply(TreeNode plan) {
        return ((QueryPlan) plan).transformAllExpressions(new Calls());
    }

    static final class Calls extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return function(node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            Function function = function(node);
            return function == null ? otherwise.apply(node) : function.apply(node);
        }

        private static Function function(Object node) {
            if (!(node instanceof ApplyFunctionExpression)) {
                return null;
            }
            Object function = ((ApplyFunctionExpression) node).function();
            boolean ours = function instanceof Function && java.lang.reflect.Proxy.isProxyClass(function.getClass());
            return ours ? (Function) function : null;
        }
    }
}
