"""Tables as Arrow, without Spark: `open_table` and what it returns. Nothing here imports pyspark."""

from paimon_spark.arrow.scan import Scan, ScanSplit
from paimon_spark.arrow.table import ArrowTable, create_table, open_table

__all__ = ["ArrowTable", "Scan", "ScanSplit", "create_table", "open_table"]
