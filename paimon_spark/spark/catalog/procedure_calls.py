"""Answers Spark's ``ProcedureCatalog``, ``UnboundProcedure``, ``BoundProcedure`` and ``LocalScan``: CALL statements.

`bind` gives an object of another class than the unbound one: Spark binds a procedure anew until it is not of the class
that can be bound (`docs/internals/spark_sql.md`, "More traps").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql.types import StructField, StructType

from paimon_spark.errors import TableNotFoundError, UnsupportedError
from paimon_spark.spark.catalog.basic_scan import LocalRowsProxy
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Value, described_proxy, java_proxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.plan_tables import active_session
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.sql.procedures.procedure import (
    BOOLEAN,
    INT,
    LONG,
    TEXTS,
    Argument,
    CallContext,
    Procedure,
    ResultColumn,
    argument_table,
    argument_tables,
)
from paimon_spark.spark.sql.procedures.registry import find_procedure, procedure_names
from paimon_spark.spark.sql.warehouses import TableName, Warehouses, resolve_text
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog
from paimon_spark.table.table import FileStoreTable

_PROCEDURES = "org.apache.spark.sql.connector.catalog.procedures"


class ProcedureCatalogProxy(Proxy):
    """The procedures of a catalog, in its namespace ``sys``."""

    interfaces: ClassVar[tuple[str, ...]] = ("org.apache.spark.sql.connector.catalog.ProcedureCatalog",)
    catalog_name: str
    catalog: FilesystemCatalog

    def loadProcedure(self, ident: JavaObject) -> Any:
        """CALL: the procedure of a name."""
        namespace = ".".join(ident.namespace())
        try:
            found = find_procedure(ident.name(), namespace=namespace)
        except UnsupportedError as error:
            return MissingProcedureProxy(self.gateway, f"{namespace}.{ident.name()}", error)
        return UnboundProcedureProxy(self.gateway, self, found)

    def listProcedures(self, _namespace: Any) -> JavaObject:
        """SHOW PROCEDURES (from Spark 4.1 on): all of them; without IN, `namespace` is the current one."""
        identifiers = [self.gateway.identifier([SYSTEM_DATABASE], name) for name in procedure_names()]
        return self.gateway.array("org.apache.spark.sql.connector.catalog.Identifier", identifiers)


class ProcedureProxy(AnswerProxy):
    """A procedure of a catalog, by its name."""

    def __init__(self, gateway: Gateway, owner: ProcedureCatalogProxy, procedure: Procedure) -> None:
        super().__init__(gateway)
        self.owner = owner
        self.procedure = procedure

    def answers(self) -> dict[str, Value]:
        """Its name in plans, and what DESCRIBE PROCEDURE shows."""
        name = f"{self.owner.catalog_name}.{SYSTEM_DATABASE}.{self.procedure.name}"
        return {"name": name, "description": self.procedure.described}


class UnboundProcedureProxy(ProcedureProxy):
    """A procedure before Spark knows the arguments of the call."""

    interfaces = (f"{_PROCEDURES}.UnboundProcedure",)

    def answers(self) -> dict[str, Value]:
        """The procedure for the types of a call's arguments is always the same."""
        bound = BoundProcedureProxy(self.gateway, self.owner, self.procedure)
        return {**super().answers(), "bind": described_proxy(bound)}


class MissingProcedureProxy(AnswerProxy):
    """A procedure that does not exist. Spark shows the error of `bind`, but not one of `loadProcedure`."""

    interfaces = (f"{_PROCEDURES}.UnboundProcedure",)

    def __init__(self, gateway: Gateway, name: str, error: UnsupportedError) -> None:
        super().__init__(gateway)
        self.missing_name = name
        self.error = error

    def answers(self) -> dict[str, Value]:
        """The name in plans."""
        return {"name": self.missing_name}

    def description(self) -> str:
        """DESCRIBE PROCEDURE: fails."""
        raise self.error

    def bind(self, _arguments: JavaObject) -> None:
        """CALL: fails."""
        raise self.error


class BoundProcedureProxy(ProcedureProxy):
    """A procedure that can be called."""

    interfaces = (f"{_PROCEDURES}.BoundProcedure",)

    def answers(self) -> dict[str, Value]:
        """Its arguments; two calls never do the same, as they change tables."""
        arguments = [[each.name, each.type.json(), each.required] for each in self.procedure.arguments]
        return {**super().answers(), "isDeterministic": False, "parameters": ["parameters", arguments]}

    def call(self, row: JavaObject) -> JavaObject:
        """Run the procedure; the result has one set of rows, or none."""
        arguments = {
            argument.name: _value(row, index, argument) for index, argument in enumerate(self.procedure.arguments)
        }
        context = CallContext(
            active_session(self.gateway),
            lambda text: open_table(self.owner, text),
            lambda text: _open_tables(self.owner, text),
            lambda: self.owner.catalog,
            lambda text: _resolved(self.owner, text),
        )
        rows = list(self.procedure.function(context, arguments))
        results = self.gateway.jvm.java.util.ArrayList()
        if self.procedure.result:
            results.add(java_proxy(result_scan(self.gateway, self.procedure.result, rows)))
        return results.iterator()


def result_scan(gateway: Gateway, columns: Sequence[ResultColumn], rows: list[tuple[Any, ...]]) -> LocalRowsProxy:
    """The scan of a procedure's result."""
    struct = StructType([StructField(column.name, column.type, column.nullable) for column in columns])
    return LocalRowsProxy(gateway, struct, "result of a Paimon procedure", [struct.toInternal(row) for row in rows])


def open_table(owner: ProcedureCatalogProxy, text: str) -> FileStoreTable:
    """The table that an argument names; a name of one part is looked for in the current namespace.

    Raises:
        TableNotFoundError: there is no such table.
    """
    try:
        return argument_table(_known(owner), text, owner.catalog_name)
    except (AnalysisException, TableNotFoundError) as error:
        raise _not_found(
            owner, text, f"{error} (argument table => '{text}' in catalog {owner.catalog_name})"
        ) from error


def _open_tables(owner: ProcedureCatalogProxy, text: str) -> list[FileStoreTable]:
    """All tables of the database that an argument names."""
    try:
        return argument_tables(_known(owner), text, owner.catalog_name)
    except AnalysisException as error:
        raise _not_found(owner, text, f"Database {text} does not exist in catalog {owner.catalog_name}.") from error


def _resolved(owner: ProcedureCatalogProxy, text: str) -> TableName:
    """What an argument names, whether it is there or not."""
    try:
        return resolve_text(_known(owner), text, owner.catalog_name)
    except AnalysisException as error:
        raise _not_found(owner, text, f"{error} (argument '{text}' in catalog {owner.catalog_name})") from error


def _not_found(owner: ProcedureCatalogProxy, text: str, message: str) -> TableNotFoundError:
    """The error of a name that was not found: the message, or that the name is one of another catalog."""
    named, _, below = text.partition(".")
    manager = java_state(active_session(owner.gateway)).catalogManager()
    if below and named != owner.catalog_name and manager.isCatalogRegistered(named):
        message = (
            f"There is no '{text}' in catalog {owner.catalog_name}: {named} is another catalog. Use the procedure or "
            f"function of that one ({named}.{SYSTEM_DATABASE}.…)"
        )
    return TableNotFoundError(message)


def _known(owner: ProcedureCatalogProxy) -> Warehouses:
    """The catalog, and the current namespace where it is the current catalog."""
    manager = java_state(active_session(owner.gateway)).catalogManager()
    here = manager.currentCatalog().name() == owner.catalog_name
    database = ".".join(manager.currentNamespace()) if here else owner.catalog.default_database
    return Warehouses({owner.catalog_name: owner.catalog}, owner.catalog_name, database)


def _value(row: JavaObject, index: int, argument: Argument) -> Any:
    if row.isNullAt(index):
        if argument.required:
            raise UnsupportedError(f"Argument {argument.name} cannot be NULL.")
        return None
    if argument.type == LONG:
        return row.getLong(index)
    if argument.type == INT:
        return row.getInt(index)
    if argument.type == BOOLEAN:
        return row.getBoolean(index)
    if argument.type == TEXTS:
        given = row.getMap(index)
        keys, values = given.keyArray(), given.valueArray()
        numbers = [number for number in range(given.numElements()) if not values.isNullAt(number)]
        return {keys.getUTF8String(n).toString(): values.getUTF8String(n).toString() for n in numbers}
    return row.getUTF8String(index).toString()
