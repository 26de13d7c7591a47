"""The values of a long IN list in one call: py4j would ask for each of them, 20 µs and more a value.

A Java class writes the literals as one JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object

_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("Byte", "Short", "Integer", "Long"), int),
    **dict.fromkeys(("Float", "Double"), float),
    "Boolean": "true".__eq__,
    "UTF8String": str,
    "byte[]": bytes.fromhex,
}
"""From the class of a literal's value in Spark; Decimal is left out, whose text has an exponent at times."""

_OBJECTS: WeakKeyDictionary[Gateway, JavaObject] = WeakKeyDictionary()


def literal_list(gateway: Gateway, children: JavaObject) -> tuple[str, list[Any]] | None:
    """The values of an IN, None where one call cannot tell them.

    Args:
        gateway: the JVM.
        children: of the predicate: a column, and literals of one type.

    Returns:
        The type as Spark writes it (empty if all are null), and the values: numbers, texts, bytes, None.
    """
    text = _lists(gateway).toJson(children)
    if text is None:
        return None
    kinds, types, texts = json.loads(text)
    if not kinds:
        return "", [None] * len(texts)
    parse = _PARSERS.get(kinds[0])
    if len(kinds) > 1 or len(types) > 1 or parse is None:
        return None
    return types[0], [None if value is None else parse(value) for value in texts]


def _lists(gateway: Gateway) -> JavaObject:
    found = _OBJECTS.get(gateway)
    if found is None:
        found = _OBJECTS[gateway] = new_object(gateway, "PaimonLiteralLists")
    return found
