"""PySpark's private attributes that lead to the JVM, each named once. Connect sessions have none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def java_session(spark: SparkSession) -> Any:
    """Return the JVM's session of a classic session."""
    return spark._jsparkSession


def java_state(spark: SparkSession) -> Any:
    """Return the ``SessionState`` of a classic session."""
    return java_session(spark).sessionState()


def jvm_of(spark: SparkSession) -> Any:
    """Return the JVM of a classic session."""
    return spark._jvm


def java_frame(frame: DataFrame) -> Any:
    """Return the JVM's ``Dataset`` of a DataFrame."""
    return frame._jdf


def java_writer(writer: Any) -> Any:
    """Return the JVM's writer of a ``DataFrameWriter``."""
    return writer._jwrite


def estimated_bytes(frame: DataFrame) -> int:
    """Return the size of all rows of a DataFrame, as Spark's optimizer estimates it: of joins far too large."""
    return int(str(java_frame(frame).queryExecution().optimizedPlan().stats().sizeInBytes()))
