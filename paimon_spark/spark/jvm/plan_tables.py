"""What a plan holds: tables of our catalogs, Python objects behind proxies, Scala collections, expressions of SQL text.

On the driver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column
from pyspark.sql.types import DataType, StructType

from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object, shared_object

TABLE, OUTPUT, OPTIONS = 0, 1, 4
"""Fields of ``DataSourceV2Relation``."""


def catalog_table(gateway: Gateway, state: JavaObject, relation: JavaObject) -> JavaObject | None:
    """The table that an unresolved name of a statement means, if it is in a catalog written in Python."""
    found = catalog_ident(gateway, state, relation)
    return None if found is None else found[0].loadTable(found[1])


def catalog_ident(gateway: Gateway, state: JavaObject, relation: JavaObject) -> tuple[JavaObject, JavaObject] | None:
    """The catalog and the identifier that an unresolved name means, if the catalog is written in Python."""
    if relation.getClass().getSimpleName() not in ("UnresolvedRelation", "UnresolvedTable"):
        return None
    found = ident_of(gateway, state, [str(part) for part in java_list(relation.multipartIdentifier())])
    return found if is_proxy(gateway, found[0]) else None


def ident_of(gateway: Gateway, state: JavaObject, name: Sequence[str]) -> tuple[JavaObject, JavaObject]:
    """The catalog and the identifier that the parts of a name mean, in the session's current catalog and database."""
    found = named(gateway, state, name)
    return state.catalogManager().catalog(found.catalog_name), gateway.identifier(found.namespace, found.name)


@dataclass(frozen=True)
class Named:
    """What the parts of a name mean in a session's current catalog and database."""

    catalog_name: str
    proxy: Any
    """The `CatalogProxy`; None where the catalog is not one of this process."""
    namespace: list[str]
    name: str


def named(gateway: Gateway, state: JavaObject, name: Sequence[str]) -> Named:
    """Return what a name means, in one call of the JVM."""
    found = json.loads(shared_object(gateway, "PaimonNames").of(state, json.dumps(list(name))))
    pool: Mapping[str, Any] = gateway.gateway.gateway_property.pool
    proxy = None if found["id"] is None else pool[found["id"]]
    return Named(found["catalog"], proxy, found["namespace"], found["name"])


def analyzed(gateway: Gateway, state: JavaObject, query: JavaObject) -> JavaObject:
    """The analyzed plan of a query, which DataFrame writers pass before its analysis."""
    if query.resolved():
        return query
    return state.executePlan(query, compat.COMMAND_EXECUTION_MODE.of(gateway).SKIP()).analyzed()


def python_struct(struct: JavaObject) -> StructType:
    """The columns of the JVM's ``StructType``."""
    return StructType.fromJson(json.loads(struct.json()))


def python_type(kind: JavaObject) -> DataType | None:
    """A type of the JVM's; None for a user-defined one."""
    text = str(kind.json())
    if '"udt"' in text:
        return None
    field = {"name": "value", "type": json.loads(text), "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType


def renamed_columns(
    gateway: Gateway, expression: JavaObject, columns: Sequence[JavaObject], others: Sequence[JavaObject]
) -> JavaObject:
    """An expression that names other columns instead of these, each the one at the same place of its list."""
    lists = []
    for given in (columns, others):
        lists.append(gateway.jvm.java.util.ArrayList())
        for column in given:
            lists[-1].add(column)
    return shared_object(gateway, "PaimonColumns").renamed(expression, *lists)


def is_proxy(gateway: Gateway, candidate: JavaObject) -> bool:
    """Whether Python answers for a Java object."""
    return bool(gateway.jvm.java.lang.reflect.Proxy.isProxyClass(candidate.getClass()))


def java_list(sequence: JavaObject) -> list[Any]:
    """The elements of a Scala sequence, in one call each: py4j's iterators end by a Java exception, 80 calls more."""
    return [sequence.apply(index) for index in range(sequence.size())]


def column_ids(gateway: Gateway, columns: JavaObject) -> set[str]:
    """The ids of columns, a Scala sequence or ``AttributeSet``: one call where a list of them takes three for each."""
    return set(filter(None, str(shared_object(gateway, "PaimonColumns").ids(columns)).split("\n")))


def java_map(scala_map: JavaObject) -> dict[str, Any]:
    """The entries of a Scala map whose keys are strings."""
    return {key: scala_map.apply(key) for key in java_list(scala_map.keys().toSeq())}


def scala_seq(gateway: Gateway, values: list[Any]) -> JavaObject:
    """A ``scala.collection.immutable.Seq``."""
    return compat.PYTHON_UTILS.of(gateway).toSeq(values).toList()


def with_field(relation: JavaObject, index: int, value: JavaObject) -> JavaObject:
    """Return a ``DataSourceV2Relation`` with another value in one field. Spark 4.3 has one more field than 4.0."""
    values = [relation.productElement(number) for number in range(relation.productArity())]
    values[index] = value
    return relation.copy(*values)


def active_session(gateway: Gateway) -> SparkSession:
    """The session of the statement that Spark analyses or runs now."""
    return SparkSession(gateway.context, compat.CLASSIC_SESSION.of(gateway).active())


def python_object(gateway: Gateway, proxy: JavaObject) -> Any:
    """The Python object that answers for a Java proxy of this process."""
    handler = gateway.jvm.java.lang.reflect.Proxy.getInvocationHandler(proxy)
    pool: Mapping[str, Any] = gateway.gateway.gateway_property.pool
    return pool[compat.PROXY_ID.get(gateway, handler)]


def resolved_expressions(gateway: Gateway, plan: JavaObject, texts: Sequence[str]) -> list[JavaObject]:
    """Expressions over the output of an optimised plan, as its optimizer would have them.

    Args:
        gateway: the JVM.
        plan: a logical plan; only its output is looked at.
        texts: SQL expressions that name its columns.
    """
    session = compat.CLASSIC_SESSION.of(gateway).active()
    nothing, none = scala_seq(gateway, []), gateway.jvm.scala.Option.empty()
    columns = compat.LOCAL_RELATION(gateway, plan.output(), nothing, False, none)
    parser = session.sessionState().sqlParser()
    new_id = compat.NAMED_EXPRESSION.of(gateway).newExprId
    named = [
        compat.ALIAS(gateway, parser.parseExpression(text), str(number), new_id(), nothing, none, nothing)
        for number, text in enumerate(texts)
    ]
    project = compat.PROJECT(gateway, scala_seq(gateway, named), columns)
    analyzed = compat.DATASET.of(gateway).ofRows(session, project).queryExecution().analyzed()
    replaced = compat.REPLACE_EXPRESSIONS.of(gateway).apply(analyzed)
    quick = _little_endian(gateway)
    found = [alias.child() for alias in java_list(replaced.projectList())]
    return found if quick is None else [expression.transformUp(quick) for expression in found]


def aligned_assignments(gateway: Gateway, output: JavaObject, assignments: JavaObject) -> list[JavaObject]:
    """An assignment for each column of a table that an UPDATE changes, cast and checked as Spark stores values."""
    utils = compat.ASSIGNMENTS.of(gateway)
    try:
        return java_list(utils.alignUpdateAssignments(output, assignments))  # 4.0
    except Py4JError as error:
        if getattr(error, "java_exception", None) is not None:
            raise
        return java_list(utils.alignUpdateAssignments(output, assignments, False, False))


def aligned_inserts(gateway: Gateway, output: JavaObject, assignments: JavaObject) -> list[JavaObject]:
    """An assignment for each column of a table that an INSERT of a MERGE fills, cast and checked; with defaults.

    Arguments as of `aligned_assignments`.
    """
    utils = compat.ASSIGNMENTS.of(gateway)
    try:
        return java_list(utils.alignInsertAssignments(output, assignments))  # 4.0
    except Py4JError as error:
        if getattr(error, "java_exception", None) is not None:
            raise
        return java_list(utils.alignInsertAssignments(output, assignments, False))


def column_of(gateway: Gateway, expression: JavaObject) -> Column:
    """An expression as a Column."""
    return Column(compat.EXPRESSION_UTILS.of(gateway).column(expression))


def renamed(gateway: Gateway, attribute: JavaObject, target: JavaObject) -> JavaObject:
    """An attribute under the name and the id of another, by which expressions over the other find it."""
    nothing, metadata = scala_seq(gateway, []), gateway.jvm.scala.Option.apply(target.metadata())
    return compat.ALIAS(gateway, attribute, target.name(), target.exprId(), nothing, metadata, nothing)


def _little_endian(gateway: Gateway) -> JavaObject | None:
    """Return what turns hexadecimal digits into ``Long.reverseBytes``; None where this Spark lacks the classes."""
    try:
        return new_object(gateway, "PaimonLittleEndian")
    except Py4JError:
        return None
