import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ElementAt;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetMapValue;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;

/**
 * An optimizer rule: a scan of ours is given which values a query wants of keys of maps, as a filter over the column
 * {@code map.key}. Spark pushes no such filter down. It evaluates the condition itself, too.
 */
public final class PaimonMapKeys extends Rule {
    /** Scans that know their filters: an optimizer runs its rules more than once. */
    private static final Map REPORTED = Collections.synchronizedMap(new WeakHashMap());

    public TreeNode apply(TreeNode plan) {
        plan.foreach(new Visit());
        return plan;
    }

    static final class Visit extends scala.runtime.AbstractFunction1 {
        public Object apply(Object node) {
            if (node instanceof Filter) {
                report((Filter) node);
            }
            return scala.runtime.BoxedUnit.UNIT;
        }
    }

    private static void report(Filter node) {
        scala.Option operation = (scala.Option) PhysicalOperation.unapply(node);
        if (operation.isEmpty() || !(((scala.Tuple3) operation.get())._3() instanceof DataSourceV2ScanRelation)) {
            return;
        }
        scala.Tuple3 found = (scala.Tuple3) operation.get();
        Scan scan = ((DataSourceV2ScanRelation) found._3()).scan();
        if (!(scan instanceof SupportsRuntimeV2Filtering) || !PaimonProxy.isOurs(scan)) {
            return;
        }
        List filters = PaimonVariantPaths.list(found._2());
        List predicates = new ArrayList();
        for (int at = 0; at < filters.size(); at++) {
            Predicate predicate = translated((Expression) filters.get(at));
            if (predicate != null) {
                predicates.add(predicate);
            }
        }
        Object handler = java.lang.reflect.Proxy.getInvocationHandler(scan);
        if (!predicates.isEmpty() && !predicates.equals(REPORTED.put(handler, predicates))) {
            ((SupportsRuntimeV2Filtering) scan).filter((Predicate[]) predicates.toArray(new Predicate[0]));
        }
    }

    private static Predicate translated(Expression condition) {
        if (condition instanceof EqualTo) {
            Expression left = ((EqualTo) condition).left();
            Expression right = ((EqualTo) condition).right();
            boolean mirrored = left instanceof Literal;
            List one = Collections.singletonList(mirrored ? left : right);
            return predicate("=", mirrored ? right : left, one);
        }
        if (condition instanceof In) {
            return predicate("IN", ((In) condition).value(), PaimonVariantPaths.list(((In) condition).list()));
        }
        if (condition instanceof InSet) {
            Expression value = ((InSet) condition).child();
            List literals = new ArrayList();
            List values = PaimonVariantPaths.list(((InSet) condition).hset());
            for (int at = 0; at < values.size(); at++) {
                literals.add(new Literal(values.get(at), value.dataType()));
            }
            return predicate("IN", value, literals);
        }
        return null;
    }

    private static Predicate predicate(String name, Expression value, List literals) {
        org.apache.spark.sql.connector.expressions.Expression column = column(value);
        if (column == null) {
            return null;
        }
        org.apache.spark.sql.connector.expressions.Expression[] children =
            new org.apache.spark.sql.connector.expressions.Expression[literals.size() + 1];
        children[0] = column;
        for (int at = 0; at < literals.size(); at++) {
            if (!(literals.get(at) instanceof Literal)) {
                return null;
            }
            Literal literal = (Literal) literals.get(at);
            children[at + 1] = new LiteralValue(literal.value(), literal.dataType());
        }
        return new Predicate(name, children);
    }

    /** A key of a map as a column; null for anything else. */
    private static org.apache.spark.sql.connector.expressions.Expression column(Expression value) {
        Expression map = null;
        Expression key = null;
        if (value instanceof GetMapValue) {
            map = ((GetMapValue) value).child();
            key = ((GetMapValue) value).key();
        } else if (value instanceof ElementAt) {
            map = ((ElementAt) value).left();
            key = ((ElementAt) value).right();
        }
        if (!(map instanceof AttributeReference) || !(key instanceof Literal) || ((Literal) key).value() == null) {
            return null;
        }
        DataType type = map.dataType();
        if (!(type instanceof MapType) || !(((MapType) type).keyType() instanceof StringType)) {
            return null;
        }
        String name = quoted(((AttributeReference) map).name()) + "." + quoted(((Literal) key).value().toString());
        return Expressions.column(name);
    }

    private static String quoted(String name) {
        return "`" + name.replace("`", "``") + "`";
    }
}
