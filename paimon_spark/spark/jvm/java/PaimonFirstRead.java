import java.io.File;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.parquet.VectorizedParquetRecordReader;
import org.apache.spark.sql.types.StructType;

/** Does what the first scan of a session does before its first row, so that the scan finds it done. */
public final class PaimonFirstRead implements Function {
    /** Read a Parquet file, given as bytes; make the file system of a store, as Hadoop keeps it for tasks of this JVM. */
    public Object apply(Object given) {
        Map asked = (Map) given;
        try {
            read((byte[]) asked.get("parquet"));
            if (asked.get("settings") != null) {
                Path path = new Path((String) asked.get("uri"));
                Configuration conf = PaimonStores.configuration((Map) asked.get("settings"));
                FileSystem.get(path.toUri(), conf).exists(path);
            }
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        } catch (LinkageError error) {
            return error.getClass().getSimpleName();
        }
        return "";
    }

    private static void read(byte[] parquet) throws Exception {
        File file = File.createTempFile("paimon", ".parquet");
        try {
            Files.write(file.toPath(), parquet, new OpenOption[0]);
            VectorizedParquetRecordReader reader = new VectorizedParquetRecordReader(false, 4096);
            try {
                reader.initialize(file.toURI().toString(), null);
                reader.initBatch((StructType) null, (InternalRow) null);
                reader.enableReturningBatches();
                while (reader.nextBatch()) {
                }
            } finally {
                reader.close();
            }
        } finally {
            file.delete();
        }
    }

    public Function andThen(Function after) {
        throw new UnsupportedOperationException();
    }

    public Function compose(Function before) {
        throw new UnsupportedOperationException();
    }
}
