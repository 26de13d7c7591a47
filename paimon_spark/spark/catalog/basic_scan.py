"""Answers Spark's ``Scan``, as far as all scans answer alike, and ``LocalScan``, a scan of given rows."""

from __future__ import annotations

import base64
import pickle
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import types as spark

from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.catalog.python_source import planned_batch, python_batch
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.faces import FacedProxy, Question, Reply, Value, none_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader

_READ = "org.apache.spark.sql.connector.read"
_METRIC = "org.apache.spark.sql.connector.metric"
_JAVA_PICKLE_PROTOCOL = 3

Rows = Sequence[tuple[Any, ...]]


class BasicScanProxy(FacedProxy):
    """One scan: the columns that come out, and no metrics."""

    columnar_mode: ClassVar[str] = "PARTITION_DEFINED"
    """The constant of ``Scan.ColumnarSupportMode``: as Spark's Python reader says of each partition."""

    @abstractmethod
    def _struct(self) -> spark.StructType:
        """The columns that come out."""

    @abstractmethod
    def description(self) -> str:
        """What EXPLAIN shows."""

    def answers(self) -> dict[str, Value]:
        """What does not depend on the rows."""
        return {
            "readSchema": ["struct", self._struct().json()],
            "supportedCustomMetrics": none_of(f"{_METRIC}.CustomMetric"),
            "reportDriverMetrics": none_of(f"{_METRIC}.CustomTaskMetric"),
            "columnarSupportMode": ["constant", f"{_READ}.Scan$ColumnarSupportMode", self.columnar_mode],
        }

    def readSchema(self) -> JavaObject:
        """The columns that come out."""
        return java_struct(self.gateway, self._struct())

    def supportedCustomMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array(f"{_METRIC}.CustomMetric", [])

    def reportDriverMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array(f"{_METRIC}.CustomTaskMetric", [])

    def columnarSupportMode(self) -> JavaObject:
        """Whether tasks give rows or batches of columns."""
        return self.gateway.enum_constant(f"{_READ}.Scan$ColumnarSupportMode", self.columnar_mode)


class ReaderScanProxy(BasicScanProxy):
    """A scan that one Python reader reads. Its batch is made once."""

    asked: ClassVar[Mapping[str, str]] = {"toBatch": "_asked_batch"}

    def __init__(self, gateway: Gateway, struct: spark.StructType) -> None:
        """Keep the columns.

        Args:
            gateway: the JVM.
            struct: the columns that come out.
        """
        super().__init__(gateway)
        self.struct = struct
        self._batch: JavaObject | None = None

    @abstractmethod
    def _reader(self) -> DataSourceReader:
        """What reads the rows; it is asked once."""

    def answers(self) -> dict[str, Value]:
        """What does not depend on the rows."""
        return {**super().answers(), "description": self.description()}

    def _struct(self) -> spark.StructType:
        return self.struct

    def toBatch(self) -> JavaObject:
        """Spark's own Python batch over the reader."""
        if self._batch is None:
            self._batch = planned_batch(self.gateway, self.readSchema(), self.struct, self._reader())
        return self._batch

    def _asked_batch(self, _question: Question) -> Reply:
        return Reply(python_batch(self.struct, self._reader()), once=True)


class LocalRowsProxy(BasicScanProxy):
    """A scan of given rows: no task runs."""

    interfaces = (f"{_READ}.LocalScan",)
    columnar_mode = "UNSUPPORTED"

    def __init__(self, gateway: Gateway, struct: spark.StructType, text: str, values: Rows) -> None:
        """Hold the rows.

        Args:
            gateway: the JVM.
            struct: the columns.
            text: what EXPLAIN shows.
            values: the rows, their values as Spark keeps them (``StructType.toInternal``).
        """
        super().__init__(gateway)
        self.struct = struct
        self.text = text
        self.values = values

    def _struct(self) -> spark.StructType:
        return self.struct

    def description(self) -> str:
        """What EXPLAIN shows."""
        return self.text

    def answers(self) -> dict[str, Value]:
        """All answers: Java asks Python nothing more."""
        rows = base64.b64encode(_packed_rows(self.values)).decode()
        return {
            **super().answers(),
            "description": self.text,
            "rows": ["rows", self.struct.json(), rows],
            "toBatch": None,
        }

    def rows(self) -> JavaObject:
        """The rows as an ``InternalRow[]``, in calls whose number does not depend on them."""
        packed = compat.UNPICKLER(self.gateway).loads(_packed_rows(self.values))
        array_type = self.gateway.data_type(spark.ArrayType(self.struct, False).json())
        converted = compat.EVALUATE_PYTHON.of(self.gateway).makeFromJava(array_type).apply(packed)
        row_class = self.gateway.java_class("[Lorg.apache.spark.sql.catalyst.InternalRow;")
        return self.gateway.jvm.java.util.Arrays.copyOf(converted.array(), len(self.values), row_class)

    def toBatch(self) -> None:
        """Never called for a local scan."""

    def toMicroBatchStream(self, _checkpoint: str) -> None:
        """Never called for a local scan."""

    def toContinuousStream(self, _checkpoint: str) -> None:
        """Never called for a local scan."""


class StatisticsProxy(Proxy):
    """How much a scan reads."""

    interfaces = (f"{_READ}.Statistics",)

    def __init__(self, gateway: Gateway, rows: int | None, size_bytes: int) -> None:
        super().__init__(gateway)
        self.rows = rows
        self.size_bytes = size_bytes

    def sizeInBytes(self) -> JavaObject:
        """Bytes in Spark's rows, guessed by the types."""
        return self.gateway.jvm.java.util.OptionalLong.of(self.size_bytes)

    def numRows(self) -> JavaObject:
        """Rows of the files."""
        optional = self.gateway.jvm.java.util.OptionalLong
        return optional.empty() if self.rows is None else optional.of(self.rows)

    def columnStats(self) -> JavaObject:
        """None are kept."""
        return self.gateway.jvm.java.util.Collections.emptyMap()


def _packed_rows(rows: Rows) -> bytes:
    """Rows as Java unpickles them."""
    return pickle.dumps([*rows], _JAVA_PICKLE_PROTOCOL)
