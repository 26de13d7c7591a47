import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/** An analyzer rule: asks Python about overwrites whose queries read tables that are answered in Python. */
public final class PaimonSelfOverwrites extends Rule {
    private final Function paimon;

    public PaimonSelfOverwrites(Function paimon) {
        this.paimon = paimon;
    }

    public TreeNode apply(TreeNode plan) {
        LogicalPlan query;
        if (plan instanceof OverwriteByExpression || plan instanceof OverwritePartitionsDynamic) {
            V2WriteCommand write = (V2WriteCommand) plan;
            if (!isOfOurs((TreeNode) (Object) write.table())) {
                return plan;
            }
            query = write.query();
        } else if (plan instanceof ReplaceTableAsSelect) {
            query = ((ReplaceTableAsSelect) plan).query();
        } else {
            return plan;
        }
        return query.resolved() && readsOurs(query) ? (TreeNode) paimon.apply(plan) : plan;
    }

    private static boolean isOfOurs(TreeNode node) {
        return node instanceof DataSourceV2Relation
            && java.lang.reflect.Proxy.isProxyClass(((DataSourceV2Relation) node).table().getClass());
    }

    private static boolean readsOurs(TreeNode node) {
        if (isOfOurs(node)) {
            return true;
        }
        if (node instanceof SubqueryExpression && readsOurs((TreeNode) (Object) ((SubqueryExpression) node).plan())) {
            return true;
        }
        return node instanceof LogicalPlan && anyReadsOurs(((LogicalPlan) node).expressions())
            || anyReadsOurs(node.children());
    }

    private static boolean anyReadsOurs(scala.collection.Seq nodes) {
        for (int i = 0; i < nodes.size(); i++) {
            if (readsOurs((TreeNode) nodes.apply(i))) {
                return true;
            }
        }
        return false;
    }
}
