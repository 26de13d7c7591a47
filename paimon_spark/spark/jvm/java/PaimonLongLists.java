import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.types.StringType;
import scala.collection.immutable.Set;
import scala.jdk.javaapi.CollectionConverters;

/** Turns each long IN list of a condition into one expression, `InSet`, as Spark's optimizer does it later. */
public final class PaimonLongLists {
    private final int longest;

    public PaimonLongLists(Integer longest) {
        this.longest = longest.intValue();
    }

    public Expression shorten(Expression condition) {
        return (Expression) (Object) condition.transform(new Lists(longest));
    }

    static final class Lists extends scala.runtime.AbstractPartialFunction {
        private final int longest;

        Lists(int longest) {
            this.longest = longest;
        }

        public boolean isDefinedAt(Object node) {
            // of texts Spark may pad the values of an `In`, but not those of an `InSet`
            return node instanceof In && ((In) node).list().size() > longest
                && !(((In) node).value().dataType() instanceof StringType);
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            In in = (In) node;
            List list = CollectionConverters.asJava(in.list());
            java.util.Set values = new java.util.HashSet();
            for (int i = 0; i < list.size(); i++) {
                Expression value = (Expression) list.get(i);
                if (!value.foldable()) {
                    return node;
                }
                try {
                    values.add(value.eval(null));
                } catch (RuntimeException error) { // Spark says so when it computes the condition
                    return node;
                }
            }
            return new InSet(in.value(), (Set) CollectionConverters.asScala(values).toSet());
        }
    }
}
