"""Java classes of this package: sources under `java/`, compiled in the JVM of the driver by Janino, a part of Spark.

Each class is compiled when it is first loaded, once in a JVM. Nothing of these classes may travel to executors.
"""

from __future__ import annotations

import threading
from importlib import resources
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

_FOLDER = "java"
_SUFFIX = ".java"


class JavaSources:
    """The compiled classes of one JVM."""

    def __init__(self, gateway: Gateway) -> None:
        jvm = gateway.jvm
        self._finder = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder()
        for name, text in sources().items():
            self._finder.addResource(name + _SUFFIX, text)
        parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._loader = jvm.org.codehaus.janino.JavaSourceClassLoader(parent, self._finder, None)
        self._classes: dict[str, JavaObject] = {}
        self.shared: dict[str, JavaObject] = {}
        """Objects without state, by their classes."""

    def load(self, name: str, generated: str | None = None) -> JavaObject:
        """Return the ``java.lang.Class`` of a class.

        Args:
            name: the class; its source is `java/<name>.java`.
            generated: the source of a class that has no file.

        Raises:
            Py4JJavaError: the class cannot be compiled: this Spark lacks a class or a method that it uses.
        """
        if name not in self._classes:
            if generated is not None:
                self._finder.addResource(name + _SUFFIX, generated)
            self._classes[name] = self._loader.loadClass(name)
        return self._classes[name]


_of_jvms: WeakKeyDictionary[Any, JavaSources] = WeakKeyDictionary()
_lock = threading.Lock()


def sources() -> dict[str, str]:
    """Return the sources by the names of their classes."""
    folder = resources.files(__package__) / _FOLDER
    files = [file for file in folder.iterdir() if file.name.endswith(_SUFFIX)]
    return {file.name.removesuffix(_SUFFIX): file.read_text(encoding="utf-8") for file in files}


def java_class(gateway: Gateway, name: str, generated: str | None = None) -> JavaObject:
    """Return the ``java.lang.Class`` of a class of this package.

    Raises:
        Py4JJavaError: the class cannot be compiled: this Spark lacks a class or a method that it uses.
    """
    with _lock:
        return _sources_of(gateway).load(name, generated)


def shared_object(gateway: Gateway, name: str) -> JavaObject:
    """Return the one object of a class of this package that has no state; raises as `java_class`."""
    with _lock:
        found = _sources_of(gateway)
        if name not in found.shared:
            found.shared[name] = found.load(name).newInstance()
        return found.shared[name]


def _sources_of(gateway: Gateway) -> JavaSources:
    found = _of_jvms.get(gateway.gateway)
    if found is None:
        found = _of_jvms[gateway.gateway] = JavaSources(gateway)
    return found


def new_object(gateway: Gateway, name: str, *values: tuple[str, Any], generated: str | None = None) -> JavaObject:
    """Make an object of a class of this package.

    Args:
        gateway: the JVM.
        name: the class.
        values: class and value of each argument of its constructor; proxies may be among them.
        generated: the source of a class that has no file.

    Raises:
        Py4JError: the class cannot be compiled, or has no such constructor.
    """
    types = gateway.array("java.lang.Class", [gateway.java_class(type_name) for type_name, _ in values])
    constructor = java_class(gateway, name, generated).getConstructor(types)
    return constructor.newInstance(gateway.array("java.lang.Object", [value for _, value in values]))
