"""The values of a long IN list in one call: py4j would ask for each of them, 20 µs and more a value.

A Java class, compiled by Janino like the parser (see `parser`), writes the literals as one JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

_CLASS: Final = "PaimonLiteralLists"
_EXPRESSIONS: Final = "org.apache.spark.sql.connector.expressions"
_SOURCE: Final = f"""
    public final class {_CLASS} implements java.util.function.Function {{
        public Object apply(Object given) {{
            Object[] children = (Object[]) given;
            java.util.TreeSet kinds = new java.util.TreeSet();
            java.util.TreeSet types = new java.util.TreeSet();
            String[] texts = new String[children.length - 1];
            for (int at = 0; at < texts.length; at++) {{
                if (!(children[at + 1] instanceof {_EXPRESSIONS}.LiteralValue)) {{
                    return null;
                }}
                {_EXPRESSIONS}.LiteralValue literal = ({_EXPRESSIONS}.LiteralValue) children[at + 1];
                Object value = literal.value();
                if (value == null) {{
                    continue;
                }}
                kinds.add(value.getClass().getSimpleName());
                types.add(literal.dataType().simpleString());
                texts[at] = value instanceof byte[] ? hex((byte[]) value) : value.toString();
            }}
            try {{
                return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(
                    new Object[] {{kinds.toArray(), types.toArray(), texts}});
            }} catch (com.fasterxml.jackson.core.JsonProcessingException error) {{
                return null;
            }}
        }}

        private static String hex(byte[] bytes) {{
            StringBuilder text = new StringBuilder(2 * bytes.length);
            for (int at = 0; at < bytes.length; at++) {{
                text.append(Character.forDigit(bytes[at] >> 4 & 15, 16)).append(Character.forDigit(bytes[at] & 15, 16));
            }}
            return text.toString();
        }}

        public java.util.function.Function andThen(java.util.function.Function after) {{
            throw new UnsupportedOperationException();
        }}

        public java.util.function.Function compose(java.util.function.Function before) {{
            throw new UnsupportedOperationException();
        }}
    }}"""

_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("Byte", "Short", "Integer", "Long"), int),
    **dict.fromkeys(("Float", "Double"), float),
    "Boolean": "true".__eq__,
    "UTF8String": str,
    "byte[]": bytes.fromhex,
}
"""From the class of a literal's value in Spark; Decimal is left out, whose text has an exponent at times."""

_FUNCTIONS: WeakKeyDictionary[Gateway, JavaObject] = WeakKeyDictionary()


def literal_list(gateway: Gateway, children: JavaObject) -> tuple[str, list[Any]] | None:
    """The values of an IN, None where one call cannot tell them.

    Args:
        gateway: the JVM.
        children: of the predicate: a column, and literals of one type.

    Returns:
        The type as Spark writes it (empty if all are null), and the values: numbers, texts, bytes, None.
    """
    text = _function(gateway).apply(children)
    if text is None:
        return None
    kinds, types, texts = json.loads(text)
    if not kinds:
        return "", [None] * len(texts)
    parse = _PARSERS.get(kinds[0])
    if len(kinds) > 1 or len(types) > 1 or parse is None:
        return None
    return types[0], [None if value is None else parse(value) for value in texts]


def _function(gateway: Gateway) -> JavaObject:
    found = _FUNCTIONS.get(gateway)
    if found is None:
        nothing = gateway.array("java.lang.Class", [])
        constructor = gateway.compiled(_SOURCE).loadClass(_CLASS).getConstructor(nothing)
        found = _FUNCTIONS[gateway] = constructor.newInstance(gateway.array("java.lang.Object", []))
    return found
