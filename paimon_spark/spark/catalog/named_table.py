"""Answers Spark's ``Table`` as far as all tables answer alike, and ``MetadataColumn``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pyspark.sql.types import StructType

from paimon_spark.spark.catalog.loading import CHANGED, STREAMED
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value, described_proxy
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spec.sql_text import quoted_name


def metadata_answers(columns: StructType) -> dict[str, Value]:
    """Return what ``SupportsMetadataColumns`` answers; a column of the table hides a metadata column of its name."""
    return {
        "metadataColumns": ["metadata", [[f.name, f.dataType.json(), f.nullable] for f in columns.fields]],
        "canRenameConflictingMetadataColumns": False,
    }


_CATALOG = "org.apache.spark.sql.connector.catalog"


class NamedTableProxy(AnswerProxy):
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
            "name": self.table_name,
            "schema": ["struct", struct],
            "columns": ["columns", struct],
            **({"partitioning": ["identity", [quoted_name(key) for key in keys]]} if keys else {}),
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

    def _asked_scan_builder(self, question: Question) -> Reply:
        given = question.arguments[0]
        return Reply(
            described_proxy(self._configured(self.scan_builder(_without_changed(given)), is_changed=CHANGED in given))
        )

    def _configured(self, builder: AnswerProxy, *, is_changed: bool) -> AnswerProxy:
        """The builder, as it is for the table whose rows a statement changes."""
        return builder

    @abstractmethod
    def scan_builder(self, options: Mapping[str, str]) -> AnswerProxy:
        """A builder for one scan with the options of the read."""


def merged_scans(gateway: Gateway) -> tuple[str, ...]:
    """The capability by which Spark 4.3 lets subqueries share a scan: their columns together, the same filters.

    A scan with more columns has the same rows, and the same values in the columns of each. Scans that a rule of ours
    has exchanged are not shared (``PaimonVariantPaths.reading``).
    """
    return ("SCAN_MERGING",) if gateway.spark_version >= (4, 3) else ()


def _without_changed(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read as its user gave them."""
    return {key: value for key, value in options.items() if key not in (CHANGED, STREAMED)}
