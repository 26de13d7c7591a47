/** HDFS for the tests: a MiniDFSCluster with one NameNode or two. It prints their ports and ends with its input. */
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

public class Hdfs {
    public static void main(String[] arguments) throws Exception {
        boolean two = arguments.length > 1;
        Configuration settings = new Configuration();
        settings.set("dfs.namenode.fs-limits.min-block-size", "0");
        settings.set("dfs.ha.tail-edits.period", "1");
        MiniDFSCluster.Builder builder =
            new MiniDFSCluster.Builder(settings, new java.io.File(arguments[0])).numDataNodes(1);
        if (two) builder.nnTopology(MiniDFSNNTopology.simpleHATopology());
        MiniDFSCluster cluster = builder.build();
        if (two) cluster.transitionToActive(0);
        cluster.waitActive();
        String ports = "" + cluster.getNameNodePort(0);
        System.out.println("PORT " + (two ? ports + " " + cluster.getNameNodePort(1) : ports));
        System.out.flush();
        int command;
        while ((command = System.in.read()) >= 0) {
            if (command == 'f') {  // the active one dies, the other one takes over
                cluster.shutdownNameNode(0);
                cluster.transitionToActive(1);
            } else if (command == 'b') {  // the first one comes back, and takes over while both live
                cluster.restartNameNode(0, false);
                cluster.transitionToStandby(1);
                cluster.transitionToActive(0);
            } else {
                continue;
            }
            System.out.println("DONE");
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
