import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.variant.VariantGet;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What aggregates take out of VARIANT columns of ours becomes columns of a projection below them, as Spark 4.3 does for
 * its own sources: then the scan sees the paths.
 */
final class PaimonVariantAggregates {
    private final Set variants = new HashSet();
    private final Map aliases = new HashMap();
    private final List added = new ArrayList();

    /** The aggregate over such a projection; null where no column is spared by that. */
    static LogicalPlan hoisted(Aggregate aggregate) {
        scala.Option operation = (scala.Option) PhysicalOperation.unapply(aggregate.child());
        if (PaimonVariantPaths.relation(operation) == null) {
            return null;
        }
        PaimonVariantAggregates hoist = new PaimonVariantAggregates();
        List columns = PaimonVariantPaths.list(aggregate.child().output());
        for (int at = 0; at < columns.size(); at++) {
            if (((Attribute) columns.get(at)).dataType() instanceof VariantType) {
                hoist.variants.add(((Attribute) columns.get(at)).exprId());
            }
        }
        List groups = hoist.all(PaimonVariantPaths.list(aggregate.groupingExpressions()));
        List results = hoist.all(PaimonVariantPaths.list(aggregate.aggregateExpressions()));
        if (hoist.added.isEmpty()) {
            return null;
        }
        AttributeSet needed = AttributeSet.fromAttributeSets(PaimonVariantPaths.seq(new ArrayList()));
        List expressions = new ArrayList(groups);
        expressions.addAll(results);
        for (int at = 0; at < expressions.size(); at++) {
            needed = needed.$plus$plus(((Expression) expressions.get(at)).references());
        }
        List kept = new ArrayList();
        boolean spared = false;
        for (int at = 0; at < columns.size(); at++) {
            Attribute column = (Attribute) columns.get(at);
            boolean wanted = needed.contains(column);
            spared |= !wanted && hoist.variants.contains(column.exprId());
            if (wanted) {
                kept.add(column);
            }
        }
        if (!spared) {
            return null;
        }
        kept.addAll(hoist.added);
        Object child = new Project(PaimonVariantPaths.seq(kept), aggregate.child());
        Object changed = PaimonVariantPaths.with(
            aggregate, "groupingExpressions", PaimonVariantPaths.seq(groups));
        changed = PaimonVariantPaths.with(
            (scala.Product) changed, "aggregateExpressions", PaimonVariantPaths.seq(results));
        return (LogicalPlan) PaimonVariantPaths.with((scala.Product) changed, "child", child);
    }

    private List all(List expressions) {
        List found = new ArrayList();
        for (int at = 0; at < expressions.size(); at++) {
            found.add(replaced((Expression) expressions.get(at), true));
        }
        return found;
    }

    /**
     * An expression with columns for what it takes out.
     *
     * @param always whether it is evaluated for each row: only then may it fail in the projection
     */
    private Expression replaced(Expression expression, boolean always) {
        if (expression instanceof VariantGet) {
            VariantGet get = (VariantGet) expression;
            if (get.child() instanceof AttributeReference && get.path() instanceof Literal
                && !"$".equals(String.valueOf(((Literal) get.path()).value()))
                && variants.contains(((AttributeReference) get.child()).exprId())) {
                return always || !get.failOnError() ? column(get) : inner(get);
            }
        }
        boolean still = always && (expression instanceof Alias || expression instanceof AggregateFunction
            || expression instanceof BinaryArithmetic || expression instanceof Cast
            || expression instanceof AggregateExpression && ((AggregateExpression) expression).filter().isEmpty());
        List children = PaimonVariantPaths.list(expression.children());
        List changed = new ArrayList();
        boolean same = true;
        for (int at = 0; at < children.size(); at++) {
            Expression child = replaced((Expression) children.get(at), still);
            same &= child == children.get(at);
            changed.add(child);
        }
        return same ? expression : (Expression) (Object) expression.withNewChildren(PaimonVariantPaths.seq(changed));
    }

    /** The cast of a value of which only the path is evaluated in the projection, which never fails. */
    private Expression inner(VariantGet get) {
        VariantGet part =
            new VariantGet(get.child(), get.path(), (DataType) VARIANT, false, get.timeZoneId());
        Literal whole = new Literal(UTF8String.fromString("$"), DataTypes.StringType);
        return new VariantGet(column(part), whole, get.dataType(), get.failOnError(), get.timeZoneId());
    }

    private static final DataType VARIANT = DataTypes.VariantType;

    private Expression column(VariantGet get) {
        Object key = get.canonicalized();
        if (!aliases.containsKey(key)) {
            Alias alias = new Alias(
                get, "_variant_path_" + added.size(), NamedExpression$.MODULE$.newExprId(),
                PaimonVariantPaths.seq(new ArrayList()), scala.Option.empty(), PaimonVariantPaths.seq(new ArrayList()));
            aliases.put(key, alias.toAttribute());
            added.add(alias);
        }
        return (Expression) aliases.get(key);
    }
}
