"""Spark's Python data source, made anew for each scan and write of the catalog.

`PythonDataSourceV2` keeps one read plan per object, so sharing one between scans gives wrong rows
(`docs/internals/spark.md` §2b): here each scan and each write gets an object of its own. A scan is planned in this
process, not in a worker of Spark's: what its reader and its partitions are goes straight into the ``PythonBatch``.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import StructType

from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import Value
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceReader, InputPartition

_PLANNER = "pyspark.sql.worker.plan_data_source_read"


def python_table(gateway: Gateway, schema: StructType, options: Mapping[str, str]) -> JavaObject:
    """A new ``PythonTable`` over `PaimonDataSource` with these columns and options."""
    provider = compat.PYTHON_SOURCE(gateway)
    provider.setShortName("paimon")
    empty = gateway.array("org.apache.spark.sql.connector.expressions.Transform", [])
    return provider.getTable(java_struct(gateway, schema), empty, gateway.string_map(options))


def python_batch(
    struct: StructType, reader: DataSourceReader, partitions: Iterable[InputPartition] | None = None
) -> Value:
    """Return the value by which `answer_proxy` makes the same batch.

    Args:
        struct: the columns of the batch.
        reader: made for these columns.
        partitions: those of the batch, perhaps none; those of the reader without.
    """
    function, packed = _packed(struct, reader, partitions)
    return [
        "python batch",
        struct.json(),
        base64.b64encode(function).decode(),
        [base64.b64encode(partition).decode() for partition in packed],
    ]


def _packed(
    struct: StructType, reader: DataSourceReader, partitions: Iterable[InputPartition] | None = None
) -> tuple[bytes, list[bytes]]:
    """Return the function that tasks run, and their partitions, pickled."""
    dumps: Callable[[object], bytes] = CloudPickleSerializer().dumps  # type: ignore[no-untyped-call]
    function = dumps((_read_function(reader), struct))
    if partitions is not None:
        return function, [dumps(partition) for partition in partitions]
    return function, [dumps(partition) for partition in reader.partitions()] or [dumps(None)]


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
    renewed = compat.WRITE_INFO(
        gateway, info.queryId(), info.schema(), gateway.options(options), info.rowIdSchema(), info.metadataSchema()
    )
    return python_table(gateway, schema, options).newWriteBuilder(renewed)
