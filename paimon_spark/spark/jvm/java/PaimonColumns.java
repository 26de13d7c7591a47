import org.apache.spark.sql.catalyst.expressions.Attribute;

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
}
