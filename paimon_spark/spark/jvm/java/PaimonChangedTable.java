import java.util.Set;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** A table whose truncation runs a statement in Python. Equal to the table that the statement changes. */
public final class PaimonChangedTable implements Table, TruncatableTable {
    private final Table table;
    private final Callable statement;
    private final String mark;

    public PaimonChangedTable(Table table, Callable statement, String mark) {
        this.table = table;
        this.statement = statement;
        this.mark = mark;
    }

    public boolean truncateTable() {
        try {
            statement.call();
        } catch (Throwable error) {
            Platform.throwException(error);
        }
        return true;
    }

    public String name() {
        return table.name();
    }

    public StructType schema() {
        return table.schema();
    }

    public Column[] columns() {
        return table.columns();
    }

    public Set capabilities() {
        return table.capabilities();
    }

    public int hashCode() {
        return table.hashCode();
    }

    public boolean equals(Object other) {
        return other == this || table.equals(other);
    }

    public String toString() {
        return table + mark + statement + (isExplained() ? ((Supplier) statement).get() : "");
    }

    /** Whether a user asks for the plan: Spark also makes its text whenever it runs a statement. */
    private static boolean isExplained() {
        StackTraceElement[] stack = new Throwable().getStackTrace();
        boolean asked = false;
        for (int at = 0; at < stack.length; at++) {
            boolean asks = stack[at].getMethodName().startsWith("explainString");
            if (asked && !asks) {
                return !stack[at].getClassName().startsWith("org.apache.spark.sql.execution.SQLExecution");
            }
            asked |= asks;
        }
        return false;
    }
}
