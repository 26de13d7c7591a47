import java.lang.reflect.UndeclaredThrowableException;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedDataSource;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.unsafe.Platform;

/** An analyzer rule: asks Python about loads and saves of our format, and about tables named by it and a path. */
public final class PaimonFormatPlans extends Rule {
    private static final String FORMAT = "paimon";
    private final Function paimon;

    public PaimonFormatPlans(Function paimon) {
        this.paimon = paimon;
    }

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).resolveOperatorsDown(new Nodes(paimon));
    }

    static final class Nodes extends scala.runtime.AbstractPartialFunction {
        private final Function paimon;

        Nodes(Function paimon) {
            this.paimon = paimon;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            try {
                return paimon.apply(node);
            } catch (UndeclaredThrowableException error) {
                Platform.throwException(error.getCause());
                return node;
            }
        }

        public boolean isDefinedAt(Object node) {
            if (node instanceof UnresolvedDataSource) {
                UnresolvedDataSource load = (UnresolvedDataSource) node;
                return !load.isStreaming() && FORMAT.equalsIgnoreCase(load.format());
            }
            if (node instanceof UnresolvedRelation) {
                UnresolvedRelation named = (UnresolvedRelation) node;
                return !named.isStreaming() && named.multipartIdentifier().length() == 2
                    && FORMAT.equalsIgnoreCase((String) named.multipartIdentifier().apply(0));
            }
            if (!(node instanceof V2WriteCommand)) {
                return false;
            }
            Object table = ((V2WriteCommand) node).table();
            if (!(table instanceof DataSourceV2Relation) || !((LogicalPlan) node).resolved()) {
                return false;
            }
            Object target = ((DataSourceV2Relation) table).table();
            return target instanceof PythonTable && FORMAT.equals(((PythonTable) target).name());
        }
    }
}
