"""Errors of Spark's own Parquet reader about data files of a table end in a sentence that says what to do.

The reader fails in a task, in Java code of Spark's: nothing of this package runs there. So the sentence is added where
py4j raises the error in Python, as a note of the exception. PySpark replaces the same function to convert exceptions.
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

_MARK = "_paimon_explains"
_FAILED = re.compile(r"FAILED_READ_FILE.*?((?:[a-z][a-z0-9-]*:)?/\S*/bucket-[^/\s]+/[^/\s]+\.parquet)", re.DOTALL)
_OWN_SCHEME = re.compile(r"^s3a-paimon-[0-9a-f]+:")
"""What stands for ``s3a:`` where Spark reads with settings of our own (`catalog/hadoop_files`)."""


def explain_read_failures() -> None:
    """Let such errors have the note. Calling it again does no harm.

    PySpark wraps ``py4j.protocol.get_return_value`` anew for each ``SparkSession`` and puts the result into
    ``py4j.java_gateway``: so both have the note.
    """
    for module in (py4j.protocol, py4j.java_gateway):
        if not hasattr(module.get_return_value, _MARK):
            module.get_return_value = _explaining(module.get_return_value)


def _explaining(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def explaining(*arguments: Any, **named: Any) -> Any:
        try:
            return plain(*arguments, **named)
        except PySparkException as error:
            _explain(error, str(error))
            raise
        except Py4JJavaError as error:
            with suppress(Py4JError):  # the JVM is gone
                _explain(error, str(error.java_exception.getMessage()))
            raise

    setattr(explaining, _MARK, True)
    return explaining


def read_failure_note(message: str) -> str | None:
    """Return the sentence about the data file that an error of Spark's names; None of other errors."""
    found = _FAILED.search(message)
    if found is None:
        return None
    path = _OWN_SCHEME.sub("s3a:", found[1])
    return (
        f"Data file {path} of a Paimon table is damaged or missing. If its snapshot expired while the query ran, "
        "run the query again; else restore the file. With SET spark.paimon.read.spark-parquet = false Paimon's own "
        "reader says what is wrong with it."
    )


def _explain(error: BaseException, message: str) -> None:
    note = read_failure_note(message)
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
