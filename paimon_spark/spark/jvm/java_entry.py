"""``PaimonEntry`` of a JVM: where Python hands over what Java then answers by itself (see `answer_proxy`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jvm.features import CATALOG
from paimon_spark.spark.jvm.java_sources import new_object

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

_ENTRIES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def java_entry(gateway: Gateway) -> JavaObject:
    """The object of a JVM.

    Raises:
        UnsupportedError: this Spark lacks something that the Java classes use.
    """
    if gateway.gateway not in _ENTRIES:
        try:
            _ENTRIES[gateway.gateway] = new_object(gateway, "PaimonEntry")
        except (Py4JError, TypeError) as error:
            reason = str(error).partition("\n\tat ")[0]
            raise UnsupportedError(f"On this Spark version {CATALOG.loss} ({reason})") from error
    return _ENTRIES[gateway.gateway]
