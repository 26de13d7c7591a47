import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** Says which classes, fields, methods and constructors this Spark lacks. */
public final class PaimonMembers {
    /**
     * @param given lines "class name", "field name owner", "method name owner", "constructor count owner"
     * @return a text of one character for each: 1 where it is there, 0 where not
     */
    public String probe(String given) {
        String[] wanted = given.split("\n");
        StringBuilder found = new StringBuilder();
        for (int at = 0; at < wanted.length; at++) {
            found.append(has(wanted[at].split(" ")) ? '1' : '0');
        }
        return found.toString();
    }

    private boolean has(String[] words) {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            Class owner = Class.forName(words[words.length - 1], false, loader);
            if (words[0].equals("field")) {
                return hasField(owner, words[1]);
            }
            if (words[0].equals("method")) {
                return hasMethod(owner, words[1]);
            }
            return !words[0].equals("constructor") || hasConstructor(owner, Integer.parseInt(words[1]));
        } catch (ClassNotFoundException error) {
            return false;
        } catch (LinkageError error) {
            return false;
        }
    }

    private static boolean hasField(Class owner, String name) {
        for (Class at = owner; at != null; at = at.getSuperclass()) {
            Field[] fields = at.getDeclaredFields();
            for (int i = 0; i < fields.length; i++) {
                if (fields[i].getName().equals(name)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean hasMethod(Class owner, String name) {
        Method[] methods = owner.getMethods();
        for (int i = 0; i < methods.length; i++) {
            if (methods[i].getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    private static boolean hasConstructor(Class owner, int count) {
        Constructor[] constructors = owner.getConstructors();
        for (int i = 0; i < constructors.length; i++) {
            if (constructors[i].getParameterTypes().length == count) {
                return true;
            }
        }
        return false;
    }
}
