import org.apache.spark.sql.catalyst.analysis.GetViewColumnByNameAndOrdinal;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * An analyzer rule: which columns of their queries the columns of our views are.
 *
 * Spark finds them by names that it keeps; Paimon keeps none. So each has a name that no column has, "mark at way name",
 * until the query is resolved: then it is the column of that name, or at that place (`way_of_finding` in Python).
 */
public final class PaimonViewColumns extends Rule {
    private final String mark;

    public PaimonViewColumns(String mark) {
        this.mark = mark;
    }

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).resolveOperatorsUp(new Views(mark));
    }

    static final class Views extends scala.runtime.AbstractPartialFunction {
        private final String mark;

        Views(String mark) {
            this.mark = mark;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof Project)) {
                return otherwise.apply(node);
            }
            Project project = (Project) node;
            Columns columns = new Columns(mark, project.child());
            for (int at = 0; at < project.projectList().length(); at++) {
                columns.look((TreeNode) project.projectList().apply(at));
            }
            return columns.found ? project.transformExpressions(columns) : project;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof Project;
        }
    }

    static final class Columns extends scala.runtime.AbstractPartialFunction {
        private final String mark;
        private final LogicalPlan child;
        boolean found;
        private boolean all = true;
        private boolean none = true;
        private int count = 0;

        Columns(String mark, LogicalPlan child) {
            this.mark = mark;
            this.child = child;
        }

        /** Looks whether an expression has marked columns, and whether the query has all their names. */
        void look(TreeNode expression) {
            if (isDefinedAt(expression)) {
                found = true;
                if (child.resolved()) {
                    String[] parts = name(expression).split(" ", 4);
                    all = all && named(parts[3]) != null;
                    none = none && named(parts[3]) == null;
                    count++;
                }
            }
            for (int at = 0; at < expression.children().length(); at++) {
                look((TreeNode) expression.children().apply(at));
            }
        }

        private Attribute named(String name) {
            for (int at = 0; at < child.output().length(); at++) {
                Attribute column = (Attribute) child.output().apply(at);
                if (column.name().equalsIgnoreCase(name)) {
                    return column;
                }
            }
            return null;
        }

        private static String name(Object expression) {
            if (expression instanceof GetViewColumnByNameAndOrdinal) {
                return ((GetViewColumnByNameAndOrdinal) expression).colName();
            }
            UnresolvedAttribute column = (UnresolvedAttribute) expression;
            return (String) column.nameParts().apply(0);
        }

        public Object applyOrElse(Object expression, scala.Function1 otherwise) {
            if (!isDefinedAt(expression)) {
                return otherwise.apply(expression);
            }
            String[] parts = name(expression).split(" ", 4);
            if (expression instanceof GetViewColumnByNameAndOrdinal) {
                return UnresolvedAttribute.quoted(name(expression));
            }
            String way = parts[2];
            if (all && !way.equals("placed")) {
                return named(parts[3]);
            }
            if (count != child.output().length() || way.equals("named") || way.equals("starred") && !none) {
                throw new IllegalArgumentException(
                    "A view has a column " + parts[3] + ", which its query does not have any more: a table of it has "
                    + "changed. Make the view anew by CREATE OR REPLACE VIEW.");
            }
            return child.output().apply(Integer.parseInt(parts[1]));
        }

        public boolean isDefinedAt(Object expression) {
            if (expression instanceof GetViewColumnByNameAndOrdinal) {
                return name(expression).startsWith(mark);
            }
            return expression instanceof UnresolvedAttribute
                && child.resolved()
                && name(expression).startsWith(mark);
        }
    }
}
