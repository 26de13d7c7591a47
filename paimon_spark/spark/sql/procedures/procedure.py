"""What a procedure is: a name, arguments, columns of its result, and a function that runs on the driver.

Its arguments are the parameters of the function, by their names and types: one with a default need not be given.
Nothing here knows the JVM: the catalog of a classic session and ``paimon_spark.sql`` of a Connect session both call it.
Both find here the tables and databases that arguments of a CALL name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import signature
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, MapType, StringType

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.options.option import parse_duration
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
from paimon_spark.table.table import FileStoreTable, load_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.spark.sql.warehouses import TableName
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog


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
    return refuse_format_table(load_table(name.named, options=name.options, cache=name.cache), "a procedure")


def argument_tables(known: Warehouses, text: str, catalog: str) -> list[FileStoreTable]:
    """Open all tables of the database that an argument names.

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
DONE = (ResultColumn("result", BOOLEAN),)
"""The result of procedures that only say that they are done: one row, true."""
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


@dataclass(frozen=True, slots=True)
class Kind:
    """What a call gives for a parameter, and how that is read."""

    type: DataType
    read: Callable[[CallContext, Any], Any] = lambda _context, given: given


def _filled(_context: CallContext, text: str) -> str | None:
    return text if text.strip() else None


def _tables(context: CallContext, text: str) -> Sequence[FileStoreTable]:
    return context.tables(text.removesuffix(ALL_TABLES)) if text.endswith(ALL_TABLES) else [context.table(text)]


def _options(_context: CallContext, text: str) -> dict[str, str]:
    """Read ``key=value,key2=value2``.

    Raises:
        OptionError: the text is not of this form.
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text.strip() else []:
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"Invalid key-value string '{part}'. Please use format 'key=value'.")
        found[key.strip()] = value.strip()
    return found


def _older_than(_context: CallContext, text: str) -> datetime | None:
    from paimon_spark.maintain.refs.tags import parse_older_than  # as of the modules of procedures

    return parse_older_than(text) if text.strip() else None


Long = Annotated[int, Kind(LONG)]
Int = Annotated[int, Kind(INT)]
Text = Annotated[str, Kind(STRING, _filled)]
"""A text; a blank one is as if it was not given."""
Table = Annotated[FileStoreTable, Kind(STRING, lambda context, text: context.table(text))]
"""The name or path of a table, which is opened."""
Tables = Annotated[Sequence[FileStoreTable], Kind(STRING, _tables)]
"""The same, or all tables of a database (``db.*``)."""
Options = Annotated[Mapping[str, str], Kind(STRING, _options)]
"""``key=value,key2=value2``."""
OptionMap = Annotated[Mapping[str, str], Kind(TEXTS)]
Time = Annotated[datetime, Kind(STRING, _older_than)]
"""A local time; a blank one is as if it was not given."""
Duration = Annotated[timedelta, Kind(STRING, lambda _context, text: parse_duration(text))]
_KINDS: Mapping[Any, Kind] = {str: Kind(STRING), bool: Kind(BOOLEAN)}


def _kind(hint: Any) -> Kind:
    """Return what a parameter of a type takes; ``| None`` says nothing more."""
    kind = get_args(hint)[0] if get_origin(hint) in (Union, UnionType) else hint
    found: Kind = kind.__metadata__[0] if get_origin(kind) is Annotated else _KINDS[kind]
    return found


def read_as(parse: Callable[[str], _Statement | None], text: str, what: str) -> _Statement:
    """Read the statement that a procedure runs.

    Raises:
        PaimonError: its text is no such statement.
    """
    statement = parse(text)
    if statement is None:
        raise PaimonError(f"This is no {what}: {text}")
    return statement


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure."""

    name: str
    arguments: tuple[Argument, ...]
    result: tuple[ResultColumn, ...]
    """Columns of the result; none at all where the statement has no result."""
    function: Callable[[CallContext, Mapping[str, Any]], Rows]
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
    description: str, *, result: tuple[ResultColumn, ...] = DONE, name: str = "", deletes: bool = False
) -> Callable[[Callable[..., Rows | None]], Procedure]:
    """Make a procedure of a function, with the function's name but for the underscore before it.

    Args:
        description: what it does.
        result: columns of the result. A function that returns nothing has the result `DONE`.
        name: instead of the function's.
        deletes: whether it deletes files: then an argument gives up a lost commit first (`one_at_a_time`).
    """

    def made(function: Callable[..., Rows | None]) -> Procedure:
        hints = get_type_hints(function, include_extras=True)
        _, *parameters = signature(function).parameters.values()
        kinds = {each.name: _kind(hints[each.name]) for each in parameters}
        arguments = [Argument(each.name, kinds[each.name].type, each.default is each.empty) for each in parameters]

        def run(context: CallContext, given: Mapping[str, Any]) -> Rows:
            values = {key: kind.read(context, given[key]) for key, kind in kinds.items() if given[key] is not None}
            if deletes and given[_ACCEPT.name]:
                from paimon_spark.maintain.files.repairs import accept_lost  # as of the procedures' modules

                for table in values["table"] if isinstance(values["table"], Sequence) else [values["table"]]:
                    accept_lost(table, accept_lost_snapshot=True)
            rows = function(context, **values)
            return [(True,)] if rows is None else rows

        own_name = name or function.__name__.removeprefix("_")
        return Procedure(own_name, (*arguments, *([_ACCEPT] if deletes else ())), result, run, description)

    return made
