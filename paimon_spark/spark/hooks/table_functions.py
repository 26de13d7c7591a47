"""Table functions about changes, as the official connector's: ``SELECT * FROM paimon_incremental_query('t', 5, 10)``.

Answers ``scala.Function1``, which Spark's registry of table functions holds: it gets the arguments while a statement is
analysed and gives the relation that they mean, with read options. So filters and columns are pushed down as for the
table itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paimon_spark.errors import OptionError, TableNotFoundError
from paimon_spark.spark.hooks.parser import paimon_catalog_of
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, SessionProxy
from paimon_spark.spark.jvm.spark_errors import JavaThrownError
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.table.time_travel import INCREMENTAL_KEYS

_BETWEEN, _BETWEEN_TIMESTAMP, _TO_AUTO_TAG = INCREMENTAL_KEYS


@dataclass(frozen=True)
class TableFunction:
    """One function: its name, what its arguments behind the table are, and the read option that they make."""

    name: str
    arguments: tuple[str, ...]
    option: str

    def options(self, values: Sequence[str]) -> dict[str, str]:
        """The read options for arguments behind the table.

        Raises:
            OptionError: there are too few or too many of them.
        """
        if len(values) != len(self.arguments):
            raise OptionError(
                f"{self.name} needs the name of a table and {len(self.arguments)} more "
                f"parameter{'s' if len(self.arguments) > 1 else ''}: {', and '.join(self.arguments)}."
            )
        return {self.option: ",".join(values)}


FUNCTIONS = (
    TableFunction("paimon_incremental_query", ("startSnapshotId", "endSnapshotId"), _BETWEEN),
    TableFunction("paimon_incremental_between_timestamp", ("startTimestamp", "endTimestamp"), _BETWEEN_TIMESTAMP),
    TableFunction("paimon_incremental_to_auto_tag", ("endTagName",), _TO_AUTO_TAG),
)
"""Every table function, by the official names."""


def install_functions(gateway: Gateway, state: JavaObject) -> None:
    """Let the session of a session state know the table functions. Calling it again does no harm.

    Raises:
        JavaCallError: this Spark does not let functions be added.
    """
    registry = state.tableFunctionRegistry()
    for function in FUNCTIONS:
        info = compat.EXPRESSION_INFO(gateway, "paimon_spark", function.name)
        proxy = TableFunctionProxy(gateway, state, function)
        for identifier in _identifiers(gateway, function.name):
            registry.dropFunction(identifier)  # a clone has it, and Spark's log would tell of each replacement
            registry.registerFunction(identifier, info, proxy)


def _identifiers(gateway: Gateway, name: str) -> list[JavaObject]:
    """Return the identifiers of a function: its name; since Spark 4.2 a name of three parts."""
    if features.spark_version(gateway) < (4, 2):
        return [compat.FUNCTION_IDENTIFIER(gateway, name)]
    some: Callable[[str], JavaObject] = gateway.jvm.scala.Some
    return [compat.FUNCTION_IDENTIFIER(gateway, name, some("session"), some("system"))]


class TableFunctionProxy(SessionProxy):
    """Makes a relation of the arguments of a table function."""

    interfaces = ("scala.Function1",)

    def __init__(self, gateway: Gateway, state: JavaObject, function: TableFunction) -> None:
        super().__init__(gateway, state)
        self.function = function

    def apply(self, arguments: JavaObject) -> JavaObject:
        """Called on the driver once for each use of the function in a statement."""
        values = [self._value(arguments.apply(index)) for index in range(arguments.size())]
        options = self.function.options(values[1:])
        parts = split_name(values[0])
        if paimon_catalog_of(self.gateway, self.state, parts) is None:
            raise TableNotFoundError(
                f"{self.function.name} reads tables of a Paimon catalog, and '{values[0]}' is in none: "
                "give its name as '<catalog>.<database>.<table>', or USE the catalog first."
            )
        names = compat.PYTHON_UTILS.of(self.gateway).toSeq(list(parts))
        return compat.UNRESOLVED_RELATION(self.gateway, names, self.gateway.options(options), False)

    def _value(self, expression: JavaObject) -> str:
        try:
            value = expression.eval(None) if expression.foldable() else None
        except JavaThrownError as error:
            raise OptionError(f"{self.function.name} cannot take {expression.sql()}: {error.java_exception}") from error
        if value is None:
            raise OptionError(f"{self.function.name} takes texts or numbers that are not NULL, not {expression.sql()}.")
        return str(value if isinstance(value, str | int) else value.toString())
