import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Unhex;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.LongType$;

/** Says with Long.reverseBytes what `bucket_expression` says with hexadecimal digits: it takes a third of the time. */
public final class PaimonLittleEndian extends scala.runtime.AbstractPartialFunction {
    private static final String[] NAMES = new String[] {
        "Reverse", "StringLPad", "Hex", "BitwiseOr", "ShiftLeft", "BitwiseAnd"
    };

    public boolean isDefinedAt(Object node) {
        return number(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        Expression number = number(node);
        if (number == null) {
            return otherwise.apply(node);
        }
        List arguments = new ArrayList();
        arguments.add(number);
        Expression turned = new StaticInvoke(
            Long.class, LongType$.MODULE$, "reverseBytes", sequence(arguments), sequence(new ArrayList()),
            true, true, true, scala.Option.apply(null));
        return new Cast(turned, BinaryType$.MODULE$, scala.Option.apply(null), EvalMode$.MODULE$.LEGACY());
    }

    private static scala.collection.immutable.Seq sequence(List values) {
        return scala.jdk.javaapi.CollectionConverters.asScala(values).toList();
    }

    private static Expression number(Object node) {
        if (!(node instanceof Unhex)) {
            return null;
        }
        Object found = node;
        for (String name : NAMES) {
            found = ((Expression) found).children().apply(0);
            if (!found.getClass().getSimpleName().equals(name)) {
                return null;
            }
        }
        return (Expression) ((Expression) found).children().apply(0);
    }
}
