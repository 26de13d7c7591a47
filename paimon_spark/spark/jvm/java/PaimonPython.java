/** What Java asks a Python object: a method and its arguments as one JSON text, answered by one JSON text. */
public interface PaimonPython {
    String ask(String method, String request);
}
