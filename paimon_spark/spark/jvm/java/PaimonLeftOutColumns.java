import java.util.function.Function;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** An analyzer rule: asks Python about writes by name, which may leave out columns. */
public final class PaimonLeftOutColumns extends Rule {
    private final Function paimon;

    public PaimonLeftOutColumns(Function paimon) {
        this.paimon = paimon;
    }

    public TreeNode apply(TreeNode plan) {
        return asks(plan) ? (TreeNode) paimon.apply(plan) : plan;
    }

    private static boolean asks(TreeNode plan) {
        if (plan instanceof InsertIntoStatement) {
            InsertIntoStatement insert = (InsertIntoStatement) plan;
            boolean named = insert.byName() || insert.userSpecifiedCols().nonEmpty();
            return named && insert.table().resolved() && insert.query().resolved();
        }
        if (plan instanceof V2WriteCommand) {
            V2WriteCommand write = (V2WriteCommand) plan;
            boolean named = ((LogicalPlan) (Object) write.table()).resolved();
            return write.isByName() && (write.query().resolved() || !named);
        }
        return false;
    }
}
