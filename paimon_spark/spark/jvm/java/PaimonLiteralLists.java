import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.TreeSet;
import org.apache.spark.sql.connector.expressions.LiteralValue;

/** Writes the literals of an IN predicate as one JSON text: classes of the values, Spark types, texts. */
public final class PaimonLiteralLists {
    public String toJson(Object given) {
        Object[] children = (Object[]) given;
        TreeSet kinds = new TreeSet();
        TreeSet types = new TreeSet();
        String[] texts = new String[children.length - 1];
        for (int at = 0; at < texts.length; at++) {
            if (!(children[at + 1] instanceof LiteralValue)) {
                return null;
            }
            LiteralValue literal = (LiteralValue) children[at + 1];
            Object value = literal.value();
            if (value == null) {
                continue;
            }
            kinds.add(value.getClass().getSimpleName());
            types.add(literal.dataType().simpleString());
            texts[at] = value instanceof byte[] ? hex((byte[]) value) : value.toString();
        }
        try {
            return new ObjectMapper().writeValueAsString(new Object[] {kinds.toArray(), types.toArray(), texts});
        } catch (JsonProcessingException error) {
            return null;
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder(2 * bytes.length);
        for (int at = 0; at < bytes.length; at++) {
            text.append(Character.forDigit(bytes[at] >> 4 & 15, 16)).append(Character.forDigit(bytes[at] & 15, 16));
        }
        return text.toString();
    }
}
