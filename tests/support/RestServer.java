import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import okhttp3.mockwebserver.Dispatcher;
import okhttp3.mockwebserver.MockResponse;
import okhttp3.mockwebserver.MockWebServer;
import okhttp3.mockwebserver.RecordedRequest;
import org.apache.hadoop.conf.Configuration;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.hadoop.HadoopFileIO;
import org.apache.paimon.options.Options;
import org.apache.paimon.partition.Partition;
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
    private static final Pattern PARTITIONS =
            Pattern.compile("/v1/paimon/databases/([^/]+)/tables/([^/]+)/partitions(/drop)?");
    private static final ObjectMapper JSON = new ObjectMapper();
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
        MockWebServer web = (MockWebServer) field("server").get(server);
        Map<String, List<Partition>> known = (Map<String, List<Partition>>) field("tablePartitionsStore").get(server);
        Dispatcher own = server.initDispatcher(auth);
        web.setDispatcher(
                new Dispatcher() {
                    @Override
                    public MockResponse dispatch(RecordedRequest request) throws InterruptedException {
                        Matcher path = PARTITIONS.matcher(request.getPath());
                        return request.getMethod().equals("POST") && path.matches()
                                ? partitions(known, path, request.getBody().readUtf8())
                                : internal(own.dispatch(request));
                    }
                });
        System.out.println(server.getUrl());
    }

    /** That of 1.4.2 says of every format table that it is an external one; newer ones keep no partitions of those. */
    private static MockResponse internal(MockResponse answer) {
        String body = answer.getBody() == null ? "" : answer.getBody().readUtf8();
        boolean managed = body.contains("\"metastore.partitioned-table\":\"true\"") && body.contains("format-table");
        return answer.setBody(managed ? body.replace("\"isExternal\":true", "\"isExternal\":false") : body);
    }

    /** What newer servers do and that of 1.4.2 does not: partitions are registered and forgotten by requests. */
    private static MockResponse partitions(Map<String, List<Partition>> all, Matcher path, String body) {
        Map<String, Object> given;
        try {
            given = JSON.readValue(body, Map.class);
        } catch (IOException error) {
            return new MockResponse().setResponseCode(400);
        }
        List<Partition> known = all.computeIfAbsent(path.group(1) + "." + path.group(2), name -> new ArrayList<>());
        List<Map<String, String>> specs = (List<Map<String, String>>) given.get("partitionSpecs");
        if (path.group(3) != null) {
            known.removeIf(each -> specs.contains(each.spec()));
            return new MockResponse().setBody("{\"dropped\": [], \"missing\": []}");
        }
        Predicate<Map<String, String>> isKnown = spec -> known.stream().anyMatch(each -> each.spec().equals(spec));
        if (Boolean.FALSE.equals(given.get("ignoreIfExists")) && specs.stream().anyMatch(isKnown)) {
            return new MockResponse().setResponseCode(409).setBody("{\"message\": \"it exists\", \"code\": 409}");
        }
        specs.stream().filter(isKnown.negate()).forEach(spec -> known.add(partition(spec, -1, -1, -1)));
        List<Map<String, Object>> statistics =
                (List<Map<String, Object>>) given.getOrDefault("partitionStatistics", List.of());
        boolean adds = !Boolean.TRUE.equals(given.get("replaceStatistics"));
        for (Map<String, Object> each : statistics) {
            known.replaceAll(
                    before ->
                            before.spec().equals(each.get("spec"))
                                    ? partition(
                                            before.spec(),
                                            sum(before.recordCount(), each.get("recordCount"), adds),
                                            sum(before.fileSizeInBytes(), each.get("fileSizeInBytes"), adds),
                                            sum(before.fileCount(), each.get("fileCount"), adds))
                                    : before);
        }
        return new MockResponse().setBody("{\"created\": [], \"existed\": []}");
    }

    private static Partition partition(Map<String, String> spec, long rows, long size, long files) {
        return new Partition(spec, rows, size, files, 0, -1, false);
    }

    private static long sum(long before, Object given, boolean adds) {
        long value = ((Number) given).longValue();
        return value < 0 ? before : adds && before >= 0 ? before + value : value;
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
        field(name).set(server, value);
    }

    private static Field field(String name) throws Exception {
        Field field = RESTCatalogServer.class.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
