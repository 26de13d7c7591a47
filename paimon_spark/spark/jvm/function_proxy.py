"""Proxies for ``java.util.function.Function``: how a Java class of this package asks Python."""

from __future__ import annotations

from paimon_spark.spark.jvm.gateway import JavaObject, Proxy

FUNCTION = "java.util.function.Function"


class FunctionProxy(Proxy):
    """A proxy that is called by its method ``apply``."""

    interfaces = (FUNCTION,)

    def andThen(self, _after: JavaObject) -> None:
        """Never called."""

    def compose(self, _before: JavaObject) -> None:
        """Never called."""
