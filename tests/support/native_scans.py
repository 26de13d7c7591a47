"""Which scans Spark's own Parquet reader takes."""

from pyspark.sql import DataFrame

BATCH = "PaimonParquetBatch"


def batch_of(frame: DataFrame) -> str:
    """What the only scan of a query reads with."""
    leaf = frame._jdf.queryExecution().sparkPlan().collectLeaves().head()
    return str(leaf.scan().toBatch().toString())
