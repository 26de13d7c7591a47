import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.AnalysisHelper$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/** The relations of a plan or an expression, those of subqueries too, whose tables are answered in Python. */
public final class PaimonRelations {
    private final TreeNode tree;
    private final List found = new ArrayList();
    private final HashSet named = new HashSet();

    public PaimonRelations(TreeNode tree) {
        this.tree = tree;
        collect(tree);
    }

    public List found() {
        return found;
    }

    /** Whether the tree names a metadata column of a relation that its output lacks. */
    public boolean namesMetadata(LogicalPlan relation) {
        scala.collection.Seq columns = relation.metadataOutput();
        for (int i = 0; i < columns.size(); i++) {
            if (named.contains(((Attribute) columns.apply(i)).exprId())) {
                return true;
            }
        }
        return false;
    }

    /** The tree with other relations in the place of those found, in their order. */
    public TreeNode replaced(List others) {
        IdentityHashMap swaps = new IdentityHashMap();
        for (int i = 0; i < found.size(); i++) {
            swaps.put(found.get(i), others.get(i));
        }
        return (TreeNode) AnalysisHelper$.MODULE$.allowInvokingTransformsInAnalyzer(new Replaced(tree, swaps));
    }

    /** Replaces as Spark's own rules do: an analyzer that is tested (spark.testing) refuses it elsewhere. */
    static final class Replaced extends scala.runtime.AbstractFunction0 {
        private final TreeNode tree;
        private final IdentityHashMap swaps;

        Replaced(TreeNode tree, IdentityHashMap swaps) {
            this.tree = tree;
            this.swaps = swaps;
        }

        public Object apply() {
            return replaced(tree, swaps);
        }
    }

    private void collect(TreeNode node) {
        if (node instanceof DataSourceV2Relation
            && java.lang.reflect.Proxy.isProxyClass(((DataSourceV2Relation) node).table().getClass())) {
            found.add(node);
        }
        if (node instanceof Attribute) {
            named.add(((Attribute) node).exprId());
        }
        if (node instanceof SubqueryExpression) {
            collect((TreeNode) (Object) ((SubqueryExpression) node).plan());
        }
        if (node instanceof LogicalPlan) {
            each(((LogicalPlan) node).expressions());
        }
        each(((TreeNode) node).children());
    }

    private void each(scala.collection.Seq nodes) {
        for (int i = 0; i < nodes.size(); i++) {
            collect((TreeNode) nodes.apply(i));
        }
    }

    private static TreeNode replaced(TreeNode tree, IdentityHashMap swaps) {
        if (tree instanceof LogicalPlan) {
            LogicalPlan plan = (LogicalPlan) (Object) ((LogicalPlan) tree).transformUp(new Swap(swaps));
            return (TreeNode) (Object) plan.transformAllExpressions(new Swap(swaps));
        }
        return tree.transformUp(new Swap(swaps));
    }

    static final class Swap extends scala.runtime.AbstractPartialFunction {
        private final IdentityHashMap swaps;

        Swap(IdentityHashMap swaps) {
            this.swaps = swaps;
        }

        public boolean isDefinedAt(Object node) {
            return swaps.containsKey(node) || node instanceof SubqueryExpression;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (swaps.containsKey(node)) {
                return swaps.get(node);
            }
            if (node instanceof SubqueryExpression) {
                SubqueryExpression subquery = (SubqueryExpression) node;
                TreeNode plan = replaced((TreeNode) (Object) subquery.plan(), swaps);
                return plan == (Object) subquery.plan() ? node : subquery.withNewPlan((LogicalPlan) (Object) plan);
            }
            return otherwise.apply(node);
        }
    }
}
