"""The size of a file of a store, as Hadoop in the JVM sees it, and the settings by which it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError

from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.session.unlogged import unlogged

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject


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
    """Whether Hadoop in the JVM has a file system for paths of a scheme; the store is not asked.

    Args:
        gateway: the JVM.
        state: of the session, with its settings.
        scheme: as Hadoop knows it.
    """
    try:
        gateway.jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, state.newHadoopConf())
    except Py4JJavaError:
        return False
    return True
