import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.InputFileName;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * An analyzer rule: ``input_file_name()`` over a table of ours without primary keys is its column __paimon_file_path.
 *
 * Spark's own function knows no file where Python reads.
 */
public final class PaimonInputFileNames extends Rule {
    private final String column;

    public PaimonInputFileNames(String column) {
        this.column = column;
    }

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).resolveOperatorsUp(new Plans(column));
    }

    static final class Plans extends scala.runtime.AbstractPartialFunction {
        private final String column;

        Plans(String column) {
            this.column = column;
        }

        public boolean isDefinedAt(Object node) {
            return path((LogicalPlan) node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            Attribute path = path((LogicalPlan) node);
            return path == null ? otherwise.apply(node) : ((QueryPlan) node).transformExpressions(new Names(path));
        }

        /** The column that holds what a plan asks for; null where it does not ask, or nothing is known. */
        private Attribute path(LogicalPlan node) {
            if (node.children().size() != 1 || !node.resolved() || !asks(node.expressions())) {
                return null;
            }
            LogicalPlan child = (LogicalPlan) node.children().apply(0);
            List leaves = PaimonVariantPaths.list(child.collectLeaves());
            return leaves.size() == 1 && isOfFiles(leaves.get(0)) ? found(child) : null;
        }

        private Attribute found(LogicalPlan child) {
            List columns = PaimonVariantPaths.list(child.metadataOutput());
            columns.addAll(PaimonVariantPaths.list(child.output()));
            Attribute found = null;
            for (int at = 0; at < columns.size(); at++) {
                Attribute other = (Attribute) columns.get(at);
                if (other.name().equals(column)) {
                    if (found != null && !found.exprId().equals(other.exprId())) {
                        return null;
                    }
                    found = other;
                }
            }
            return found;
        }

        private static boolean isOfFiles(Object leaf) {
            if (!(leaf instanceof DataSourceV2Relation)) {
                return false;
            }
            Table table = ((DataSourceV2Relation) leaf).table();
            if (!java.lang.reflect.Proxy.isProxyClass(table.getClass())) {
                return false;
            }
            Map properties = table.properties();
            return properties != null && !properties.containsKey("primary-key");
        }

        private static boolean asks(scala.collection.Seq nodes) {
            for (int at = 0; at < nodes.size(); at++) {
                TreeNode node = (TreeNode) nodes.apply(at);
                if (node instanceof InputFileName || asks(node.children())) {
                    return true;
                }
            }
            return false;
        }
    }

    static final class Names extends scala.runtime.AbstractPartialFunction {
        private final Attribute path;

        Names(Attribute path) {
            this.path = path;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof InputFileName;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return node instanceof InputFileName ? path : otherwise.apply(node);
        }
    }
}
