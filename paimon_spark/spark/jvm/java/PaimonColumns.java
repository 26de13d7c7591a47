import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** What Python asks of many columns at once. */
public final class PaimonColumns {
    /** The ids of columns, a line each. */
    public String ids(scala.collection.Iterable columns) {
        StringBuilder found = new StringBuilder();
        scala.collection.Iterator rest = columns.iterator();
        while (rest.hasNext()) {
            found.append(found.length() == 0 ? "" : "\n").append(((Attribute) rest.next()).exprId().toString());
        }
        return found.toString();
    }

    /** An expression that names other columns instead of these, each the one at the same place of its list. */
    public Expression renamed(Expression expression, List columns, List others) {
        Map by = new HashMap();
        for (int at = 0; at < columns.size(); at++) {
            by.put(((Attribute) columns.get(at)).exprId(), others.get(at));
        }
        return (Expression) expression.transformUp(new Swap(by));
    }

    static final class Swap extends scala.runtime.AbstractPartialFunction {
        private final Map by;

        Swap(Map by) {
            this.by = by;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference && by.containsKey(((AttributeReference) node).exprId());
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return isDefinedAt(node) ? by.get(((AttributeReference) node).exprId()) : otherwise.apply(node);
        }
    }
}
