import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;

/** An analyzer rule: asks Python about writes by name where one of the option's keys is set somewhere. */
public final class PaimonWidenedWrites extends Rule {
    private final Function paimon;
    private final String[] keys;

    public PaimonWidenedWrites(Function paimon, String[] keys) {
        this.paimon = paimon;
        this.keys = keys;
    }

    public TreeNode apply(TreeNode plan) {
        return asks(plan) ? (TreeNode) paimon.apply(plan) : plan;
    }

    private boolean asks(TreeNode plan) {
        if (plan instanceof InsertIntoStatement) {
            InsertIntoStatement insert = (InsertIntoStatement) plan;
            return insert.byName() && insert.table().resolved() && insert.query().resolved()
                && isSet(insert.table(), "");
        }
        if (plan instanceof V2WriteCommand) {
            V2WriteCommand write = (V2WriteCommand) plan;
            return write.isByName() && isSet((LogicalPlan) (Object) write.table(), options(plan));
        }
        return false;
    }

    private static String options(TreeNode plan) {
        if (plan instanceof AppendData) {
            return ((AppendData) plan).writeOptions().toString();
        }
        if (plan instanceof OverwriteByExpression) {
            return ((OverwriteByExpression) plan).writeOptions().toString();
        }
        if (plan instanceof OverwritePartitionsDynamic) {
            return ((OverwritePartitionsDynamic) plan).writeOptions().toString();
        }
        return "";
    }

    private boolean isSet(LogicalPlan table, String options) {
        String all = options + SQLConf.get().settings().keySet();
        if (table instanceof DataSourceV2Relation) {
            all = all + ((DataSourceV2Relation) table).options().asCaseSensitiveMap().keySet();
        } else if (table instanceof UnresolvedRelation) {
            all = all + ((UnresolvedRelation) table).options().asCaseSensitiveMap().keySet();
        }
        all = all.toLowerCase();
        for (int at = 0; at < keys.length; at++) {
            if (all.contains(keys[at])) {
                return true;
            }
        }
        return false;
    }
}
