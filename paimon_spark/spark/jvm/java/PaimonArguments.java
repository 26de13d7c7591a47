import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Arguments of Spark's calls as plain values of JSON; `catalog/expressions.py` reads the trees of expressions. */
final class PaimonArguments {
    static Object encode(Object value) {
        if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) {
            return value;
        }
        if (value instanceof Object[]) {
            Object[] values = (Object[]) value;
            List encoded = new ArrayList();
            for (int at = 0; at < values.length; at++) {
                encoded.add(encode(values[at]));
            }
            return encoded;
        }
        if (value instanceof Identifier) {
            List named = new ArrayList();
            named.add(Arrays.asList((Object[]) ((Identifier) value).namespace()));
            named.add(((Identifier) value).name());
            return named;
        }
        if (value instanceof CaseInsensitiveStringMap) {
            return ((CaseInsensitiveStringMap) value).asCaseSensitiveMap();
        }
        if (value instanceof StructType) {
            return ((StructType) value).json();
        }
        if (value instanceof Aggregation) {
            return aggregation((Aggregation) value);
        }
        if (value instanceof Expression) {
            return expression((Expression) value);
        }
        if (value instanceof Offset) {
            return ((Offset) value).json();
        }
        if (value instanceof ReadLimit) {
            return Boolean.valueOf(value instanceof ReadAllAvailable);
        }
        if (value instanceof Optional) {
            return encode(((Optional) value).orElse(null));
        }
        if (value instanceof Collection) {
            List texts = new ArrayList();
            for (Iterator all = ((Collection) value).iterator(); all.hasNext();) {
                texts.add(String.valueOf(all.next()));
            }
            return texts;
        }
        return context(value);
    }

    /** What of the session's settings is wanted: whole keys, and prefixes, which end in a dot. */
    static Map settings(List wanted) {
        Map found = new HashMap();
        for (int at = 0; at < wanted.size(); at++) {
            String key = (String) wanted.get(at);
            Map set = SQLConf.get().settings();
            if (!key.endsWith(".")) {
                if (set.containsKey(key)) {
                    found.put(key, set.get(key));
                }
                continue;
            }
            synchronized (set) {
                for (Iterator all = set.entrySet().iterator(); all.hasNext();) {
                    Map.Entry entry = (Map.Entry) all.next();
                    if (((String) entry.getKey()).startsWith(key)) {
                        found.put(entry.getKey(), entry.getValue());
                    }
                }
            }
        }
        return found;
    }

    static boolean isCalledBy(String end) {
        StackTraceElement[] frames = Thread.currentThread().getStackTrace();
        for (int at = 0; at < frames.length; at++) {
            if (frames[at].getClassName().endsWith(end)) {
                return true;
            }
        }
        return false;
    }

    private static List list(Object[] values) {
        return new ArrayList(Arrays.asList(values));
    }

    private static List aggregation(Aggregation aggregation) {
        List calls = new ArrayList();
        AggregateFunc[] functions = aggregation.aggregateExpressions();
        for (int at = 0; at < functions.length; at++) {
            AggregateFunc call = functions[at];
            boolean distinct = call instanceof Count && ((Count) call).isDistinct()
                || call instanceof Sum && ((Sum) call).isDistinct() || call instanceof Avg && ((Avg) call).isDistinct();
            String kind = call.getClass().getSimpleName();
            Object columns = encode(call.children());
            calls.add(list(new Object[] {kind, Boolean.valueOf(distinct), columns}));
        }
        return list(new Object[] {calls, encode(aggregation.groupByExpressions())});
    }

    private static List expression(Expression node) {
        String kind = node.getClass().getSimpleName();
        if (node instanceof LiteralValue) {
            LiteralValue literal = (LiteralValue) node;
            Object value = literal.value();
            String type = literal.dataType().simpleString();
            return list(new Object[] {"literal", type, value(value)});
        }
        if (kind.equals("FieldReference")) {
            return list(new Object[] {"field", Arrays.asList((Object[]) ((NamedReference) node).fieldNames())});
        }
        if (!(node instanceof Predicate)) {
            return list(new Object[] {"other", kind});
        }
        Expression[] children = node.children();
        String name = ((Predicate) node).name();
        if (name.equals("IN") && children.length > 1) {
            List values = values(children);
            if (values != null) {
                String type = ((LiteralValue) children[1]).dataType().simpleString();
                return list(new Object[] {"in", expression(children[0]), type, values});
            }
        }
        return list(new Object[] {"predicate", kind, name, encode(children)});
    }

    /** The values behind the first child, if they are literals of one type. */
    private static List values(Expression[] children) {
        List values = new ArrayList(children.length);
        Object type = null;
        for (int at = 1; at < children.length; at++) {
            if (!(children[at] instanceof LiteralValue)) {
                return null;
            }
            LiteralValue literal = (LiteralValue) children[at];
            if (type != null && !type.equals(literal.dataType())) {
                return null;
            }
            type = literal.dataType();
            values.add(value(literal.value()));
        }
        return values;
    }

    private static Object value(Object value) {
        if (value == null || value instanceof Boolean) {
            return value;
        }
        String kind = null;
        Object text = value.toString();
        if (value instanceof Float || value instanceof Double) {
            kind = "float";
        } else if (value instanceof Decimal) {
            kind = "decimal";
            text = ((Decimal) value).toJavaBigDecimal().toString();
        } else if (value instanceof byte[]) {
            kind = "bytes";
            text = Base64.getEncoder().encodeToString((byte[]) value);
        } else if (value instanceof Number) {
            return value;
        }
        return kind == null ? text : list(new Object[] {kind, text});
    }

    /** Spark 4.3's TableContext, which earlier versions have not. */
    private static Object context(Object context) {
        Map found = new HashMap();
        Optional travel = (Optional) call(context, "timeTravel");
        if (travel.isPresent()) {
            boolean version = travel.get().getClass().getSimpleName().indexOf("Version") >= 0;
            found.put(version ? "version" : "micros", call(travel.get(), version ? "version" : "micros"));
        }
        found.put("writes", Boolean.valueOf(!((Collection) call(context, "writePrivileges")).isEmpty()));
        return found;
    }

    private static Object call(Object target, String name) {
        try {
            Method method = target.getClass().getMethod(name, new Class[0]);
            method.setAccessible(true);
            return method.invoke(target, new Object[0]);
        } catch (ReflectiveOperationException error) {
            throw new UnsupportedOperationException("Paimon does not know an argument of Spark's: " + target, error);
        }
    }
}
