import java.util.function.Function;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SQLConf;

/** An analyzer rule: asks Python about a MERGE that may add columns, before names are resolved. */
public final class PaimonWidenedMerges extends Rule {
    private final Function paimon;
    private final String[] keys;

    public PaimonWidenedMerges(Function paimon, String[] keys) {
        this.paimon = paimon;
        this.keys = keys;
    }

    public TreeNode apply(TreeNode plan) {
        return plan instanceof MergeIntoTable && asks((MergeIntoTable) plan) ? (TreeNode) paimon.apply(plan) : plan;
    }

    private boolean asks(MergeIntoTable merge) {
        if (merge.targetTable().resolved()) {
            return false;
        }
        if (merge.withSchemaEvolution()) {
            return true;
        }
        String all = SQLConf.get().settings().keySet().toString().toLowerCase();
        for (int at = 0; at < keys.length; at++) {
            if (all.contains(keys[at])) {
                return true;
            }
        }
        return false;
    }
}
