"""Answers Spark's ``MetadataColumn``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spark.jvm.answer_proxy import Value

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def metadata_answers(columns: StructType) -> dict[str, Value]:
    """Return what ``SupportsMetadataColumns`` answers; a column of the table hides a metadata column of its name."""
    return {
        "metadataColumns": ["metadata", [[f.name, f.dataType.json(), f.nullable] for f in columns.fields]],
        "canRenameConflictingMetadataColumns": False,
    }
