"""Lets the JVM do ahead, in threads of their own, what it would do later while somebody waits.

It compiles the classes of `register` while Python imports what `register` needs, and loads those of a first scan.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from paimon_spark.errors import PaimonError
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.features import missing_members
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.jvm.java_sources import java_class, new_object
from paimon_spark.spark.jvm.node_metrics import shows_metrics
from paimon_spark.spark.session.pyspark_members import unlogged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from paimon_spark.spark.jvm.gateway import Gateway

CLASSES: Final = (
    "PaimonFormatPlans", "PaimonStreamColumns", "PaimonInputFileNames", "PaimonLocalRows", "PaimonVariantPaths",
    "PaimonPartitionFilters", "PaimonMapKeys", "PaimonPositionFilters", "PaimonSelfOverwrites",
    "PaimonDistributedWrites", "PaimonBucketedScans", "PaimonNativeParts",
)  # fmt: skip
"""Those that each registered session has, in the order in which `hooks.install` asks for them."""


def warm_up(spark: SparkSession) -> None:
    """Begin, in a thread of its own; whoever needs a class waits for it. Once in a JVM."""
    try:
        gateway = gateway_of(spark)
    except PaimonError:
        return  # `register` says so
    if gateway.gateway not in compat.MISSING:
        threading.Thread(target=_load, args=(gateway,), name="paimon-classes", daemon=True).start()


def _load(gateway: Gateway) -> None:
    try:
        missing_members(gateway)
        for name in CLASSES:
            java_class(gateway, name)
        shows_metrics(gateway)
    except (Py4JError, TypeError):
        return  # the feature that needs the class is left out, and the log says so


def read_first(gateway: Gateway, settings: Mapping[str, str] | None, uri: str) -> str:
    """Let the JVM read a small Parquet file of its own, so that the classes of Spark's reader are there for a scan.

    Args:
        gateway: the JVM.
        settings: of Hadoop, for a file system that Hadoop keeps for this JVM's tasks; None where it is to keep none.
        uri: a directory of that file system.

    Returns:
        the class of the error that ended it, or "".
    """
    import pyarrow  # not needed by sessions of a local disk
    from pyarrow.parquet import write_table

    numbers = {
        str(kind): pyarrow.array([1, None], kind) for kind in (pyarrow.int32(), pyarrow.int64(), pyarrow.float64())
    }
    made = pyarrow.BufferOutputStream()
    write_table(pyarrow.table({**numbers, "string": ["a", None]}), made, compression="zstd")
    try:
        reader = new_object(gateway, "PaimonFirstRead")
        with unlogged():
            asked = gateway.jvm.java.util.HashMap()
            asked.put("parquet", made.getvalue().to_pybytes())
            asked.put("settings", None if settings is None else gateway.string_map(settings))
            asked.put("uri", uri)
            return str(reader.apply(asked))
    except (Py4JError, TypeError) as error:
        return type(error).__name__
