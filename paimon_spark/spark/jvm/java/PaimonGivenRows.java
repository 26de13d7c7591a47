import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** Plans over given rows, evaluated by Spark's interpreter: projections, filters, and joins of few rows. */
public final class PaimonGivenRows {
    private static final int MOST_STEPS = 100;
    private static final long MOST_PAIRS = 200000;

    private PaimonGivenRows() {
    }

    /** The plan with all that lies over given rows evaluated, as far as it can be. */
    static TreeNode evaluated(TreeNode plan, boolean joins) {
        TreeNode found = plan;
        for (int step = 0; step < MOST_STEPS; step++) {  // each evaluates what lies directly over given rows
            TreeNode given = joins ? found.transformUp(new Sources()) : found;
            TreeNode next = ConvertToLocalRelation$.MODULE$.apply((LogicalPlan) given);
            if (next == found || next.fastEquals(found)) {
                break;
            }
            found = next;
        }
        return found;
    }

    static LocalRelation relation(LogicalPlan plan, List rows) {
        return new LocalRelation(plan.output(), scala.jdk.javaapi.CollectionConverters.asScala(rows).toList(), false,
            Option.apply(null));
    }

    static final class Sources extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof OneRowRelation || (node instanceof Join
                && ((Join) node).left() instanceof LocalRelation && ((Join) node).right() instanceof LocalRelation);
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            if (node instanceof OneRowRelation) {
                return relation((LogicalPlan) node, Collections.singletonList(new GenericInternalRow(new Object[0])));
            }
            try {
                List rows = joined((Join) node);
                return rows == null ? node : relation((LogicalPlan) node, rows);
            } catch (RuntimeException error) {  // a job says so, if it comes to such a pair
                return node;
            }
        }
    }

    private static List joined(Join join) {
        LocalRelation left = (LocalRelation) (Object) join.left();
        LocalRelation right = (LocalRelation) (Object) join.right();
        List lefts = PaimonVariantPaths.list(left.data());
        List rights = PaimonVariantPaths.list(right.data());
        if ((long) lefts.size() * rights.size() > MOST_PAIRS) {
            return null;
        }
        List columns = new ArrayList(PaimonVariantPaths.list(left.output()));
        columns.addAll(PaimonVariantPaths.list(right.output()));
        InterpretedPredicate condition = null;
        if (join.condition().isDefined()) {
            Expression bound = (Expression) ((TreeNode) join.condition().get()).transformUp(new Bound(columns));
            if (!bound.deterministic() || !isEvaluable((TreeNode) (Object) bound)) {
                return null;
            }
            condition = new InterpretedPredicate(bound);
            condition.initialize(0);
        }
        return pairs(join.joinType().sql(), condition, lefts, rights, left.output().size(), right.output().size(),
            projection(PaimonVariantPaths.list(join.output())));
    }

    private static List pairs(
            String kind, InterpretedPredicate condition, List lefts, List rights, int leftColumns, int rightColumns,
            UnsafeProjection projection) {
        boolean one = kind.equals("LEFT SEMI") || kind.equals("LEFT ANTI");
        boolean keepsLeft = kind.equals("LEFT OUTER") || kind.equals("FULL OUTER");
        boolean keepsRight = kind.equals("RIGHT OUTER") || kind.equals("FULL OUTER");
        if (!one && !keepsLeft && !keepsRight && !kind.equals("INNER") && !kind.equals("CROSS")) {
            return null;
        }
        InternalRow noLeft = new GenericInternalRow(new Object[leftColumns]);
        InternalRow noRight = new GenericInternalRow(new Object[rightColumns]);
        boolean[] matched = new boolean[rights.size()];
        JoinedRow pair = new JoinedRow();
        List found = new ArrayList();
        for (int at = 0; at < lefts.size(); at++) {
            InternalRow left = (InternalRow) lefts.get(at);
            boolean any = false;
            for (int other = 0; other < rights.size(); other++) {
                pair.apply(left, (InternalRow) rights.get(other));
                if (condition == null || condition.eval(pair)) {
                    any = true;
                    matched[other] = true;
                    if (!one) {
                        found.add(projection.apply(pair).copy());
                    }
                }
            }
            if (one && any == kind.equals("LEFT SEMI")) {
                found.add(left);
            } else if (!any && keepsLeft) {
                found.add(projection.apply(pair.apply(left, noRight)).copy());
            }
        }
        for (int other = 0; keepsRight && other < matched.length; other++) {
            if (!matched[other]) {
                found.add(projection.apply(pair.apply(noLeft, (InternalRow) rights.get(other))).copy());
            }
        }
        return found;
    }

    private static UnsafeProjection projection(List output) {
        StructField[] fields = new StructField[output.size()];
        for (int at = 0; at < fields.length; at++) {
            AttributeReference column = (AttributeReference) output.get(at);
            fields[at] = new StructField(Integer.toString(at), column.dataType(), true, column.metadata());
        }
        return UnsafeProjection.create(new StructType(fields));
    }

    private static boolean isEvaluable(TreeNode node) {
        if (node instanceof Unevaluable || node instanceof SubqueryExpression) {
            return false;
        }
        List children = PaimonVariantPaths.list(node.children());
        for (int at = 0; at < children.size(); at++) {
            if (!isEvaluable((TreeNode) children.get(at))) {
                return false;
            }
        }
        return true;
    }

    /** Columns as their places in a pair of rows. */
    static final class Bound extends scala.runtime.AbstractPartialFunction {
        private final Map places = new HashMap();

        Bound(List columns) {
            for (int at = 0; at < columns.size(); at++) {
                places.put(Long.valueOf(((AttributeReference) columns.get(at)).exprId().id()), Integer.valueOf(at));
            }
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference
                && places.containsKey(Long.valueOf(((AttributeReference) node).exprId().id()));
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            AttributeReference column = (AttributeReference) node;
            int place = ((Integer) places.get(Long.valueOf(column.exprId().id()))).intValue();
            return new BoundReference(place, column.dataType(), true);
        }
    }
}
