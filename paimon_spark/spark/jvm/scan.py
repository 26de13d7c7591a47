"""Answers Spark's ``ScanBuilder`` and ``Scan``: which columns and rows one scan needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.loading import LoadedTable
from paimon_spark.spark.jvm.schemas import java_struct
from paimon_spark.spark.jvm.source import python_scan
from paimon_spark.spark.types import to_spark_struct

_READ = "org.apache.spark.sql.connector.read"


class ScanBuilderProxy(Proxy):
    """Gathers what Spark pushes down for one scan."""

    interfaces = (f"{_READ}.ScanBuilder", f"{_READ}.SupportsPushDownRequiredColumns")

    def __init__(self, gateway: Gateway, loaded: LoadedTable, options: Mapping[str, str]) -> None:
        super().__init__(gateway)
        self.loaded = loaded
        self.options = {**loaded.options, **options}
        self.struct: StructType = to_spark_struct(loaded.table.schema.fields)

    def pruneColumns(self, required: JavaObject) -> None:
        """The columns that the query needs."""
        struct = StructType.fromJson(json.loads(required.json()))
        self.struct = struct if len(struct) else StructType(self.struct.fields[:1])

    def build(self) -> Any:
        """The scan."""
        return ScanProxy(self.gateway, self.loaded, self.struct, self.options)


class ScanProxy(Proxy):
    """One scan. Its batch is made once: plans compare batches by identity when they reuse exchanges."""

    interfaces = (f"{_READ}.Scan",)

    def __init__(
        self, gateway: Gateway, loaded: LoadedTable, struct: StructType, options: Mapping[str, str]
    ) -> None:
        super().__init__(gateway)
        self.loaded = loaded
        self.struct = struct
        self.options = dict(options)
        self._batch: JavaObject | None = None

    def readSchema(self) -> JavaObject:
        """The columns that come out."""
        return java_struct(self.gateway, self.struct)

    def description(self) -> str:
        """For EXPLAIN."""
        return f"paimon {self.loaded.name}{self.struct.simpleString()}"

    def toBatch(self) -> JavaObject:
        """Spark's own Python batch over our data source."""
        if self._batch is None:
            options = {**self.options, "path": self.loaded.table.path}
            self._batch = python_scan(self.gateway, self.struct, options).toBatch()
        return self._batch

    def supportedCustomMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomMetric", [])

    def reportDriverMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomTaskMetric", [])

    def columnarSupportMode(self) -> JavaObject:
        """As Spark's Python reader says of each partition."""
        mode = self.gateway.java_class(f"{_READ}.Scan$ColumnarSupportMode")
        return next(constant for constant in mode.getEnumConstants() if constant.name() == "PARTITION_DEFINED")
