import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.RequestedVariantField;
import org.apache.spark.sql.execution.datasources.VariantInRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An optimizer rule: a scan of ours is given which paths of its VARIANT columns a query touches (`spark/catalog/scan_plan.py`).
 *
 * Spark's own rule (PushVariantIntoScan) knows only its file sources, or lets a source read all columns. The scan answers
 * with another one that reads less. Its values have at least what the paths need, so the query stays as it is.
 */
public final class PaimonVariantPaths extends Rule {
    private static final String SETTING = "spark.sql.variant.pushVariantIntoScan";

    public TreeNode apply(TreeNode plan) {
        return "false".equals(SQLConf.get().settings().get(SETTING)) ? plan : plan.transformDown(new Plans());
    }

    static final class Plans extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return true;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            Object changed = node;
            if (node instanceof Aggregate) {
                changed = PaimonVariantAggregates.hoisted((Aggregate) node);
            } else if (node instanceof Project || node instanceof Filter) {
                changed = narrowed((LogicalPlan) node);
            }
            return changed == null ? node : changed;
        }
    }

    /** The relation under a plan of columns and filters, if it is ours and has VARIANT columns. */
    static DataSourceV2ScanRelation relation(scala.Option operation) {
        if (operation.isEmpty() || !(((scala.Tuple3) operation.get())._3() instanceof DataSourceV2ScanRelation)) {
            return null;
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) ((scala.Tuple3) operation.get())._3();
        Object scan = relation.scan();
        return scan instanceof Function && PaimonProxy.isOurs(scan) && relation.schema().existsRecursively(new HasVariant())
            ? relation : null;
    }

    static final class HasVariant extends scala.runtime.AbstractFunction1 {
        public Object apply(Object type) {
            return Boolean.valueOf(type instanceof VariantType);
        }
    }

    private static LogicalPlan narrowed(LogicalPlan node) {
        scala.Option operation = (scala.Option) PhysicalOperation.unapply(node);
        DataSourceV2ScanRelation relation = relation(operation);
        if (relation == null) {
            return null;
        }
        scala.Tuple3 found = (scala.Tuple3) operation.get();
        VariantInRelation variants = requested(relation, list(found._1()), list(found._2()));
        List paths = paths(relation, variants);
        if (paths.isEmpty()) {
            return null;
        }
        Scan scan = otherScan(relation, paths);
        return scan == null ? null : (LogicalPlan) (Object) node.transformUp(new Swap(relation, reading(relation, scan)));
    }

    private static VariantInRelation requested(DataSourceV2ScanRelation relation, List projects, List filters) {
        VariantInRelation variants = new VariantInRelation();
        List columns = list(relation.output());
        for (int at = 0; at < columns.size(); at++) {
            AttributeReference column = (AttributeReference) columns.get(at);
            variants.addVariantFields(column.exprId(), column.dataType(), null, seq(new ArrayList()));
        }
        List all = new ArrayList(projects);
        all.addAll(filters);
        for (int at = 0; at < all.size(); at++) {
            variants.collectRequestedFields((Expression) all.get(at));
        }
        return variants;
    }

    /** Pairs of a VARIANT's names, those of the ROWs that it is in first, and of the paths that are touched. */
    private static List paths(DataSourceV2ScanRelation relation, VariantInRelation variants) {
        List found = new ArrayList();
        List columns = list(relation.output());
        for (int at = 0; at < columns.size(); at++) {
            AttributeReference column = (AttributeReference) columns.get(at);
            scala.Option places = variants.mapping().get(column.exprId());
            List inside = places.isEmpty() ? Collections.EMPTY_LIST : list(places.get());
            for (int place = 0; place < inside.size(); place++) {
                scala.Tuple2 entry = (scala.Tuple2) inside.get(place);
                List touched = touched(list(((scala.collection.mutable.HashMap) entry._2()).keySet()));
                if (touched != null) {
                    List pair = new ArrayList();
                    pair.add(names(column, list(entry._1())));
                    pair.add(touched);
                    found.add(pair);
                }
            }
        }
        return found;
    }

    /** The paths of what is requested as names up to the first element of an array; null if that is the whole value. */
    private static List touched(List fields) {
        List found = new ArrayList();
        for (int at = 0; at < fields.size(); at++) {
            Object[] segments;
            try {
                segments = ((RequestedVariantField) fields.get(at)).path().parsedPath();
            } catch (RuntimeException error) { // the query says so when it runs
                return null;
            }
            List names = new ArrayList();
            for (int i = 0; i < segments.length && segments[i] instanceof
                    org.apache.spark.sql.catalyst.expressions.variant.ObjectExtraction; i++) {
                names.add(((org.apache.spark.sql.catalyst.expressions.variant.ObjectExtraction) segments[i]).key());
            }
            if (names.isEmpty()) {
                return null;
            }
            found.add(names);
        }
        return found;
    }

    private static List names(AttributeReference column, List ordinals) {
        List names = new ArrayList();
        names.add(column.name());
        DataType type = column.dataType();
        for (int at = 0; at < ordinals.size(); at++) {
            int ordinal = ((Number) ordinals.get(at)).intValue();
            names.add(((StructType) type).fields()[ordinal].name());
            type = ((StructType) type).fields()[ordinal].dataType();
        }
        return names;
    }

    /** A node with another one in its place. */
    static final class Swap extends scala.runtime.AbstractPartialFunction {
        private final Object from;
        private final Object to;

        Swap(Object from, Object to) {
            this.from = from;
            this.to = to;
        }

        public boolean isDefinedAt(Object node) {
            return node == from;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return node == from ? to : otherwise.apply(node);
        }
    }

    /** The scan that a scan of ours answers with, where it is asked for one that reads something else. */
    static Scan otherScan(DataSourceV2ScanRelation relation, Object asked) {
        try {
            return (Scan) ((Function) relation.scan()).apply(PaimonProxy.json(asked));
        } catch (RuntimeException error) {
            throw error;
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** A plan with another part; what else it is made of differs between versions. */
    static Object with(scala.Product plan, String name, Object value) {
        try {
            Object[] parts = new Object[plan.productArity()];
            for (int at = 0; at < parts.length; at++) {
                parts[at] = plan.productElementName(at).equals(name) ? value : plan.productElement(at);
            }
            return plan.getClass().getConstructors()[0].newInstance(parts);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** A relation with another scan than its builder gives for its columns and filters: Spark 4.3 builds none anew. */
    static Object reading(DataSourceV2ScanRelation relation, Object scan) {
        return with((scala.Product) with(relation, "scan", scan), "mergeableScan", Boolean.FALSE);
    }

    static scala.collection.immutable.Seq seq(List values) {
        return CollectionConverters.asScala(values).toList();
    }

    static List list(Object sequence) {
        List found = new ArrayList();
        scala.collection.Iterator all = ((scala.collection.Iterable) sequence).iterator();
        while (all.hasNext()) {
            found.add(all.next());
        }
        return found;
    }
}
