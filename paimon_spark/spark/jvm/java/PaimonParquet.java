import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScan;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScanBuilder;
import org.apache.spark.sql.internal.connector.PredicateUtils;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** Spark's vectorised Parquet reader over exactly the files that Python names (`native_scan.py`). */
public final class PaimonParquet {
    /** Of batches with more files nothing is kept by which they could be compared. */
    private static final int MOST_COMPARED = 10000;
    /** Each range of a local file is read by another thread: of small files that takes longer than the reading. */
    private static final String VECTORED_READS = "parquet.hadoop.vectored.io.enabled";

    public static Batch batch(Map given, Object[] pushed) throws Exception {
        StructType data = (StructType) PaimonAnswers.type((String) given.get("data"));
        Predicate[] filters = new Predicate[((List) given.get("filters")).size()];
        for (int at = 0; at < filters.length; at++) {
            filters[at] = (Predicate) pushed[((Number) ((List) given.get("filters")).get(at)).intValue()];
        }
        Map options = new HashMap((Map) given.get("options"));
        options.putAll(PaimonStores.settings((String) given.get("store")));
        if (Boolean.TRUE.equals(given.get("local")) && !isSet(VECTORED_READS)) {
            options.put(VECTORED_READS, "false");
        }
        ParquetScan reader = scan(data, filters, options);
        if (given.get("partition") != null) {
            PaimonAnswers.set(reader, "readPartitionSchema", PaimonAnswers.type((String) given.get("partition")));
        }
        List kinds = (List) given.get("kinds");
        InputPartition[] tasks = partitions(kinds, (List) given.get("rows"), (List) given.get("tasks"));
        List said = MOST_COMPARED < files(tasks) ? null : Arrays.asList(new Object[] {
            given.get("data"), given, Arrays.asList((Object[]) filters)});
        return new PaimonAnswers.Files("PaimonParquetBatch", tasks, reader.createReaderFactory(), said);
    }

    private static boolean isSet(String key) {
        org.apache.spark.sql.classic.SparkSession session = org.apache.spark.sql.classic.SparkSession.active();
        return session.sparkContext().hadoopConfiguration().get(key) != null
            || session.sessionState().conf().contains(key);
    }

    private static int files(InputPartition[] tasks) {
        int found = 0;
        for (int at = 0; at < tasks.length; at++) {
            found += ((FilePartition) tasks[at]).files().length;
        }
        return found;
    }

    /** A scan of these columns over no files: its readers take whatever files they are given. */
    private static ParquetScan scan(StructType schema, Predicate[] filters, Map options) {
        org.apache.spark.sql.classic.SparkSession session = org.apache.spark.sql.classic.SparkSession.active();
        InMemoryFileIndex index = new InMemoryFileIndex(
            session, PythonUtils.toSeq(new ArrayList()), nothing(), Option.apply(schema), NoopCache$.MODULE$,
            Option.empty(), Option.empty());
        ParquetScanBuilder builder =
            new ParquetScanBuilder(session, index, schema, schema, new CaseInsensitiveStringMap(options));
        builder.pushedDataFilters_$eq(PredicateUtils.toV1(filters));
        return builder.build();
    }

    private static scala.collection.immutable.Map nothing() {
        return PythonUtils.toScalaMap(new HashMap());
    }

    /** Values of partition columns as Spark keeps them; `native_scan.py` says what kinds there are. */
    static InternalRow[] partitions(List kinds, List rows) {
        InternalRow[] partitions = new InternalRow[rows.size()];
        for (int at = 0; at < partitions.length; at++) {
            Object[] values = ((List) rows.get(at)).toArray();
            for (int i = 0; i < values.length; i++) {
                values[i] = constant(values[i], kinds.get(i));
            }
            partitions[at] = new GenericInternalRow(values);
        }
        return partitions;
    }

    private static InputPartition[] partitions(List kinds, List rows, List tasks) {
        InternalRow[] partitions = partitions(kinds, rows);
        String[] nowhere = new String[0];
        scala.collection.immutable.Map constants = nothing();
        InputPartition[] result = new InputPartition[tasks.size()];
        for (int at = 0; at < result.length; at++) {
            List wanted = (List) tasks.get(at);
            PartitionedFile[] files = new PartitionedFile[wanted.size()];
            for (int i = 0; i < files.length; i++) {
                List file = (List) wanted.get(i);
                files[i] = new PartitionedFile(
                    partitions[((Number) file.get(0)).intValue()], SparkPath.fromPathString((String) file.get(1)),
                    number(file.get(2)), number(file.get(3)), nowhere, 0L, number(file.get(4)), constants);
            }
            result[at] = new FilePartition(at, files);
        }
        return result;
    }

    /** Bits as Spark's BitSetMethods find them: words of this machine. */
    private static byte[] words(byte[] bits) {
        ByteBuffer words = ByteBuffer.allocate(bits.length).order(ByteOrder.nativeOrder());
        words.asLongBuffer().put(ByteBuffer.wrap(bits).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer());
        return words.array();
    }

    private static long number(Object value) {
        return ((Number) value).longValue();
    }

    private static Object constant(Object value, Object kind) {
        if (kind.equals("bits")) {
            return value == null ? null : words(Base64.getDecoder().decode((String) value));
        } else if (value instanceof String) {
            return UTF8String.fromString((String) value);
        } else if (value == null || value instanceof Boolean) {
            return value;
        } else if (kind.equals("byte")) {
            return Byte.valueOf(((Number) value).byteValue());
        } else if (kind.equals("short")) {
            return Short.valueOf(((Number) value).shortValue());
        } else if (kind.equals("long")) {
            return Long.valueOf(((Number) value).longValue());
        }
        return value;
    }
}
