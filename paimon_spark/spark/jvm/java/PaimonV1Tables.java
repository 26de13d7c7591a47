import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.internal.SQLConf;

/** Views of our catalogs as tables of Spark's session catalog, which Spark resolves as its own: their queries with them. */
final class PaimonV1Tables {
    private static final String SETTING = "view.sqlConfig.";

    /** A view; its query is resolved with the settings that the session has now, as by the official connector. */
    static Object table(Map given) throws Exception {
        TableIdentifier name = new TableIdentifier(
            (String) given.get("name"),
            scala.Option.apply(given.get("database")),
            scala.Option.apply(given.get("catalog")));
        Map properties = new HashMap((Map) given.get("properties"));
        Iterator settings = ((Map) scala.jdk.javaapi.CollectionConverters.asJava(
            (scala.collection.Map) SQLConf.get().getAllConfs())).entrySet().iterator();
        while (settings.hasNext()) {
            Map.Entry setting = (Map.Entry) settings.next();
            properties.put(SETTING + setting.getKey(), setting.getValue());
        }
        Map values = new HashMap();
        values.put("properties", PythonUtils.toScalaMap(properties));
        values.put("viewText", scala.Option.apply(given.get("text")));
        values.put("viewOriginalText", scala.Option.apply(given.get("text")));
        values.put("comment", scala.Option.apply(given.get("comment")));
        return new V1Table(made(new Object[] {
            name, CatalogTableType.VIEW(), CatalogStorageFormat.empty(), PaimonAnswers.type((String) given.get("schema"))
        }, values));
    }

    /** By the names of its fields, whose number differs between versions; each has a default but for the first ones. */
    private static CatalogTable made(Object[] first, Map values) throws Exception {
        Constructor constructor = CatalogTable.class.getConstructors()[0];
        Object[] arguments = new Object[constructor.getParameterTypes().length];
        for (int at = 0; at < arguments.length; at++) {
            if (at < first.length) {
                arguments[at] = first[at];
            } else {
                Method given = CatalogTable.class.getMethod("$lessinit$greater$default$" + (at + 1), new Class[0]);
                arguments[at] = given.invoke(null, new Object[0]);
            }
        }
        CatalogTable plain = (CatalogTable) constructor.newInstance(arguments);
        for (int at = first.length; at < arguments.length; at++) {
            String field = plain.productElementName(at);
            if (values.containsKey(field)) {
                arguments[at] = values.get(field);
            }
        }
        return (CatalogTable) constructor.newInstance(arguments);
    }
}
