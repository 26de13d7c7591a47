"""Registers a Python data source in the JVM without the search for all others that Spark does first.

``DataSourceManager.registerDataSource`` and ``dataSourceExists`` start a Python worker that imports every installed
package named ``pyspark_…``: one to three seconds, once per JVM. Only ``runtimeDataSourceBuilders``, the map to which
they add, is needed here. Spark still searches when somebody asks for a Python source by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_BUILDERS = "runtimeDataSourceBuilders"


def register_without_search(spark: SparkSession, source: type[DataSource]) -> bool:
    """Register `source` with a classic session; a source that has the name already stays.

    Returns:
        False where this Spark keeps its sources in another way: nothing is registered then.
    """
    from pyspark.sql.udf import _wrap_function

    jvm: Any = spark.sparkContext._jvm
    try:
        manager = spark._jsparkSession.sessionState().dataSourceManager()
        field = manager.getClass().getDeclaredField(_BUILDERS)
        field.setAccessible(True)
        builders = field.get(manager)
        name = source.name().lower()
        if not builders.containsKey(name):
            python = jvm.org.apache.spark.sql.execution.datasources.v2.python
            wrapped = _wrap_function(spark.sparkContext, source)
            builders.put(name, python.UserDefinedPythonDataSource(wrapped))
    except (Py4JError, TypeError):
        return False
    return True
