import java.lang.reflect.UndeclaredThrowableException;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedDataSource;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.unsafe.Platform;

/**
 * An analyzer rule: asks Python about loads and saves of our format, about tables named by it and a path, and about
 * temporary views over Spark's Python table.
 */
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
            if (node instanceof StreamingRelationV2) {
                return withTexts((StreamingRelationV2) node);
            }
            try {
                return paimon.apply(node);
            } catch (UndeclaredThrowableException error) {
                Platform.throwException(error.getCause());
                return node;
            }
        }

        public boolean isDefinedAt(Object node) {
            if (node instanceof StreamingRelationV2) {
                StreamingRelationV2 stream = (StreamingRelationV2) node;
                return PaimonProxy.isOurs(stream.table())
                    && CharVarcharUtils.hasCharVarchar(DataTypeUtils.fromAttributes(stream.output()));
            }
            if (node instanceof UnresolvedDataSource) {
                UnresolvedDataSource load = (UnresolvedDataSource) node;
                return FORMAT.equalsIgnoreCase(load.format());
            }
            if (node instanceof UnresolvedRelation) {
                UnresolvedRelation named = (UnresolvedRelation) node;
                return isNamed(named);
            }
            if (node instanceof LogicalPlan && ((LogicalPlan) node).nodeName().equals("RelationTimeTravel")) {
                Object named = ((LogicalPlan) node).productElement(0);
                return named instanceof UnresolvedRelation && isNamed((UnresolvedRelation) named);
            }
            if (node instanceof CreateTable) {
                CreateTable made = (CreateTable) node;
                return made.name() instanceof ResolvedIdentifier
                    && ((ResolvedIdentifier) made.name()).catalog().name().equals("spark_catalog")
                    && made.tableSpec().provider().isDefined()
                    && FORMAT.equalsIgnoreCase((String) made.tableSpec().provider().get());
            }
            if (node instanceof View) {
                View view = (View) node;
                LogicalPlan below = view.child();
                while (below instanceof Project) {
                    below = ((Project) below).child();
                }
                return view.isTempView() && below instanceof DataSourceV2Relation
                    && isPython(((DataSourceV2Relation) below).table());
            }
            if (!(node instanceof V2WriteCommand)) {
                return false;
            }
            Object table = ((V2WriteCommand) node).table();
            if (!(table instanceof DataSourceV2Relation) || !((LogicalPlan) node).resolved()) {
                return false;
            }
            return isPython(((DataSourceV2Relation) table).table());
        }

        /** Spark makes texts of CHAR columns in relations of batches, but not in those of streams. */
        private static Object withTexts(StreamingRelationV2 stream) {
            Object[] values = new Object[stream.productArity()];
            for (int at = 0; at < values.length; at++) {
                values[at] = stream.productElement(at);
                if (values[at] == stream.output()) {
                    values[at] = DataSourceV2Relation.create(
                        stream.table(), scala.Option.apply(null), scala.Option.apply(null)).output();
                }
            }
            return stream.makeCopy(values);
        }

        private static boolean isNamed(UnresolvedRelation named) {
            return !named.isStreaming() && named.multipartIdentifier().length() == 2
                && FORMAT.equalsIgnoreCase((String) named.multipartIdentifier().apply(0));
        }

        private static boolean isPython(Object table) {
            return table instanceof PythonTable && FORMAT.equals(((PythonTable) table).name());
        }
    }
}
