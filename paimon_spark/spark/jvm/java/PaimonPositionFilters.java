import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.bitset.BitSetMethods;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * An optimizer rule: rows at the positions of a bit set are filtered out of what Spark's Parquet reader gives.
 *
 * A scan of ours says whether rows of its files are deleted (`position_filter.py`). Its batch has then two more
 * columns: a row's position in its file, and the bits of the file; null where none is set. Everything that reaches
 * executors is Spark's own.
 */
public final class PaimonPositionFilters extends PaimonWholePlans {
    private static final String POSITION = "_tmp_metadata_row_index";
    private static final String BITS = "_paimon_bits";

    protected TreeNode changed(TreeNode plan) {
        return plan.transformUp(new Scans());
    }

    static final class Scans extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return filterOf(node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            Map filter = filterOf(node);
            return filter == null ? otherwise.apply(node) : filtered((DataSourceV2ScanRelation) node, filter);
        }
    }

    private static Map filterOf(Object node) {
        if (!(node instanceof DataSourceV2ScanRelation)) {
            return null;
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
        Object scan = relation.scan();
        if (!(scan instanceof Supplier) || !java.lang.reflect.Proxy.isProxyClass(scan.getClass())) {
            return null;
        }
        List columns = PaimonVariantPaths.list(relation.output());
        if (!columns.isEmpty() && ((AttributeReference) columns.get(columns.size() - 1)).name().equals(BITS)) {
            return null;
        }
        return (Map) ((Supplier) scan).get();
    }

    private static LogicalPlan filtered(DataSourceV2ScanRelation relation, Map answer) {
        List columns = PaimonVariantPaths.list(relation.output());
        AttributeReference position = column(POSITION, DataTypes.LongType);
        AttributeReference bits = column(BITS, DataTypes.BinaryType);
        List all = new ArrayList(columns);
        all.add(columns.size() - ((Number) answer.get("partition columns")).intValue(), position);
        all.add(bits);
        Expression at = (Expression) (Object) Cast$.MODULE$.apply(position, DataTypes.IntegerType, false);
        Expression offset = new Literal(Long.valueOf(Platform.BYTE_ARRAY_OFFSET), DataTypes.LongType);
        Seq arguments = PaimonVariantPaths.seq(Arrays.asList(new Object[] {bits, offset, at}));
        Expression left = new StaticInvoke(
            BitSetMethods.class, DataTypes.BooleanType, "isSet", arguments, none(), true, true, true,
            Option.apply(null));
        Expression kept = new Or(new IsNull(bits), new Not(left));
        Object read = PaimonVariantPaths.with(relation, "output", PaimonVariantPaths.seq(all));
        Filter filter = new Filter(kept, (LogicalPlan) read);
        return (LogicalPlan) (Object) new Project(relation.output(), (LogicalPlan) (Object) filter);
    }

    private static AttributeReference column(String name, DataType type) {
        return new AttributeReference(
            name, type, true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), none());
    }

    private static Seq none() {
        return PaimonVariantPaths.seq(new ArrayList());
    }
}
