import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * Gives a call of a function of ours to the function itself, and takes the expression that it answers: as an analyzer
 * rule functions of SQL, as an optimizer rule functions of rows.
 */
public final class PaimonFunctionCalls extends Rule {
    private final boolean analyzes;

    public PaimonFunctionCalls(Boolean analyzes) {
        this.analyzes = analyzes;
    }

    public TreeNode apply(TreeNode plan) {
        Calls calls = new Calls(analyzes ? UnaryOperator.class : Function.class);
        LogicalPlan logical = (LogicalPlan) plan;
        return (TreeNode)
                (Object) (analyzes ? logical.resolveExpressions(calls) : logical.transformAllExpressions(calls));
    }

    static final class Calls extends scala.runtime.AbstractPartialFunction {
        private final Class kind;

        Calls(Class kind) {
            this.kind = kind;
        }

        public boolean isDefinedAt(Object node) {
            return function(node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            Function function = function(node);
            return function == null ? otherwise.apply(node) : function.apply(node);
        }

        private Function function(Object node) {
            if (!(node instanceof ApplyFunctionExpression)) {
                return null;
            }
            Object function = ((ApplyFunctionExpression) node).function();
            boolean ours = kind.isInstance(function) && java.lang.reflect.Proxy.isProxyClass(function.getClass());
            return ours ? (Function) function : null;
        }
    }
}
