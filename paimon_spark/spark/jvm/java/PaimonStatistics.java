import java.math.BigDecimal;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.Decimal;

/** How much a scan reads, and what ANALYZE found of its columns. */
final class PaimonStatistics implements Statistics {
    private final Number rows;
    private final Number bytes;
    private final Map columns = new HashMap();

    /** Each column: name, distinct values, nulls, mean and greatest length, kind of its values, least, greatest. */
    PaimonStatistics(Number rows, Number bytes, List columns) {
        this.rows = rows;
        this.bytes = bytes;
        for (Object given : columns == null ? Collections.EMPTY_LIST : columns) {
            List column = (List) given;
            this.columns.put(Expressions.column((String) column.get(0)), new Column(column));
        }
    }

    public OptionalLong sizeInBytes() {
        return OptionalLong.of(bytes.longValue());
    }

    public OptionalLong numRows() {
        return optional(rows);
    }

    public Map columnStats() {
        return columns;
    }

    private static OptionalLong optional(Object number) {
        return number == null ? OptionalLong.empty() : OptionalLong.of(((Number) number).longValue());
    }

    static final class Column implements ColumnStatistics {
        private final List found;

        Column(List found) {
            this.found = found;
        }

        public OptionalLong distinctCount() {
            return optional(found.get(1));
        }

        public OptionalLong nullCount() {
            return optional(found.get(2));
        }

        public OptionalLong avgLen() {
            return optional(found.get(3));
        }

        public OptionalLong maxLen() {
            return optional(found.get(4));
        }

        public Optional min() {
            return value((String) found.get(6));
        }

        public Optional max() {
            return value((String) found.get(7));
        }

        /** A value as Spark keeps it inside. */
        private Optional value(String text) {
            String kind = (String) found.get(5);
            if (text == null) {
                return Optional.empty();
            } else if (kind.equals("boolean")) {
                return Optional.of(Boolean.valueOf(text));
            } else if (kind.equals("tinyint")) {
                return Optional.of(Byte.valueOf(text));
            } else if (kind.equals("smallint")) {
                return Optional.of(Short.valueOf(text));
            } else if (kind.equals("int")) {
                return Optional.of(Integer.valueOf(text));
            } else if (kind.equals("bigint")) {
                return Optional.of(Long.valueOf(text));
            } else if (kind.equals("float")) {
                return Optional.of(Float.valueOf(text));
            } else if (kind.equals("double")) {
                return Optional.of(Double.valueOf(text));
            }
            return Optional.of(Decimal.apply(new BigDecimal(text)));
        }
    }
}
