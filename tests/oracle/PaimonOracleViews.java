// Views of a catalog, as the JSON of Java's ViewSchema. Compiled where it compiles.
import java.util.List;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.apache.paimon.view.View;
import org.apache.paimon.view.ViewImpl;
import org.apache.paimon.view.ViewSchema;

public class PaimonOracleViews {
    final Catalog catalog;

    public PaimonOracleViews(PaimonOracle base) { this.catalog = base.catalog; }

    public void createView(String name, String json) throws Exception {
        Identifier id = Identifier.fromString(name);
        ViewSchema s = JsonSerdeUtil.fromJson(json, ViewSchema.class);
        catalog.createView(id, new ViewImpl(id, s.fields(), s.query(), s.dialects(), s.comment(), s.options()), false);
    }

    public String view(String name) throws Exception {
        View v = catalog.getView(Identifier.fromString(name));
        return JsonSerdeUtil.toFlatJson(
                new ViewSchema(v.rowType().getFields(), v.query(), v.dialects(), v.comment().orElse(null), v.options()));
    }

    public List<String> views(String database) throws Exception { return catalog.listViews(database); }

    public void dropView(String name) throws Exception { catalog.dropView(Identifier.fromString(name), false); }

    public void renameView(String name, String to) throws Exception {
        catalog.renameView(Identifier.fromString(name), Identifier.fromString(to), false);
    }

    /** What Java's JDBC catalog reads of a view's text, and writes again. */
    public static String rewritten(String json) {
        return JsonSerdeUtil.toJson(JsonSerdeUtil.fromJson(json, ViewSchema.class));
    }
}
