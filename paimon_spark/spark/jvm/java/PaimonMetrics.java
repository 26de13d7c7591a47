import java.io.File;
import java.io.FileOutputStream;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.util.MutableURLClassLoader;
import org.codehaus.janino.SimpleCompiler;
import scala.collection.immutable.Map$;

/**
 * Metrics of nodes. Their classes are found by Spark's own loader, as the UI loads them by name. Python asks in JSON: a
 * list of metrics that are supported, values by names, or the source of the classes.
 */
public final class PaimonMetrics implements Function {
    private static final System.Logger LOG = System.getLogger("PaimonMetrics");
    private static volatile ClassLoader sparkLoader;

    public Object apply(Object asked) {
        try {
            Object given = PaimonProxy.parsed((String) asked);
            if (given instanceof List) {
                return supported((List) given);
            }
            return given instanceof Map ? (Object) values((Map) given) : Boolean.valueOf(install((String) given));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    public Function andThen(Function after) {
        throw new UnsupportedOperationException();
    }

    public Function compose(Function before) {
        throw new UnsupportedOperationException();
    }

    /** Compile the classes for Spark's loader; whether it finds them now. */
    private static boolean install(String source) throws Exception {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        while (loader != null && !(loader instanceof MutableURLClassLoader)) {
            loader = loader.getParent();
        }
        if (loader == null) {
            return false;
        }
        try {
            Class.forName("PaimonCountMetric", false, loader);
        } catch (ClassNotFoundException absent) {
            SimpleCompiler compiler = new SimpleCompiler();
            compiler.setParentClassLoader(loader);
            compiler.cook(source);
            File folder = java.nio.file.Files.createTempDirectory(
                "paimon-metrics", new java.nio.file.attribute.FileAttribute[0]).toFile();
            folder.deleteOnExit();
            Iterator classes = compiler.getBytecodes().entrySet().iterator();
            while (classes.hasNext()) {
                Map.Entry each = (Map.Entry) classes.next();
                File file = new File(folder, each.getKey() + ".class");
                file.deleteOnExit();
                FileOutputStream out = new FileOutputStream(file);
                out.write((byte[]) each.getValue());
                out.close();
            }
            ((MutableURLClassLoader) loader).addURL(folder.toURI().toURL());
            Class.forName("PaimonCountMetric", true, loader);
        }
        sparkLoader = loader;
        return true;
    }

    /** Metrics of kinds, names and descriptions. */
    static CustomMetric[] supported(List described) throws Exception {
        CustomMetric[] found = new CustomMetric[described.size()];
        Class[] texts = new Class[] {String.class, String.class};
        for (int at = 0; at < found.length; at++) {
            List each = (List) described.get(at);
            Class kind = Class.forName("Paimon" + each.get(0) + "Metric", true, sparkLoader);
            found[at] = (CustomMetric) kind.getConstructor(texts)
                .newInstance(new Object[] {each.get(1), each.get(2)});
        }
        return found;
    }

    /** Values by the names of metrics. */
    static CustomTaskMetric[] values(Map values) {
        CustomTaskMetric[] found = new CustomTaskMetric[values.size()];
        Iterator each = values.entrySet().iterator();
        for (int at = 0; at < found.length; at++) {
            Map.Entry entry = (Map.Entry) each.next();
            found[at] = new Value((String) entry.getKey(), ((Number) entry.getValue()).longValue());
        }
        return found;
    }

    /** Metrics of a node as Spark keeps them, by their names. */
    static scala.collection.immutable.Map ofNode(String described) {
        scala.collection.immutable.Map found = (scala.collection.immutable.Map) (Object) Map$.MODULE$.empty();
        try {
            CustomMetric[] metrics = supported((List) PaimonProxy.parsed(described));
            for (int at = 0; at < metrics.length; at++) {
                Object metric = SQLMetrics.createV2CustomMetric(SparkContext.getOrCreate(), metrics[at]);
                found = (scala.collection.immutable.Map) (Object) found.updated(metrics[at].name(), metric);
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        return found;
    }

    /** Let the UI show values of metrics of the node that runs now. A statement that is done fails for no metric. */
    static void post(scala.collection.immutable.Map metrics, String values) {
        try {
            postValues(metrics, values);
        } catch (Exception error) {
            LOG.log(System.Logger.Level.INFO, "Spark's UI shows no metrics of a statement", error);
        }
    }

    private static void postValues(scala.collection.immutable.Map metrics, String values) throws Exception {
        List posted = new ArrayList();
        CustomTaskMetric[] known = values((Map) PaimonProxy.parsed(values));
        for (int at = 0; at < known.length; at++) {
            if (metrics.contains(known[at].name())) {
                SQLMetric metric = (SQLMetric) metrics.apply(known[at].name());
                metric.set(known[at].value());
                posted.add(metric);
            }
        }
        SparkContext context = SparkContext.getOrCreate();
        SQLMetrics.postDriverMetricUpdates(
            context, context.getLocalProperty("spark.sql.execution.id"),
            (scala.collection.immutable.Seq) (Object) scala.jdk.javaapi.CollectionConverters.asScala(posted).toList());
    }

    static final class Value implements CustomTaskMetric {
        private final String name;
        private final long value;

        Value(String name, long value) {
            this.name = name;
            this.value = value;
        }

        public String name() {
            return name;
        }

        public long value() {
            return value;
        }
    }
}
