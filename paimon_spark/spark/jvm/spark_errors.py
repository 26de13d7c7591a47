"""Exceptions of the JVM: those of calls that fail, and Spark's own, made so that a proxy can raise them.

Errors of Spark's own Parquet reader about data files of a table are one sentence that says what to do.

The reader fails in a task, in Java code of Spark's: nothing of this package runs there. So the sentence is made where
py4j raises the error in Python, which becomes a `CorruptTableError`, or a `StorageError` where a store is silent.
PySpark replaces the same function to convert exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeAlias
from urllib.parse import unquote

import py4j.java_gateway
import py4j.protocol
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import CorruptTableError, PaimonError, StorageError
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.session.typed_errors import failed_file_error, remember_error

JavaCallError = Py4JError
"""A call of the JVM failed: there is no such member, or Java threw an exception."""
JavaThrownError: TypeAlias = Py4JJavaError
"""Java threw an exception: the attribute `java_exception`. Where a proxy raises it, it is thrown in Java."""
CALL_ERRORS = (Py4JError, CapturedException)
"""What a call of the JVM raises; PySpark has a class of its own for some exceptions of Spark."""
MISFITS = (Py4JError, PySparkException, PaimonError, TypeError)
"""What comes of calling classes and methods that another Spark lacks."""


def misfit_reason(error: Exception | str) -> str:
    """Return the first line of what one of `MISFITS` says."""
    reason = error.java_exception if isinstance(error, Py4JJavaError) else error
    return str(reason).partition("\n")[0]


def thrown(exception: JavaObject) -> Py4JJavaError:
    """Return what a proxy raises so that an exception is thrown in Java."""
    return Py4JJavaError("", exception)


def no_such_table(gateway: Gateway, ident: JavaObject) -> Py4JJavaError:
    """TABLE_OR_VIEW_NOT_FOUND."""
    return _analysis(gateway, compat.NO_SUCH_TABLE, ident)


def table_already_exists(gateway: Gateway, ident: JavaObject) -> Py4JJavaError:
    """TABLE_OR_VIEW_ALREADY_EXISTS, which IF NOT EXISTS takes as well."""
    return _analysis(gateway, compat.TABLE_EXISTS, ident)


def no_such_namespace(gateway: Gateway, namespace: Iterable[str]) -> Py4JJavaError:
    """SCHEMA_NOT_FOUND."""
    return _analysis(gateway, compat.NO_SUCH_NAMESPACE, gateway.strings(namespace))


def namespace_already_exists(gateway: Gateway, namespace: Iterable[str]) -> Py4JJavaError:
    """SCHEMA_ALREADY_EXISTS."""
    return _analysis(gateway, compat.NAMESPACE_EXISTS, gateway.strings(namespace))


def no_such_function(gateway: Gateway, ident: JavaObject) -> Py4JJavaError:
    """ROUTINE_NOT_FOUND, or UNRESOLVED_ROUTINE where Spark has looked elsewhere too."""
    return _analysis(gateway, compat.NO_SUCH_FUNCTION, ident)


def namespace_not_empty(gateway: Gateway, namespace: Iterable[str]) -> Py4JJavaError:
    """SCHEMA_NOT_EMPTY."""
    return _analysis(gateway, compat.NAMESPACE_NOT_EMPTY, gateway.strings(namespace))


def unsupported_table_change(gateway: Gateway, error: PaimonError) -> Py4JJavaError:
    """UNSUPPORTED_TABLE_CHANGE, as Spark makes it itself, but of a class that PySpark shows without a Java trace."""
    remember_error(error)
    name, key, message = "UNSUPPORTED_TABLE_CHANGE", "message", str(error)
    if not compat.ERROR_CLASSES.of(gateway).isValidErrorClass(name):
        name = "_LEGACY_ERROR_TEMP_2045"  # its name up to Spark 4.2
    parameters = compat.PYTHON_UTILS.of(gateway).toScalaMap(gateway.string_map({key: message}))
    context = gateway.array("org.apache.spark.QueryContext", [])
    return thrown(compat.RUNTIME_EXCEPTION(gateway, name, parameters, None, context, ""))


def _analysis(gateway: Gateway, java_class: compat.SparkClass, subject: JavaObject) -> Py4JJavaError:
    return thrown(java_class(gateway, subject))


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


def _failure(message: str, error: JavaObject | None = None) -> tuple[type[PaimonError], str] | None:
    """Return the kind of an error of Spark's that names a data file, and a sentence about it; None of other errors.

    Args:
        message: of the error.
        error: of Java, whose first cause is reported too.
    """
    found = _FAILED.search(message)
    if found is None:
        return None
    path = unquote(_OWN_SCHEME.sub(r"\1:", found[1]))  # Spark writes it as an address
    reason = _first_cause(error)
    if _UNANSWERED.search(reason):
        return StorageError, (
            f"The store of data file {path} does not answer ({reason}). Check the endpoint and the network, and run "
            "the query again."
        )
    return CorruptTableError, (
        f"Data file {path} of a Paimon table is damaged or missing. If its snapshot expired while the query ran, "
        "run the query again; else restore the file. With SET `spark.paimon.read.spark-parquet` = false Paimon's own "
        f"reader says what is wrong with it.{f' Spark says: {reason}' if reason else ''}"
    )


def _first_cause(error: JavaObject | None) -> str:
    """Return the words of what an error in Java came of; empty where nothing tells."""
    last, at = "", error
    with suppress(Py4JError):
        for _ in range(_MOST_CAUSES):
            at = None if at is None else at.getCause()
            if at is None:
                break
            last = str(at.getMessage() or last).strip()
    return last.splitlines()[0][:_MOST_SHOWN] if last else ""
