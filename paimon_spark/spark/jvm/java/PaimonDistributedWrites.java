import java.util.function.Function;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** An optimizer rule: gives a write in a plan to the write itself, and takes the one that it answers. */
public final class PaimonDistributedWrites extends Rule {
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
            return ((Function) write).apply(node);
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
