"""Errors of Spark's own Parquet reader about data files of a table are one sentence that says what to do.

The reader fails in a task, in Java code of Spark's: nothing of this package runs there. So the sentence is made where
py4j raises the error in Python, which becomes a `CorruptTableError`, or a `StorageError` where a store is silent.
PySpark replaces the same function to convert exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

import py4j.java_gateway
import py4j.protocol
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured

from paimon_spark.errors import CorruptTableError, PaimonError, StorageError
from paimon_spark.spark.jvm.gateway import JavaObject
from paimon_spark.spark.session.typed_errors import failed_file_error

_MARK = "_paimon_explains"
_FAILED = re.compile(r"FAILED_READ_FILE.*?((?:[a-z][a-z0-9-]*:)?/\S*/bucket-[^/\s]+/[^/\s]+\.parquet)", re.DOTALL)
_MOST_SHOWN, _MOST_CAUSES = 300, 10
_UNANSWERED = re.compile(
    r"timed out|timeout|connection refused|connection reset|unknown host|unreachable", re.IGNORECASE
)
"""What the first cause says where the store, and not the file, is to blame."""
_OWN_SCHEME = re.compile(r"^([a-z0-9]+)-paimon-[0-9a-f]+:")
"""What stands for ``s3a:`` and others where Spark reads with settings of our own (`catalog/native_scan`)."""


def explain_read_failures() -> None:
    """Let such errors say that. Calling it again does no harm.

    PySpark wraps ``py4j.protocol.get_return_value`` anew for each ``SparkSession`` and puts the result into
    ``py4j.java_gateway``: so both do it.
    """
    for module in (py4j.protocol, py4j.java_gateway):
        if not hasattr(module.get_return_value, _MARK):
            module.get_return_value = _explaining(module.get_return_value)


def _explaining(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def explaining(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        try:
            return plain(*arguments, **named)
        except PySparkException as error:
            found = None if isinstance(error, PaimonError) else _failure(str(error), getattr(error, "_origin", None))
            if found is None:
                raise
            raise failed_file_error(error, *found) from None
        except Py4JJavaError as error:
            reported = None
            with suppress(Py4JError):  # the JVM is gone
                found = _failure(str(error.java_exception.getMessage()), error.java_exception)
                reported = found and failed_file_error(captured.convert_exception(error.java_exception), *found)
            if not reported:
                raise
            raise reported from None

    setattr(explaining, _MARK, True)
    return explaining


def _failure(message: str, thrown: JavaObject | None = None) -> tuple[type[PaimonError], str] | None:
    """Return the kind of an error of Spark's that names a data file, and a sentence about it; None of other errors.

    Args:
        message: of the error.
        thrown: the error in Java, whose first cause is reported too.
    """
    found = _FAILED.search(message)
    if found is None:
        return None
    path = _OWN_SCHEME.sub(r"\1:", found[1])
    reason = _first_cause(thrown)
    if _UNANSWERED.search(reason):
        return StorageError, (
            f"The store of data file {path} does not answer ({reason}). Check the endpoint and the network, and run "
            "the query again."
        )
    return CorruptTableError, (
        f"Data file {path} of a Paimon table is damaged or missing. If its snapshot expired while the query ran, "
        "run the query again; else restore the file. With SET spark.paimon.read.spark-parquet = false Paimon's own "
        f"reader says what is wrong with it.{f' Spark says: {reason}' if reason else ''}"
    )


def _first_cause(thrown: JavaObject | None) -> str:
    """Return the words of what an error in Java came of; empty where nothing tells."""
    last, at = "", thrown
    with suppress(Py4JError):
        for _ in range(_MOST_CAUSES):
            at = None if at is None else at.getCause()
            if at is None:
                break
            last = str(at.getMessage() or last).strip()
    return last.splitlines()[0][:_MOST_SHOWN] if last else ""
