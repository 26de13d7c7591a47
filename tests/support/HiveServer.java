import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.MetaStoreUtils;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.ql.txn.AcidHouseKeeperService;
import org.apache.hadoop.hive.thrift.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.thrift.HadoopThriftAuthBridge23;
import org.apache.thrift.TProcessor;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TSSLTransportFactory;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportFactory;

/** Hive's metastore over Derby in memory, on loopback alone: {@code HiveMetaStore.main} would bind all addresses. */
public class HiveServer {
    public static void main(String[] args) throws Exception {
        HiveConf conf = new HiveConf();
        conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:memory:metastore;create=true");
        conf.set("datanucleus.connectionPoolingType", "hikaricp");
        conf.set("datanucleus.schema.autoCreateAll", "true");
        conf.set("hive.metastore.schema.verification", "false");
        conf.set("hive.metastore.warehouse.dir", args[0]);
        conf.set("hive.txn.timeout", args[1]);
        conf.set("hive.timedout.txn.reaper.start", "1s");
        conf.set("hive.timedout.txn.reaper.interval", "1s");
        conf.set("hive.metastore.disallow.incompatible.col.type.changes", args[2]);
        conf.set("hive.in.test", "true");
        TxnDbUtil.setConfValues(conf);
        TxnDbUtil.prepDb(conf);
        conf.set("hive.in.test", "false");
        ThriftHiveMetastore.Iface handler = HiveMetaStore.newRetryingHMSHandler("metastore", conf, false);
        new AcidHouseKeeperService().start(conf);
        TProcessor processor = new ThriftHiveMetastore.Processor<>(handler);
        TTransportFactory transports = new TTransportFactory();
        if (args.length > 3) { // as HiveMetaStore does with hive.metastore.sasl.enabled
            conf.set("hive.metastore.sasl.enabled", "true");
            HadoopThriftAuthBridge.Server sasl =
                    new HadoopThriftAuthBridge23().createServer(args[3], args[4]);
            transports = sasl.createTransportFactory(MetaStoreUtils.getMetaStoreSaslProperties(conf));
            processor = sasl.wrapProcessor(processor);
        }
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", 0);
        TServerSocket socket = null;
        if (System.getProperty("tests.keystore") == null) {
            socket = new TServerSocket(address);
        } else {
            TSSLTransportFactory.TSSLTransportParameters tls =
                    new TSSLTransportFactory.TSSLTransportParameters();
            tls.setKeyStore(System.getProperty("tests.keystore"), "changeit", null, "PKCS12");
            socket = TSSLTransportFactory.getServerSocket(0, 0, address.getAddress(), tls);
        }
        TThreadPoolServer server =
                new TThreadPoolServer(
                        new TThreadPoolServer.Args(socket)
                                .processor(processor)
                                .transportFactory(transports)
                                .protocolFactory(new TBinaryProtocol.Factory()));
        Thread serving = new Thread(server::serve);
        serving.setDaemon(true);
        serving.start();
        handler.getStatus();
        System.out.println(socket.getServerSocket().getLocalPort());
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
