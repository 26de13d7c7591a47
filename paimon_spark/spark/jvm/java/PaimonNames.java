import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.internal.SessionState;

/** What the name of a table means in a session, in one answer. */
public final class PaimonNames {
    /** JSON of JSON, the parts of the name: the catalog, the id of its Python object, the namespace and the name. */
    public String of(SessionState state, String json) throws Exception {
        CatalogManager manager = state.catalogManager();
        List parts = (List) PaimonProxy.parsed(json);
        boolean named = parts.size() > 1 && manager.isCatalogRegistered((String) parts.get(0));
        CatalogPlugin catalog = named ? manager.catalog((String) parts.get(0)) : manager.currentCatalog();
        List namespace = new ArrayList(parts.subList(named ? 1 : 0, Math.max(0, parts.size() - 1)));
        if (namespace.isEmpty() && !named) {
            namespace = Arrays.asList((Object[]) manager.currentNamespace());
        }
        Map found = new HashMap();
        found.put("catalog", catalog.name());
        found.put("id", PaimonProxy.idOf(catalog));
        found.put("namespace", namespace);
        found.put("name", parts.isEmpty() ? "" : parts.get(parts.size() - 1));
        return PaimonProxy.json(found);
    }
}
