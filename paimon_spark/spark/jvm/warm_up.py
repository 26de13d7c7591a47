"""Lets the JVM compile the classes of `register` while Python imports what `register` needs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from paimon_spark.errors import PaimonError
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.features import missing_members
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.jvm.java_sources import java_class
from paimon_spark.spark.jvm.node_metrics import shows_metrics

if TYPE_CHECKING:
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
