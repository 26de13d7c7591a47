"""The bridge to the JVM of a classic session: calling it, and being called by it.

A `Proxy` answers a Java interface in Python. Spark calls it in the driver only, while it analyses and plans; nothing of
it travels to a task. What a proxy raises arrives in Spark as the Java exception that Spark itself would raise, so that
users see Spark's own errors (`docs/internals/spark_sql.md`, "Clean errors out of proxies").

A Java class of this package asks Python through a proxy for ``java.util.function.Function``.
"""

from __future__ import annotations

import base64
import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage
from py4j.java_gateway import JavaObject as ProxiedObject
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from paimon_spark.errors import PaimonError, TableNotFoundError, UnsupportedError
from paimon_spark.spark.session.pyspark_members import unlogged
from paimon_spark.spark.session.typed_errors import remember_error

JavaObject = Any
"""An object of the JVM; py4j gives them no better type."""
_MOST_STRUCTS = 500
_GATEWAYS: WeakKeyDictionary[SparkContext, Gateway] = WeakKeyDictionary()


class _Names:
    """A package, class or the whole JVM, whose members are looked up once: py4j asks for each part of a name anew."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if isinstance(found, JavaPackage | JavaClass):
            found = _Names(found)
        if isinstance(found, _Names | JavaMember):  # and no values of static fields
            self.__dict__[name] = found
        return found

    def __call__(self, *arguments: Any) -> Any:
        """Make an object of a class."""
        return self._target(*arguments)


class Gateway:
    """One JVM as Python sees it: short names for the calls that proxies need.

    What does not change in a JVM (classes, constants, types) is kept: a call costs as much as planning many files.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.context = context = spark.sparkContext
        self.gateway: Any = context._gateway
        self.jvm: JavaObject = _Names(context._jvm)
        self._classes: dict[str, JavaObject] = {}
        self._sets: dict[tuple[str, ...], JavaObject] = {}
        self._fields: dict[tuple[str, str], JavaObject] = {}
        self._spark_classes: dict[str, Any] = {}
        self._structs: dict[str, JavaObject] = {}
        self._mapper: JavaObject = self.jvm.com.fasterxml.jackson.databind.ObjectMapper()
        start_callbacks(self.gateway)

    @functools.cached_property
    def spark_version(self) -> tuple[int, int]:
        """The version of Spark without its last part."""
        major, minor = str(self.context.version).split(".")[:2]
        return int(major), int(minor)

    def strings(self, values: Iterable[str]) -> JavaObject:
        """A Java ``String[]``, in one call."""
        return self._mapper.readValue(json.dumps(list(values)), self.java_class("[Ljava.lang.String;"))

    def string_list(self, values: Iterable[str]) -> JavaObject:
        """A ``java.util.ArrayList`` of strings, in one call."""
        return self._mapper.readValue(json.dumps(list(values)), self.java_class("java.util.ArrayList"))

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
        found = self._classes.get(class_name)
        if found is None:
            loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
            found = self._classes[class_name] = self.jvm.java.lang.Class.forName(class_name, True, loader)
        return found

    def data_type(self, json_text: str) -> JavaObject:
        """The ``DataType`` that Spark's JSON says."""
        found = self._structs.get(json_text)
        if found is None:
            if len(self._structs) > _MOST_STRUCTS:
                self._structs.clear()
            found = self._structs[json_text] = self.jvm.org.apache.spark.sql.types.DataType.fromJson(json_text)
        return found

    def string_dict(self, java_map: JavaObject) -> dict[str, str]:
        """A ``java.util.Map`` of strings, in one call; a session's settings, which may hold keys, come in such."""
        with unlogged():
            found: dict[str, str] = json.loads(self._mapper.writeValueAsString(java_map))
        return found

    def string_map(self, values: Mapping[str, str]) -> JavaObject:
        """A ``java.util.HashMap`` of strings, in one call; options of a store, which may hold keys, come in such."""
        with unlogged():
            return self._mapper.readValue(json.dumps(dict(values)), self.java_class("java.util.HashMap"))

    def bytes_map(self, values: Mapping[str, bytes]) -> JavaObject:
        """A ``java.util.HashMap`` of names and ``byte[]``, in few calls."""
        names, array = self.java_class("java.util.HashMap"), self.java_class("[B")
        kind = self._mapper.getTypeFactory().constructMapType(names, self.java_class("java.lang.String"), array)
        encoded = {name: base64.b64encode(value).decode() for name, value in values.items()}
        return self._mapper.readValue(json.dumps(encoded), kind)

    def options(self, values: Mapping[str, str]) -> JavaObject:
        """A ``CaseInsensitiveStringMap``."""
        return self.jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(self.string_map(values))

    def enum_constant(self, class_name: str, name: str) -> JavaObject:
        """A constant of an enum."""
        return self.jvm.java.lang.Enum.valueOf(self.java_class(class_name), name)

    def identifier(self, namespace: Iterable[str], name: str) -> JavaObject:
        """A catalog ``Identifier``."""
        catalog = self.jvm.org.apache.spark.sql.connector.catalog
        return catalog.Identifier.of(self.strings(namespace), name)

    def spark_class(self, class_name: str) -> Any:
        """A class for its constructors and static methods, found without a call; `compat` names those of Spark."""
        found = self._spark_classes.get(class_name)
        if found is None:
            found = _Names(JavaClass(class_name, self.gateway._gateway_client))
            self._spark_classes[class_name] = found
        return found

    def scala_object(self, class_name: str) -> JavaObject:
        """The one instance of a Scala object."""
        key = f"{class_name}$"
        if key not in self._spark_classes:
            self._spark_classes[key] = self.java_class(key).getField("MODULE$").get(None)
        return self._spark_classes[key]

    def private_field(self, target: JavaObject, name: str) -> JavaObject | None:
        """A private field of a Java object, wherever in its classes it is declared; None where there is none."""
        java_class = target.getClass()
        key = (java_class.getName(), name)
        if key in self._fields:
            return self._fields[key]
        while java_class is not None:
            fields = java_class.getDeclaredFields()
            texts = self.jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(fields).mkString("\n")  # in one call
            names = [text.rpartition(".")[2] for text in texts.split("\n")]
            if name in names:
                candidate = fields[names.index(name)]
                candidate.setAccessible(True)
                self._fields[key] = candidate
                return candidate
            java_class = java_class.getSuperclass()
        return None


def gateway_of(spark: SparkSession) -> Gateway:
    """The gateway of an application, made once.

    Raises:
        PaimonError: the JVM cannot call Python.
    """
    context = spark.sparkContext
    found = _GATEWAYS.get(context)
    if found is None:
        found = _GATEWAYS[context] = Gateway(spark)
    server = found.gateway.__dict__.get("_callback_server")
    if server is None or server.server_socket.fileno() < 0:  # another library has shut it down
        start_callbacks(found.gateway)
    return found


def called_by(gateway: Gateway, *classes: str) -> bool:
    """Whether one of Spark's classes (the end of its name) is among the callers of this call of Spark's."""
    frames = gateway.jvm.java.lang.Thread.currentThread().getStackTrace()
    return any(frame.getClassName().endswith(tuple(f".{name}" for name in classes)) for frame in frames)


class ProxyError(Py4JJavaError):  # type: ignore[misc]
    """What a `Proxy` raises: Java is thrown the exception that it holds."""


class _OfProxies:
    """py4j's setting `propagate_java_exceptions`, true for what proxies raise only.

    It belongs to the whole process. If a function of ``foreachBatch`` were included, an interrupted call in it would
    reach Spark as an ``UndeclaredThrowableException``, and a query that is stopped would have failed.
    """

    def __init__(self, others: object) -> None:
        self._others = others

    def __bool__(self) -> bool:
        """Asked by py4j while it handles an exception of a callback."""
        return isinstance(sys.exc_info()[1], ProxyError) or bool(self._others)


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether the JVM of a session finds a class."""
    try:
        gateway_of(spark).java_class(name)
    except Py4JJavaError:
        return False
    return True


def start_callbacks(gateway: JavaObject) -> None:
    """Let the JVM call Python, and let Java exceptions that proxies raise pass as they are.

    Another library may have started py4j's callback server before (Java then gets its port, which py4j
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
    for parameters in (
        gateway.python_parameters,
        gateway.callback_server_parameters,
        server.callback_server_parameters,
    ):
        if not isinstance(parameters.propagate_java_exceptions, _OfProxies):
            parameters.propagate_java_exceptions = _OfProxies(parameters.propagate_java_exceptions)
        parameters.daemonize_connections = True  # else threads of the JVM's calls keep the process from ending


def to_java_error(gateway: Gateway, error: Exception, *, named: bool = False) -> ProxyError:
    """What to raise out of a proxied method so that Spark sees a fitting Java exception.

    Args:
        gateway: the JVM.
        error: what was raised.
        named: whether the name of its class stands before the text of an error of ours.
    """
    if isinstance(error, ProxyError):
        return error
    if isinstance(error, Py4JJavaError):
        return ProxyError("", error.java_exception)
    origin = error._origin if isinstance(error, CapturedException) else None
    if origin is None:
        java = gateway.jvm.java.lang
        text = named_text(error) if named else str(error)
        if isinstance(error, PaimonError):
            remember_error(error)
        if isinstance(error, UnsupportedError):
            origin = java.UnsupportedOperationException(text)
        elif isinstance(error, PaimonError | TableNotFoundError):
            origin = java.IllegalArgumentException(text)
        else:
            origin = java.RuntimeException(f"{type(error).__name__}: {error}")
    return ProxyError("", origin)


def named_text(error: Exception) -> str:
    """The text of an error behind the name of its class."""
    return f"{type(error).__name__}: {error}"


def is_java_name(name: str) -> bool:
    """Whether a method is Java's by its spelling; Python's own ones have an underscore."""
    return "_" not in name


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Proxy, *arguments: Any) -> Any:
        try:
            found = method(self, *arguments)
            return found._for_java() if isinstance(found, Proxy) else found
        except Exception as error:
            raised = to_java_error(self.gateway, error, named=self.names_errors)
            raise _declared(self, method.__name__, raised) from error

    return call


def _declared(proxy: Proxy, name: str, error: ProxyError) -> ProxyError:
    """The error itself where Java lets the method throw it, else one of its text that every method may throw.

    A Java proxy that throws a checked exception its method does not declare gives an ``UndeclaredThrowableException``,
    and users a page of Java.
    """
    gateway, thrown = proxy.gateway, error.java_exception
    if (
        proxy.caller_unwraps
        or name == "ask"
        or any(gateway.java_class(f"java.lang.{kind}").isInstance(thrown) for kind in ("RuntimeException", "Error"))
    ):
        return error
    for interface in proxy.interfaces:
        for method in gateway.java_class(interface).getMethods():
            if method.getName() == name and any(kind.isInstance(thrown) for kind in method.getExceptionTypes()):
                return error
    return ProxyError("", gateway.jvm.java.lang.IllegalArgumentException(thrown.getMessage()))


class Proxy:
    """A Python object that Spark takes for an implementation of Java interfaces.

    Subclasses name the `interfaces` and define the methods that Java calls, also those with a default in Java: py4j
    hands all calls to Python (an `AnswerProxy` needs only those without). Methods in Java's spelling are guarded by
    `to_java_error`; a proxy that they return is handed to the JVM by its `_for_java`.
    """

    interfaces: ClassVar[tuple[str, ...]] = ()
    caller_unwraps: ClassVar[bool] = False
    """Whether Java code of ours calls the proxy and takes an ``UndeclaredThrowableException`` apart."""
    names_errors: bool = False
    """Whether the name of its class stands before an error, as in the errors of ``format("paimon")``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give the class the ``Java`` member that py4j asks for, and guard its methods."""
        super().__init_subclass__(**kwargs)
        cls.Java = type("Java", (), {"implements": list(cls.interfaces)})  # type: ignore[attr-defined]
        for name, member in list(vars(cls).items()):
            if is_java_name(name) and callable(member) and not isinstance(member, type):
                setattr(cls, name, _guarded(member))

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def _for_java(self) -> Any:
        """What py4j hands to the JVM where a method returns this object."""
        return self

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


class HeldWeakly:
    """An attribute of a proxy that is an object of the JVM, which may be collected while the proxy lives.

    A proxy lives as long as the JVM refers to it. One that is put into a session and refers to it would keep it for
    ever, for neither collector sees the circle: each query that streams has a session of its own.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}_held_weakly"

    def __set__(self, proxy: Proxy, value: JavaObject) -> None:
        setattr(proxy, self._name, proxy.gateway.jvm.java.lang.ref.WeakReference(value))

    def __get__(self, proxy: Proxy, owner: type) -> JavaObject:
        return getattr(proxy, self._name).get()


FUNCTION = "java.util.function.Function"


class FunctionProxy(Proxy):
    """A proxy that is called by its method ``apply``."""

    interfaces: ClassVar[tuple[str, ...]] = (FUNCTION,)


class SessionProxy(FunctionProxy):
    """A proxy that is put into a session, whose state it holds weakly."""

    state = HeldWeakly()

    def __init__(self, gateway: Gateway, state: JavaObject) -> None:
        super().__init__(gateway)
        self.state = state
