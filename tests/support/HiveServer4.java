import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;

/** The metastore of Hive 4 on loopback, over Derby in memory with the tables of its own script. */
public class HiveServer4 {
    private static final String DATABASE = "jdbc:derby:memory:metastore";

    public static void main(String[] args) throws Throwable {
        makeTables(Files.readString(Path.of(args[3])));
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        Configuration conf = MetastoreConf.newMetastoreConf();
        conf.set("javax.jdo.option.ConnectionURL", DATABASE);
        conf.set("metastore.thrift.bind.host", "127.0.0.1");
        conf.set("metastore.warehouse.dir", args[0]);
        conf.set("metastore.warehouse.external.dir", args[0]);
        conf.set("metastore.txn.timeout", args[1]);
        conf.set("metastore.disallow.incompatible.col.type.changes", args[2]);
        conf.set("metastore.event.db.notification.api.auth", "false");
        conf.set("metastore.expression.proxy",
                "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy");
        conf.set("metastore.housekeeping.threads.on", "true");
        conf.set("metastore.task.threads.remote", "");
        conf.set("metastore.task.threads.always",
                "org.apache.hadoop.hive.metastore.txn.service.AcidHouseKeeperService");
        conf.set("metastore.acid.housekeeper.interval", "1s");
        conf.set("metastore.timedout.txn.reaper.interval", "1s");
        Thread serving = new Thread(() -> serve(port, conf));
        serving.setDaemon(true);
        serving.start();
        while (!answers(port)) {
            Thread.sleep(200);
        }
        System.out.println(port);
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }

    private static void makeTables(String script) throws Exception {
        try (Connection connection = DriverManager.getConnection(DATABASE + ";create=true");
                Statement statement = connection.createStatement()) {
            for (String part : script.replaceAll("(?m)^\\s*--.*$", "").split(";\\s*(?=\\n|$)")) {
                if (!part.isBlank()) {
                    statement.execute(part);
                }
            }
        }
    }

    private static void serve(int port, Configuration conf) {
        try {
            HiveMetaStore.startMetaStore(port, null, conf, true, null); // with the tasks that free locks
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static boolean answers(int port) {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            return true;
        } catch (java.io.IOException error) {
            return false;
        }
    }
}
