import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * An analyzer rule: an overwrite of the written partitions of a format table becomes one by an option.
 *
 * A V1 write knows no other.
 */
public final class PaimonFileOverwrites extends Rule {
    private final String mode;

    public PaimonFileOverwrites(String mode) {
        this.mode = mode;
    }

    public TreeNode apply(TreeNode plan) {
        if (!(plan instanceof OverwritePartitionsDynamic)) {
            return plan;
        }
        OverwritePartitionsDynamic write = (OverwritePartitionsDynamic) plan;
        V2WriteCommand command = (V2WriteCommand) plan;
        Object relation = command.table();
        if (!(relation instanceof DataSourceV2Relation)) {
            return plan;
        }
        Object table = ((DataSourceV2Relation) relation).table();
        if (!PaimonProxy.isOurs(table) || ((PaimonProxy) Proxy.getInvocationHandler(table)).said("isFiles") == null) {
            return plan;
        }
        Map options = new HashMap((Map) scala.jdk.javaapi.CollectionConverters.asJava(
            (scala.collection.Map) write.writeOptions()));
        options.put(mode, "dynamic");
        String name = write.isByName() ? "byName" : "byPosition";
        Method[] methods = OverwriteByExpression.class.getMethods();
        for (int at = 0; at < methods.length; at++) {
            if (methods[at].getName().equals(name)) {
                Object[] arguments = new Object[methods[at].getParameterCount()];
                arguments[0] = relation;
                arguments[1] = command.query();
                arguments[2] = Literal.TrueLiteral();
                arguments[3] = PythonUtils.toScalaMap(options);
                for (int more = 4; more < arguments.length; more++) {
                    arguments[more] = Boolean.FALSE;
                }
                try {
                    return (TreeNode) methods[at].invoke(null, arguments);
                } catch (ReflectiveOperationException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
        return plan;
    }
}
