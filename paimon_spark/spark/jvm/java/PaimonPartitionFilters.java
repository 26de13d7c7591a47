import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * An optimizer rule: conditions over partition columns only, which Spark does not push down, are evaluated here.
 *
 * A scan of ours says the values of its partitions (`narrowed_scans.py`) and learns which of them to read. The
 * condition leaves the plan then. One that fails for a partition stays, for the query may leave out the rows.
 */
public final class PaimonPartitionFilters extends Rule {
    public TreeNode apply(TreeNode plan) {
        return plan.transformDown(new Filters());
    }

    static final class Filters extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof Filter && ((Filter) node).child() instanceof DataSourceV2ScanRelation;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return isDefinedAt(node) ? narrowed((Filter) node) : otherwise.apply(node);
        }
    }

    private static Object narrowed(Filter filter) {
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) (Object) filter.child();
        Object scan = relation.scan();
        if (!(scan instanceof Callable) || !PaimonProxy.isOurs(scan)) {
            return filter;
        }
        List conditions = new ArrayList();
        split(filter.condition(), conditions);
        Set names = new HashSet();
        NamedReference[] columns = ((SupportsRuntimeV2Filtering) scan).filterAttributes();
        for (int at = 0; at < columns.length; at++) {
            names.add(columns[at].fieldNames()[0]);
        }
        boolean any = false;
        for (int at = 0; at < conditions.size(); at++) {
            any |= isOver((Expression) conditions.get(at), names);
        }
        try {
            return any ? narrowed(filter, relation, conditions) : filter;
        } catch (RuntimeException error) {
            throw error;
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static Object narrowed(Filter filter, DataSourceV2ScanRelation relation, List conditions) throws Exception {
        Map known = (Map) ((Callable) relation.scan()).call();
        List names = (List) known.get("names");
        Map places = new HashMap();
        for (int at = 0; at < names.size(); at++) {
            places.put(names.get(at), Integer.valueOf(at));
        }
        InternalRow[] rows = PaimonParquet.partitions((List) known.get("kinds"), (List) known.get("rows"));
        boolean[] kept = new boolean[rows.length];
        java.util.Arrays.fill(kept, true);
        Expression rest = null;
        int left = 0;
        for (int at = 0; at < conditions.size(); at++) {
            Expression condition = (Expression) conditions.get(at);
            if (!isOver(condition, places.keySet()) || !leaveOut(condition, places, rows, kept)) {
                rest = rest == null ? condition : new And(rest, condition);
                left++;
            }
        }
        if (left == conditions.size()) {
            return filter;
        }
        List positions = new ArrayList();
        for (int at = 0; at < kept.length; at++) {
            if (kept[at]) {
                positions.add(Integer.valueOf(at));
            }
        }
        Object found = relation;
        if (positions.size() < rows.length) {
            Map wanted = new HashMap();
            wanted.put("partitions", positions);
            found = PaimonVariantPaths.reading(relation, PaimonVariantPaths.otherScan(relation, wanted));
        }
        return rest == null ? found : new Filter(rest, (LogicalPlan) found);
    }

    /** Mark the partitions for which a condition is not true; whether it could be evaluated for all that are left. */
    private static boolean leaveOut(Expression condition, Map places, InternalRow[] rows, boolean[] kept) {
        boolean[] found = new boolean[rows.length];
        try {
            InterpretedPredicate predicate = new InterpretedPredicate(
                (Expression) ((TreeNode) (Object) condition).transformUp(new Bound(places)));
            predicate.initialize(0);
            for (int at = 0; at < rows.length; at++) {
                found[at] = kept[at] && predicate.eval(rows[at]);
            }
        } catch (Exception error) { // the query says so, if it comes to such a row
            return false;
        }
        System.arraycopy(found, 0, kept, 0, kept.length);
        return true;
    }

    static final class Bound extends scala.runtime.AbstractPartialFunction {
        private final Map places;

        Bound(Map places) {
            this.places = places;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof AttributeReference)) {
                return otherwise.apply(node);
            }
            AttributeReference column = (AttributeReference) node;
            return new BoundReference(((Integer) places.get(column.name())).intValue(), column.dataType(), true);
        }
    }

    private static void split(Expression condition, List found) {
        if (condition instanceof And) {
            split(((And) condition).left(), found);
            split(((And) condition).right(), found);
        } else {
            found.add(condition);
        }
    }

    /** Whether a condition is of some of these columns only, and is the same for all rows of a partition. */
    private static boolean isOver(Expression condition, Set names) {
        return condition.deterministic() && reads((TreeNode) (Object) condition, names) > 0;
    }

    /** How many of these columns an expression reads; far below zero if it reads anything else. */
    private static int reads(TreeNode node, Set names) {
        if (node instanceof AttributeReference) {
            return names.contains(((AttributeReference) (Object) node).name()) ? 1 : Integer.MIN_VALUE / 2;
        }
        if (node instanceof SubqueryExpression || node instanceof Unevaluable) {
            return Integer.MIN_VALUE / 2;
        }
        int found = 0;
        List children = PaimonVariantPaths.list(node.children());
        for (int at = 0; at < children.size(); at++) {
            int inside = reads((TreeNode) children.get(at), names);
            if (inside < 0) {
                return inside;
            }
            found += inside;
        }
        return found;
    }
}
