import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** An optimizer rule: rebalances rows of a write by the columns that Python names, where the query leaves them free. */
public final class PaimonPartitionShuffle extends Rule {
    private final Function paimon;

    public PaimonPartitionShuffle(Function paimon) {
        this.paimon = paimon;
    }

    public TreeNode apply(TreeNode plan) {
        if (!(plan instanceof V2WriteCommand)) {
            return plan;
        }
        V2WriteCommand command = (V2WriteCommand) plan;
        Option write = write(plan);
        if (write.isEmpty() || !java.lang.reflect.Proxy.isProxyClass(write.get().getClass())
                || isArranged(command.query())) {
            return plan;
        }
        String[] names = (String[]) paimon.apply(write.get());
        List columns = list(((LogicalPlan) (Object) command.table()).output());
        List expressions = chosen(names, columns, list(command.query().output()));
        if (expressions.isEmpty() || isOnePartition(command.query(), expressions)) {
            return plan;
        }
        return (TreeNode) (Object) command.withNewQuery(new RebalancePartitions(
            CollectionConverters.asScala(expressions).toList(),
            command.query(), Option.empty(), Option.empty()));
    }

    private static Option write(TreeNode plan) {
        if (plan instanceof AppendData) {
            return ((AppendData) plan).write();
        }
        if (plan instanceof OverwriteByExpression) {
            return ((OverwriteByExpression) plan).write();
        }
        if (plan instanceof OverwritePartitionsDynamic) {
            return ((OverwritePartitionsDynamic) plan).write();
        }
        return Option.empty();
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
