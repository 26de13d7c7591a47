import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.PartialFunction;

/**
 * An analyzer rule: asks Python about DELETE, UPDATE and MERGE of tables that are answered in Python.
 *
 * A statement behind EXPLAIN is analysed after the EXPLAIN itself, from which it gets a tag.
 */
public final class PaimonRowLevelStatements extends Rule {
    private static final TreeNodeTag EXPLAINED = new TreeNodeTag("paimon_spark.explained");

    private final BiFunction paimon;
    private final PartialFunction structs;

    public PaimonRowLevelStatements(BiFunction paimon, PartialFunction structs) {
        this.paimon = paimon;
        this.structs = structs;
    }

    public TreeNode apply(TreeNode plan) {
        if (plan instanceof ExplainCommand) {
            ((ExplainCommand) plan).logicalPlan().setTagValue(EXPLAINED, Boolean.TRUE);
            return plan;
        }
        if (!isOfOurs(plan)) {
            return plan;
        }
        LogicalPlan given = (LogicalPlan) ((LogicalPlan) plan).transformExpressions(structs);
        if (!given.resolved()) {
            return plan;
        }
        Object run = paimon.apply(given, Boolean.valueOf(plan.getTagValue(EXPLAINED).isDefined()));
        return run == given ? plan : (TreeNode) run;
    }

    private static boolean isOfOurs(TreeNode plan) {
        LogicalPlan table;
        if (plan instanceof DeleteFromTable) {
            table = ((DeleteFromTable) plan).table();
        } else if (plan instanceof UpdateTable) {
            table = ((UpdateTable) plan).table();
        } else if (plan instanceof MergeIntoTable) {
            table = ((MergeIntoTable) plan).targetTable();
        } else {
            return false;
        }
        while (table instanceof SubqueryAlias) {
            table = ((SubqueryAlias) table).child();
        }
        return table instanceof DataSourceV2Relation
            && java.lang.reflect.Proxy.isProxyClass(((DataSourceV2Relation) table).table().getClass());
    }
}
