import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayTransform;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.TransformValues;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Gives STRUCTs the fields that a column has and they lack: those of the old value, or null. */
public final class PaimonFilledStructs {
    /** The value with all fields of the type; the same one where it lacks none. The old value may be null. */
    public Expression filled(Expression value, DataType target, Expression old) {
        DataType given = value.dataType();
        if (!lacks(given, target)) {
            return value;
        }
        if (given instanceof StructType) {
            return struct(value, (StructType) given, (StructType) target, old);
        }
        if (given instanceof ArrayType) {
            NamedLambdaVariable item = variable(((ArrayType) given).elementType());
            Expression filled = filled(item, ((ArrayType) target).elementType(), null);
            return new ArrayTransform(value, function(filled, item));
        }
        NamedLambdaVariable key = variable(((MapType) given).keyType());
        NamedLambdaVariable item = variable(((MapType) given).valueType());
        Expression filled = filled(item, ((MapType) target).valueType(), null);
        return new TransformValues(value, function(filled, key, item));
    }

    private Expression struct(Expression value, StructType given, StructType target, Expression old) {
        List parts = new ArrayList();
        boolean[] used = new boolean[given.length()];
        for (int at = 0; at < target.length(); at++) {
            String name = target.fieldNames()[at];
            DataType type = target.fields()[at].dataType();
            Expression before = old == null ? null : field(old, at, name);
            int found = index(given, name);
            Expression part = before == null ? new Literal(null, type) : before;
            if (found >= 0) {
                used[found] = true;
                part = filled(field(value, found, given.fieldNames()[found]), type, before);
            }
            parts.add(text(name));
            parts.add(part);
        }
        for (int at = 0; at < used.length; at++) {
            if (!used[at]) { // Spark refuses it
                parts.add(text(given.fieldNames()[at]));
                parts.add(field(value, at, given.fieldNames()[at]));
            }
        }
        Expression whole = new CreateNamedStruct(sequence(parts));
        Expression none = new IsNull(value);
        none = old == null ? none : new And(none, new IsNull(old));
        return new If(none, new Literal(null, whole.dataType()), whole);
    }

    private static boolean lacks(DataType given, DataType target) {
        if (given instanceof ArrayType && target instanceof ArrayType) {
            return lacks(((ArrayType) given).elementType(), ((ArrayType) target).elementType());
        }
        if (given instanceof MapType && target instanceof MapType) {
            return lacks(((MapType) given).valueType(), ((MapType) target).valueType());
        }
        if (!(given instanceof StructType) || !(target instanceof StructType)) {
            return false;
        }
        StructType wide = (StructType) target;
        for (int at = 0; at < wide.length(); at++) {
            int found = index((StructType) given, wide.fieldNames()[at]);
            if (found < 0 || lacks(((StructType) given).fields()[found].dataType(), wide.fields()[at].dataType())) {
                return true;
            }
        }
        return false;
    }

    private static int index(StructType type, String name) {
        for (int at = 0; at < type.length(); at++) {
            if (type.fieldNames()[at].equalsIgnoreCase(name)) {
                return at;
            }
        }
        return -1;
    }

    private static Expression text(String value) {
        return new Literal(UTF8String.fromString(value), DataTypes.StringType);
    }

    private static Expression field(Expression value, int at, String name) {
        return new GetStructField(value, at, scala.Option.apply(name));
    }

    private static NamedLambdaVariable variable(DataType type) {
        return new NamedLambdaVariable("x", type, true, NamedExpression$.MODULE$.newExprId(), new AtomicReference());
    }

    private static LambdaFunction function(Expression body, NamedLambdaVariable... variables) {
        List names = new ArrayList();
        for (int at = 0; at < variables.length; at++) {
            names.add(variables[at]);
        }
        return new LambdaFunction(body, sequence(names), false);
    }

    private static scala.collection.immutable.Seq sequence(List values) {
        return scala.jdk.javaapi.CollectionConverters.asScala(values).toList();
    }
}
