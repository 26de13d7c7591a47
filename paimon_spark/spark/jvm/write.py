"""Answers Spark's ``WriteBuilder``: appends and the three kinds of overwrite."""

from __future__ import annotations

from typing import Any

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.loading import LoadedTable
from paimon_spark.spark.jvm.source import python_write_builder
from paimon_spark.spark.types import to_spark_struct

_WRITE = "org.apache.spark.sql.connector.write"


class WriteBuilderProxy(Proxy):
    """Gathers what one write replaces and hands the rows to our data source."""

    interfaces = (f"{_WRITE}.WriteBuilder", f"{_WRITE}.SupportsTruncate", f"{_WRITE}.SupportsDynamicOverwrite")

    def __init__(self, gateway: Gateway, loaded: LoadedTable, info: JavaObject) -> None:
        super().__init__(gateway)
        self.loaded = loaded
        self.info = info
        self.overwrite_mode: str | None = None

    def truncate(self) -> Any:
        """Replace the whole table."""
        self.overwrite_mode = "static"
        return self

    def overwriteDynamicPartitions(self) -> Any:
        """Replace the partitions that appear in the rows."""
        self.overwrite_mode = "dynamic"
        return self

    def build(self) -> JavaObject:
        """Spark's own Python write over our data source."""
        options = {**dict(self.info.options().asCaseSensitiveMap()), "path": self.loaded.table.path}
        if self.overwrite_mode is not None:
            options["partitionOverwriteMode"] = self.overwrite_mode
        struct = to_spark_struct(self.loaded.table.schema.fields)
        builder = python_write_builder(self.gateway, self.info, struct, options)
        return (builder.truncate() if self.overwrite_mode else builder).build()

    def buildForBatch(self) -> JavaObject:
        """Not called where `build` is there."""
        return self.build().toBatch()

    def buildForStreaming(self) -> JavaObject:
        """Not called where `build` is there."""
        return self.build().toStreaming()
