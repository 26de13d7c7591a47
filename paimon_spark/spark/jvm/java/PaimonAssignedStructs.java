import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** Takes the casts from assignments that Spark put around STRUCTs of other field names: they go by position. */
public final class PaimonAssignedStructs extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
        return given(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        Expression value = given(node);
        return value == null ? otherwise.apply(node) : new Assignment(((Assignment) node).key(), value);
    }

    private static Expression given(Object node) {
        return node instanceof Assignment ? belowCast(((Assignment) node).value()) : null;
    }

    private static Expression belowCast(Expression value) {
        if (value instanceof Cast && value.getTagValue(Cast$.MODULE$.BY_TABLE_INSERTION()).isDefined()) {
            Expression child = ((Cast) value).child();
            return child.resolved() && !haveSameNames(child.dataType(), ((Cast) value).dataType()) ? child : null;
        }
        scala.collection.immutable.Seq children = value.children();
        for (int at = 0; at < children.size(); at++) {
            Expression found = belowCast((Expression) children.apply(at));
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    private static boolean haveSameNames(DataType one, DataType other) {
        if (one instanceof ArrayType && other instanceof ArrayType) {
            return haveSameNames(((ArrayType) one).elementType(), ((ArrayType) other).elementType());
        }
        if (one instanceof MapType && other instanceof MapType) {
            return haveSameNames(((MapType) one).keyType(), ((MapType) other).keyType())
                && haveSameNames(((MapType) one).valueType(), ((MapType) other).valueType());
        }
        if (!(one instanceof StructType) || !(other instanceof StructType)) {
            return true;
        }
        StructType left = (StructType) one;
        StructType right = (StructType) other;
        if (left.length() != right.length()) {
            return false;
        }
        for (int at = 0; at < left.length(); at++) {
            if (!left.fieldNames()[at].equalsIgnoreCase(right.fieldNames()[at])
                || !haveSameNames(left.fields()[at].dataType(), right.fields()[at].dataType())) {
                return false;
            }
        }
        return true;
    }
}
