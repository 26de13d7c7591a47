import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;

/** Puts the arguments of a function in the place of the attributes that stand for them in an expression. */
public final class PaimonPlaceholders extends scala.runtime.AbstractPartialFunction {
    private final List attributes;
    private final List arguments;

    public PaimonPlaceholders(List attributes, List arguments) {
        this.attributes = attributes;
        this.arguments = arguments;
    }

    public boolean isDefinedAt(Object node) {
        return at(node) >= 0;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        int at = at(node);
        return at < 0 ? otherwise.apply(node) : arguments.get(at);
    }

    /** The value of an expression whose arguments are the values of a row. */
    public Object value(Expression expression, InternalRow row) {
        List values = new ArrayList();
        for (int at = 0; at < attributes.size(); at++) {
            Attribute attribute = (Attribute) attributes.get(at);
            values.add(new Literal(row.get(at, attribute.dataType()), attribute.dataType()));
        }
        Expression whole = (Expression) expression.transformUp(new PaimonPlaceholders(attributes, values));
        return whole.eval(null);
    }

    private int at(Object node) {
        if (!(node instanceof Attribute)) {
            return -1;
        }
        for (int at = 0; at < attributes.size(); at++) {
            if (((Attribute) attributes.get(at)).exprId().equals(((Attribute) node).exprId())) {
                return at;
            }
        }
        return -1;
    }
}
