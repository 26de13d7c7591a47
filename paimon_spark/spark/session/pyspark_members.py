"""PySpark's private attributes that lead to the JVM, each named once, and its methods that this package wraps.

Connect sessions have none of these attributes. Of a method that is wrapped PySpark's own is kept below it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from paimon_spark.errors import cutting
from paimon_spark.storage.store_options import secret_values

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PLAIN = "_paimon_plain"


def wrap_method(kind: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a method in place of one of a class, once; a class without it stays as it is.

    Args:
        kind: the class.
        name: of the method.
        around: is given PySpark's method, and returns the one that takes its place.
    """
    found = getattr(kind, name, None)
    if found is None or hasattr(found, _PLAIN):
        return
    method = wraps(found)(cutting(around(found)))
    setattr(method, _PLAIN, found)
    setattr(kind, name, method)


def plain(method: Any) -> Any:
    """Return PySpark's own method below a bound method that may be wrapped."""
    own = getattr(method, _PLAIN, None)
    return method if own is None else own.__get__(method.__self__)


_EXPR: MutableMapping[Any, Any] = WeakKeyDictionary()
"""The function of each JVM."""


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


def analyzed_text(frame: DataFrame) -> str:
    """Return the analysed plan of a DataFrame of a classic session as a text."""
    return str(java_frame(frame).queryExecution().analyzed().toString())


def replace_in_error(error: PySparkException, text: str, other: str) -> None:
    """Put another text in place of one in the message of an error, and in the parameters of the message."""
    error._message = error._message.replace(text, other)
    parameters = error.getMessageParameters() or {}
    parameters.update({name: value.replace(text, other) for name, value in parameters.items()})


def sql_columns(spark: SparkSession, texts: Iterable[str]) -> list[Column]:
    """Return the columns of SQL expressions on a classic session.

    ``functions.expr`` of PySpark asks the JVM each time what members its largest class has, which takes as long as
    planning a small write.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn

    jvm = jvm_of(spark)
    expr = _EXPR.get(jvm) or _EXPR.setdefault(jvm, jvm.org.apache.spark.sql.functions.expr)
    return [ClassicColumn(expr(text)) for text in texts]


def java_writer(writer: Any) -> Any:
    """Return the JVM's writer of a ``DataFrameWriter``."""
    return writer._jwrite


def writer_options(writer: Any) -> dict[str, str]:
    """Return the options of a ``DataFrameWriter`` of a classic session."""
    converters = writer._spark._jvm.scala.jdk.javaapi.CollectionConverters
    return {str(key): str(value) for key, value in converters.asJava(writer._jwrite.extraOptions().toMap()).items()}


def batch_watermark(query: StreamingQuery) -> int | None:
    """Return the event-time watermark of the micro-batch that a query runs, in epoch milliseconds; None without one."""
    execution = query._jsq.streamingQuery().lastExecution()
    return None if execution is None else int(execution.offsetSeqMetadata().batchWatermarkMs()) or None


def micro_batch_partitions(frame: DataFrame) -> int | None:
    """Return the number of partitions of the rows that ``foreachBatch`` was given; None where they are no RDD."""
    plan = java_frame(frame).queryExecution().logical()
    return int(plan.rdd().getNumPartitions()) if plan.getClass().getSimpleName() == "LogicalRDD" else None


def estimated_bytes(frame: DataFrame) -> int:
    """Return the size of all rows of a DataFrame, as Spark's optimizer estimates it: of joins far too large."""
    return int(str(java_frame(frame).queryExecution().optimizedPlan().stats().sizeInBytes()))


class SourceSize(Enum):
    """How much a second evaluation of a DataFrame costs."""

    AT_HAND = "its rows are cached, or in the plan itself"
    SMALL = "few bytes, by the estimate of Spark's optimizer, or made of few objects of the driver"
    UNKNOWN = "many bytes, unknown, or not the same ones again"


_AT_HAND = ("InMemoryRelation", "LocalRelation", "Range", "OneRowRelation")
_OVER = ("Project", "Filter", "Union", "SubqueryAlias")


def source_size(frame: DataFrame, most_bytes: int) -> SourceSize:
    """Tell how much a second evaluation of a DataFrame of a classic session costs."""
    plan = java_frame(frame).queryExecution().optimizedPlan()
    if not plan.deterministic():
        return SourceSize.UNKNOWN
    if _is_at_hand(plan):
        return SourceSize.AT_HAND
    if int(str(plan.stats().sizeInBytes())) <= most_bytes:
        return SourceSize.SMALL
    size = _driver_bytes(jvm_of(frame.sparkSession), plan)
    return SourceSize.SMALL if size is not None and size <= most_bytes else SourceSize.UNKNOWN


def _driver_bytes(jvm: Any, plan: Any) -> int | None:
    """The size of the objects of the driver that rows are made of, as by ``createDataFrame(list)``; None of others.

    Spark's optimizer takes such rows for very many.
    """
    while str(plan.getClass().getSimpleName()) in _OVER and plan.children().size() == 1:
        plan = plan.children().apply(0)
    if str(plan.getClass().getSimpleName()) != "LogicalRDD":
        return None
    rdd = plan.rdd()
    while not rdd.dependencies().isEmpty():
        parents = rdd.dependencies()
        if parents.size() > 1 or str(parents.apply(0).getClass().getSimpleName()) != "OneToOneDependency":
            return None
        rdd = parents.apply(0).rdd()
    if str(rdd.getClass().getSimpleName()) != "ParallelCollectionRDD":
        return None
    estimate = jvm.org.apache.spark.util.SizeEstimator.estimate
    return sum(int(estimate(part.values())) for part in rdd.partitions())


def _is_at_hand(plan: Any) -> bool:
    name = str(plan.getClass().getSimpleName())
    children = plan.children()
    inside = [children.apply(at) for at in range(children.size())] if name in _OVER else []
    return name in _AT_HAND or (bool(inside) and all(map(_is_at_hand, inside)))


def running_context() -> SparkContext | None:
    """The Spark context of this process; None in tasks, in clients of Spark Connect, and before there is one."""
    module = sys.modules.get("pyspark.core.context")
    context: SparkContext | None = None if module is None else module.SparkContext._active_spark_context
    return context


_PY4J_LOGS: Final = ("py4j.java_gateway", "py4j.clientserver")
_UNLOGGED: Final = threading.local()
_LONGEST_NAME: Final = 200


def _is_logged(record: logging.LogRecord) -> bool:
    """Whether a message of py4j is logged: not within `unlogged`, and without the values of secret options else."""
    if getattr(_UNLOGGED, "depth", 0):
        return False
    text = record.getMessage()
    lines = text.split("\n")
    for at, (name, value) in enumerate(pairwise(lines), 1):  # an argument that is a text begins with an s
        if name[:1] == value[:1] == "s" and len(name) < _LONGEST_NAME and secret_values([(name[1:], value[1:])]):
            lines[at] = "s***"
    cleaned = "\n".join(lines)
    if cleaned != text:
        record.msg, record.args = cleaned, ()
    return True


for _name in _PY4J_LOGS:
    logging.getLogger(_name).addFilter(_is_logged)


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep py4j from logging what this thread sends and gets, which it does at level DEBUG."""
    before = getattr(_UNLOGGED, "depth", 0)
    _UNLOGGED.depth = before + 1
    try:
        yield
    finally:
        _UNLOGGED.depth = before
