"""Rows that this process has, or reads and computes at once: those of small statements, for which no job runs.

What finds them needs the JVM's optimizer, and is put here once for each context (`hooks.install`). Without it, and on
Connect, no rows are at hand: jobs do everything.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.session.session_settings import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FINDERS: MutableMapping[Any, Callable[[Any], list[pa.RecordBatch] | None]] = WeakKeyDictionary()
"""For each Spark context what returns the rows of a ``Dataset``."""


def rows_at_hand(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """Return the rows of a DataFrame as Python's tasks get them, where they are few and no job has to run for them.

    The one place that decides whether the driver or tasks do the work of a statement that changes rows.

    Args:
        frame: its plan has its rows itself, or reads few rows of a table that a statement changes, and computes no more
            than columns and conditions: Spark's optimizer then evaluates them.

    Returns:
        None where tasks read them. Without rows an empty list.
    """
    spark = frame.sparkSession
    finder = None if is_connect(spark) else FINDERS.get(spark.sparkContext)
    return None if finder is None else finder(java_frame(frame))
