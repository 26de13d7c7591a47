import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/** An optimizer rule: a LocalScan of ours becomes a LocalRelation, so that Spark runs no job for its rows. */
public final class PaimonLocalRows extends Rule {
    private static final int MOST_ROWS = 10000;

    public TreeNode apply(TreeNode plan) {
        TreeNode changed = plan.transform(new LocalScans());
        return changed == plan ? plan : PaimonGivenRows.evaluated(changed, false);
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
            return PaimonGivenRows.relation(relation, java.util.Arrays.asList(rows));
        }
    }
}
