"""What statements about functions do, and what they show, as the official connector has it.

A function of Spark's SQL is kept as the user wrote it. Spark itself checks the body, and tells what follows from it:
the function is made for a moment as a temporary one. What names in the body mean without a catalog or database is
kept among the options, by Spark's keys, as are the settings by which Spark understands the body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql.types import DataType, StructType

from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.spark.columns.types import from_spark_struct, to_spark_type
from paimon_spark.spark.session.pyspark_members import plain
from paimon_spark.spark.sql.procedures.procedure import ResultColumn
from paimon_spark.spark.sql.warehouses import analysis_error, is_temporary_view, quoted, schema_not_found
from paimon_spark.spark.statements.catalog_statements import (
    FunctionCall,
    FunctionStatement,
    calls_in,
    with_names,
    with_qualifier,
)
from paimon_spark.spark.statements.cursor import Cursor
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import assign_field_ids
from paimon_spark.spec.sql_text import matching, quoted_name, spark_literal
from paimon_spark.spec.view_records import Function, check_function_name, sql_definition
from paimon_spark.table.catalog_views import (
    check_keeps_functions,
    create_function,
    drop_function,
    find_function,
    functions_of,
    keeps_functions,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.spark.statements.query_trees import TableReference
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog

_OWN: Final = "spark.sql-function."
IS_QUERY: Final = f"{_OWN}is-query"
_DETERMINISTIC: Final = f"{_OWN}deterministic"
CONTAINS_SQL: Final = f"{_OWN}contains-sql"
_CONFIG: Final = "sqlConfig."
_NAMESPACE: Final = "catalogAndNamespace."
_TEMPORARY_NAMES: Final = ("referredTempViewNames", "referredTempFunctionsNames", "referredTempVariableNames")
_SPARK_NAMESPACES: Final = ("builtin", "session", "system")
"""What stands before a function of Spark's own."""
_DEEPEST: Final = 20
BEFORE_EXPRESSION: Final = "SELECT "
"""Makes a query of an expression."""
_Rows = list[tuple[Any, ...]]
_spark_functions: WeakKeyDictionary[SparkSession, frozenset[str]] = WeakKeyDictionary()

FUNCTION_COLUMNS: Mapping[str, tuple[ResultColumn, ...]] = {
    "SHOW": (ResultColumn("function", nullable=False),),
    "DESCRIBE": (ResultColumn("function_desc", nullable=False),),
}
"""The columns of what statements show, by their action; the others show nothing."""


@dataclass(frozen=True)
class Surroundings:
    """What names in the body of a function of a catalog are looked for in."""

    catalog: FilesystemCatalog
    is_catalog: Callable[[str], bool]
    """Whether the session has a catalog of a name."""
    is_sparks: Callable[[str], bool]
    """Whether a name of one part is a function of Spark's own, or of the session."""


@dataclass(frozen=True)
class FunctionContext:
    """What a statement about a function is run with."""

    catalog_name: str
    database: str
    """Of the function, or that of SHOW FUNCTIONS."""
    name: str
    current: tuple[str, str]
    """The catalog and the database that names without them mean."""
    run: Callable[[str], DataFrame]
    """Runs a statement of Spark's."""
    body: Callable[[str, bool], str]
    """Gives the body for Spark, where tables of ours have names that Spark knows."""
    temporary: Callable[[str], Sequence[str]]
    """Names of the temporary views that a query reads."""
    around: Surroundings

    @property
    def catalog(self) -> FilesystemCatalog:
        """That of the function."""
        return self.around.catalog

    @property
    def parts(self) -> tuple[str, ...]:
        """The whole name."""
        return (self.catalog_name, self.database, self.name)


def run_function_statement(context: FunctionContext, statement: FunctionStatement) -> _Rows:
    """Run a statement; return the rows of what it shows.

    Raises:
        AnalysisException: the function is not there, or is there already; its database is not; the body is wrong.
        UnsupportedError: the catalog keeps no functions, or the function is one of the JVM.
    """
    if statement.action != "DROP" or not statement.tolerant:
        check_keeps_functions(context.catalog, context.catalog_name)
    if not context.catalog.database_exists(context.database):
        raise schema_not_found((context.catalog_name, context.database))
    match statement.action:
        case "SHOW":
            return _show(context, statement)
        case "CREATE" | "CREATE CLASS":
            _create(context, statement)
            return []
        case "DESCRIBE":
            return _described(context, extended=statement.extended)
    if statement.tolerant and not keeps_functions(context.catalog):
        return []
    if not drop_function(context.catalog, context.database, context.name) and not statement.tolerant:
        raise _not_found(context)
    return []


def _show(context: FunctionContext, statement: FunctionStatement) -> _Rows:
    own = [] if statement.scope == "SYSTEM" else functions_of(context.catalog, context.database)
    shown = {name: ".".join((context.catalog_name, context.database, name)) for name in own}
    if statement.scope != "USER":
        shown |= {str(row[0]): str(row[0]) for row in context.run("SHOW SYSTEM FUNCTIONS").collect()}
    return sorted((shown[name],) for name in matching(list(shown), statement.pattern))


def _not_found(context: FunctionContext) -> Exception:
    return analysis_error("ROUTINE_NOT_FOUND", f"The routine {quoted(context.parts)} cannot be found.")


def check_sql(function: Function, parts: Sequence[str]) -> None:
    """Refuse a function that is none of SQL.

    Raises:
        UnsupportedError: it is one of the JVM, or of another engine.
    """
    kind = function.spark_kind
    if kind == "sql":
        return
    what = {
        "file": "is one of Java classes in files ('file')",
        "lambda": "is one of Java's lambda expressions ('lambda')",
    }.get(kind, "has no definition for Spark")
    raise UnsupportedError(
        f"Function {'.'.join(parts)} {what}, which needs the official connector's jar. Make a function of SQL, CREATE "
        "FUNCTION … RETURN …, or register it in the session with spark.udf.registerJavaFunction."
    )


def _create(context: FunctionContext, statement: FunctionStatement) -> None:
    name = ".".join(context.parts)
    if statement.action == "CREATE CLASS":
        raise UnsupportedError(
            f"Function {name} of a Java class cannot be made in a catalog: CREATE TEMPORARY FUNCTION … AS '<class>' "
            "makes it for this session, CREATE FUNCTION … RETURN … a function of SQL in the catalog."
        )
    if statement.is_table:
        raise UnsupportedError(f"Paimon does not support creating SQL table functions yet: {name}.")
    if statement.replaces and statement.tolerant:
        raise SchemaError("CREATE FUNCTION with both IF NOT EXISTS and REPLACE is not allowed.")
    check_function_name(context.name)
    there = find_function(context.catalog, context.database, context.name)
    if there is not None and statement.tolerant:
        return
    if there is not None and not statement.replaces:
        raise _taken(context)
    function = _new_function(context, statement)
    if there is not None:
        _check_no_circle(context, function)
        drop_function(context.catalog, context.database, context.name)
    if not create_function(context.catalog, context.database, context.name, function) and not statement.tolerant:
        raise _taken(context)


def _taken(context: FunctionContext) -> Exception:
    return analysis_error(
        "ROUTINE_ALREADY_EXISTS",
        f"Cannot create the routine {quoted(context.parts)} because a routine of that name already exists. Choose a "
        "different name, drop the existing routine, or add IF NOT EXISTS or OR REPLACE.",
    )


def _new_function(context: FunctionContext, statement: FunctionStatement) -> Function:
    query = as_query(statement.body, query=statement.is_query)
    views = () if query is None else context.temporary(query)
    if views:
        raise SchemaError(
            f"Function {'.'.join(context.parts)} stays, and cannot read the temporary view {views[0]}: name a table."
        )
    facts = _facts(context, statement)
    result = facts.get("returns") or statement.returns
    fields = tuple(_field(each.name, each.type, each.default, each.comment) for each in statement.parameters)
    options = {
        IS_QUERY: str(statement.is_query).lower(),
        _DETERMINISTIC: facts["deterministic"],
        CONTAINS_SQL: facts["contains"],
        **{key: text for key, text in facts.items() if key.startswith(_CONFIG)},
        f"{_NAMESPACE}numParts": "2",
        **{f"{_NAMESPACE}part.{at}": part for at, part in enumerate(context.current)},
        **dict.fromkeys(_TEMPORARY_NAMES, "[]"),
    }
    return Function(
        assign_field_ids(fields)[0],
        assign_field_ids((_field(context.name, statement.returns or result),))[0],
        facts["deterministic"] == "true",
        sql_definition(statement.body),
        statement.comment,
        options,
    )


def _field(name: str, text: str, default: str | None = None, comment: str | None = None) -> DataField:
    struct = DataType.fromDDL(f"{quoted_name(name)} {text}")
    assert isinstance(struct, StructType)
    return replace(from_spark_struct(struct)[0], default_value=default, description=comment)


def _facts(context: FunctionContext, statement: FunctionStatement) -> dict[str, str]:
    """What Spark finds out about a function: it makes it, describes it and drops it.

    Functions of the catalog that the body calls are there meanwhile as temporary ones without a body.

    Raises:
        AnalysisException: the body is wrong.
    """
    name = quoted_name(f"__paimon_new_{context.name}")
    called = list(_called(context, statement.body, context.current))
    renamed = [(call, quoted_name(f"__paimon_called_{at}")) for at, (call, _, _) in enumerate(called)]
    text = with_names(statement.body, renamed)
    text = with_qualifier(text, context.name, [each.name for each in statement.parameters], name)
    made = []
    try:
        for (_, stand_in), (_, other, function) in zip(renamed, called, strict=True):
            check_sql(function, (context.catalog_name, *other))
            made.append(stand_in)
            nothing = f"CAST(NULL AS {_result(function)})"
            context.run(temporary_function(stand_in, head_of(function), nothing))
        made.append(name)
        context.run(temporary_function(name, statement.head, context.body(text, statement.is_query)))
        lines = [str(row[0]) for row in context.run(f"DESCRIBE FUNCTION EXTENDED {name}").collect()]
    finally:
        for each in made:
            context.run(f"DROP TEMPORARY FUNCTION IF EXISTS {each}")
    return _of_called(described_facts(lines), statement, [function for _, _, function in called])


def _of_called(facts: dict[str, str], statement: FunctionStatement, called: Sequence[Function]) -> dict[str, str]:
    """Facts with what follows from the functions that the body calls, where the statement does not say it itself."""
    if "deterministic" not in statement.states and not all(each.deterministic for each in called):
        facts["deterministic"] = "false"
    reads = any(each.options.get(CONTAINS_SQL, "true").lower() == "false" for each in called)
    if not statement.states & {"contains", "reads"} and (reads or _tables(statement.body, query=statement.is_query)):
        facts["contains"] = "false"
    facts.setdefault("contains", str("reads" not in statement.states).lower())  # Spark 4.0 does not keep it
    return facts


def head_of(function: Function) -> str:
    """What stands between the name of a function and RETURN."""
    parameters = [
        f"{quoted_name(field.name)} {to_spark_type(field.type).simpleString()}"
        + ("" if field.default_value is None else f" DEFAULT {field.default_value}")
        for field in function.inputs
    ]
    return f"({', '.join(parameters)}) RETURNS {_result(function)}"


def _result(function: Function) -> str:
    return to_spark_type(function.returns[0].type).simpleString()


def temporary_function(name: str, head: str, body: str) -> str:
    """The statement that makes a function for a session; nothing is said where it is there."""
    return f"CREATE OR REPLACE TEMPORARY FUNCTION {name}{head} RETURN {body}"


_LINE: Final = re.compile(r"(\w[\w ]*): +(.*)", re.DOTALL)


def described_facts(lines: Sequence[str]) -> dict[str, str]:
    """Read what DESCRIBE FUNCTION EXTENDED shows of a function of SQL.

    Spark 4.0 shows what it keeps, as JSON, behind ``Usage:``; later ones a line for each fact.
    """
    usage = next((line.partition(" ")[2] for line in lines if line.startswith("Usage: {")), None)
    if usage is not None:
        kept = json.loads(usage)
        return {
            "returns": kept.get("sqlFunction.returnType", ""),
            "deterministic": kept.get("sqlFunction.deterministic", "true"),
            **{key: text for key, text in kept.items() if key.startswith(_CONFIG)},
        }
    found: dict[str, str] = {"deterministic": "true", "contains": "true"}
    label = ""
    for line in lines:
        match = _LINE.fullmatch(line) if line[:1].strip() else None
        label = match[1] if match else label
        text = match[2] if match else line.strip()
        match label:
            case "Returns":
                found["returns"] = text
            case "Deterministic":
                found["deterministic"] = text
            case "Data Access":
                found["contains"] = str(text == "CONTAINS SQL").lower()
            case "Configs":
                key, _, value = text.partition("=")
                found[f"{_CONFIG}{key}"] = value
            case "Body":
                break
    return found


def _check_no_circle(context: FunctionContext, function: Function) -> None:
    """Refuse a body that calls the function itself, by way of others or not.

    Raises:
        AnalysisException: it does.
    """
    own = (context.database, context.name)

    def look(body: str, current: tuple[str, str], path: tuple[str, ...]) -> None:
        for _, other, found in _called(context, body, current):
            if other == own or len(path) > _DEEPEST:
                raise analysis_error(
                    "USER_DEFINED_FUNCTIONS.CYCLIC_FUNCTION_REFERENCE",
                    f"Cyclic function reference detected: {' -> '.join((*path, '.'.join(other)))}.",
                )
            if found.spark_kind == "sql":
                inner = (context.catalog_name, other[0])
                look(whole_body(found, inner, context.around), inner, (*path, ".".join(other)))

    look(function.spark_body, context.current, (".".join(own),))


def _called(
    context: FunctionContext, body: str, current: tuple[str, str]
) -> Iterator[tuple[FunctionCall, tuple[str, str], Function]]:
    """The calls in a body of functions that the catalog keeps; Spark's own functions come first."""
    for call in _calls(body):
        parts = call.parts[1:] if len(call.parts) == 3 and call.parts[0] == context.catalog_name else call.parts
        if len(parts) == 1 and current[0] == context.catalog_name and not context.around.is_sparks(parts[0]):
            parts = (current[1], *parts)
        if len(parts) != 2 or (len(call.parts) == 2 and current[0] != context.catalog_name):
            continue
        function = find_function(context.catalog, parts[0], parts[1])
        if function is not None:
            yield call, (parts[0], parts[1]), function


def whole_body(function: Function, own: tuple[str, str], around: Surroundings) -> str:
    """The body for Spark: names without a catalog or database are made whole, as they were meant when it was made.

    ``own`` is the catalog and the database of the function.

    # Java: on Spark 4.0 and 4.1 such names mean what they mean where the function is called.
    """
    body, options = function.spark_body, function.options
    namespace = own
    if options.get(f"{_NAMESPACE}numParts") == "2":
        namespace = (options.get(f"{_NAMESPACE}part.0", own[0]), options.get(f"{_NAMESPACE}part.1", own[1]))
    if not around.is_catalog(namespace[0]):  # the catalog has another name in this session
        namespace = (own[0], namespace[1])
    named: list[tuple[FunctionCall | TableReference, tuple[str, ...]]] = [
        (call, call.parts)
        for call in _calls(body)
        if namespace[0] == own[0] and _is_partial(call, namespace[1], around)
    ]
    named += [(table, table.parts) for table in _tables(body, query=is_query(function)) if _lacks_catalog(table.parts)]
    return with_names(body, [(each, quoted((*namespace[: 3 - len(parts)], *parts))) for each, parts in named])


def _is_partial(call: FunctionCall, database: str, around: Surroundings) -> bool:
    if len(call.parts) == 2:
        return call.parts[0].lower() not in _SPARK_NAMESPACES
    name = call.parts[0]
    is_ours = len(call.parts) == 1 and not around.is_sparks(name)
    return is_ours and find_function(around.catalog, database, name) is not None


def _lacks_catalog(parts: Sequence[str]) -> bool:
    return len(parts) == 1 or (len(parts) == 2 and parts[0] != "global_temp" and "/" not in parts[1])


def _calls(body: str) -> list[FunctionCall]:
    cursor = Cursor.of(body)
    return [] if cursor is None else calls_in(cursor)


def _tables(body: str, *, query: bool) -> list[TableReference]:
    """The tables that a body names; their places are in the body."""
    from paimon_spark.spark.statements.query_trees import NotUnderstoodError, read_query  # brings the SQL parser along

    text = as_query(body, query=query)
    try:
        tables = () if text is None else read_query(text).tables
    except NotUnderstoodError:
        return []
    before = len(text or "") - len(body)
    return [replace(table, start=table.start - before, end=table.end - before) for table in tables]


def as_query(body: str, *, query: bool) -> str | None:
    """A body as a query; None for an expression without one."""
    return body if query else f"{BEFORE_EXPRESSION}{body}" if "select" in body.lower() else None


def is_query(function: Function) -> bool:
    """Whether the body is a query; else it is an expression."""
    return function.options.get(IS_QUERY, "false").lower() == "true"


def spark_settings(function: Function) -> dict[str, str]:
    """The settings with which Spark is to understand the body: those of when it was made."""
    keys = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    return {key: function.options[f"{_CONFIG}{key}"] for key in keys if f"{_CONFIG}{key}" in function.options}


def spark_properties(function: Function) -> dict[str, str]:
    """The options that Spark reads itself."""
    return {key: text for key, text in function.options.items() if not key.startswith(_OWN)}


def _described(context: FunctionContext, *, extended: bool) -> _Rows:
    function = find_function(context.catalog, context.database, context.name)
    if function is None:
        raise _not_found(context)
    name = f"{context.database}.{context.name}"
    if function.spark_kind == "file":
        return _described_file(function, name, extended=extended)
    check_sql(function, context.parts)
    rows = [("Function:", name), ("Type:", "SCALAR")]
    rows += _labelled("Input:", _shown_parameters(function.inputs, extended=extended) or ["()"])
    rows += [("Returns:", str(field.type)) for field in function.returns[:1]]
    if extended:
        rows += [("Comment:", function.comment)] if function.comment is not None else []
        rows.append(("Deterministic:", str(function.deterministic).lower()))
        if CONTAINS_SQL in function.options:
            contains = function.options[CONTAINS_SQL].lower() == "true"
            rows.append(("Data Access:", "CONTAINS SQL" if contains else "READS SQL DATA"))
        configs = sorted(item for item in function.options.items() if item[0].startswith(_CONFIG))
        rows += _labelled("Configs:", [f"{key.removeprefix(_CONFIG)}={text}" for key, text in configs])
        rows.append(("Body:", function.spark_body))
    width = max(len(label) for label, _ in rows)
    return [(f"{label.ljust(width)} {text}",) for label, text in rows]


def _described_file(function: Function, name: str, *, extended: bool) -> _Rows:
    definition = function.definitions["spark"]
    files = [str(each.get("uri")) for each in definition.get("fileResources") or []]
    rows = [(f"Function: {name}",), (f"Class: {definition.get('className')}",)]
    return [*rows, (f"File Resources: {', '.join(files)}",)] if extended else list(rows)


def _labelled(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(label if at == 0 else "", text) for at, text in enumerate(texts)]


def _shown_parameters(fields: Sequence[DataField], *, extended: bool) -> list[str]:
    if not fields:
        return []
    names, types = max(len(f.name) for f in fields), max(len(str(f.type)) for f in fields)
    found = []
    for each in fields:
        default = f" DEFAULT {each.default_value}" if extended and each.default_value is not None else ""
        comment = f" '{each.description}'" if extended and each.description is not None else ""
        found.append(f"{each.name.ljust(names)} {str(each.type).ljust(types)}{default}{comment}")
    return found


def temporary_views_in(spark: SparkSession, query: str) -> list[str]:
    """Names of the temporary views that a query reads."""
    from paimon_spark.spark.statements.query_trees import NotUnderstoodError, read_query  # as in `_tables`

    try:
        tables = read_query(query).tables
    except NotUnderstoodError:
        return []
    names = [table.parts[0] for table in tables if len(table.parts) == 1]
    return [name for name in names if is_temporary_view(spark, name)]


def is_spark_function(spark: SparkSession, name: str) -> bool:
    """Whether a name of one part is a function of Spark's own, or of the session."""
    found = _spark_functions.get(spark)
    if found is None:
        rows = plain(spark.sql)("SHOW SYSTEM FUNCTIONS").collect()
        found = _spark_functions[spark] = frozenset(str(row[0]).lower() for row in rows)
    if name.lower() in found:
        return True
    shown = plain(spark.sql)(f"SHOW USER FUNCTIONS LIKE {spark_literal(name)}").collect()
    return any(str(row[0]).lower() == name.lower() for row in shown)
