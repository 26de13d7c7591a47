import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatch;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.python.EvaluatePython;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Python's answers as Spark's objects: plain values, or lists whose first element says what they make (`answer_proxy.py`). */
final class PaimonAnswers {
    private static final Map TYPES = Collections.synchronizedMap(new HashMap());
    private static final int MOST_TYPES = 500;

    /** Spark's own Parquet reader cannot be made here; Python then reads. */
    static final class Refusal extends Exception {
        Refusal(Throwable cause) {
            super(String.valueOf(cause));
        }
    }

    /** The properties of a table without its path, which SHOW CREATE TABLE shows as its LOCATION. */
    static Object ofCreate(Object properties, PaimonProxy handler) throws Exception {
        Map found = (Map) decode(properties, handler, null);
        if (found.containsKey("location")) {
            found.remove("path");
        }
        return found;
    }

    static Object decode(Object given, PaimonProxy handler, Object[] arguments) throws Exception {
        if (!(given instanceof List)) {
            return given;
        }
        List tagged = (List) given;
        String tag = (String) tagged.get(0);
        Object value = tagged.size() > 1 ? tagged.get(1) : null;
        if (tag.equals("struct")) {
            return type((String) value);
        } else if (tag.equals("columns")) {
            return columns((StructType) type((String) value));
        } else if (tag.equals("strings")) {
            return ((List) value).toArray(new String[0]);
        } else if (tag.equals("map")) {
            return new HashMap((Map) value);
        } else if (tag.equals("set")) {
            return new HashSet((List) value);
        } else if (tag.equals("constants")) {
            return constants(Class.forName((String) value), (List) tagged.get(2));
        } else if (tag.equals("constant")) {
            return constants(Class.forName((String) value), tagged.subList(2, 3)).iterator().next();
        } else if (tag.equals("none of")) {
            return Array.newInstance(Class.forName((String) value), 0);
        } else if (tag.equals("identity")) {
            Transform[] transforms = new Transform[((List) value).size()];
            for (int at = 0; at < transforms.length; at++) {
                transforms[at] = Expressions.identity((String) ((List) value).get(at));
            }
            return transforms;
        } else if (tag.equals("references")) {
            NamedReference[] references = new NamedReference[((List) value).size()];
            for (int at = 0; at < references.length; at++) {
                references[at] = Expressions.column((String) ((List) value).get(at));
            }
            return references;
        } else if (tag.equals("identifiers")) {
            String[] namespace = (String[]) ((List) value).toArray(new String[0]);
            List names = (List) tagged.get(2);
            Identifier[] identifiers = new Identifier[names.size()];
            Method of = Identifier.class.getMethod("of", new Class[] {String[].class, String.class});
            for (int at = 0; at < identifiers.length; at++) {
                identifiers[at] = (Identifier) of.invoke(null, new Object[] {namespace, names.get(at)});
            }
            return identifiers;
        } else if (tag.equals("metadata")) {
            MetadataColumn[] columns = new MetadataColumn[((List) value).size()];
            for (int at = 0; at < columns.length; at++) {
                columns[at] = new Column((List) ((List) value).get(at));
            }
            return columns;
        } else if (tag.equals("statistics")) {
            return new PaimonStatistics((Number) value, (Number) tagged.get(2), tagged.size() > 3 ? (List) tagged.get(3) : null);
        } else if (tag.equals("long")) {
            return OptionalLong.of(((Number) value).longValue());
        } else if (tag.equals("proxy")) {
            return PaimonProxy.make(handler.gateway(), (Map) value, handler.kept());
        } else if (tag.equals("list")) {
            Object[] found = ((List) value).toArray();
            for (int at = 0; at < found.length; at++) {
                found[at] = decode(found[at], handler, arguments);
            }
            return Arrays.asList(found);
        } else if (tag.equals("picked")) {
            return picked((List) value, (Object[]) arguments[0]);
        } else if (tag.equals("rows")) {
            return rows((StructType) type((String) value), (String) tagged.get(2));
        } else if (tag.equals("arrow rows")) {
            return arrowRows((StructType) type((String) value), (String) tagged.get(2));
        } else if (tag.equals("memory batch")) {
            return memoryBatch((StructType) type((String) value), (String) tagged.get(2));
        } else if (tag.equals("python batch")) {
            return pythonBatch((StructType) type((String) value), (String) tagged.get(2), (List) tagged.get(3));
        } else if (tag.equals("parquet batch")) {
            return parquetBatch((Map) value, handler.kept());
        } else if (tag.equals("bucketed batch")) {
            return PaimonBuckets.batch((Batch) decode(value, handler, arguments), (List) tagged.get(2));
        } else if (tag.equals("metrics")) {
            return PaimonMetrics.supported((List) value);
        } else if (tag.equals("metric values")) {
            return PaimonMetrics.values((Map) value);
        } else if (tag.equals("v1 table")) {
            return PaimonV1Tables.table((Map) value);
        } else if (tag.equals("file scan")) {
            return PaimonFileScans.builder((Map) value);
        } else if (tag.equals("clustered")) {
            return clustered((List) value);
        } else if (tag.equals("parameters")) {
            return parameters((List) value);
        } else if (tag.equals("offset")) {
            return new PaimonOffset((String) value);
        } else if (tag.equals("limit")) {
            return limit((Number) value);
        } else if (tag.equals("partitions of")) {
            Batch batch = (Batch) decode(value, handler, arguments);
            handler.remember("createReaderFactory", batch.createReaderFactory());
            return batch.planInputPartitions();
        }
        throw new IllegalArgumentException("unknown answer " + tag);
    }

    /** Janino calls no static method of an interface. */
    private static Object limit(Number rows) throws Exception {
        return rows == null
            ? ReadLimit.class.getMethod("allAvailable", new Class[0]).invoke(null, new Object[0])
            : ReadLimit.class.getMethod("maxRows", new Class[] {Long.TYPE})
                .invoke(null, new Object[] {Long.valueOf(rows.longValue())});
    }

    private static Distribution clustered(List columns) {
        Expression[] keys = new Expression[columns.size()];
        for (int at = 0; at < keys.length; at++) {
            keys[at] = Expressions.column((String) columns.get(at));
        }
        return keys.length == 0 ? Distributions.unspecified() : Distributions.clustered(keys);
    }

    /** One that need not be given has NULL for a default. Janino calls no static method of an interface. */
    private static Object parameters(List given) throws Exception {
        Method in = ProcedureParameter.class.getMethod("in", new Class[] {String.class, DataType.class});
        ProcedureParameter[] found = new ProcedureParameter[given.size()];
        for (int at = 0; at < found.length; at++) {
            List each = (List) given.get(at);
            ProcedureParameter.Builder builder = (ProcedureParameter.Builder) in.invoke(
                null, new Object[] {each.get(0), type((String) each.get(1))});
            found[at] = (((Boolean) each.get(2)).booleanValue() ? builder : builder.defaultValue("NULL")).build();
        }
        return found;
    }

    static DataType type(String json) {
        Object found = TYPES.get(json);
        if (found == null) {
            if (TYPES.size() > MOST_TYPES) {
                TYPES.clear();
            }
            found = DataType.fromJson(json);
            TYPES.put(json, found);
        }
        return (DataType) found;
    }

    static Object[] picked(List places, Object[] values) {
        Object[] found = (Object[]) Array.newInstance(values.getClass().getComponentType(), places.size());
        for (int at = 0; at < found.length; at++) {
            found[at] = values[((Number) places.get(at)).intValue()];
        }
        return found;
    }

    /** From Spark 4.3 on the method has a second parameter: whether to keep ids. */
    private static Object columns(StructType struct) throws Exception {
        Method[] methods = CatalogV2Util.class.getMethods();
        for (int at = 0; at < methods.length; at++) {
            if (methods[at].getName().equals("structTypeToV2Columns")) {
                boolean alone = methods[at].getParameterCount() == 1;
                return methods[at].invoke(
                    null, alone ? new Object[] {struct} : new Object[] {struct, Boolean.FALSE});
            }
        }
        throw new NoSuchMethodException("structTypeToV2Columns");
    }

    private static Set constants(Class kind, List names) {
        Set found = new HashSet();
        Object[] all = kind.getEnumConstants();
        for (int at = 0; at < all.length; at++) {
            if (names.contains(((Enum) all[at]).name())) {
                found.add(all[at]);
            }
        }
        return found;
    }

    private static InternalRow[] rows(StructType struct, String pickled) throws Exception {
        Object values = new Unpickler().loads(Base64.getDecoder().decode(pickled));
        Object converted = EvaluatePython.makeFromJava(new ArrayType(struct, false)).apply(values);
        Object[] rows = ((org.apache.spark.sql.catalyst.util.ArrayData) converted).array();
        return (InternalRow[]) Arrays.copyOf(rows, rows.length, InternalRow[].class);
    }

    /** By a class that is compiled when it is first used, and may not fit this Spark. */
    private static Object arrowRows(StructType struct, String stream) {
        return PaimonArrowRows.rows(struct, Base64.getDecoder().decode(stream));
    }

    /** A batch of rows in memory, by classes of Spark's alone, since it travels to executors. */
    private static Object memoryBatch(StructType struct, String pickled) throws Exception {
        InternalRow[] rows = rows(struct, pickled);
        UnsafeProjection projection = UnsafeProjection.create(struct);
        UnsafeRow[] packed = new UnsafeRow[rows.length];
        for (int at = 0; at < rows.length; at++) {
            packed[at] = projection.apply(rows[at]).copy();
        }
        InputPartition[] partitions = new InputPartition[rows.length == 0 ? 0 : 1];
        if (rows.length > 0) {
            partitions[0] = (InputPartition) memoryClass("MemoryStreamInputPartition").getConstructors()[0].newInstance(
                new Object[] {packed});
        }
        Object readers = memoryClass("MemoryStreamReaderFactory$").getField("MODULE$").get(null);
        return new Files("PaimonRowsBatch", partitions, (PartitionReaderFactory) readers);
    }

    /** Until Spark 4.0 the package was another one. */
    private static Class memoryClass(String name) throws Exception {
        try {
            return Class.forName("org.apache.spark.sql.execution.streaming.runtime." + name);
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.spark.sql.execution.streaming." + name);
        }
    }

    /** Spark's batch over a reader that is planned already: its planning worker is not asked. */
    /** Partitions of a batch by which it is compared; of more nothing is kept. */
    private static final int MOST_COMPARED = 1000;

    private static Object pythonBatch(StructType schema, String function, List partitions) throws Exception {
        byte[][] packed = new byte[partitions.size()][];
        for (int at = 0; at < packed.length; at++) {
            packed[at] = Base64.getDecoder().decode((String) partitions.get(at));
        }
        PythonDataSourceV2 provider = new PythonDataSourceV2();
        provider.setShortName("paimon");
        PythonBatch batch =
            new PythonBatch(provider, "paimon", schema, new CaseInsensitiveStringMap(new HashMap()));
        Object info = new PythonDataSourceReadInfo(
            Base64.getDecoder().decode(function),
            PythonUtils.toSeq(Arrays.asList((Object[]) packed)).toList());
        set(batch, "infoInPython", info);
        set(batch, "bitmap$0", Boolean.TRUE);
        List said = partitions.size() > MOST_COMPARED ? null
            : Arrays.asList(new Object[] {function, partitions, schema});
        return new Files(batch.toString(), batch.planInputPartitions(), batch.createReaderFactory(), said);
    }

    /** By a class that is compiled when it is first used, and may not fit this Spark. */
    private static Object parquetBatch(Map given, Object[] pushed) throws Refusal {
        try {
            Class parquet = Class.forName("PaimonParquet", true, PaimonAnswers.class.getClassLoader());
            Method batch = parquet.getMethod("batch", new Class[] {Map.class, Object[].class});
            return batch.invoke(null, new Object[] {given, pushed});
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw new Refusal(error.getCause());
        } catch (Exception error) {
            throw new Refusal(error);
        } catch (LinkageError error) {
            throw new Refusal(error);
        }
    }

    static void set(Object target, String name, Object value) throws Exception {
        Field field = target.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(target, value);
    }

    static final class Column implements MetadataColumn {
        private final List given;

        Column(List given) {
            this.given = given;
        }

        public String name() {
            return (String) given.get(0);
        }

        public DataType dataType() {
            return type((String) given.get(1));
        }

        public boolean isNullable() {
            return ((Boolean) given.get(2)).booleanValue();
        }

        public String comment() {
            return null;
        }

        public Transform transform() {
            return null;
        }

        public String metadataInJSON() {
            return null;
        }
    }

    /** A batch; two that say the same are equal, so that Spark reads once what a query reads twice. */
    static final class Files implements Batch {
        private final InputPartition[] partitions;
        private final PartitionReaderFactory factory;
        private final String name;
        private final List said;

        Files(String name, InputPartition[] partitions, PartitionReaderFactory factory) {
            this(name, partitions, factory, null);
        }

        /** `said`: all that decides what is read; null where the batch equals no other one. */
        Files(String name, InputPartition[] partitions, PartitionReaderFactory factory, List said) {
            this.name = name;
            this.partitions = partitions;
            this.factory = factory;
            this.said = said;
        }

        public boolean equals(Object other) {
            return this == other || said != null && other instanceof Files && said.equals(((Files) other).said);
        }

        public int hashCode() {
            return said == null ? System.identityHashCode(this) : said.get(0).hashCode() * 31 + partitions.length;
        }

        public InputPartition[] planInputPartitions() {
            return partitions;
        }

        public PartitionReaderFactory createReaderFactory() {
            return factory;
        }

        public String toString() {
            return name;
        }
    }
}
