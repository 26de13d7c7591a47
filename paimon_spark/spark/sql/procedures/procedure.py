"""What a procedure is: a name, arguments, columns of its result, and a function that runs on the driver.

Nothing here knows the JVM: the catalog of a classic session and ``paimon_spark.sql`` of a Connect session both call it.
Both find here the tables and databases that arguments of a CALL name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, MapType, StringType

from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.files.lost_snapshot import accept_lost
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.warehouses import (
    Warehouses,
    resolve_text,
    schema_not_found,
    unknown_warehouse,
)
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spec.schema import is_format_table
from paimon_spark.table.format_table import refuse_format_table
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.spark.sql.warehouses import TableName
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable


def argument_table(known: Warehouses, text: str, catalog: str) -> FileStoreTable:
    """Open the table that an argument names, by its name or its path.

    Args:
        known: the catalogs, and where a name of one part is looked for.
        text: the argument.
        catalog: the one of the procedure.

    Raises:
        AnalysisException: there can be no such table.
        TableNotFoundError: there is no such table.
        UnsupportedError: it is a system table.
    """
    name = resolve_text(known, text, catalog)
    refuse_system_table(text, name.system_table, "given to a procedure")
    return refuse_format_table(load_table(name.named, options=name.options), "a procedure")


def argument_tables(known: Warehouses, text: str, catalog: str) -> list[FileStoreTable]:
    """Open all tables of the database that an argument names.

    Args:
        known: the catalogs.
        text: the argument: ``db``, or ``catalog.db``.
        catalog: the one of the procedure.

    Raises:
        AnalysisException: there is no such database.
    """
    parts = split_name(text)
    name = parts[0] if len(parts) > 1 and parts[0] in known.catalogs else catalog
    found, database = argument_warehouse(known, name), parts[-1]
    if not found.database_exists(database):
        raise schema_not_found((name, database))
    tables = [found.load_table(database, table) for table in found.tables(database)]
    return [table for table in tables if not is_format_table(table.schema)]


def argument_warehouse(known: Warehouses, catalog: str) -> FilesystemCatalog:
    """Return the catalog of a procedure.

    Raises:
        PaimonError: its warehouse is not known.
    """
    found = known.catalogs.get(catalog)
    if found is None:
        raise unknown_warehouse(catalog)
    return found


STRING, LONG, INT, BOOLEAN = StringType(), LongType(), IntegerType(), BooleanType()
"""The types of arguments and results."""
TEXTS = MapType(STRING, STRING)
"""The type of an argument that holds options."""
Arguments = Mapping[str, Any]
"""The arguments of a call by their names."""
Rows = list[tuple[Any, ...]]
"""The rows of a result."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument; one that is not required is None when it is not given."""

    name: str
    type: DataType = STRING
    required: bool = False


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result."""

    name: str
    type: DataType = STRING
    nullable: bool = True


def _no_catalog(database: str) -> Sequence[FileStoreTable]:
    raise UnsupportedError(f"The tables of {database} are not known here: give each table by its name or path.")


def _no_names(name: str) -> TableName:
    raise UnsupportedError(f"No warehouse is known here, so {name} names no table.")


def _no_warehouse() -> FilesystemCatalog:
    raise UnsupportedError("No warehouse is known here: name the tables one by one.")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a procedure gets besides its arguments."""

    spark: SparkSession
    table: Callable[[str], FileStoreTable]
    """Opens the table of a name (``db.t``, ``t``, ``catalog.db.t``, ``db.t$branch_b``) or a path."""
    tables: Callable[[str], Sequence[FileStoreTable]] = _no_catalog
    """Opens all tables of a database (``db``, ``catalog.db``)."""
    warehouse: Callable[[], FilesystemCatalog] = _no_warehouse
    """Gives the catalog of the procedure."""
    named: Callable[[str], TableName] = _no_names
    """Resolves the name or path of a table, whether it is there or not."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure."""

    name: str
    arguments: tuple[Argument, ...]
    result: tuple[ResultColumn, ...]
    """Columns of the result; none at all where the statement has no result."""
    function: Callable[[CallContext, Mapping[str, Any]], Iterable[tuple[Any, ...]]]
    """From the arguments by name to the rows of the result."""
    description: str = ""

    @property
    def signature(self) -> str:
        """How it is called: ``create_tag(table STRING, tag STRING[, snapshot BIGINT, time_retained STRING])``."""
        texts = [f"{argument.name} {argument.type.simpleString().upper()}" for argument in self.arguments]
        needed = sum(argument.required for argument in self.arguments)
        required, optional = ", ".join(texts[:needed]), ", ".join(texts[needed:])
        inside = f"{required}[{', ' if required else ''}{optional}]" if optional else required
        return f"{self.name}({inside})"

    @property
    def described(self) -> str:
        """What DESCRIBE PROCEDURE shows: Spark has no line for parameters of its own."""
        return f"{self.description} Parameters: {self.signature}"


def deleting(procedure: Procedure) -> Procedure:
    """A procedure that deletes files, with the argument by which a lost commit is given up (`one_at_a_time`)."""

    def run(context: CallContext, arguments: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        if arguments[_ACCEPT.name]:
            name = arguments[TABLE.name]
            of_database = name.endswith(ALL_TABLES)
            for table in context.tables(name.removesuffix(ALL_TABLES)) if of_database else [context.table(name)]:
                accept_lost(table, accept_lost_snapshot=True)
        return procedure.function(context, arguments)

    return replace(procedure, arguments=(*procedure.arguments, _ACCEPT), function=run)


ALL_TABLES = ".*"
"""Behind a database's name: all of its tables."""
TABLE = Argument("table", required=True)
"""The argument that nearly every procedure has."""
DONE = (ResultColumn("result", BOOLEAN),)
"""The result of procedures that only say that they are done: one row, true."""
_ACCEPT = Argument("accept_lost_snapshot", BOOLEAN)
