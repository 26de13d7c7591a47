"""Spark's own Python data source machinery, started fresh for every scan and write of the catalog.

`PythonDataSourceV2` keeps one read plan per object, so sharing one between scans gives wrong rows (`docs/spark.md`
§2b): here each scan and each write gets an object of its own. A scan is planned in this process, not in a worker of
Spark's: what its reader and its partitions are goes straight into the ``PythonBatch``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import StructType

from paimon_spark.spark.catalog.schemas import java_struct
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceReader

_PLANNER = "pyspark.sql.worker.plan_data_source_read"
_JAVA_PICKLE_PROTOCOL = 3


def python_table(gateway: Gateway, schema: StructType, options: Mapping[str, str]) -> JavaObject:
    """A new ``PythonTable`` over `PaimonDataSource` with these columns and options."""
    provider = gateway.jvm.org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2()
    provider.setShortName("paimon")
    empty = gateway.array("org.apache.spark.sql.connector.expressions.Transform", [])
    return provider.getTable(java_struct(gateway, schema), empty, gateway.string_map(options))


def planned_batch(gateway: Gateway, schema: JavaObject, struct: StructType, reader: DataSourceReader) -> JavaObject:
    """A ``PythonBatch`` over a reader that is planned already; the number of calls does not depend on its partitions.

    Args:
        gateway: the JVM.
        schema: the columns of the batch as the JVM's ``StructType``.
        struct: the same in Python.
        reader: made for these columns; it is pickled to the tasks, as are its partitions.
    """
    python = gateway.jvm.org.apache.spark.sql.execution.datasources.v2.python
    provider = python.PythonDataSourceV2()
    provider.setShortName("paimon")
    dumps: Callable[[object], bytes] = CloudPickleSerializer().dumps  # type: ignore[no-untyped-call]
    function = dumps((_read_function(reader), struct))
    partitions = [dumps(partition) for partition in reader.partitions()] or [dumps(None)]
    packed = gateway.jvm.net.razorvine.pickle.Unpickler().loads(pickle.dumps(partitions, _JAVA_PICKLE_PROTOCOL))
    sequence = gateway.jvm.org.apache.spark.api.python.PythonUtils.toSeq(packed)
    batch = python.PythonBatch(provider, "paimon", schema, gateway.options({}))
    gateway.field(batch, "infoInPython").set(batch, python.PythonDataSourceReadInfo(function, sequence))
    gateway.field(batch, "bitmap$0").set(batch, True)  # the lazy value is there: Spark's planner worker is not asked
    return batch


def _read_function(reader: DataSourceReader) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark runs in a task: it gets one batch with one value, the pickled partition, and gives batches of rows."""

    def read_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (value,) = [batch.column(0)[0].as_py() for batch in batches]
        return iter(reader.read(pickle.loads(value)))

    read_partition.__module__ = _PLANNER  # as Spark's own function says, which its worker looks at
    return read_partition


def python_write_builder(
    gateway: Gateway, info: JavaObject, schema: StructType, options: Mapping[str, str]
) -> JavaObject:
    """A new ``PythonWriteBuilder`` for rows of ``info.schema()`` with these options."""
    write = gateway.jvm.org.apache.spark.sql.connector.write
    renewed = write.LogicalWriteInfoImpl(
        info.queryId(), info.schema(), gateway.options(options), info.rowIdSchema(), info.metadataSchema()
    )
    return python_table(gateway, schema, options).newWriteBuilder(renewed)
