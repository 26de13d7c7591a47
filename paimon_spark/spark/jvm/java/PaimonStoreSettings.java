import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.classic.SparkSession;

/** What the active session's Hadoop configuration says about stores, without Hadoop's own defaults, as JSON. */
public final class PaimonStoreSettings implements Function {
    private static final String KEY_STORES = "hadoop.security.credential.provider.path";

    /** Takes JSON: `prefixes` of keys, `keyStores`, a setting that names stores of credentials, and the `secrets` in them. */
    public Object apply(Object given) {
        Map asked;
        try {
            asked = (Map) new ObjectMapper().readValue((String) given, Map.class);
        } catch (Exception error) {
            return "{}";
        }
        List prefixes = (List) asked.get("prefixes");
        Configuration conf = SparkSession.active().sessionState().newHadoopConf();
        Map found = new TreeMap();
        for (Iterator each = conf.iterator(); each.hasNext();) {
            String key = (String) ((Map.Entry) each.next()).getKey();
            if (starts(key, prefixes) && !isDefault(conf.getPropertySources(key))) {
                String value = conf.get(key);
                if (value != null) {
                    found.put(key, value);
                }
            }
        }
        String own = (String) asked.get("keyStores");
        String stores = own == null ? null : (String) found.get(own);
        if (stores != null) {
            String others = conf.get(KEY_STORES, "");
            conf.set(KEY_STORES, others.isEmpty() ? stores : stores + "," + others);
        }
        if (!conf.get(KEY_STORES, "").isEmpty()) {
            addSecrets(conf, (List) asked.get("secrets"), found);
        }
        try {
            return new ObjectMapper().writeValueAsString(found);
        } catch (Exception error) {
            return "{}";
        }
    }

    private static void addSecrets(Configuration conf, List keys, Map found) {
        for (Iterator each = keys.iterator(); each.hasNext();) {
            String key = (String) each.next();
            try {
                char[] value = conf.getPassword(key);
                if (value != null) {
                    found.put(key, new String(value));
                }
            } catch (Exception error) {
                return; // it says in its own reads why the store of credentials cannot be opened
            }
        }
    }

    private static boolean starts(String key, List prefixes) {
        for (int at = 0; at < prefixes.size(); at++) {
            if (key.startsWith((String) prefixes.get(at))) {
                return true;
            }
        }
        return false;
    }

    private static boolean isDefault(String[] sources) {
        return sources != null && sources.length > 0 && sources[sources.length - 1].endsWith("-default.xml");
    }

    public Function andThen(Function after) {
        throw new UnsupportedOperationException();
    }

    public Function compose(Function before) {
        throw new UnsupportedOperationException();
    }
}
