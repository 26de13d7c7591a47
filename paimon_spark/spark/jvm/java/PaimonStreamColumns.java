import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An optimizer rule: a stream of ours is asked for one that reads only the columns and rows that a batch needs. Spark
 * evaluates the filters again.
 */
public final class PaimonStreamColumns extends Rule {
    public TreeNode apply(TreeNode plan) {
        return plan.transformDown(new Streams());
    }

    static final class Streams extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return found((LogicalPlan) node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            scala.Tuple3 found = found((LogicalPlan) node);
            return found == null ? otherwise.apply(node) : narrowed((LogicalPlan) node, found);
        }

        /** The columns, filters and relation of a plan over a stream of ours that reads more than it must. */
        private static scala.Tuple3 found(LogicalPlan node) {
            if (!(node instanceof Project || node instanceof Filter || isOurs(node))) {
                return null;
            }
            scala.Option operation = (scala.Option) PhysicalOperation.unapply(node);
            if (operation.isEmpty() || !isOurs(((scala.Tuple3) operation.get())._3())) {
                return null;
            }
            return (scala.Tuple3) operation.get();
        }

        private static boolean isOurs(Object node) {
            if (!(node instanceof StreamingDataSourceV2ScanRelation)) {
                return false;
            }
            StreamingDataSourceV2ScanRelation relation = (StreamingDataSourceV2ScanRelation) node;
            Object stream = relation.stream();
            return relation.startOffset().isDefined() && stream instanceof Function
                && PaimonProxy.isOurs(stream)
                && !proxyOf(stream).isSettled();
        }

        private static LogicalPlan narrowed(LogicalPlan node, scala.Tuple3 found) {
            StreamingDataSourceV2ScanRelation relation = (StreamingDataSourceV2ScanRelation) found._3();
            List projects = CollectionConverters.asJava((scala.collection.Seq) found._1());
            List filters = CollectionConverters.asJava((scala.collection.Seq) found._2());
            AttributeSet needed = references(projects, references(filters, null));
            List output = new ArrayList();
            List names = new ArrayList();
            List all = CollectionConverters.asJava((scala.collection.Seq) relation.output());
            for (int at = 0; at < all.size(); at++) {
                if (needed.contains((Attribute) all.get(at))) {
                    output.add(all.get(at));
                    names.add(((Attribute) all.get(at)).name());
                }
            }
            if (output.isEmpty()) { // rows are counted by a column
                output.add(all.get(0));
                names.add(((Attribute) all.get(0)).name());
            }
            List predicates = new ArrayList();
            for (int at = 0; at < filters.size(); at++) {
                scala.Option translated = DataSourceV2Strategy$.MODULE$.translateFilterV2((Expression) filters.get(at));
                if (translated.isDefined()) {
                    predicates.add(translated.get());
                }
            }
            Object asked = new Object[] {names.toArray(), predicates.toArray(new Predicate[0])};
            SparkDataStream stream = (SparkDataStream) ((Function) relation.stream()).apply(asked);
            output = inOrder(output, (List) proxyOf(stream).said("columns"));
            LogicalPlan changed = relation.copy(
                relation.relation(), relation.scan(), seq(output), stream, relation.startOffset(),
                relation.endOffset());
            if (!filters.isEmpty()) {
                Expression condition = (Expression) filters.get(0);
                for (int at = 1; at < filters.size(); at++) {
                    condition = new And(condition, (Expression) filters.get(at));
                }
                changed = new Filter(condition, changed);
            }
            return output.equals(projects) ? changed : new Project(seq(projects), changed);
        }

        /** The columns in the order of their names. */
        private static List inOrder(List columns, List names) {
            List found = new ArrayList();
            for (int at = 0; at < names.size(); at++) {
                for (int i = 0; i < columns.size(); i++) {
                    if (((Attribute) columns.get(i)).name().equals(names.get(at))) {
                        found.add(columns.get(i));
                    }
                }
            }
            return found;
        }

        private static PaimonProxy proxyOf(Object stream) {
            return (PaimonProxy) java.lang.reflect.Proxy.getInvocationHandler(stream);
        }

        private static AttributeSet references(List expressions, AttributeSet more) {
            AttributeSet found = AttributeSet.fromAttributeSets(seq(new ArrayList()));
            for (int at = 0; at < expressions.size(); at++) {
                found = found.$plus$plus(((Expression) expressions.get(at)).references());
            }
            return more == null ? found : found.$plus$plus(more);
        }

        private static scala.collection.immutable.Seq seq(List values) {
            return CollectionConverters.asScala(values).toList();
        }
    }
}
