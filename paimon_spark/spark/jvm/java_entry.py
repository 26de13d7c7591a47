"""``PaimonEntry`` of a JVM: where Python hands over what Java then answers by itself (see `faces`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError

from paimon_spark.spark.jvm import features
from paimon_spark.spark.jvm.java_sources import new_object

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

_ENTRIES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def java_entry(gateway: Gateway) -> JavaObject | None:
    """The object of a JVM; None where this Spark lacks something that the Java classes use."""
    if gateway.gateway not in _ENTRIES:
        try:
            _ENTRIES[gateway.gateway] = new_object(gateway, "PaimonEntry")
        except (Py4JError, TypeError) as error:
            features.note_loss(features.FACES, str(error).partition("\n\tat ")[0])
            _ENTRIES[gateway.gateway] = None
    return _ENTRIES[gateway.gateway]
