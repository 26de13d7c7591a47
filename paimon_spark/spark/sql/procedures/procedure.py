"""What a procedure is: a name, arguments, columns of its result, and a function that runs on the driver.

Nothing here knows the JVM: the catalog of a classic session and ``paimon_spark.sql`` of a Connect session both call it.
Both find here the tables and databases that arguments of a CALL name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, MapType, StringType

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.maintain.files.lost_snapshot import accept_lost
from paimon_spark.maintain.refs.tags import parse_older_than
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
_Statement = TypeVar("_Statement")
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


ALL_TABLES = ".*"
"""Behind a database's name: all of its tables."""
TABLE = Argument("table", required=True)
"""The argument that nearly every procedure has."""
DONE = (ResultColumn("result", BOOLEAN),)
"""The result of procedures that only say that they are done: one row, true."""
STATEMENT = Argument("statement", required=True)
"""The text of a statement that runs as a procedure."""
_ACCEPT = Argument("accept_lost_snapshot", BOOLEAN)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a procedure gets besides its arguments."""

    spark: SparkSession
    table: Callable[[str], FileStoreTable]
    """Opens the table of a name (``db.t``, ``t``, ``catalog.db.t``, ``db.t$branch_b``) or a path."""
    tables: Callable[[str], Sequence[FileStoreTable]]
    """Opens all tables of a database (``db``, ``catalog.db``)."""
    warehouse: Callable[[], FilesystemCatalog]
    """Gives the catalog of the procedure."""
    named: Callable[[str], TableName]
    """Resolves the name or path of a table, whether it is there or not."""


def text_of(arguments: Arguments, name: str) -> str | None:
    """Return the text of an argument; None where it is blank or not given."""
    text = arguments.get(name)
    return text if text is not None and text.strip() else None


def options_argument(arguments: Arguments) -> dict[str, str]:
    """Return the options of the argument ``options``, like ``key=value,key2=value2``.

    Raises:
        OptionError: the text is not of this form.
    """
    found: dict[str, str] = {}
    text = text_of(arguments, "options")
    for part in [] if text is None else text.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"Invalid key-value string '{part}'. Please use format 'key=value'.")
        found[key.strip()] = value.strip()
    return found


def statement_argument(arguments: Arguments, parse: Callable[[str], _Statement | None], what: str) -> _Statement:
    """Read the statement that a procedure runs.

    Raises:
        PaimonError: its text is no such statement.
    """
    statement = parse(arguments[STATEMENT.name])
    if statement is None:
        raise PaimonError(f"This is no {what}: {arguments[STATEMENT.name]}")
    return statement


def older_than_argument(arguments: Arguments) -> datetime | None:
    """Return the time of the argument ``older_than``; None where it is not given."""
    text = text_of(arguments, "older_than")
    return None if text is None else parse_older_than(text)


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure."""

    name: str
    arguments: tuple[Argument, ...]
    result: tuple[ResultColumn, ...]
    """Columns of the result; none at all where the statement has no result."""
    function: Callable[[CallContext, Arguments], Rows]
    """From the arguments by name to the rows of the result."""
    description: str

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


def procedure(
    description: str, arguments: tuple[Argument, ...], *, result: tuple[ResultColumn, ...] = DONE, name: str = ""
) -> Callable[[Callable[[CallContext, Arguments], Rows | None]], Procedure]:
    """Make a procedure of a function, with the function's name but for the underscore before it.

    A function that returns nothing has the result `DONE`.
    """

    def made(function: Callable[[CallContext, Arguments], Rows | None]) -> Procedure:
        def run(context: CallContext, given: Arguments) -> Rows:
            rows = function(context, given)
            return [(True,)] if rows is None else rows

        return Procedure(name or function.__name__.removeprefix("_"), arguments, result, run, description)

    return made


def deleting(procedure: Procedure) -> Procedure:
    """A procedure that deletes files, with the argument by which a lost commit is given up (`one_at_a_time`)."""

    def run(context: CallContext, arguments: Arguments) -> Rows:
        if arguments[_ACCEPT.name]:
            name = arguments[TABLE.name]
            of_database = name.endswith(ALL_TABLES)
            for table in context.tables(name.removesuffix(ALL_TABLES)) if of_database else [context.table(name)]:
                accept_lost(table, accept_lost_snapshot=True)
        return procedure.function(context, arguments)

    return replace(procedure, arguments=(*procedure.arguments, _ACCEPT), function=run)
