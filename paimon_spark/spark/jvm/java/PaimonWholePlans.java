import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;

/**
 * An optimizer rule that changes scans for good: it runs once for a statement, over its plan and those of its subqueries.
 *
 * Spark optimizes each subquery by itself first, and then merges those that read the same. So a subquery by itself is
 * left alone: what is done to its scan here would keep it from being merged.
 */
public abstract class PaimonWholePlans extends Rule {
    public TreeNode apply(TreeNode plan) {
        return plan instanceof Subquery ? plan : (TreeNode) (Object) whole((LogicalPlan) (Object) plan);
    }

    /** A plan with other scans; the same one where there is nothing to do. */
    protected abstract TreeNode changed(TreeNode plan);

    LogicalPlan whole(LogicalPlan plan) {
        LogicalPlan own = (LogicalPlan) (Object) changed((TreeNode) (Object) plan);
        boolean has = own.containsPattern(TreePattern.PLAN_EXPRESSION());
        return has ? (LogicalPlan) own.transformAllExpressions(new Subqueries(this)) : own;
    }

    static final class Subqueries extends scala.runtime.AbstractPartialFunction {
        private final PaimonWholePlans rule;

        Subqueries(PaimonWholePlans rule) {
            this.rule = rule;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof SubqueryExpression;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof SubqueryExpression)) {
                return otherwise.apply(node);
            }
            SubqueryExpression subquery = (SubqueryExpression) node;
            LogicalPlan before = (LogicalPlan) subquery.plan();
            LogicalPlan after = rule.whole(before);
            return after == before ? node : subquery.withNewPlan(after);
        }
    }
}
