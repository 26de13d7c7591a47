import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import py4j.Gateway;
import py4j.reflection.PythonProxyHandler;

/**
 * Stands before a Python object that answers Java interfaces, and answers for it what Python has said in advance.
 *
 * Of a method it knows one of these: the answer ("answers"); that the call is kept until the next question and what it
 * returns ("noted"); that arguments and answer are JSON ("asked"). A default method that Python does not define
 * ("defined") is Java's own. Every other method is py4j's own call of Python.
 * Lives in the driver; nothing of it is sent to executors.
 */
public final class PaimonProxy extends PythonProxyHandler {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map CLASSES = new HashMap();
    private static final Method DEFAULT = invokeDefault();

    private final String id;
    private final Gateway gateway;
    private final String text;
    private final Map answers;
    private final Map noted;
    private final Set asked;
    private final Set defined;
    private final List settings;
    private final Map known = new HashMap();
    private final Map repeated = new HashMap();
    private List before = new ArrayList();
    private Object[] kept;

    private PaimonProxy(String id, Gateway gateway, Map described, Object[] kept) {
        super(id, gateway);
        this.id = id;
        this.gateway = gateway;
        this.text = (String) described.get("text");
        this.answers = (Map) described.get("answers");
        this.noted = (Map) described.get("noted");
        this.asked = new HashSet((Collection) described.get("asked"));
        this.defined = new HashSet((Collection) described.get("defined"));
        this.settings = (List) described.get("settings");
        this.kept = kept;
    }

    /** A proxy as Python describes it in JSON; the proxy is any of py4j's, by which its gateway is found. */
    static Object of(Object proxy, String description) throws Exception {
        InvocationHandler handler = Proxy.getInvocationHandler(proxy);
        java.lang.reflect.Field field = PythonProxyHandler.class.getDeclaredField("gateway");
        field.setAccessible(true);
        return make((Gateway) field.get(handler), (Map) JSON.readValue(description, Map.class), new Object[0]);
    }

    static String json(Object value) throws Exception {
        return JSON.writeValueAsString(value);
    }

    static Object parsed(String json) throws Exception {
        return JSON.readValue(json, Object.class);
    }

    static Object make(Gateway gateway, Map described, Object[] kept) throws ClassNotFoundException {
        ClassLoader loader = PaimonProxy.class.getClassLoader();
        List names = (List) described.get("interfaces");
        Class[] interfaces;
        synchronized (CLASSES) {
            interfaces = (Class[]) CLASSES.get(names);
            if (interfaces == null) {
                interfaces = new Class[names.size()];
                for (int at = 0; at < interfaces.length; at++) {
                    interfaces[at] = Class.forName((String) names.get(at), true, loader);
                }
                CLASSES.put(names, interfaces);
            }
        }
        PaimonProxy handler = new PaimonProxy((String) described.get("id"), gateway, described, kept);
        return Proxy.newProxyInstance(loader, interfaces, handler);
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        String name = method.getName();
        int count = arguments == null ? 0 : arguments.length;
        if (count == 0 && name.equals("toString")) {
            return text;
        }
        if (count == 0 && name.equals("hashCode")) {
            return Integer.valueOf(text.hashCode());
        }
        if (count == 1 && name.equals("equals")) {
            return Boolean.valueOf(isSame(proxy, arguments[0]));
        }
        synchronized (this) {
            if (name.equals("properties") && PaimonArguments.isCalledBy(".ShowCreateTableExec")) {
                return PaimonAnswers.ofCreate(answers.get(name), this);
            }
            if (known.containsKey(name)) {
                return known.get(name);
            }
            if (answers.containsKey(name)) {
                Object answer = PaimonAnswers.decode(answers.get(name), this, arguments);
                if (method.getReturnType() == Long.TYPE) {
                    answer = Long.valueOf(((Number) answer).longValue());
                }
                known.put(name, answer);
                return answer;
            }
            if (noted.containsKey(name)) {
                List call = new ArrayList();
                call.add(name);
                call.add(PaimonArguments.encode(arguments));
                before.add(call);
                return noted.get(name);
            }
            if (asked.contains(name)) {
                try {
                    return ask(proxy, name, arguments);
                } catch (Throwable error) {
                    throw declared(method, error);
                }
            }
        }
        try {
            return method.isDefault() && !defined.contains(name)
                ? byDefault(proxy, method, arguments)
                : super.invoke(proxy, method, arguments);
        } catch (Throwable error) {
            throw declared(method, error);
        }
    }

    /** What the interface itself does. Janino calls no static method of an interface. */
    private static Object byDefault(Object proxy, Method method, Object[] arguments) throws Throwable {
        try {
            return DEFAULT.invoke(null, new Object[] {proxy, method, arguments});
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    private static Method invokeDefault() {
        try {
            return InvocationHandler.class.getMethod(
                "invokeDefault", new Class[] {Object.class, Method.class, Object[].class});
        } catch (NoSuchMethodException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Whether an object is the same by its text. */
    private boolean isSame(Object proxy, Object other) {
        return other == proxy || other != null && text.equals(String.valueOf(other));
    }

    private Object ask(Object proxy, String name, Object[] arguments) throws Throwable {
        Map request = new HashMap();
        request.put("before", before);
        request.put("arguments", PaimonArguments.encode(arguments));
        request.put("settings", PaimonArguments.settings(settings));
        if (name.equals("estimateStatistics")) {
            request.put("described", Boolean.valueOf(PaimonArguments.isCalledBy(".DescribeTableExec")));
        }
        before = new ArrayList();
        Method python = PaimonPython.class.getMethod("ask", new Class[] {String.class, String.class});
        Object[] asking = new Object[] {name, JSON.writeValueAsString(request)};
        Object[] last = (Object[]) repeated.get(name);
        if (last != null && last[0].equals(asking[1])) {
            return last[1];
        }
        Map reply = (Map) JSON.readValue((String) super.invoke(proxy, python, asking), Map.class);
        if (reply.containsKey("keep")) {
            kept = PaimonAnswers.picked((List) reply.get("keep"), predicates((Object[]) arguments[0]));
        }
        for (Iterator all = ((List) reply.get("forget")).iterator(); all.hasNext();) {
            known.remove(all.next());
        }
        for (Iterator all = ((Map) reply.get("remember")).entrySet().iterator(); all.hasNext();) {
            Map.Entry entry = (Map.Entry) all.next();
            known.put(entry.getKey(), PaimonAnswers.decode(entry.getValue(), this, arguments));
        }
        Object answer;
        try {
            answer = PaimonAnswers.decode(reply.get("value"), this, arguments);
        } catch (PaimonAnswers.Refusal refusal) {
            answer = ask(proxy, "refused", new Object[] {refusal.getMessage()});
        }
        if (Boolean.TRUE.equals(reply.get("repeated"))) {
            repeated.put(name, new Object[] {asking[1], answer});
        }
        if (Boolean.TRUE.equals(reply.get("once"))) {
            known.put(name, answer);
        }
        return answer;
    }

    /** The predicates of a question: its first argument, or the second element of that (`PaimonStreamColumns`). */
    private static Object[] predicates(Object[] given) {
        return given.length == 2 && given[1] instanceof Object[] ? (Object[]) given[1] : given;
    }

    /** What a method without arguments answers from now on. */
    void remember(String name, Object answer) {
        known.put(name, answer);
    }

    /** What Python has said in advance. */
    Object said(String name) {
        return answers.get(name);
    }

    /** What Python has said in advance for a proxy of ours; null for other objects. */
    static Object saidBy(Object object, String name) {
        return isOurs(object) ? ((PaimonProxy) Proxy.getInvocationHandler(object)).said(name) : null;
    }

    /** The answer to a question that no interface of Java has; null where it is not asked of the object. */
    static Object answered(Object object, String name) {
        if (!isOurs(object)) {
            return null;
        }
        PaimonProxy handler = (PaimonProxy) Proxy.getInvocationHandler(object);
        synchronized (handler) {
            if (handler.known.containsKey(name) || handler.answers.containsKey(name) || !handler.asked.contains(name)) {
                return handler.known.get(name);
            }
            try {
                return handler.ask(object, name, new Object[0]);
            } catch (RuntimeException error) {
                throw error;
            } catch (Throwable error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** The id of the Python object behind a proxy of ours; null for other objects. */
    static String idOf(Object object) {
        return isOurs(object) ? ((PaimonProxy) Proxy.getInvocationHandler(object)).id : null;
    }

    /** Whether an object is one of ours. */
    static boolean isOurs(Object object) {
        return Proxy.isProxyClass(object.getClass()) && Proxy.getInvocationHandler(object) instanceof PaimonProxy;
    }

    /** Whether the answers say that nothing is to be asked of it any more. */
    boolean isSettled() {
        return answers.containsKey("isSettled");
    }

    Gateway gateway() {
        return gateway;
    }

    /** Objects of a question that its answer kept: predicates that were pushed down. */
    Object[] kept() {
        return kept;
    }

    private static Throwable declared(Method method, Throwable error) {
        if (error instanceof RuntimeException || error instanceof Error) {
            return error;
        }
        Class[] allowed = method.getExceptionTypes();
        for (int at = 0; at < allowed.length; at++) {
            if (allowed[at].isInstance(error)) {
                return error;
            }
        }
        return new IllegalArgumentException(error.getMessage(), error);
    }
}
