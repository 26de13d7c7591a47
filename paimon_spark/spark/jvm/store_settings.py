"""What the Hadoop configuration of a classic session says about stores, for the options of ours (`session_stores`).

Asked of the JVM whenever a store is opened by the driver, of the thread's active session: nothing is kept, and py4j
logs nothing of the answer, which holds secrets.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.session.pyspark_members import running_context, unlogged
from paimon_spark.storage import session_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

_LOG = logging.getLogger(__name__)
_GATEWAYS: WeakKeyDictionary[SparkContext, Gateway] = WeakKeyDictionary()
_READERS: WeakKeyDictionary[Gateway, JavaObject] = WeakKeyDictionary()


def follow_session_stores(spark: SparkSession) -> None:
    """Let stores that this process opens have what classic sessions say about them. Calling it again does no harm."""
    _GATEWAYS[spark.sparkContext] = gateway_of(spark)
    session_stores.follow(_settings)


def _settings(prefixes: Sequence[str], key_stores: str | None, secrets: Sequence[str]) -> Mapping[str, str]:
    """The settings whose keys start with a prefix; empty where no session runs."""
    context = running_context()
    gateway = None if context is None else _GATEWAYS.get(context)
    if gateway is None:
        return {}
    asked = {"prefixes": list(prefixes), "keyStores": key_stores, "secrets": list(secrets)}
    try:
        if gateway not in _READERS:
            _READERS[gateway] = new_object(gateway, "PaimonStoreSettings")
        with unlogged():
            found: dict[str, str] = json.loads(_READERS[gateway].apply(json.dumps(asked)))
    except (Py4JError, TypeError) as error:
        _LOG.warning("The session's settings of Hadoop cannot be read (%s): give Paimon options", type(error).__name__)
        return {}
    return found


def size_of_file(gateway: Gateway, store: str | None, settings: Mapping[str, str], uri: str) -> int | str:
    """Return how many bytes a file has, asked as a reader of the session would; or why that is not known.

    Args:
        gateway: the JVM.
        store: the name by which ``PaimonStores`` keeps the settings; None where it is to keep nothing.
        settings: of Hadoop, alongside those of the session; they may hold secrets.
        uri: of the file.
    """
    try:
        stores = new_object(gateway, "PaimonStores")
        with unlogged():
            asked = gateway.jvm.java.util.HashMap()
            asked.put("store", store)
            asked.put("settings", gateway.string_map(settings))
            asked.put("uri", uri)
            found: int | str = stores.apply(asked)
    except (Py4JError, TypeError) as error:
        return type(error).__name__
    return found


def has_file_system(gateway: Gateway, state: JavaObject, scheme: str) -> bool:
    """Whether Hadoop in the JVM has a file system for paths of a scheme; the store is not asked."""
    try:
        gateway.jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, state.newHadoopConf())
    except Py4JJavaError:
        return False
    return True
