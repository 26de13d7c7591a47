import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.util.Utils;

/** What Spark's UI shows of a node. The UI makes an object by the name of its class, and asks it for the text alone. */
public abstract class PaimonMetric implements CustomMetric {
    private final String name;
    private final String description;

    PaimonMetric(String name, String description) {
        this.name = name;
        this.description = description;
    }

    public String name() {
        return name;
    }

    public String description() {
        return description;
    }

    public String aggregateTaskMetrics(long[] values) {
        long sum = 0;
        for (int at = 0; at < values.length; at++) {
            sum += values[at];
        }
        return text(sum);
    }

    abstract String text(long sum);
}

/** A number of things. */
public class PaimonCountMetric extends PaimonMetric {
    public PaimonCountMetric() {
        super(null, null);
    }

    public PaimonCountMetric(String name, String description) {
        super(name, description);
    }

    String text(long sum) {
        return String.format(java.util.Locale.US, "%,d", new Object[] {Long.valueOf(sum)});
    }
}

/** The id of a snapshot. */
public class PaimonIdMetric extends PaimonMetric {
    public PaimonIdMetric() {
        super(null, null);
    }

    public PaimonIdMetric(String name, String description) {
        super(name, description);
    }

    String text(long sum) {
        return Long.toString(sum);
    }
}

/** A number of bytes. */
public class PaimonSizeMetric extends PaimonMetric {
    public PaimonSizeMetric() {
        super(null, null);
    }

    public PaimonSizeMetric(String name, String description) {
        super(name, description);
    }

    String text(long sum) {
        return Utils.bytesToString(sum);
    }
}

/** A duration in milliseconds. */
public class PaimonTimeMetric extends PaimonMetric {
    public PaimonTimeMetric() {
        super(null, null);
    }

    public PaimonTimeMetric(String name, String description) {
        super(name, description);
    }

    String text(long sum) {
        return Utils.msDurationToString(sum);
    }
}
