import java.util.Arrays;
import java.util.Collections;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.execution.LocalTableScanExec;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/** Rows that the driver has read while it planned a query. */
public final class PaimonReadRows extends LocalTableScanExec {
    private final String text;

    public PaimonReadRows(Seq output, Seq rows, Option stream, /* more */ String text) {
        super(output, rows, stream/* given */);
        this.text = text;
    }

    static PaimonReadRows of(LocalRelation relation, String text) {
        return new PaimonReadRows(relation.output(), relation.data(), Option.apply(null), /* default */ text);
    }

    /** Executors know Spark's own class alone. */
    public Object writeReplace() {
        return new LocalTableScanExec(output(), rows(), stream()/* plain */);
    }

    public String nodeName() {
        return "LocalTableScan";
    }

    public Iterator stringArgs() {
        return scala.jdk.javaapi.CollectionConverters.asScala(Arrays.asList(new Object[] {output(), text}).iterator());
    }

    public Seq otherCopyArgs() {
        return (Seq) (Object) scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(text)).toList();
    }
}
