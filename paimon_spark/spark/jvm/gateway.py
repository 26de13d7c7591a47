"""The bridge to the JVM of a classic session: calling it, and being called by it.

A `Proxy` answers a Java interface in Python. Spark calls it in the driver only, while it analyses and plans; nothing of
it travels to a task. What a proxy raises arrives in Spark as the Java exception that Spark itself would raise, so that
users see Spark's own errors (`spark_sql.md`, "Clean errors out of proxies").
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from py4j.java_gateway import JavaObject as ProxiedObject
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from paimon_spark.errors import PaimonError, TableNotFoundError, UnsupportedError

JavaObject = Any
"""An object of the JVM; py4j gives them no better type."""


class Gateway:
    """One JVM as Python sees it: short names for the calls that proxies need."""

    def __init__(self, spark: SparkSession) -> None:
        self.context = context = spark.sparkContext
        self.gateway = context._gateway
        self.jvm: JavaObject = context._jvm
        start_callbacks(self.gateway)

    def strings(self, values: Iterable[str]) -> JavaObject:
        """A Java ``String[]``."""
        return self.array("java.lang.String", list(values))

    def array(self, class_name: str, values: list[Any]) -> JavaObject:
        """A Java array of that class; proxies may be among the values."""
        element = self.java_class(class_name)
        reflect = self.jvm.java.lang.reflect.Array
        array = reflect.newInstance(element, len(values))
        for index, value in enumerate(values):
            reflect.set(array, index, value)  # array[i] = proxy fails in py4j
        return array

    def java_class(self, class_name: str) -> JavaObject:
        """The ``java.lang.Class`` of that name."""
        return self.jvm.java.lang.Class.forName(
            class_name, True, self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        )

    def string_map(self, values: Mapping[str, str]) -> JavaObject:
        """A ``java.util.HashMap`` of strings."""
        java_map = self.jvm.java.util.HashMap()
        java_map.putAll(dict(values)) if values else None
        return java_map

    def options(self, values: Mapping[str, str]) -> JavaObject:
        """A ``CaseInsensitiveStringMap``."""
        return self.jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(self.string_map(values))

    def enum_set(self, class_name: str, names: Iterable[str]) -> JavaObject:
        """A ``java.util.HashSet`` of constants of an enum; names that this Spark does not have are left out."""
        java_class = self.java_class(class_name)
        constants = {constant.name(): constant for constant in java_class.getEnumConstants()}
        found = self.jvm.java.util.HashSet()
        for name in names:
            if name in constants:
                found.add(constants[name])
        return found

    def identifier(self, namespace: Iterable[str], name: str) -> JavaObject:
        """A catalog ``Identifier``."""
        catalog = self.jvm.org.apache.spark.sql.connector.catalog
        return catalog.Identifier.of(self.strings(namespace), name)

    def field(self, target: JavaObject, name: str) -> JavaObject:
        """A private field of a Java object, wherever in its classes it is declared."""
        java_class = target.getClass()
        while java_class is not None:
            for candidate in java_class.getDeclaredFields():
                if candidate.getName() == name:
                    candidate.setAccessible(True)
                    return candidate
            java_class = java_class.getSuperclass()
        raise PaimonError(f"this Spark version has no field {name} in {target.getClass().getName()}")


def start_callbacks(gateway: JavaObject) -> None:
    """Let the JVM call Python, and let Java exceptions that Python raises pass as they are.

    Another library may have started py4j's callback server before (Java is then told where it listens, which py4j
    leaves to whoever starts it), or have shut it down (then there is a new one).

    Raises:
        PaimonError: there can be no server.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    server = gateway.__dict__.get("_callback_server")
    if server is not None and server.server_socket.fileno() < 0:
        gateway._callback_server = None
    try:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    except (OSError, Py4JNetworkError) as error:
        raise PaimonError(
            f"The py4j callback server cannot listen ({error}), so the JVM cannot call the catalog. Call "
            "paimon_spark.register_catalog before other libraries start callbacks, or in a process of its own; without "
            "a catalog there are format('paimon'), paimon_spark.PaimonTable and paimon_spark.sql"
        ) from error
    server = gateway._callback_server
    port = server.server_socket.getsockname()[1]
    java_server = ProxiedObject("GATEWAY_SERVER", gateway._gateway_client)
    client = java_server.getCallbackClient()
    if client.getPort() != port:
        gateway._python_proxy_port = port
        java_server.resetCallbackClient(client.getAddress(), port)
    gateway.python_parameters.propagate_java_exceptions = True
    gateway.callback_server_parameters.propagate_java_exceptions = True
    server.callback_server_parameters.propagate_java_exceptions = True


def to_java_error(gateway: Gateway, error: Exception) -> Py4JJavaError:
    """What to raise out of a proxied method so that Spark sees a fitting Java exception."""
    if isinstance(error, Py4JJavaError):
        return error
    origin = error._origin if isinstance(error, CapturedException) else None
    if origin is None:
        java = gateway.jvm.java.lang
        if isinstance(error, UnsupportedError):
            origin = java.UnsupportedOperationException(str(error))
        elif isinstance(error, PaimonError | TableNotFoundError):
            origin = java.IllegalArgumentException(str(error))
        else:
            origin = java.RuntimeException(f"{type(error).__name__}: {error}")
    return Py4JJavaError("", origin)


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Proxy, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Exception as error:
            raise to_java_error(self.gateway, error) from error

    return call


class Proxy:
    """A Python object that Spark takes for an implementation of Java interfaces.

    Subclasses name the `interfaces` and define every method of them, also those with a default in Java: py4j hands all
    calls to Python. Public methods are guarded by `to_java_error`.
    """

    interfaces: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give the class the ``Java`` member that py4j asks for, and guard its methods."""
        super().__init_subclass__(**kwargs)
        cls.Java = type("Java", (), {"implements": list(cls.interfaces)})  # type: ignore[attr-defined]
        for name, member in list(vars(cls).items()):
            if callable(member) and not name.startswith("_") and not isinstance(member, type):
                setattr(cls, name, _guarded(member))

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def toString(self) -> str:
        """Java's ``toString``; also what `equals` compares."""
        return f"{type(self).__name__}@{id(self):x}"

    def hashCode(self) -> int:
        """Java's ``hashCode``, by `toString`."""
        value = 0
        for character in self.toString():
            value = (31 * value + ord(character)) & 0xFFFFFFFF
        return value - (1 << 32) if value >= 1 << 31 else value

    def equals(self, other: Any) -> bool:
        """Java's ``equals``: a proxied argument arrives as a Java object, so texts are compared."""
        return other is not None and (other is self or bool(other.toString() == self.toString()))
