"""Answers Spark's ``FunctionCatalog``, ``UnboundFunction`` and ``ScalarFunction``: ``sys.max_pt('db.t')``.

Spark works a function of constants out while it optimises a statement, on the driver: that is the only place where
these answer. Functions of rows (`sql.row_functions`) become expressions of Spark's own functions there, by a rule
(`hooks.java_rules`): executors know nothing of this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from pyspark.sql.types import StructField, StructType

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spark.catalog.procedure_calls import ProcedureCatalogProxy, open_table
from paimon_spark.spark.catalog.sql_functions import BoundFunctionProxy, SqlFunctionProxy, UnboundFunctionProxy
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import Value
from paimon_spark.spark.jvm.gateway import FUNCTION, Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_expressions import resolved_expressions
from paimon_spark.spark.jvm.plan_tables import java_list, python_struct, scala_seq
from paimon_spark.spark.jvm.spark_errors import no_such_function, thrown
from paimon_spark.spark.sql.functions import check_sql
from paimon_spark.spark.sql.row_functions import FUNCTIONS, REFUSED, Call, RowFunction
from paimon_spark.spec.function import Function
from paimon_spark.table.catalog_views import find_function, functions_of
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE
from paimon_spark.table.partitions import largest_partition

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
