"""Registers a Python data source in the JVM without the search for all others that Spark does first.

``DataSourceManager.registerDataSource`` and ``dataSourceExists`` start a Python worker that imports every installed
package named ``pyspark_…``: one to three seconds, once per JVM. Only ``runtimeDataSourceBuilders``, the map to which
they add, is needed here. Spark still searches when somebody asks for a Python source by name.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError

from paimon_spark.spark.jvm import compat
from paimon_spark.spark.session.pyspark_members import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_FOUND_BY_SPARK = "pyspark_paimon"
"""The package by which Spark finds the format without `register`."""

_WITHOUT_WARNING: WeakSet[Any] = WeakSet()
"""JVMs whose log is spared it."""


def register_without_search(spark: SparkSession, source: type[DataSource]) -> bool:
    """Register `source` with a classic session; a source that has the name already stays.

    Returns:
        False where this Spark keeps its sources in another way: nothing is registered then.
    """
    from pyspark.sql.udf import _wrap_function

    if spark.version.startswith("4.0.") and find_spec(_FOUND_BY_SPARK) is not None:
        return True  # Spark 4.0 cannot clone a session that has a second source of a name that it finds by itself
    try:
        manager = spark._jsparkSession.sessionState().dataSourceManager()
        field = manager.getClass().getDeclaredField(compat.SOURCE_BUILDERS.names[0])
        field.setAccessible(True)
        builders = field.get(manager)
        name = source.name().lower()
        if not builders.containsKey(name):
            wrapped = _wrap_function(spark.sparkContext, source)
            gateway: Any = spark.sparkContext._gateway
            source_class = JavaClass(compat.USER_SOURCE.name, gateway._gateway_client)
            builders.put(name, source_class(wrapped))
    except (Py4JError, TypeError):
        return False
    return True


def keep_replaced_source_out_of_log(spark: SparkSession) -> None:
    """Keep out of the log that our source replaced the one that Spark finds by itself: it is the same one.

    Spark warns of it whenever a query that streams starts, since its session is a copy. Where Spark does not log by
    log4j, the warning stays.
    """
    jvm = jvm_of(spark)
    if jvm in _WITHOUT_WARNING:
        return
    _WITHOUT_WARNING.add(jvm)
    warning = "The data source paimon replaced a statically registered data source\\."
    try:
        log4j = jvm.org.apache.logging.log4j
        context, core = log4j.LogManager.getContext(False), log4j.core
        config, logger = context.getConfiguration(), compat.DATA_SOURCE_MANAGER.name
        found = config.getLoggerConfig(logger)
        if found.getName() != logger:
            found = core.config.LoggerConfig(logger, None, True)
            config.addLogger(logger, found)
        result = core.Filter.Result
        found.addFilter(core.filter.RegexFilter.createFilter(warning, None, False, result.DENY, result.NEUTRAL))
        context.updateLoggers()
    except (Py4JError, TypeError):
        return
