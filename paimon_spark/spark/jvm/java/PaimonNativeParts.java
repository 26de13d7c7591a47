import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughNonJoin$;
import org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * An optimizer rule: a scan that our reader would read becomes a union: Spark's Parquet reader reads some files, ours
 * the rest.
 *
 * The scan says whether it is worth it (`native_part`). Filters and projections above go into both sides, so that each
 * is compiled with its scan. A scan that a join prunes while it runs stays whole: it looks for its files once more.
 */
public final class PaimonNativeParts extends PaimonWholePlans {
    protected TreeNode changed(TreeNode plan) {
        Set whole = Collections.newSetFromMap(new IdentityHashMap());
        collect(plan, false, whole);
        TreeNode cut = plan.transformUp(new Scans(whole));
        if (cut == plan) {
            return plan;
        }
        return PushPredicateThroughNonJoin$.MODULE$.apply(
            PushProjectionThroughUnion$.MODULE$.apply((LogicalPlan) (Object) cut));
    }

    /** The scans below filters that a join fills while it runs. */
    private static void collect(TreeNode node, boolean pruned, Set whole) {
        if (pruned && node instanceof DataSourceV2ScanRelation) {
            whole.add(((DataSourceV2ScanRelation) (Object) node).scan());
        }
        boolean passes = node instanceof Filter || node instanceof Project;
        boolean below = passes
            && (pruned || node instanceof Filter && prunes((TreeNode) ((Filter) (Object) node).condition()));
        List children = PaimonVariantPaths.list(node.children());
        for (int at = 0; at < children.size(); at++) {
            collect((TreeNode) children.get(at), below, whole);
        }
    }

    private static boolean prunes(TreeNode condition) {
        List children = PaimonVariantPaths.list(condition.children());
        boolean found = condition instanceof DynamicPruning;
        for (int at = 0; !found && at < children.size(); at++) {
            found = prunes((TreeNode) children.get(at));
        }
        return found;
    }

    static final class Scans extends scala.runtime.AbstractPartialFunction {
        private final Set whole;

        Scans(Set whole) {
            this.whole = whole;
        }

        public boolean isDefinedAt(Object node) {
            return parts(node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            List parts = parts(node);
            return parts == null ? otherwise.apply(node) : union((DataSourceV2ScanRelation) node, parts);
        }

        private List parts(Object node) {
            if (!(node instanceof DataSourceV2ScanRelation)) {
                return null;
            }
            Object scan = ((DataSourceV2ScanRelation) node).scan();
            return whole.contains(scan) ? null : (List) PaimonProxy.answered(scan, "parts");
        }
    }

    private static Object union(DataSourceV2ScanRelation relation, List scans) {
        List columns = PaimonVariantPaths.list(relation.output());
        List fresh = new ArrayList();
        for (int at = 0; at < columns.size(); at++) {
            fresh.add(((Attribute) columns.get(at)).newInstance());
        }
        Object first = PaimonVariantPaths.reading(relation, scans.get(0));
        Object second = PaimonVariantPaths.reading(relation, scans.get(1));
        second = PaimonVariantPaths.with((scala.Product) second, "output", PaimonVariantPaths.seq(fresh));
        return new Union(PaimonVariantPaths.seq(Arrays.asList(new Object[] {first, second})), false, false);
    }
}
