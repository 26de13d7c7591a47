import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.Map;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.auth.DLFAuthProvider;
import org.apache.paimon.rest.auth.DLFDefaultSigner;
import org.apache.paimon.rest.auth.DLFOpenApiSigner;
import org.apache.paimon.rest.auth.DLFRequestSigner;
import org.apache.paimon.rest.auth.DLFToken;
import org.apache.paimon.rest.auth.RESTAuthParameter;
import org.apache.paimon.rest.responses.ConfigResponse;

/** Java's REST catalog server: arguments are a directory for each kind of authentication. */
public class RestServer {
    public static void main(String[] args) throws Exception {
        start(args[0], new BearTokenAuthProvider("a-token"));
        start(args[1], DLFAuthProvider.fromAccessKey("key", "secret", "sts", "http://x", "cn-hangzhou", "default"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("unclear")) {
                RESTCatalogServer.commitSuccessThrowException = true;
            } else {
                sign(line.equals("sign openapi") ? new DLFOpenApiSigner() : new DLFDefaultSigner("cn-hangzhou"));
            }
            System.out.println("done");
        }
        System.exit(0);
    }

    private static void sign(DLFRequestSigner signer) throws Exception {
        String body = "{\"name\": \"d\"}";
        String host = "dlfnext.cn-hangzhou.aliyuncs.com";
        Map<String, String> headers = signer.signHeaders(body, Instant.parse("2026-01-02T03:04:05Z"), "sts", host);
        RESTAuthParameter parameter =
                new RESTAuthParameter("/v1/p/tables/t%24branch_b", Map.of("b", "2 x", "a", ""), "POST", body);
        String authorization =
                signer.authorization(parameter, new DLFToken("key", "secret", "sts", null), host, headers);
        headers.forEach((key, value) -> System.out.println(key + "=" + value));
        System.out.println("Authorization=" + authorization);
    }

    private static void start(String folder, AuthProvider auth) throws Exception {
        ConfigResponse config = new ConfigResponse(Map.of("prefix", "paimon"), Map.of());
        RESTCatalogServer server = new RESTCatalogServer(folder, auth, config, "wh");
        server.start();
        System.out.println(server.getUrl());
    }
}
