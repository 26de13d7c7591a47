import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Rows of a write that no query has arranged: Spark may bring those of one partition together. */
public final class PaimonFreeRows {
    /** The write with its rows rebalanced by columns, or as it is: where the query says how rows come to tasks. */
    public LogicalPlan rebalanced(V2WriteCommand command, String[] names) {
        LogicalPlan plan = (LogicalPlan) (Object) command;
        if (isArranged(command.query())) {
            return plan;
        }
        List columns = list(((LogicalPlan) (Object) command.table()).output());
        List expressions = chosen(names, columns, list(command.query().output()));
        if (expressions.isEmpty() || isOnePartition(command.query(), expressions)) {
            return plan;
        }
        return (LogicalPlan) (Object) command.withNewQuery(new RebalancePartitions(
            CollectionConverters.asScala(expressions).toList(),
            command.query(), Option.empty(), Option.empty()));
    }

    /** Whether a query says itself which rows come to which task, in which order, or gives few rows. */
    private static boolean isArranged(LogicalPlan query) {
        LogicalPlan node = query;
        while (node instanceof Project || node instanceof Filter) {
            node = (LogicalPlan) ((UnaryNode) node).child();
        }
        if (node instanceof InMemoryRelation) {
            return isArranged(((InMemoryRelation) node).cacheBuilder().logicalPlan());
        }
        if (node instanceof Aggregate) {
            return ((Aggregate) node).groupingExpressions().isEmpty();
        }
        return node instanceof Sort || node instanceof RepartitionOperation
            || node instanceof RebalancePartitions || node instanceof GlobalLimit
            || node instanceof Offset || node instanceof LocalRelation
            || node instanceof OneRowRelation;
    }

    private static List chosen(String[] names, List columns, List values) {
        List found = new ArrayList();
        for (int i = 0; i < names.length; i++) {
            for (int j = 0; j < columns.size() && j < values.size(); j++) {
                if (((Attribute) columns.get(j)).name().equals(names[i])) {
                    found.add(values.get(j));
                }
            }
        }
        return found;
    }

    private static boolean isOnePartition(LogicalPlan query, List expressions) {
        for (int i = 0; i < expressions.size(); i++) {
            Expression value = (Expression) expressions.get(i);
            LogicalPlan node = query;
            while (node instanceof Project && value instanceof Attribute) {
                value = computed((Project) node, (Attribute) value);
                node = ((Project) node).child();
            }
            if (!value.foldable()) {
                return false;
            }
        }
        return true;
    }

    private static Expression computed(Project project, Attribute column) {
        List list = list(project.projectList());
        for (int i = 0; i < list.size(); i++) {
            if (list.get(i) instanceof Alias) {
                Alias alias = (Alias) list.get(i);
                if (alias.exprId().equals(column.exprId())) {
                    return (Expression) alias.child();
                }
            }
        }
        return column;
    }

    private static List list(scala.collection.Seq sequence) {
        return CollectionConverters.asJava(sequence);
    }
}
