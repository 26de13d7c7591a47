"""Spark's own Python data source machinery, started fresh for every scan and write of the catalog.

`PythonDataSourceV2` keeps one read plan per object, so sharing one between scans gives wrong rows (`spark.md` §2b): here each
scan and each write gets an object of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.schemas import java_struct

_PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2"


def python_table(gateway: Gateway, schema: StructType, options: Mapping[str, str]) -> JavaObject:
    """A new ``PythonTable`` over `PaimonDataSource` with these columns and options."""
    provider = gateway.jvm.org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2()
    provider.setShortName("paimon")
    empty = gateway.array("org.apache.spark.sql.connector.expressions.Transform", [])
    return provider.getTable(java_struct(gateway, schema), empty, gateway.string_map(options))


def python_scan(gateway: Gateway, schema: StructType, options: Mapping[str, str]) -> JavaObject:
    """A new ``PythonScan``: planned in a Python worker when Spark asks for its batch."""
    return python_table(gateway, schema, options).newScanBuilder(gateway.options(options)).build()


def python_write_builder(
    gateway: Gateway, info: JavaObject, schema: StructType, options: Mapping[str, str]
) -> JavaObject:
    """A new ``PythonWriteBuilder`` for rows of ``info.schema()`` with these options."""
    write = gateway.jvm.org.apache.spark.sql.connector.write
    renewed = write.LogicalWriteInfoImpl(
        info.queryId(), info.schema(), gateway.options(options), info.rowIdSchema(), info.metadataSchema()
    )
    return python_table(gateway, schema, options).newWriteBuilder(renewed)
