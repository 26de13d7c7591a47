import org.apache.spark.sql.connector.read.streaming.Offset;

/** Where a stream stands, as Python says it in JSON. */
public final class PaimonOffset extends Offset {
    private final String json;

    public PaimonOffset(String json) {
        this.json = json;
    }

    public String json() {
        return json;
    }
}
