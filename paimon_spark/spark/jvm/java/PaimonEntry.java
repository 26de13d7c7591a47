import java.util.function.BiFunction;
import java.util.function.Function;

/** Where Python enters: a proxy and its description give the one that answers; null and an expression its tree. */
public final class PaimonEntry implements BiFunction {
    public Object apply(Object proxy, Object given) {
        try {
            return proxy == null
                ? PaimonProxy.json(PaimonArguments.encode(given))
                : PaimonProxy.of(proxy, (String) given);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    public BiFunction andThen(Function after) {
        throw new UnsupportedOperationException();
    }
}
