"""Answers Spark's ``UnboundFunction`` and ``ScalarFunction`` for functions of SQL that a catalog keeps.

While Spark analyses a statement, a rule (`hooks.java_rules`) puts Spark's own ``SQLFunctionExpression`` in the place of
a call, of which Spark takes the body. So no call of these functions is left in a plan.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from paimon_spark.errors import PaimonError
from paimon_spark.spark.columns.types import to_spark_struct, to_spark_type
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Value
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import active_session, java_list, scala_seq
from paimon_spark.spark.jvm.spark_errors import CALL_ERRORS
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.sql.functions import CONTAINS_SQL, Surroundings, is_query, spark_properties, whole_body
from paimon_spark.spec.function import Function
from paimon_spark.table.filesystem_catalog import FilesystemCatalog

_FUNCTIONS = "org.apache.spark.sql.connector.catalog.functions"
_OPERATOR = "java.util.function.UnaryOperator"
_DEFAULTS = ("CURRENT_DEFAULT", "default")
"""Spark's keys for the default of a parameter: of columns, and of functions."""


class UnboundFunctionProxy(AnswerProxy):
    """A function, whose arguments are not known yet."""

    interfaces = (f"{_FUNCTIONS}.UnboundFunction",)

    def __init__(self, gateway: Gateway, shown: str, usage: str) -> None:
        super().__init__(gateway)
        self.shown = shown
        self.usage = usage

    def answers(self) -> dict[str, Value]:
        """The name in plans, and what DESCRIBE FUNCTION shows."""
        return {"name": self.shown, "description": self.usage}


class BoundFunctionProxy(AnswerProxy):
    """A function of some types."""

    interfaces: ClassVar[tuple[str, ...]] = (f"{_FUNCTIONS}.ScalarFunction",)

    def __init__(self, gateway: Gateway, catalog_name: str, shown: str, arguments: JavaObject, result: str) -> None:
        super().__init__(gateway)
        self.catalog_name = catalog_name
        self.shown = shown
        self.types = [field.dataType() for field in arguments.fields()]
        self.result = result

    def answers(self) -> dict[str, Value]:
        """The name in plans, and the type; the same function of another catalog reads other tables."""
        types = ", ".join(str(kind.catalogString()) for kind in self.types)
        return {
            "name": self.shown,
            "canonicalName": f"paimon.{self.catalog_name}.{self.shown}({types})",
            "resultType": ["struct", self.result],
        }

    def inputTypes(self) -> JavaObject:
        """As they are given."""
        return self.gateway.array("org.apache.spark.sql.types.DataType", self.types)


class SqlFunctionProxy(UnboundFunctionProxy):
    """A function of SQL, whose arguments are not known yet."""

    def __init__(self, gateway: Gateway, catalog: FilesystemCatalog, parts: Sequence[str], function: Function) -> None:
        super().__init__(gateway, ".".join(parts), function.comment or ".".join(parts))
        self.catalog = catalog
        self.parts = parts
        self.function = function

    def bind(self, arguments: JavaObject) -> JavaObject:
        """The function for the types of its arguments, of which Spark makes those of the parameters itself."""
        catalog, database, _ = self.parts
        body = whole_body(self.function, (catalog, database), _surroundings(self.gateway, self.catalog))
        return BoundSqlFunctionProxy(self.gateway, self.parts, self.function, body, arguments)


def _surroundings(gateway: Gateway, catalog: FilesystemCatalog) -> Surroundings:
    """What names in a body are looked for in, in the session of the statement."""
    state = java_state(active_session(gateway))
    registered = state.catalogManager().isCatalogRegistered
    return Surroundings(catalog, registered, partial(is_spark_function, gateway, state))


def is_spark_function(gateway: Gateway, state: JavaObject, name: str) -> bool:
    """Whether a name of one part is a function of Spark's own, or of the session."""
    catalog, identifier = state.catalog(), compat.FUNCTION_IDENTIFIER(gateway, name)
    try:
        builtin = catalog.isBuiltinFunction(identifier)
    except CALL_ERRORS:  # from Spark 4.2 on
        builtin = catalog.isBuiltinFunction(name)
    return bool(builtin or catalog.isTemporaryFunction(identifier))


class BoundSqlFunctionProxy(BoundFunctionProxy):
    """`SqlFunctionProxy`, of some types; answers ``java.util.function.UnaryOperator`` for the rule."""

    interfaces = (*BoundFunctionProxy.interfaces, _OPERATOR)

    def __init__(
        self, gateway: Gateway, parts: Sequence[str], function: Function, body: str, arguments: JavaObject
    ) -> None:
        result = to_spark_type(function.returns[0].type).json()
        super().__init__(gateway, parts[0], ".".join(parts), arguments, result)
        self.parts = parts
        self.function = function
        self.body = body

    def answers(self) -> dict[str, Value]:
        """Not deterministic, whatever the function says: then Spark refuses it in VALUES, as those of its own."""
        return {**super().answers(), "isDeterministic": False}

    def produceResult(self, _row: object) -> None:
        """Never called where the rule is.

        Raises:
            PaimonError: this Spark did not let the rule in.
        """
        raise PaimonError(f"{features.SQL_FUNCTIONS.loss}: call {self.shown} by paimon_spark.sql.")

    def apply(self, call: JavaObject) -> JavaObject:
        """The expression for a call in a plan."""
        some = self.gateway.jvm.scala.Option.apply
        arguments = scala_seq(self.gateway, java_list(call.children()))
        return compat.SQL_FUNCTION_CALL(
            self.gateway, self.shown, self._spark_function(), arguments, some(self.gateway.data_type(self.result))
        )

    def _spark_function(self) -> JavaObject:
        gateway, function = self.gateway, self.function
        some = gateway.jvm.scala.Option.apply
        catalog, database, name = self.parts
        identifier = compat.FUNCTION_IDENTIFIER(gateway, name, some(database), some(catalog))
        body, query = some(self.body), is_query(function)
        none = some(None)
        contains = function.options.get(CONTAINS_SQL)
        collation = () if features.spark_version(gateway) < (4, 2) else (none,)
        return compat.SQL_FUNCTION(
            gateway,
            identifier,
            some(self._parameters()) if function.inputs else none,
            gateway.jvm.scala.util.Left(gateway.data_type(self.result)),
            none if query else body,
            body if query else none,
            some(function.comment),
            *collation,
            some(function.deterministic),
            none if contains is None else some(contains.lower() == "true"),
            False,
            compat.PYTHON_UTILS.of(gateway).toScalaMap(spark_properties(self.function)),
            none,
            0,
        )

    def _parameters(self) -> JavaObject:
        struct = json.loads(to_spark_struct(self.function.inputs).json())
        for shown, field in zip(struct["fields"], self.function.inputs, strict=True):
            if field.default_value is not None:
                shown["metadata"] |= dict.fromkeys(_DEFAULTS, field.default_value)
        return self.gateway.data_type(json.dumps(struct))
