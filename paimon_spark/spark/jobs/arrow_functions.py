"""Python functions of Arrow columns and batches in Spark jobs, on both kinds of session, with and without pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.util import PythonEvalType

from paimon_spark.spark.jobs.progress import job_property, named_jobs
from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.session.session_settings import is_connect
from paimon_spark.spark.source.worker_process import cut_batches, speed_up_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

_Batches = Iterator[pa.RecordBatch]

MOST_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_BATCH_BYTES: Final = 16 << 20


def map_in_arrow(rows: DataFrame, function: Callable[[_Batches], _Batches], schema: StructType | str) -> DataFrame:
    """Return the rows that a function makes of batches; ``DataFrame.mapInArrow`` would ask for pandas, unused.

    Args:
        rows: columns without dots and back quotes in their names.
        function: called once in a task.
        schema: of the new rows.
    """
    spark = rows.sparkSession
    function = partial(_cut, function)
    if is_connect(spark):
        return rows.mapInArrow(function, schema)
    from pyspark.sql import DataFrame

    udf = _created(spark)(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    called = udf(*(rows[name] for name in rows.columns))
    return DataFrame(java_frame(rows).mapInArrow(called._jc, False, None), spark)


def collect_in_arrow(
    rows: DataFrame, what: str, function: Callable[[_Batches], _Batches], schema: StructType
) -> list[Row]:
    """Run `map_in_arrow`, and return the rows, which are few; `what` is the name of the jobs, as of `named_jobs`.

    A worker holds a batch while the next one comes. So where the session says nothing, on a classic session batches
    have a quarter of the size that Spark gives them.
    """
    spark = rows.sparkSession
    with named_jobs(spark, what), job_property(spark, MOST_BYTES, str(_BATCH_BYTES)):
        return map_in_arrow(rows, function, schema).collect()


def _cut(function: Callable[[_Batches], _Batches], batches: _Batches) -> _Batches:
    speed_up_worker()
    return cut_batches(function(batches))


def _created(spark: SparkSession) -> Any:
    """Return PySpark's constructor of functions for the kind of session."""
    if is_connect(spark):
        from pyspark.sql.connect.udf import _create_udf as create
    else:
        from pyspark.sql.udf import _create_udf as create
    return create


def numbered(rows: DataFrame, *named: str) -> DataFrame:
    """Return rows whose columns have their numbers as names, "0", "1", …; the last ones are named `named`.

    ``mapInArrow`` takes the names of columns for expressions: one with a dot or a back quote it would not find.
    """
    return rows.toDF(*(str(number) for number in range(len(rows.columns) - len(named))), *named)
