import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** A strategy of the planner: rows that the driver has read are shown with what was read. */
public final class PaimonReadRowsStrategy extends SparkStrategy {
    public Seq apply(LogicalPlan plan) {
        if (!(plan instanceof LocalRelation) || plan.isStreaming()) {
            return (Seq) (Object) Nil$.MODULE$;
        }
        Option text = plan.getTagValue(PaimonLocalRows.READ);
        if (text.isEmpty()) {
            return (Seq) (Object) Nil$.MODULE$;
        }
        Object rows = PaimonReadRows.of((LocalRelation) (Object) plan, (String) text.get());
        return (Seq) (Object) scala.jdk.javaapi.CollectionConverters.asScala(java.util.Collections.singletonList(rows)).toList();
    }

    public String toString() {
        return "PaimonReadRowsStrategy";
    }
}
