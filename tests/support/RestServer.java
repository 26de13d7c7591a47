import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.hadoop.HadoopFileIO;
import org.apache.paimon.options.Options;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.RESTFileSystemCatalog;
import org.apache.paimon.rest.RESTToken;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.auth.DLFAuthProvider;
import org.apache.paimon.rest.auth.DLFDefaultSigner;
import org.apache.paimon.rest.auth.DLFOpenApiSigner;
import org.apache.paimon.rest.auth.DLFRequestSigner;
import org.apache.paimon.rest.auth.DLFToken;
import org.apache.paimon.rest.auth.RESTAuthParameter;
import org.apache.paimon.rest.responses.ConfigResponse;

/**
 * Java's REST catalog server: arguments are a directory for each kind of authentication, and, where tables of the first
 * lie on a store, their path, which the settings of Hadoop on the class path reach.
 */
public class RestServer {
    private static volatile RESTToken token;

    public static void main(String[] args) throws Exception {
        start(args[0], new BearTokenAuthProvider("a-token"), args.length > 2 ? args[2] : null);
        start(args[1], DLFAuthProvider.fromAccessKey("key", "secret", "sts", "http://x", "cn-hangzhou", "default"), null);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("unclear")) {
                RESTCatalogServer.commitSuccessThrowException = true;
            } else if (line.startsWith("token ")) {
                token = token(line.split(" "));
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

    /** The options by which files are reached, of a line with the time of their end and each of them. */
    private static RESTToken token(String[] words) {
        Map<String, String> options = new HashMap<>();
        for (int i = 2; i < words.length; i++) {
            options.put(words[i].split("=", 2)[0], words[i].split("=", 2)[1]);
        }
        return new RESTToken(options, Long.parseLong(words[1]));
    }

    private static void start(String folder, AuthProvider auth, String store) throws Exception {
        ConfigResponse config = new ConfigResponse(Map.of("prefix", "paimon"), Map.of());
        RESTCatalogServer server =
                new RESTCatalogServer(folder, auth, config, "wh") {
                    @Override
                    public RESTToken getDataToken(Identifier table) {
                        return token == null ? super.getDataToken(table) : token;
                    }
                };
        if (store != null) {
            moveTo(store, server);
        }
        server.start();
        System.out.println(server.getUrl());
    }

    /** The server has no constructor for a file system other than the local one. */
    private static void moveTo(String store, RESTCatalogServer server) throws Exception {
        Options options = new Options();
        options.set("prefix", "paimon");
        options.set("warehouse", store);
        CatalogContext context = CatalogContext.create(options, new Configuration());
        HadoopFileIO files = new HadoopFileIO(new Path(store));
        files.configure(context);
        files.checkOrMkdirs(new Path(store));
        set(server, "catalogContext", context);
        set(server, "catalog", new RESTFileSystemCatalog(files, new Path(store), context));
    }

    private static void set(RESTCatalogServer server, String name, Object value) throws Exception {
        Field field = RESTCatalogServer.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(server, value);
    }
}
