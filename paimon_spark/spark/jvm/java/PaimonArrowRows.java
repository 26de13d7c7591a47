import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;

/** Rows that Python hands over as a stream of Arrow. */
public final class PaimonArrowRows {
    private PaimonArrowRows() {
    }

    static InternalRow[] rows(StructType struct, byte[] stream) {
        if (stream.length == 0) {
            return new InternalRow[0];
        }
        Iterator streams = scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(stream)).iterator();
        Tuple2 read = (Tuple2) (Object) ArrowConverters$.MODULE$.fromBatchWithSchemaIterator(streams, null);
        Iterator rows = (Iterator) read._1();
        UnsafeProjection projection = UnsafeProjection.create(struct);
        List found = new ArrayList();
        while (rows.hasNext()) {  // the last call frees Arrow's memory
            found.add(projection.apply((InternalRow) rows.next()).copy());
        }
        return (InternalRow[]) found.toArray(new InternalRow[found.size()]);
    }
}
