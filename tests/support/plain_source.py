"""Writes by the plain data source, as on a session without the planner's rule: no shuffle, and CHAR as it is given."""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from paimon_spark.spark.source.data_source import PaimonDataSource


def write_plain(path: str, rows: pa.RecordBatch) -> None:
    """One task's rows, in this process."""
    writer = PaimonDataSource({"path": path}).writer(from_arrow_schema(rows.schema), False)
    writer.commit([writer.write(iter([rows]))])


def plain_session(spark: SparkSession) -> SparkSession:
    """A session alongside another one that knows the source and has no rule."""
    session: Any = type(spark).newSession(spark)
    session.dataSource.register(PaimonDataSource)
    return session
