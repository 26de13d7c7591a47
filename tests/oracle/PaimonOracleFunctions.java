// Functions of a catalog, as the JSON of Java's CreateFunctionRequest. Compiled where it compiles.
import java.util.List;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.function.FunctionImpl;
import org.apache.paimon.rest.requests.CreateFunctionRequest;
import org.apache.paimon.utils.JsonSerdeUtil;

public class PaimonOracleFunctions {
    final Catalog catalog;

    public PaimonOracleFunctions(PaimonOracle base) { this.catalog = base.catalog; }

    public void createFunction(String name, String json) throws Exception {
        Identifier id = Identifier.fromString(name);
        CreateFunctionRequest f = JsonSerdeUtil.fromJson(json, CreateFunctionRequest.class);
        catalog.createFunction(
                id,
                new FunctionImpl(
                        id, f.inputParams(), f.returnParams(), f.isDeterministic(), f.definitions(), f.comment(), f.options()),
                false);
    }

    public String function(String name) throws Exception {
        return JsonSerdeUtil.toFlatJson(new CreateFunctionRequest(catalog.getFunction(Identifier.fromString(name))));
    }

    public List<String> functions(String database) throws Exception { return catalog.listFunctions(database); }

    public void dropFunction(String name) throws Exception { catalog.dropFunction(Identifier.fromString(name), false); }
}
