"""Answers Spark's ``MetadataColumn``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spark.jvm.faces import Value
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType


class MetadataColumnProxy(Proxy):
    """A metadata column: where a row comes from."""

    interfaces = ("org.apache.spark.sql.connector.catalog.MetadataColumn",)

    def __init__(self, gateway: Gateway, field: StructField) -> None:
        super().__init__(gateway)
        self.field = field

    def name(self) -> str:
        """Its name."""
        return self.field.name

    def dataType(self) -> JavaObject:
        """Its type."""
        return self.gateway.data_type(self.field.dataType.json())

    def isNullable(self) -> bool:
        """Whether it can be null."""
        return self.field.nullable

    def comment(self) -> None:
        """None."""

    def transform(self) -> None:
        """None."""

    def metadataInJSON(self) -> None:
        """None."""


def metadata_answers(columns: StructType) -> dict[str, Value]:
    """Return what ``SupportsMetadataColumns`` answers; a column of the table hides a metadata column of its name."""
    return {
        "metadataColumns": ["metadata", [[f.name, f.dataType.json(), f.nullable] for f in columns.fields]],
        "canRenameConflictingMetadataColumns": False,
    }
