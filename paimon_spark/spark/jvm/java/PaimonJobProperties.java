import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Local properties for the jobs of the SQL execution that runs in this thread. They end with it at the latest: Spark
 * tells a listener of each execution that ends, also of one that fails.
 */
public final class PaimonJobProperties extends SparkListener {
    private static final String EXECUTION = "spark.sql.execution.id";
    private static final String[] PLAIN_SOURCES = {
        "Scan", "Range", "InMemoryRelation", "LogicalRelation", "LocalRelation", "OneRow", "HiveTableRelation"
    };

    private final SparkContext context;
    private final Map given = new HashMap();
    private final Map before = new HashMap();
    private Properties properties;
    private String execution;

    public PaimonJobProperties(SparkContext context) {
        this.context = context;
    }

    /** Whether a query has so many bytes at least, by Spark's estimate, and no Python code of the user's in its jobs. */
    public boolean isPlain(LogicalPlan query, long bytes) {
        return query.stats().sizeInBytes().bigInteger().compareTo(java.math.BigInteger.valueOf(bytes)) >= 0
            && isWithoutPython(query);
    }

    private static boolean isWithoutPython(LogicalPlan plan) {
        if (plan.containsPattern(TreePattern.PYTHON_UDF())) {
            return false;
        }
        List below = CollectionConverters.asJava(plan.children());
        for (int i = 0; i < below.size(); i++) {
            if (!isWithoutPython((LogicalPlan) below.get(i))) {
                return false;
            }
        }
        return !below.isEmpty() || isPlainSource(plan);
    }

    private static boolean isPlainSource(LogicalPlan leaf) {
        if (leaf instanceof InMemoryRelation) {  // its rows may be computed by the same job
            return isWithoutPython(((InMemoryRelation) leaf).cacheBuilder().logicalPlan());
        }
        for (int i = 0; i < PLAIN_SOURCES.length; i++) {
            if (leaf.getClass().getSimpleName().contains(PLAIN_SOURCES[i])) {
                return true;
            }
        }
        return false;
    }

    /** Set the properties; does nothing outside an execution. Called in its thread. */
    public synchronized void begin(Map values) {
        execution = context.getLocalProperty(EXECUTION);
        if (execution == null) {
            return;
        }
        properties = context.getLocalProperties();
        context.addSparkListener(this);
        for (Iterator keys = values.keySet().iterator(); keys.hasNext();) {
            String key = (String) keys.next();
            before.put(key, properties.getProperty(key));
            given.put(key, values.get(key));
            properties.setProperty(key, (String) values.get(key));
        }
    }

    /** Give the properties the values that they had. */
    public synchronized void end() {
        if (given.isEmpty()) {
            return;
        }
        for (Iterator keys = given.keySet().iterator(); keys.hasNext();) {
            String key = (String) keys.next();
            if (given.get(key).equals(properties.getProperty(key))) {
                if (before.get(key) == null) {
                    properties.remove(key);
                } else {
                    properties.setProperty(key, (String) before.get(key));
                }
            }
        }
        given.clear();
        context.removeSparkListener(this);
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof SparkListenerSQLExecutionEnd
                && String.valueOf(((SparkListenerSQLExecutionEnd) event).executionId()).equals(execution)) {
            end();
        }
    }
}
