import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;

/** Stores that Python reaches with options of its own: their settings for Hadoop, by the name that Python gives them. */
public final class PaimonStores implements Function {
    private static final Map STORES = new ConcurrentHashMap();
    /** A store that does not answer is given up soon: a query waits. */
    private static final String[][] SOON = {
        {"fs.s3a.attempts.maximum", "1"},
        {"fs.s3a.retry.limit", "1"},
        {"fs.s3a.connection.establish.timeout", "5000"},
        {"fs.s3a.connection.timeout", "15000"},
        {"fs.azure.io.retry.max.retries", "1"},
        {"fs.azure.http.connection.timeout", "5000"},
        {"fs.azure.http.read.timeout", "8000"},
        {"fs.gs.http.max.retry", "1"},
        {"fs.gs.http.connect-timeout", "5000"},
        {"fs.gs.http.read-timeout", "15000"},
        {"fs.oss.attempts.maximum", "1"},
        {"fs.oss.connection.establish.timeout", "5000"},
        {"fs.oss.connection.timeout", "8000"},
        {"ipc.client.connect.max.retries", "1"},
        {"ipc.client.connect.max.retries.on.timeouts", "1"},
        {"dfs.client.failover.max.attempts", "3"},
    };

    static Map settings(String store) {
        return store == null ? new HashMap() : (Map) STORES.get(store);
    }

    /** The session's Hadoop configuration with these settings. */
    static Configuration configuration(Map settings) {
        Configuration conf = SparkSession.active().sessionState().newHadoopConf();
        for (Iterator each = settings.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            conf.set((String) entry.getKey(), (String) entry.getValue());
        }
        return conf;
    }

    /** How many bytes a file has, asked as a reader of the session would; why that is not known, by the errors' names. */
    public Object apply(Object given) {
        Map asked = (Map) given;
        Map settings = new HashMap((Map) asked.get("settings"));
        if (asked.get("store") != null) {
            STORES.put(asked.get("store"), settings);
        }
        try {
            Configuration conf = configuration(settings);
            for (int at = 0; at < SOON.length; at++) {
                conf.set(SOON[at][0], SOON[at][1]);
            }
            Path path = new Path((String) asked.get("uri"));
            FileSystem files = FileSystem.newInstance(path.toUri(), conf);
            try {
                return Long.valueOf(files.getFileStatus(path).getLen());
            } finally {
                files.close();
            }
        } catch (Exception error) {
            return names(error);
        } catch (LinkageError error) {
            return names(error);
        }
    }

    private static String names(Throwable error) {
        StringBuffer found = new StringBuffer(error.getClass().getSimpleName());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            found.append(", ").append(cause.getClass().getSimpleName());
        }
        return found.toString();
    }

    public Function andThen(Function after) {
        throw new UnsupportedOperationException();
    }

    public Function compose(Function before) {
        throw new UnsupportedOperationException();
    }
}
