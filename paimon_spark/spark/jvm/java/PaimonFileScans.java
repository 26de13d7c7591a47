import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Scans of format tables by Spark's own sources of files. */
final class PaimonFileScans {
    private static final String SOURCES = "org.apache.spark.sql.execution.datasources.v2.";

    static Object builder(Map given) throws Exception {
        SparkSession spark = SparkSession.active();
        StructType keys = given.get("keys") == null ? null : (StructType) PaimonAnswers.type((String) given.get("keys"));
        PartitioningAwareFileIndex files = new PaimonFilePartitions(
            spark, (String) given.get("path"), (List) given.get("listed"), (Map) given.get("options"), keys,
            ((Boolean) given.get("valuesOnly")).booleanValue(), (List) given.get("nullNames"));
        Class builder = Class.forName(SOURCES + given.get("package") + "." + given.get("format") + "ScanBuilder");
        Object[] arguments = new Object[] {
            spark, files, PaimonAnswers.type((String) given.get("schema")),
            PaimonAnswers.type((String) given.get("data")), new CaseInsensitiveStringMap((Map) given.get("options"))
        };
        return (ScanBuilder) builder.getConstructors()[0].newInstance(arguments);
    }
}
