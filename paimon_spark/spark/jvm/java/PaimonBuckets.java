import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.connector.read.InputPartition;

/** A batch whose partitions say which bucket they read. */
final class PaimonBuckets {
    static Batch batch(Batch batch, List buckets) {
        InputPartition[] partitions = batch.planInputPartitions();
        InputPartition[] found = new InputPartition[partitions.length];
        for (int at = 0; at < found.length; at++) {
            found[at] = new Partition(partitions[at], ((Number) buckets.get(at)).intValue());
        }
        return new PaimonAnswers.Files(batch.toString(), found, batch.createReaderFactory());
    }

    /** On its way to a task it becomes the partition that it is made of, which Spark's own readers take. */
    static final class Partition implements HasPartitionKey {
        private final InputPartition partition;
        private final int bucket;

        Partition(InputPartition partition, int bucket) {
            this.partition = partition;
            this.bucket = bucket;
        }

        public Object writeReplace() {
            return partition;
        }

        public InternalRow partitionKey() {
            return new GenericInternalRow(new Object[] {Integer.valueOf(bucket)});
        }

        public String[] preferredLocations() {
            return partition.preferredLocations();
        }

        public String toString() {
            return "bucket " + bucket + " of " + partition;
        }
    }
}
