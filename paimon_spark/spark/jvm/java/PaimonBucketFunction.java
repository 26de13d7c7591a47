import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** The function that gives a row's bucket, by its name alone: two of one name and one number of buckets agree. */
public final class PaimonBucketFunction implements BoundFunction {
    private final String text;
    private final DataType column;

    public PaimonBucketFunction(String text, DataType column) {
        this.text = text;
        this.column = column;
    }

    /** Executors do not know the class, and evaluate no partitioning. */
    public Object writeReplace() {
        return null;
    }

    public DataType[] inputTypes() {
        return new DataType[] {column};
    }

    public DataType resultType() {
        return DataTypes.IntegerType;
    }

    public String name() {
        return "bucket";
    }

    public String canonicalName() {
        return text;
    }

    public boolean equals(Object other) {
        return other instanceof PaimonBucketFunction && ((PaimonBucketFunction) other).text.equals(text);
    }

    public int hashCode() {
        return text.hashCode();
    }
}
