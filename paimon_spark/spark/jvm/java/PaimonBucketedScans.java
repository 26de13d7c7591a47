import java.lang.reflect.Constructor;
import java.lang.reflect.Proxy;
import java.security.PrivilegedAction;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.TransformExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/**
 * An optimizer rule: a scan by whose bucket key rows are joined, grouped or ordered in windows reads by bucket.
 *
 * The scan says so (`scan_plan.py`), and the relation says it to Spark, which then needs no shuffle. Spark asks for
 * it with `spark.sql.sources.v2.bucketing.enabled`. Where it would shuffle the other side by the same function
 * (`…bucketing.shuffle.enabled`) it shuffles both: executors do not have the function.
 */
public final class PaimonBucketedScans extends PaimonWholePlans {
    protected TreeNode changed(TreeNode plan) {
        SQLConf settings = SQLConf.get();
        if (!settings.v2BucketingEnabled() || settings.v2BucketingShuffleEnabled()) {
            return plan;
        }
        Set wanted = new HashSet();
        Map sources = new HashMap();
        collect(plan, wanted, sources);
        List open = new ArrayList(wanted);
        while (!open.isEmpty()) {
            Object source = sources.get(open.remove(open.size() - 1));
            if (source != null && wanted.add(source)) {
                open.add(source);
            }
        }
        return wanted.isEmpty() ? plan : plan.transformUp(new Scans(wanted));
    }

    /** The columns by which rows come together, and which column each alias is. */
    private static void collect(TreeNode node, Set wanted, Map sources) {
        if (node instanceof Join) {
            Option condition = ((Join) (Object) node).condition();
            if (condition.isDefined()) {
                compared((TreeNode) condition.get(), wanted);
            }
        } else if (node instanceof Aggregate) {
            add(PaimonVariantPaths.list(((Aggregate) (Object) node).groupingExpressions()), wanted);
            named(PaimonVariantPaths.list(((Aggregate) (Object) node).aggregateExpressions()), sources);
        } else if (node instanceof Window) {
            add(PaimonVariantPaths.list(((Window) (Object) node).partitionSpec()), wanted);
        } else if (node instanceof Project) {
            named(PaimonVariantPaths.list(((Project) (Object) node).projectList()), sources);
        }
        List children = PaimonVariantPaths.list(node.children());
        for (int at = 0; at < children.size(); at++) {
            collect((TreeNode) children.get(at), wanted, sources);
        }
    }

    private static void compared(TreeNode condition, Set wanted) {
        List children = PaimonVariantPaths.list(condition.children());
        if (condition instanceof EqualTo || condition instanceof EqualNullSafe) {
            add(children, wanted);
        }
        for (int at = 0; at < children.size(); at++) {
            compared((TreeNode) children.get(at), wanted);
        }
    }

    private static void add(List expressions, Set wanted) {
        for (int at = 0; at < expressions.size(); at++) {
            if (expressions.get(at) instanceof AttributeReference) {
                wanted.add(((AttributeReference) expressions.get(at)).exprId());
            }
        }
    }

    private static void named(List expressions, Map sources) {
        for (int at = 0; at < expressions.size(); at++) {
            Object expression = expressions.get(at);
            if (expression instanceof Alias && ((Alias) expression).child() instanceof AttributeReference) {
                Object column = ((Alias) expression).child();
                sources.put(((Alias) expression).exprId(), ((AttributeReference) column).exprId());
            }
        }
    }

    static final class Scans extends scala.runtime.AbstractPartialFunction {
        private final Set wanted;

        Scans(Set wanted) {
            this.wanted = wanted;
        }

        public boolean isDefinedAt(Object node) {
            return keyOf(node, wanted) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            AttributeReference key = keyOf(node, wanted);
            return key == null ? otherwise.apply(node) : bucketed((DataSourceV2ScanRelation) node, key);
        }
    }

    /** The bucket key of a relation that is ours, if it is wanted and not used yet. */
    private static AttributeReference keyOf(Object node, Set wanted) {
        if (!(node instanceof DataSourceV2ScanRelation)) {
            return null;
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
        Object scan = relation.scan();
        if (relation.keyGroupedPartitioning().isDefined() || !(scan instanceof PrivilegedAction)
            || !PaimonProxy.isOurs(scan)) {
            return null;
        }
        Object name = ((PaimonProxy) Proxy.getInvocationHandler(scan)).said("bucketKey");
        List columns = PaimonVariantPaths.list(relation.output());
        for (int at = 0; at < columns.size(); at++) {
            AttributeReference column = (AttributeReference) columns.get(at);
            if (column.name().equals(name) && wanted.contains(column.exprId())) {
                return column;
            }
        }
        return null;
    }

    private static Object bucketed(DataSourceV2ScanRelation relation, AttributeReference key) {
        Map found = (Map) ((PrivilegedAction) relation.scan()).run();
        if (found == null) {
            return relation;
        }
        Option buckets = Option.apply(Integer.valueOf(((Number) found.get("buckets")).intValue()));
        Object function = new PaimonBucketFunction((String) found.get("function"), key.dataType());
        Object keys = one(transform(new Object[] {function, one(key), buckets}));
        Object answer = PaimonVariantPaths.with(relation, "keyGroupedPartitioning", Option.apply(keys));
        if (Boolean.TRUE.equals(found.get("ordered"))) {
            Object order = new SortOrder(
                key, Ascending$.MODULE$, NullsFirst$.MODULE$, PythonUtils.toSeq(new ArrayList()).toList());
            answer = PaimonVariantPaths.with((DataSourceV2ScanRelation) answer, "ordering", Option.apply(one(order)));
        }
        return answer;
    }

    /** Spark's expression; what else it has is none. */
    private static Object transform(Object[] given) {
        Constructor made = TransformExpression.class.getConstructors()[0];
        Object[] parts = new Object[made.getParameterCount()];
        java.util.Arrays.fill(parts, Option.apply(null));
        System.arraycopy(given, 0, parts, 0, given.length);
        try {
            return made.newInstance(parts);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static Object one(Object value) {
        return PythonUtils.toSeq(Collections.singletonList(value)).toList();
    }
}
