import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.optimizer.RewriteDistinctAggregates$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * An optimizer rule: scalar subqueries over the same rows of one table share a scan, of the columns of all.
 *
 * Spark 4.1 merges subqueries only where their scans are equal, which scans of different columns are not. So such scans
 * are exchanged for a wider one, and Spark's rule is asked once more. Where it merges nothing the plan stays. Spark 4.3
 * widens scans itself (`SCAN_MERGING`).
 */
public final class PaimonMergedSubqueries extends Rule {
    private static final String EXCLUDED = "spark.sql.optimizer.excludedRules";

    private final Rule merge;

    public PaimonMergedSubqueries(Rule merge) {
        this.merge = merge;
    }

    public TreeNode apply(TreeNode plan) {
        boolean excluded = SQLConf.get().getConfString(EXCLUDED, "").contains("MergeScalarSubqueries");
        if (excluded || plan instanceof Subquery || plan instanceof WithCTE) {
            return plan;
        }
        Map groups = new LinkedHashMap();
        collect(plan, groups);
        Map widened = new IdentityHashMap();
        for (Iterator each = groups.values().iterator(); each.hasNext();) {
            List alike = (List) each.next();
            if (alike.size() > 1) {
                widenThoseOfSameRows(alike, widened);
            }
        }
        if (widened.isEmpty()) {
            return plan;
        }
        LogicalPlan wide = (LogicalPlan) ((LogicalPlan) (Object) plan).transformAllExpressions(new Exchange(widened));
        LogicalPlan merged = (LogicalPlan) (Object) merge.apply((TreeNode) (Object) wide);
        return merged instanceof WithCTE
            ? (TreeNode) (Object) RewriteDistinctAggregates$.MODULE$.apply(merged) : plan;
    }

    private static void collect(TreeNode plan, Map groups) {
        List expressions = PaimonVariantPaths.list(((LogicalPlan) (Object) plan).expressions());
        for (int at = 0; at < expressions.size(); at++) {
            subqueries((TreeNode) expressions.get(at), groups);
        }
        List children = PaimonVariantPaths.list(plan.children());
        for (int at = 0; at < children.size(); at++) {
            collect((TreeNode) children.get(at), groups);
        }
    }

    private static void subqueries(TreeNode expression, Map groups) {
        List children = PaimonVariantPaths.list(expression.children());
        if (expression instanceof ScalarSubquery && children.isEmpty()) {
            String shape = shape((TreeNode) (Object) ((ScalarSubquery) (Object) expression).plan());
            if (shape != null) {
                if (!groups.containsKey(shape)) {
                    groups.put(shape, new ArrayList());
                }
                ((List) groups.get(shape)).add(expression);
            }
        }
        for (int at = 0; at < children.size(); at++) {
            subqueries((TreeNode) children.get(at), groups);
        }
    }

    /** What must be the same in plans that Spark merges; null of a plan that is not looked at. */
    private static String shape(TreeNode plan) {
        StringBuffer found = new StringBuffer();
        while (!(plan instanceof DataSourceV2ScanRelation)) {
            if (plan instanceof Filter) {
                found.append("filter ").append(((Filter) (Object) plan).condition().sql()).append('\n');
            } else if (plan instanceof Aggregate) {
                List keys = PaimonVariantPaths.list(((Aggregate) (Object) plan).groupingExpressions());
                if (!keys.isEmpty()) {
                    return null;
                }
                found.append("aggregate\n");
            } else if (!(plan instanceof Project)) {
                return null;
            }
            plan = (TreeNode) PaimonVariantPaths.list(plan.children()).get(0);
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) (Object) plan;
        boolean plain = relation.keyGroupedPartitioning().isEmpty() && relation.ordering().isEmpty();
        return plain && PaimonProxy.isOurs(relation.scan()) ? found.append(relation.name()).toString() : null;
    }

    private static void widenThoseOfSameRows(List subqueries, Map widened) {
        Map groups = new LinkedHashMap();
        for (int at = 0; at < subqueries.size(); at++) {
            Object rows = PaimonProxy.answered(relation((ScalarSubquery) subqueries.get(at)).scan(), "rows");
            if (rows != null) {
                if (!groups.containsKey(rows)) {
                    groups.put(rows, new ArrayList());
                }
                ((List) groups.get(rows)).add(subqueries.get(at));
            }
        }
        for (Iterator each = groups.values().iterator(); each.hasNext();) {
            widen((List) each.next(), widened);
        }
    }

    private static DataSourceV2ScanRelation relation(ScalarSubquery subquery) {
        TreeNode plan = (TreeNode) (Object) subquery.plan();
        while (!(plan instanceof DataSourceV2ScanRelation)) {
            plan = (TreeNode) PaimonVariantPaths.list(plan.children()).get(0);
        }
        return (DataSourceV2ScanRelation) (Object) plan;
    }

    private static void widen(List subqueries, Map widened) {
        Map fields = new LinkedHashMap();
        Map columns = new HashMap();
        boolean differ = false;
        for (int at = 0; at < subqueries.size(); at++) {
            DataSourceV2ScanRelation relation = relation((ScalarSubquery) subqueries.get(at));
            StructField[] own = relation.scan().readSchema().fields();
            List output = PaimonVariantPaths.list(relation.output());
            differ |= at > 0 && fields.size() != own.length;
            for (int i = 0; i < own.length; i++) {
                Object before = fields.put(own[i].name(), own[i]);
                if (before != null && !before.equals(own[i])) {
                    return;
                }
                differ |= at > 0 && before == null;
                columns.put(own[i].name(), output.get(i));
            }
            if (output.size() != own.length) {
                return;
            }
        }
        if (!differ) {
            return;
        }
        StructType struct = new StructType((StructField[]) fields.values().toArray(new StructField[0]));
        Map asked = new HashMap();
        asked.put("columns", struct.json());
        DataSourceV2ScanRelation first = relation((ScalarSubquery) subqueries.get(0));
        Scan scan = PaimonVariantPaths.otherScan(first, asked);
        for (int at = 0; at < subqueries.size(); at++) {
            ScalarSubquery subquery = (ScalarSubquery) subqueries.get(at);
            DataSourceV2ScanRelation relation = relation(subquery);
            Object wide = PaimonVariantPaths.with(relation, "output", output(relation, scan, columns));
            wide = PaimonVariantPaths.with((scala.Product) wide, "scan", scan);
            wide = PaimonVariantPaths.with((scala.Product) wide, "relation", first.relation());
            Object plan = ((TreeNode) (Object) subquery.plan()).transformUp(new PaimonVariantPaths.Swap(relation, wide));
            widened.put(subquery, subquery.withNewPlan((LogicalPlan) plan));
        }
    }

    private static scala.collection.immutable.Seq output(DataSourceV2ScanRelation relation, Scan scan, Map columns) {
        Map own = new HashMap();
        List before = PaimonVariantPaths.list(relation.output());
        for (int at = 0; at < before.size(); at++) {
            own.put(((AttributeReference) before.get(at)).name(), before.get(at));
        }
        List all = new ArrayList();
        String[] names = scan.readSchema().fieldNames();
        for (int at = 0; at < names.length; at++) {
            Object there = own.get(names[at]);
            all.add(there == null ? ((AttributeReference) columns.get(names[at])).newInstance() : there);
        }
        return PaimonVariantPaths.seq(all);
    }

    static final class Exchange extends scala.runtime.AbstractPartialFunction {
        private final Map widened;

        Exchange(Map widened) {
            this.widened = widened;
        }

        public boolean isDefinedAt(Object node) {
            return widened.containsKey(node);
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return widened.containsKey(node) ? widened.get(node) : otherwise.apply(node);
        }
    }
}
