"""Registers a Python data source in the JVM without the search for all others that Spark does first.

``DataSourceManager.registerDataSource`` and ``dataSourceExists`` start a Python worker that imports every installed
package named ``pyspark_…``: one to three seconds, once per JVM. Only ``runtimeDataSourceBuilders``, the map to which
they add, is needed here. Spark still searches when somebody asks for a Python source by name.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError

from paimon_spark.spark.jvm import compat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_FOUND_BY_SPARK = "pyspark_paimon"
"""The package by which Spark finds the format without `register`."""


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
