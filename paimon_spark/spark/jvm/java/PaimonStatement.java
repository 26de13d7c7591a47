import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.RuleId;
import org.apache.spark.sql.execution.command.ExternalCommandExecutor;
import org.apache.spark.unsafe.Platform;
import scala.Function1;
import scala.PartialFunction;
import scala.Tuple4;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;

/**
 * A command of Catalyst: MERGE, UPDATE or DELETE of a table of ours, which Python runs.
 *
 * Spark runs any `RunnableCommand`. That is a Scala trait whose values a class has to hold as Scala's compiler wants it,
 * differently in each version. So this class extends `ExternalCommandExecutor`, Spark's own command for work that is
 * done outside of Spark. The name, the arguments and the work are its own: plans show the statement, then its strategy.
 * Its result is one row with how many rows it changed.
 */
public final class PaimonStatement extends ExternalCommandExecutor {
    private static final String DESCRIPTION = "spark.job.description";
    private static final int LONGEST_DESCRIPTION = 100;

    private final String name;
    private final String statement;
    private final String strategy;
    private final Callable work;
    private final String described;
    private final Seq counts;
    private scala.collection.immutable.Map metrics;

    /**
     * `strategy` is null where nothing is known of it; `described` are the metrics in JSON; `counts` the columns of the
     * result. `work` returns the values of both: the metrics in a line of JSON, then a line for each count, which is
     * empty where it is not known. The order of arguments is that of Catalyst's copies.
     */
    public PaimonStatement(
            String statement, String strategy, String name, Callable work, String described, Seq counts) {
        super(null, name, (scala.collection.immutable.Map) (Object) Map$.MODULE$.empty());
        this.statement = statement;
        this.strategy = strategy;
        this.name = name;
        this.work = work;
        this.described = described;
        this.counts = counts;
    }

    public synchronized scala.collection.immutable.Map metrics() {
        if (metrics == null) {
            metrics = PaimonMetrics.ofNode(described);
        }
        return metrics;
    }

    /**
     * Spark runs a command inside this call, and names its query by the description of the thread's jobs; without one
     * by the first class on the stack that is not Spark's, which is this one.
     */
    public LogicalPlan transformDownWithPruning(Function1 condition, RuleId rule, PartialFunction change) {
        SparkContext context = SparkContext.getOrCreate();
        if (context.getLocalProperty(DESCRIPTION) != null) {
            return super.transformDownWithPruning(condition, rule, change);
        }
        context.setLocalProperty(DESCRIPTION, description());
        try {
            return super.transformDownWithPruning(condition, rule, change);
        } finally {
            context.setLocalProperty(DESCRIPTION, null);
        }
    }

    private String description() {
        return statement.length() <= LONGEST_DESCRIPTION
            ? statement
            : statement.substring(0, LONGEST_DESCRIPTION) + "...";
    }

    public Seq run(SparkSession session) {
        SparkContext context = session.sparkContext();
        if (description().equals(context.getLocalProperty(DESCRIPTION))) {
            context.setLocalProperty(DESCRIPTION, null);  // the jobs have names of their own
        }
        String[] answer = null;
        try {
            answer = ((String) work.call()).split("\n", -1);
        } catch (Throwable error) {
            Platform.throwException(error);
        }
        PaimonMetrics.post(metrics(), answer[0]);
        Object[] row = new Object[answer.length - 1];
        for (int at = 0; at < row.length; at++) {
            row[at] = answer[at + 1].isEmpty() ? null : Long.valueOf(answer[at + 1]);
        }
        List rows = Collections.singletonList(RowFactory.create(row));
        return (Seq) (Object) PythonUtils.toSeq(rows).toList();
    }

    public Seq output() {
        return counts;
    }

    public String nodeName() {
        return name;
    }

    public String simpleString(int maxFields) {
        return strategy == null ? statement : statement + ", " + strategy;
    }

    public int productArity() {
        return 2;
    }

    public Object productElement(int at) {
        return at == 0 ? statement : strategy;
    }

    public String productElementName(int at) {
        return at == 0 ? "statement" : "strategy";
    }

    public Iterator productIterator() {
        return scala.runtime.ScalaRunTime$.MODULE$.typedProductIterator(this);
    }

    public Seq otherCopyArgs() {
        return (Seq) (Object) new Tuple4(name, work, described, counts).productIterator().toSeq();
    }

    public boolean canEqual(Object other) {
        return other instanceof PaimonStatement;
    }

    public boolean equals(Object other) {
        return other instanceof PaimonStatement && ((PaimonStatement) other).work == work;
    }
}
