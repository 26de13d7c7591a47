import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.StructType;

/** The files of a format table, whose partitions are those that the table declares: Spark guesses them from names. */
public final class PaimonFilePartitions extends InMemoryFileIndex {
    private final String root;
    private final StructType keys;
    private final boolean valuesOnly;
    private final List nullNames;
    private PartitionSpec found;

    public PaimonFilePartitions(
            SparkSession spark, String root, List listed, Map options, StructType keys, boolean valuesOnly,
            List nullNames) {
        super(
            spark,
            PythonUtils.toSeq(paths(listed)),
            PythonUtils.toScalaMap(options),
            scala.Option.empty(),
            NoopCache$.MODULE$,
            scala.Option.empty(),
            scala.Option.empty());
        this.root = new Path(root).toUri().getPath();
        this.keys = keys;
        this.valuesOnly = valuesOnly;
        this.nullNames = nullNames;
    }

    private static List paths(List texts) {
        List paths = new ArrayList();
        for (int at = 0; at < texts.size(); at++) {
            paths.add(new Path((String) texts.get(at)));
        }
        return paths;
    }

    public PartitionSpec partitionSpec() {
        if (keys == null) {
            return PartitionSpec.emptySpec();
        }
        if (found == null) {
            List partitions = new ArrayList();
            Iterator folders = ((Map) scala.jdk.javaapi.CollectionConverters.asJava(
                (scala.collection.Map) leafDirToChildrenFiles())).keySet().iterator();
            while (folders.hasNext()) {
                Path folder = (Path) folders.next();
                InternalRow values = values(folder.toUri().getPath());
                if (values != null) {
                    partitions.add(new PartitionPath(values, folder));
                }
            }
            found = new PartitionSpec(keys, PythonUtils.toSeq(partitions));
        }
        return found;
    }

    /** The values of the partition of a folder; null where it is none. */
    private InternalRow values(String folder) {
        if (!folder.startsWith(root) || folder.length() <= root.length()) {
            return null;
        }
        String[] names = folder.substring(root.length() + 1).split("/");
        if (names.length != keys.size()) {
            return null;
        }
        ZoneId zone = ZoneId.of(SQLConf.get().sessionLocalTimeZone());
        Object[] values = new Object[names.length];
        for (int at = 0; at < names.length; at++) {
            String text = names[at];
            if (!valuesOnly) {
                int sign = text.indexOf('=');
                String name = sign < 0 ? "" : ExternalCatalogUtils.unescapePathName(text.substring(0, sign));
                if (!name.equalsIgnoreCase(keys.apply(at).name())) {
                    return null;
                }
                text = text.substring(sign + 1);
            }
            text = ExternalCatalogUtils.unescapePathName(text);
            values[at] = nullNames.contains(text) ? null : value(keys.apply(at).dataType(), text, zone);
        }
        return new GenericInternalRow(values);
    }

    /** Paimon's own writer names a date by its days since 1970. */
    private static Object value(DataType type, String text, ZoneId zone) {
        if (type instanceof DateType && text.matches("[0-9]+")) {
            return Integer.valueOf(text);
        }
        return PartitioningUtils.castPartValueToDesiredType(type, text, zone);
    }
}
