"""Answers Spark's ``FunctionCatalog``, ``UnboundFunction`` and ``ScalarFunction``: ours, and those of SQL in a catalog.

Ours are as ``sys.max_pt('db.t')``. Spark works a function of constants out while it optimises a statement, on the
driver: that is the only place where these answer. Functions of rows (`sql.row_functions`) become expressions of Spark's
own functions there, by a rule (`hooks.java_rules`): executors know nothing of this process.

A function of SQL stays in a catalog. While Spark analyses a statement, a rule (`hooks.java_rules`) puts Spark's own
``SQLFunctionExpression`` in the place of a call, of which Spark takes the body. So no call of these functions is left
in a plan.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

from pyspark.sql.types import StructField, StructType

from paimon_spark.errors import OptionError, PaimonError, UnsupportedError
from paimon_spark.spark.catalog.procedure_calls import ProcedureCatalogProxy, open_table
from paimon_spark.spark.columns.types import to_spark_struct, to_spark_type
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Value
from paimon_spark.spark.jvm.gateway import FUNCTION, Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import active_session, java_list, python_struct, resolved_expressions, scala_seq
from paimon_spark.spark.jvm.spark_errors import CALL_ERRORS, no_such_function, thrown
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.sql.functions import (
    CONTAINS_SQL,
    Surroundings,
    check_sql,
    is_query,
    spark_properties,
    whole_body,
)
from paimon_spark.spark.sql.row_functions import FUNCTIONS, REFUSED, Call, RowFunction
from paimon_spark.spec.view_records import Function
from paimon_spark.table.catalog_views import find_function, functions_of
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog
from paimon_spark.table.partitions import largest_partition

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


MAX_PT = "max_pt"
_MAX_PT_USAGE = "max_pt('db.t'): the largest value of the table's first partition column that has rows, as text."


class FunctionCatalogProxy(ProcedureCatalogProxy):
    """The functions of a catalog: ours in its namespace ``sys``, in its databases those of SQL that it keeps."""

    interfaces: ClassVar[tuple[str, ...]] = (
        *ProcedureCatalogProxy.interfaces,
        "org.apache.spark.sql.connector.catalog.FunctionCatalog",
    )

    def listFunctions(self, namespace: Any) -> JavaObject:
        """SHOW FUNCTIONS."""
        parts = [str(part) for part in namespace]
        if [part.lower() for part in parts] == [SYSTEM_DATABASE]:
            names = [MAX_PT, *FUNCTIONS]
        else:
            names = functions_of(self.catalog, parts[0]) if len(parts) == 1 else []
        found = [self.gateway.identifier(parts, name) for name in names]
        return self.gateway.array("org.apache.spark.sql.connector.catalog.Identifier", found)

    def functionExists(self, ident: JavaObject) -> bool:
        """Whether there is such a function; Spark asks for those that are refused by name only if they exist."""
        if _system_name(ident) in (MAX_PT, *FUNCTIONS, *REFUSED):
            return True
        found = self._kept(ident)
        if found is not None:
            self._just_found[_parts(ident)] = found
        return found is not None

    def loadFunction(self, ident: JavaObject) -> Any:
        """The function of a name in a statement; those that are refused by name say so when their types are known."""
        name = _system_name(ident)
        if name == MAX_PT:
            return MaxPtProxy(self.gateway, self)
        function = FUNCTIONS.get(name or "") or REFUSED.get(name or "")
        if function is not None:
            return RowFunctionProxy(self.gateway, self, function)
        kept = self._just_found.pop(_parts(ident), None) or self._kept(ident)
        if kept is None:
            raise no_such_function(self.gateway, ident)
        parts = (self.catalog_name, *_parts(ident))
        check_sql(kept, parts)
        return SqlFunctionProxy(self.gateway, self.catalog, parts, kept)

    @cached_property
    def _just_found(self) -> dict[tuple[str, ...], Function]:
        """What Spark asked for, and loads next: the server is asked once."""
        return {}

    def _kept(self, ident: JavaObject) -> Function | None:
        parts = _parts(ident)
        return find_function(self.catalog, *parts) if len(parts) == 2 else None


def _parts(ident: JavaObject) -> tuple[str, ...]:
    return (*(str(part) for part in ident.namespace()), str(ident.name()))


def _system_name(ident: JavaObject) -> str | None:
    """The name of a function in the namespace ``sys``, in lower case; None where it is in another."""
    namespace = [str(part).lower() for part in ident.namespace()]
    return str(ident.name()).lower() if namespace == [SYSTEM_DATABASE] else None


class RowFunctionProxy(UnboundFunctionProxy):
    """A function of rows, whose arguments are not known yet."""

    def __init__(self, gateway: Gateway, owner: ProcedureCatalogProxy, function: RowFunction) -> None:
        super().__init__(gateway, function.name, function.usage)
        self.owner = owner
        self.function = function

    def bind(self, arguments: JavaObject) -> Any:
        """The function for the types of its arguments.

        Raises:
            UnsupportedOperationException: they are others; Spark shows it as an error of the statement.
        """
        try:
            self.function.check([str(field.dataType().simpleString()) for field in arguments.fields()])
        except UnsupportedError as error:
            raise thrown(self.gateway.jvm.java.lang.UnsupportedOperationException(str(error))) from error
        return BoundRowFunctionProxy(self.gateway, self.owner, self.function, arguments)


class BoundRowFunctionProxy(BoundFunctionProxy):
    """`RowFunctionProxy`, of some types; answers ``java.util.function.Function`` for the rule."""

    interfaces = (*BoundFunctionProxy.interfaces, FUNCTION)

    def __init__(
        self, gateway: Gateway, owner: ProcedureCatalogProxy, function: RowFunction, arguments: JavaObject
    ) -> None:
        super().__init__(gateway, owner.catalog_name, function.name, arguments, f'"{function.result}"')
        self.owner = owner
        self.function = function
        self.struct = StructType(
            [StructField(f"_{at}", field.dataType) for at, field in enumerate(python_struct(arguments).fields)]
        )

    def produceResult(self, row: JavaObject) -> Any:
        """The value for constants, on the driver."""
        constants = [
            None if row.isNullAt(at) else _plain(row.get(at, self.types[at])) for at in range(self.function.constants)
        ]
        expression, attributes = self._expression(constants)
        return self._placeholders(attributes, []).value(expression, row)

    def apply(self, call: JavaObject) -> JavaObject:
        """The expression for a call in a plan.

        Raises:
            OptionError: an argument that must be a constant is none.
        """
        arguments = java_list(call.children())
        constants = []
        for argument in arguments[: self.function.constants]:
            if argument.getClass().getSimpleName() != "Literal":
                raise OptionError(f"{self.function.usage}: {argument.sql()} must be a literal")
            constants.append(None if argument.value() is None else _plain(argument.value()))
        expression, attributes = self._expression(constants)
        return expression.transformUp(self._placeholders(attributes, arguments))

    def _expression(self, constants: Sequence[Any]) -> tuple[JavaObject, list[JavaObject]]:
        """The value, over attributes that stand for the arguments."""
        empty, metadata = scala_seq(self.gateway, []), self.gateway.jvm.org.apache.spark.sql.types.Metadata.empty()
        new_id = compat.NAMED_EXPRESSION.of(self.gateway).newExprId
        attributes = [
            compat.ATTRIBUTE(self.gateway, name, kind, True, metadata, new_id(), empty)
            for name, kind in zip(self.struct.names, self.types, strict=True)
        ]
        call = Call(self.struct, self.struct.names, constants, lambda text: open_table(self.owner, text))
        none = self.gateway.jvm.scala.Option.empty()
        rows = compat.LOCAL_RELATION(self.gateway, scala_seq(self.gateway, attributes), empty, False, none)
        return resolved_expressions(self.gateway, rows, [self.function.sql(call)])[0], attributes

    def _placeholders(self, attributes: Sequence[JavaObject], arguments: Sequence[JavaObject]) -> JavaObject:
        lists = []
        for values in (attributes, arguments):
            held = self.gateway.jvm.java.util.ArrayList()
            for value in values:
                held.add(value)
            lists.append(("java.util.List", held))
        return new_object(self.gateway, "PaimonPlaceholders", *lists)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) else str(value.toString())


class MaxPtProxy(UnboundFunctionProxy):
    """``max_pt(table)``: the largest value of a table's first partition column, as text."""

    def __init__(self, gateway: Gateway, owner: ProcedureCatalogProxy) -> None:
        super().__init__(gateway, MAX_PT, _MAX_PT_USAGE)
        self.owner = owner

    def bind(self, arguments: JavaObject) -> Any:
        """The function for the types of its arguments.

        Raises:
            UnsupportedOperationException: it is not one text; Spark shows it as an error of the statement.
        """
        types = [field.dataType().simpleString() for field in arguments.fields()]
        if types != ["string"]:
            text = f"{MAX_PT} takes one text, the name of a table; not ({', '.join(types)})"
            raise thrown(self.gateway.jvm.java.lang.UnsupportedOperationException(text))
        return BoundMaxPtProxy(self.gateway, self.owner, arguments)


class BoundMaxPtProxy(BoundFunctionProxy):
    """`MaxPtProxy`, of a text."""

    def __init__(self, gateway: Gateway, owner: ProcedureCatalogProxy, arguments: JavaObject) -> None:
        super().__init__(gateway, owner.catalog_name, MAX_PT, arguments, '"string"')
        self.owner = owner

    def answers(self) -> dict[str, Value]:
        """A table without rows is an error, not NULL."""
        return {**super().answers(), "isResultNullable": False}

    def produceResult(self, row: JavaObject) -> JavaObject:
        """The value for a table's name.

        Raises:
            OptionError: the name is NULL, or the table has no partition columns or no partition.
        """
        if row.isNullAt(0):
            raise OptionError(f"Table name cannot be null: {MAX_PT} takes the name of a table")
        table = open_table(self.owner, str(row.getUTF8String(0).toString()))
        return compat.UTF8_STRING.of(self.gateway).fromString(largest_partition(table))
