"""What a parsed statement names: tables of our catalogs, and its Scala collections. On the driver."""

from __future__ import annotations

from typing import Any

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject


def catalog_table(gateway: Gateway, state: JavaObject, relation: JavaObject) -> JavaObject | None:
    """The table that an unresolved name of a statement means, if it is in a catalog written in Python."""
    found = catalog_ident(gateway, state, relation)
    return None if found is None else found[0].loadTable(found[1])


def catalog_ident(gateway: Gateway, state: JavaObject, relation: JavaObject) -> tuple[JavaObject, JavaObject] | None:
    """The catalog and the identifier that an unresolved name means, if the catalog is written in Python."""
    if relation.getClass().getSimpleName() not in ("UnresolvedRelation", "UnresolvedTable"):
        return None
    parts = [str(part) for part in java_list(gateway, relation.multipartIdentifier())]
    manager = state.catalogManager()
    named = len(parts) > 1 and manager.isCatalogRegistered(parts[0])
    catalog = manager.catalog(parts.pop(0)) if named else manager.currentCatalog()
    if not gateway.jvm.java.lang.reflect.Proxy.isProxyClass(catalog.getClass()):
        return None
    namespace = parts[:-1] or ([] if named else list(manager.currentNamespace()))
    return catalog, gateway.identifier(namespace, parts[-1])


def java_list(gateway: Gateway, collection: JavaObject) -> Any:
    """A Scala collection as one of Java."""
    return gateway.jvm.scala.jdk.javaapi.CollectionConverters.asJava(collection)


def scala_seq(gateway: Gateway, values: list[Any]) -> JavaObject:
    """A ``scala.collection.immutable.Seq``."""
    return gateway.jvm.org.apache.spark.api.python.PythonUtils.toSeq(values).toList()
