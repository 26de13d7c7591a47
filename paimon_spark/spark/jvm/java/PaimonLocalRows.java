import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;

/** An optimizer rule: a LocalScan of ours becomes a LocalRelation, so that Spark runs no job for its rows. */
public final class PaimonLocalRows extends Rule {
    private static final int MOST_ROWS = 10000;

    static final TreeNodeTag READ = new TreeNodeTag("paimon rows");

    public TreeNode apply(TreeNode plan) {
        TreeNode changed = plan.transform(new LocalScans());
        if (changed == plan) {
            return plan;
        }
        tagged(changed);
        TreeNode evaluated = PaimonGivenRows.evaluated(changed, false);
        return (TreeNode) (Object) ((QueryPlan) (Object) evaluated).transformAllExpressions(new PruningQueries(this));
    }

    /** The build side of a join, which stands once more in a filter of partitions: Spark finds that it is the same. */
    static final class PruningQueries extends scala.runtime.AbstractPartialFunction {
        private final PaimonLocalRows rule;

        PruningQueries(PaimonLocalRows rule) {
            this.rule = rule;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof DynamicPruningSubquery;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            DynamicPruningSubquery query = (DynamicPruningSubquery) node;
            return query.withNewPlan((LogicalPlan) (Object) rule.apply((TreeNode) (Object) query.buildQuery()));
        }
    }

    /** What was read, told to all that may become given rows: a node that replaces another one takes its tags. */
    private static Object tagged(TreeNode node) {
        Option own = node.getTagValue(READ);
        if (own.isDefined()) {
            return own.get();
        }
        Object text = null;
        List children = PaimonVariantPaths.list(node.children());
        for (int at = 0; at < children.size(); at++) {
            text = tagged((TreeNode) children.get(at));
        }
        if (text == null || children.size() > 1) {
            return null;
        }
        node.setTagValue(READ, text);
        return text;
    }

    static final class LocalScans extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            if (!(node instanceof DataSourceV2ScanRelation)) {
                return false;
            }
            Object scan = ((DataSourceV2ScanRelation) node).scan();
            return scan instanceof LocalScan && java.lang.reflect.Proxy.isProxyClass(scan.getClass());
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
            InternalRow[] rows = ((LocalScan) relation.scan()).rows();
            if (rows.length > MOST_ROWS) {
                return node;
            }
            LocalRelation given = PaimonGivenRows.relation(relation, java.util.Arrays.asList(rows));
            ((TreeNode) (Object) given).setTagValue(READ, ((LocalScan) relation.scan()).description());
            return given;
        }
    }
}
