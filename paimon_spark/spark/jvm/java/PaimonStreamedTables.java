import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** An analyzer rule: an option marks streams of tables of our catalogs. */
public final class PaimonStreamedTables extends Rule {
    private final CatalogManager catalogs;
    private final String mark;

    public PaimonStreamedTables(CatalogManager catalogs, String mark) {
        this.catalogs = catalogs;
        this.mark = mark;
    }

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).resolveOperatorsDown(new Streams(catalogs, mark));
    }

    static final class Streams extends scala.runtime.AbstractPartialFunction {
        private final CatalogManager catalogs;
        private final String mark;

        Streams(CatalogManager catalogs, String mark) {
            this.catalogs = catalogs;
            this.mark = mark;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            UnresolvedRelation named = (UnresolvedRelation) node;
            Map options = new HashMap(named.options().asCaseSensitiveMap());
            options.put(mark, "true");
            return new UnresolvedRelation(named.multipartIdentifier(), new CaseInsensitiveStringMap(options), true);
        }

        public boolean isDefinedAt(Object node) {
            if (!(node instanceof UnresolvedRelation) || !((UnresolvedRelation) node).isStreaming()) {
                return false;
            }
            UnresolvedRelation named = (UnresolvedRelation) node;
            return !named.options().containsKey(mark) && isOurs(named);
        }

        private boolean isOurs(UnresolvedRelation named) {
            String first = (String) named.multipartIdentifier().apply(0);
            boolean isNamed = named.multipartIdentifier().length() > 1 && catalogs.isCatalogRegistered(first);
            CatalogPlugin catalog = isNamed ? catalogs.catalog(first) : catalogs.currentCatalog();
            return PaimonProxy.isOurs(catalog);
        }
    }
}
