"""Answers Spark's ``Scan``, as far as all scans answer alike, and ``LocalScan``, a scan of given rows."""

from __future__ import annotations

import base64
import pickle
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import types as spark

from paimon_spark.spark.catalog.python_source import python_batch
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value
from paimon_spark.spark.jvm.gateway import Gateway

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader

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
