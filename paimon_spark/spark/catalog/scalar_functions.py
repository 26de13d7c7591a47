"""Answers Spark's ``FunctionCatalog``, ``UnboundFunction`` and ``ScalarFunction``: ``sys.max_pt('db.t')``.

Spark works a function of a constant out while it optimises a statement, on the driver: that is the only place where
these answer, and a table's name must be a constant.
"""

from __future__ import annotations

from typing import Any, ClassVar

from paimon_spark.errors import OptionError
from paimon_spark.spark.catalog.procedure_calls import ProcedureCatalogProxy, open_table
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.spark_errors import no_such_function, thrown
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE
from paimon_spark.table.largest_partition import largest_partition

_FUNCTIONS = "org.apache.spark.sql.connector.catalog.functions"
MAX_PT = "max_pt"


class FunctionCatalogProxy(ProcedureCatalogProxy):
    """The functions of a catalog, in its namespace ``sys``; elsewhere there are none, which Spark wants to hear."""

    interfaces: ClassVar[tuple[str, ...]] = (
        *ProcedureCatalogProxy.interfaces,
        "org.apache.spark.sql.connector.catalog.FunctionCatalog",
    )

    def listFunctions(self, namespace: Any) -> JavaObject:
        """SHOW FUNCTIONS."""
        here = [str(part).lower() for part in namespace] == [SYSTEM_DATABASE]
        found = [self.gateway.identifier([SYSTEM_DATABASE], MAX_PT)] if here else []
        return self.gateway.array("org.apache.spark.sql.connector.catalog.Identifier", found)

    def functionExists(self, ident: JavaObject) -> bool:
        """Whether there is such a function."""
        namespace = [str(part).lower() for part in ident.namespace()]
        return namespace == [SYSTEM_DATABASE] and str(ident.name()).lower() == MAX_PT

    def loadFunction(self, ident: JavaObject) -> Any:
        """The function of a name in a statement."""
        if not self.functionExists(ident):
            raise no_such_function(self.gateway, ident)
        return MaxPtProxy(self.gateway, self)


class MaxPtProxy(Proxy):
    """``max_pt(table)``: the largest value of a table's first partition column, as text."""

    interfaces = (f"{_FUNCTIONS}.UnboundFunction",)

    def __init__(self, gateway: Gateway, owner: ProcedureCatalogProxy) -> None:
        super().__init__(gateway)
        self.owner = owner

    def name(self) -> str:
        """The name in plans."""
        return MAX_PT

    def description(self) -> str:
        """What DESCRIBE FUNCTION shows."""
        return "max_pt('db.t'): the largest value of the table's first partition column that has rows, as text."

    def bind(self, arguments: JavaObject) -> Any:
        """The function for the types of its arguments.

        Raises:
            UnsupportedOperationException: it is not one text; Spark shows it as an error of the statement.
        """
        types = [field.dataType().simpleString() for field in arguments.fields()]
        if types != ["string"]:
            text = f"{MAX_PT} takes one text, the name of a table; not ({', '.join(types)})"
            raise thrown(self.gateway.jvm.java.lang.UnsupportedOperationException(text))
        return BoundMaxPtProxy(self.gateway, self.owner)


class BoundMaxPtProxy(Proxy):
    """`MaxPtProxy`, of a text."""

    interfaces = (f"{_FUNCTIONS}.ScalarFunction",)

    def __init__(self, gateway: Gateway, owner: ProcedureCatalogProxy) -> None:
        super().__init__(gateway)
        self.owner = owner

    def name(self) -> str:
        """The name in plans."""
        return MAX_PT

    def canonicalName(self) -> str:
        """The same function of another catalog reads other tables."""
        return f"paimon.{self.owner.catalog_name}.{MAX_PT}(string)"

    def inputTypes(self) -> JavaObject:
        """A text."""
        return self.gateway.array("org.apache.spark.sql.types.DataType", [self.resultType()])

    def resultType(self) -> JavaObject:
        """Text."""
        return self.gateway.data_type('"string"')

    def isResultNullable(self) -> bool:
        """A table without rows is an error, not NULL."""
        return False

    def isDeterministic(self) -> bool:
        """So that Spark works it out before it plans the scan."""
        return True

    def produceResult(self, row: JavaObject) -> JavaObject:
        """The value for a table's name.

        Raises:
            OptionError: the name is NULL, or the table has no partition columns or no partition.
        """
        if row.isNullAt(0):
            raise OptionError(f"Table name cannot be null: {MAX_PT} takes the name of a table")
        table = open_table(self.owner, str(row.getUTF8String(0).toString()))
        return compat.UTF8_STRING.of(self.gateway).fromString(largest_partition(table))
