import java.io.ByteArrayOutputStream;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;

/** Write commands that hand their rows over as a DataFrame, and the rows of those that have them themselves. */
public final class PaimonRowCommands {
    private static final String CHANGED = "paimon_spark.changed";
    private static final int MOST_ROWS = 10000;
    private static final long MOST_BYTES = 16L << 20;

    /** The rows of a query, where it has them itself and they are few; else null. */
    public LogicalPlan localRows(LogicalPlan query) {
        LogicalPlan plan = localPlan(query);
        return plan == null || ((LocalRelation) plan).data().isEmpty() ? null : plan;
    }

    /** The rows of a query as `arrow` gives them, where its plan has them itself and they are few; else null. */
    public byte[] rowsOf(QueryExecution execution) {
        if (!isLocal(execution.analyzed())) {
            return null;
        }
        LogicalPlan plan = localPlan((LogicalPlan) PaimonGivenRows.evaluated(execution.optimizedPlan(), true));
        return plan == null ? null : arrow(plan, execution.sparkSession().sessionState().conf());
    }

    /** Whether a plan may become given rows: it is asked before anything is optimised, which costs much in others. */
    private static boolean isLocal(LogicalPlan plan) {
        if (plan instanceof LocalRelation || plan instanceof OneRowRelation) {
            return !plan.isStreaming();
        }
        if (plan instanceof DataSourceV2Relation) {
            return ((DataSourceV2Relation) plan).options().containsKey(CHANGED);
        }
        if (plan instanceof Join) {
            return isLocal(((Join) plan).left()) && isLocal(((Join) plan).right());
        }
        boolean plain = plan instanceof Project || plan instanceof Filter || plan instanceof SubqueryAlias
            || plan instanceof View || plan instanceof RepartitionByExpression;
        return plain && isLocal((LogicalPlan) ((UnaryNode) plan).child());
    }

    private static LogicalPlan localPlan(LogicalPlan query) {
        LogicalPlan plan = query;
        if (plan instanceof RepartitionByExpression || plan instanceof RebalancePartitions) {
            plan = (LogicalPlan) ((UnaryNode) plan).child();  // put there for this write: one writer needs none
        }
        if (!(plan instanceof LocalRelation) || plan.isStreaming()) {
            return null;
        }
        int rows = ((LocalRelation) plan).data().size();
        boolean fits = rows <= MOST_ROWS && plan.stats().sizeInBytes().longValue() <= MOST_BYTES;
        return fits ? plan : null;
    }

    /** The command with another write into a relation that has another table. */
    public LogicalPlan taken(LogicalPlan command, LogicalPlan query, Object table, Object write, boolean anew) {
        Product product = (Product) (Object) command;
        Object[] parts = parts(product);
        for (int at = 0; at < parts.length; at++) {
            String name = product.productElementName(at);
            if (name.equals("table")) {
                Object[] relation = parts((Product) parts[at]);
                relation[0] = table;
                parts[at] = ((TreeNode) parts[at]).makeCopy(relation);
            } else if (name.equals("query")) {
                parts[at] = query;
            } else if (name.equals("write")) {
                parts[at] = Option.apply(write);
            } else if (name.equals("analyzedQuery") && (anew || ((Option) parts[at]).isEmpty())) {
                parts[at] = Option.apply(query);
            }
        }
        return (LogicalPlan) ((TreeNode) (Object) command).makeCopy(parts);
    }

    /** The rows of a local relation as streams of Arrow, one behind the other, as Python's tasks get them. */
    public byte[] arrow(LogicalPlan plan) {
        return arrow(plan, SQLConf.get());
    }

    private static byte[] arrow(LogicalPlan plan, SQLConf conf) {
        LocalRelation relation = (LocalRelation) plan;
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        Iterator streams = (Iterator) (Object) ArrowConverters$.MODULE$.toBatchWithSchemaIterator(
            relation.data().iterator(), relation.schema(), (long) MOST_ROWS, 1L << 30,
            conf.sessionLocalTimeZone(), false, false);
        while (streams.hasNext()) {  // the last call frees Arrow's memory
            byte[] stream = (byte[]) streams.next();
            found.write(stream, 0, stream.length);
        }
        return found.toByteArray();
    }

    private static Object[] parts(Product product) {
        Object[] found = new Object[product.productArity()];
        for (int at = 0; at < found.length; at++) {
            found[at] = product.productElement(at);
        }
        return found;
    }
}
