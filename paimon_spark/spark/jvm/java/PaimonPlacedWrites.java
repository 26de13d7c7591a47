import java.util.function.Function;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** An optimizer rule: gives the query of a write to the write itself, and takes the query that it answers. */
public final class PaimonPlacedWrites extends Rule {
    public TreeNode apply(TreeNode plan) {
        return plan.transform(new Writes());
    }

    static final class Writes extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return write(node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            Object write = write(node);
            if (write == null) {
                return otherwise.apply(node);
            }
            V2WriteCommand command = (V2WriteCommand) node;
            Object query = command.query();
            Object placed = ((Function) write).apply(query);
            return placed == query ? node : command.withNewQuery((LogicalPlan) placed);
        }

        private static Object write(Object node) {
            scala.Option write = scala.Option.apply(null);
            if (node instanceof AppendData) {
                write = ((AppendData) node).write();
            } else if (node instanceof OverwriteByExpression) {
                write = ((OverwriteByExpression) node).write();
            } else if (node instanceof OverwritePartitionsDynamic) {
                write = ((OverwritePartitionsDynamic) node).write();
            }
            boolean ours = write.isDefined()
                && write.get() instanceof Function
                && java.lang.reflect.Proxy.isProxyClass(write.get().getClass());
            return ours ? write.get() : null;
        }
    }
}
