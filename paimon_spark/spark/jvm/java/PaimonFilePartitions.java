import java.util.List;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.unsafe.types.UTF8String;

/** Makes Spark's FilePartitions of all files of a scan in one call. */
public final class PaimonFilePartitions {
    /**
     * @param pickled kinds of the partition columns, values of the partitions, files of the tasks
     * @param constants metadata columns of the files, none of which is read
     */
    public InputPartition[] make(Object pickled, Object constants) {
        Object[] given = (Object[]) pickled;
        InternalRow[] partitions = rows((List) given[0], (List) given[1]);
        List tasks = (List) given[2];
        String[] nowhere = new String[0];
        InputPartition[] result = new InputPartition[tasks.size()];
        for (int at = 0; at < result.length; at++) {
            List wanted = (List) tasks.get(at);
            PartitionedFile[] files = new PartitionedFile[wanted.size()];
            for (int i = 0; i < files.length; i++) {
                Object[] file = (Object[]) wanted.get(i);
                files[i] = new PartitionedFile(
                    partitions[((Number) file[0]).intValue()], SparkPath.fromPathString((String) file[1]),
                    ((Number) file[2]).longValue(), ((Number) file[3]).longValue(), nowhere, 0L,
                    ((Number) file[4]).longValue(), (scala.collection.immutable.Map) constants);
            }
            result[at] = new FilePartition(at, files);
        }
        return result;
    }

    private static InternalRow[] rows(List kinds, List rows) {
        InternalRow[] partitions = new InternalRow[rows.size()];
        for (int at = 0; at < partitions.length; at++) {
            Object[] values = (Object[]) rows.get(at);
            for (int i = 0; i < values.length; i++) {
                Object kind = kinds.get(i);
                if (values[i] instanceof String) {
                    values[i] = UTF8String.fromString((String) values[i]);
                } else if (values[i] != null && "byte".equals(kind)) {
                    values[i] = Byte.valueOf(((Number) values[i]).byteValue());
                } else if (values[i] != null && "short".equals(kind)) {
                    values[i] = Short.valueOf(((Number) values[i]).shortValue());
                } else if (values[i] != null && "long".equals(kind)) {
                    values[i] = Long.valueOf(((Number) values[i]).longValue());
                }
            }
            partitions[at] = new GenericInternalRow(values);
        }
        return partitions;
    }
}
