"""Exceptions of the JVM: those of calls that fail, and Spark's own, made so that a proxy can raise them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import PaimonError
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.session.typed_errors import remember_error

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
