import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTRequest;
import org.apache.iceberg.rest.RESTResponse;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.RESTUtil;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.CreateNamespaceResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.GetNamespaceResponse;
import org.apache.iceberg.rest.responses.ListNamespacesResponse;
import org.apache.iceberg.rest.responses.ListTablesResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.apache.iceberg.rest.responses.OAuthTokenResponse;

/** Iceberg's own REST catalog over its JDBC catalog in SQLite; the argument is its directory. */
public class IcebergRestServer {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        JSON.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
        JSON.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
        JSON.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
        RESTSerializers.registerAll(JSON);
        Map<String, String> settings = new HashMap<>();
        settings.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
        settings.put("uri", "jdbc:sqlite:" + args[0] + "/catalog.db");
        settings.put("jdbc.schema-version", "V1");
        settings.put("clients", "1");
        settings.put("warehouse", args[0] + "/warehouse");
        RESTCatalogAdapter catalog =
                new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog("c", settings, new Configuration()));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> handle(catalog, exchange));
        server.start();
        System.out.println(server.getAddress().getPort());
        System.in.read();
        System.exit(0);
    }

    /** An answer other than success. */
    private static final class Refusal extends RuntimeException {
        private final ErrorResponse answer;

        private Refusal(ErrorResponse answer) {
            this.answer = answer;
        }
    }

    private static void handle(RESTCatalogAdapter catalog, HttpExchange exchange) throws IOException {
        int status = 200;
        RESTResponse answer;
        try {
            answer = answer(catalog, exchange);
        } catch (Refusal refusal) {
            status = refusal.answer.code();
            answer = refusal.answer;
        } catch (Exception error) {
            status = 500;
            answer = ErrorResponse.builder().responseCode(500).withMessage(String.valueOf(error)).build();
        }
        byte[] content = answer == null ? new byte[0] : JSON.writeValueAsBytes(answer);
        boolean isEmpty = content.length == 0 || exchange.getRequestMethod().equals("HEAD");
        exchange.sendResponseHeaders(status, isEmpty ? -1 : content.length);
        if (!isEmpty) {
            exchange.getResponseBody().write(content);
        }
        exchange.close();
    }

    private static RESTResponse answer(RESTCatalogAdapter catalog, HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getRawPath().substring(1);
        String query = exchange.getRequestURI().getRawQuery();
        Map<String, String> parameters = query == null ? Map.of() : RESTUtil.decodeFormData(query);
        byte[] body = exchange.getRequestBody().readAllBytes();
        int names = path.split("/").length;
        boolean ofTables = names > 3 && path.split("/")[3].equals("tables");
        switch (exchange.getRequestMethod()) {
            case "GET":
                Class<? extends RESTResponse> type = LoadTableResponse.class;
                if (path.equals("v1/config")) {
                    type = ConfigResponse.class;
                } else if (names == 2) {
                    type = ListNamespacesResponse.class;
                } else if (names == 3) {
                    type = GetNamespaceResponse.class;
                } else if (names == 4) {
                    type = ListTablesResponse.class;
                }
                return catalog.get(path, parameters, type, Map.of(), IcebergRestServer::refuse);
            case "HEAD":
                catalog.head(path, Map.of(), IcebergRestServer::refuse);
                return null;
            case "DELETE":
                return catalog.delete(path, parameters, null, Map.of(), IcebergRestServer::refuse);
            default:
                if (path.equals("v1/oauth/tokens")) {
                    Map<String, String> form = RESTUtil.decodeFormData(new String(body, StandardCharsets.UTF_8));
                    return catalog.postForm(
                            path, form, OAuthTokenResponse.class, Map.of(), IcebergRestServer::refuse);
                }
                Class<? extends RESTRequest> request = CreateNamespaceRequest.class;
                if (ofTables) {
                    request = names == 4 ? CreateTableRequest.class : UpdateTableRequest.class;
                } else if (names == 4) {
                    request = RegisterTableRequest.class;
                }
                Class<? extends RESTResponse> made = LoadTableResponse.class;
                if (names == 2) {
                    made = CreateNamespaceResponse.class;
                }
                return catalog.post(path, JSON.readValue(body, request), made, Map.of(), IcebergRestServer::refuse);
        }
    }

    private static void refuse(ErrorResponse answer) {
        throw new Refusal(answer);
    }
}
