"""Answers Spark's ``Table`` as far as all tables answer alike: name, columns, partition columns, properties."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql.types import StructType

from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.catalog.loading import STREAMED
from paimon_spark.spark.jvm.faces import FacedProxy, Question, Reply, Value, face_of, faced, none_of
from paimon_spark.spark.jvm.gateway import JavaObject
from paimon_spark.spark.jvm.plan_tables import v2_columns
from paimon_spark.spec.filter_text import quoted_name

_CATALOG = "org.apache.spark.sql.connector.catalog"
_TRANSFORM = "org.apache.spark.sql.connector.expressions.Transform"


class NamedTableProxy(FacedProxy):
    """A table with a name and columns, which can be read."""

    asked: ClassVar[Mapping[str, str]] = {"newScanBuilder": "_asked_scan_builder"}
    table_name: str
    """The name in plans and messages."""
    struct: StructType
    """The columns, with nullability, comments and defaults."""

    def answers(self) -> dict[str, Value]:
        """What the table is."""
        struct, keys = self.struct.json(), self._partition_keys()
        return {
            "name": self.name(),
            "id": None,
            "version": None,
            "schema": ["struct", struct],
            "columns": ["columns", struct],
            "constraints": none_of(f"{_CATALOG}.constraints.Constraint"),
            "partitioning": ["identity", [quoted_name(key) for key in keys]] if keys else none_of(_TRANSFORM),
            "properties": ["map", self._properties()],
            "capabilities": ["constants", f"{_CATALOG}.TableCapability", list(self._capabilities())],
        }

    def _partition_keys(self) -> Sequence[str]:
        return ()

    def _properties(self) -> dict[str, str]:
        """What SHOW TBLPROPERTIES shows."""
        return {"provider": "paimon"}

    def _capabilities(self) -> Sequence[str]:
        """What reads and writes may ask for."""
        return ("BATCH_READ",)

    def name(self) -> str:
        """The name in plans and messages."""
        return self.table_name

    def id(self) -> None:
        """Identity over time: none is kept."""

    def version(self) -> None:
        """Version for transactions: none."""

    def schema(self) -> JavaObject:
        """Columns with nullability and comments."""
        return java_struct(self.gateway, self.struct)

    def columns(self) -> JavaObject:
        """The same as ``Column[]``."""
        return v2_columns(self.gateway, self.schema())

    def constraints(self) -> JavaObject:
        """Constraints: Spark has no use for an unenforced primary key."""
        return self.gateway.array(f"{_CATALOG}.constraints.Constraint", [])

    def partitioning(self) -> JavaObject:
        """The partition columns as identity transforms."""
        expressions = self.gateway.jvm.org.apache.spark.sql.connector.expressions.Expressions
        keys = [expressions.identity(quoted_name(key)) for key in self._partition_keys()]
        return self.gateway.array(_TRANSFORM, keys)

    def properties(self) -> JavaObject:
        """What SHOW TBLPROPERTIES shows."""
        return self.gateway.string_map(self._properties())

    def capabilities(self) -> JavaObject:
        """What reads and writes may ask for."""
        return self.gateway.enum_set(f"{_CATALOG}.TableCapability", self._capabilities())

    def newScanBuilder(self, options: JavaObject) -> Any:
        """A builder for one scan."""
        return faced(self.scan_builder(_unmarked(self.gateway.string_dict(options.asCaseSensitiveMap()))))

    def _asked_scan_builder(self, question: Question) -> Reply:
        return Reply(face_of(self.scan_builder(_unmarked(question.arguments[0]))))

    @abstractmethod
    def scan_builder(self, options: Mapping[str, str]) -> FacedProxy:
        """A builder for one scan with the options of the read."""


def _unmarked(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read as its user gave them."""
    return {key: value for key, value in options.items() if key != STREAMED}
