"""Answers Spark's ``Scan``, as far as all scans answer alike, and ``LocalScan``; and Spark's Python data source.

`PythonDataSourceV2` keeps one read plan per object, so sharing one between scans gives wrong rows
(`docs/internals/spark.md` §2b): here each scan and each write of the catalog gets an object of its own. A scan is
planned in this process, not in a worker of Spark's: what its reader and its partitions are goes straight into the
``PythonBatch``. A ``LocalScan`` is a scan of given rows.
"""

from __future__ import annotations

import base64
import pickle
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import types as spark
from pyspark.sql.types import StructType

from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value
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


_READ = "org.apache.spark.sql.connector.read"
_JAVA_PICKLE_PROTOCOL = 3

Rows = Sequence[tuple[Any, ...]]


class BasicScanProxy(AnswerProxy):
    """One scan: the columns that come out."""

    @abstractmethod
    def _struct(self) -> spark.StructType:
        """The columns that come out."""

    def answers(self) -> dict[str, Value]:
        """What does not depend on the rows."""
        return {"readSchema": ["struct", self._struct().json()]}


class ReaderScanProxy(BasicScanProxy):
    """A scan that one Python reader reads. Its batch is made once."""

    asked: ClassVar[Mapping[str, str]] = {"toBatch": "_asked_batch"}

    def __init__(self, gateway: Gateway, struct: spark.StructType) -> None:
        """Keep the columns."""
        super().__init__(gateway)
        self.struct = struct

    @abstractmethod
    def description(self) -> str:
        """What EXPLAIN shows."""

    @abstractmethod
    def _reader(self) -> DataSourceReader:
        """What reads the rows; it is asked once."""

    def answers(self) -> dict[str, Value]:
        """What does not depend on the rows."""
        return {**super().answers(), "description": self.description()}

    def _struct(self) -> spark.StructType:
        return self.struct

    def _asked_batch(self, _question: Question) -> Reply:
        return Reply(python_batch(self.struct, self._reader()), once=True)


class LocalRowsProxy(BasicScanProxy):
    """A scan of given rows: no task runs."""

    interfaces = (f"{_READ}.LocalScan",)

    def __init__(self, gateway: Gateway, struct: spark.StructType, text: str, values: Rows | bytes) -> None:
        """Hold the rows.

        Args:
            gateway: the JVM.
            struct: the columns.
            text: what EXPLAIN shows.
            values: the rows, their values as Spark keeps them (``StructType.toInternal``); or a stream of Arrow, in the
                types in which Spark takes them from Python, which is empty without rows.
        """
        super().__init__(gateway)
        self.struct = struct
        self.text = text
        self.values = values

    def _struct(self) -> spark.StructType:
        return self.struct

    def answers(self) -> dict[str, Value]:
        """All answers: Java asks Python nothing more."""
        tag, rows = (
            ("arrow rows", self.values) if isinstance(self.values, bytes) else ("rows", _packed_rows(self.values))
        )
        return {
            **super().answers(),
            "columnarSupportMode": ["constant", f"{_READ}.Scan$ColumnarSupportMode", "UNSUPPORTED"],
            "description": self.text,
            "rows": [tag, self.struct.json(), base64.b64encode(rows).decode()],
            "toBatch": None,
        }


def _packed_rows(rows: Rows) -> bytes:
    """Rows as Java unpickles them."""
    return pickle.dumps([*rows], _JAVA_PICKLE_PROTOCOL)
