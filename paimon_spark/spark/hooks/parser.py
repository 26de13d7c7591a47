"""Paimon's statements in Spark's parser: statements that Spark cannot parse are given to Python.

Spark has one parser per session and asks it for every statement, expression and type. To cost those nothing, the
parser that takes its place is a Java class: it hands everything to the one that was there. Only when that one refuses a
statement it asks Python whether Paimon knows it, or has an answer to it (see `foreign_statements`); when a DROP
PARTITION has passed, what it drops; and of a ``DESCRIBE t c``, an ANALYZE TABLE and a MSCK REPAIR TABLE, whether it is
such a statement. The class is generated here, since the methods of ``ParserInterface`` differ between versions of
Spark.

Spark lets ALTER TABLE … DROP PARTITION name all partition columns or none. In Paimon the first ones are enough, as in
the official connector. Such a statement leaves the parser with its partitions resolved, which Spark then takes as they
are: the table is asked to drop rows with fewer values than it has partition columns.

CREATE TABLE … LIKE before Spark 4.2, whose catalogs are not asked: Spark's parser takes it for its own tables. The
statement becomes the CREATE TABLE of the same definition, which Spark then gives to the catalog.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from paimon_spark.spark.catalog.sql_functions import is_spark_function
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.catalog.view import KEEPS_VIEWS
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.features import spark_version
from paimon_spark.spark.jvm.gateway import FUNCTION, Gateway, JavaObject, SessionProxy
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import (
    active_session,
    catalog_table,
    ident_of,
    is_proxy,
    java_list,
    java_map,
    named,
    python_object,
    scala_seq,
)
from paimon_spark.spark.jvm.spark_errors import CALL_ERRORS, thrown
from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.sql.foreign_statements import REFUSE_STATEMENT, parse_foreign_statement
from paimon_spark.spark.sql.table_definitions import copied_options
from paimon_spark.spark.sql.table_descriptions import (
    defined_columns,
    defined_partitions,
    properties_clause,
    shown_properties,
)
from paimon_spark.spark.sql.warehouses import quoted
from paimon_spark.spark.statements.catalog_statements import (
    FunctionStatement,
    ViewStatement,
    parse_function_statement,
    parse_view_statement,
)
from paimon_spark.spark.statements.cursor import Cursor, read_statement
from paimon_spark.spark.statements.table_statements import (
    is_copy,
    parse_analyze_statement,
    parse_repair_statement,
    parse_tag_statement,
)
from paimon_spark.spec.sql_text import literal_text, spark_literal
from paimon_spark.table.catalog_views import find_view, keeps_views
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE


@dataclass(frozen=True, slots=True)
class CreateLike:
    """What the statement says."""

    target: tuple[str, ...]
    source: tuple[str, ...]
    tolerant: bool
    """IF NOT EXISTS."""
    clauses: str
    """USING and LOCATION, as given."""
    options: dict[str, str]


def parse_create_like(text: str | Cursor) -> CreateLike | None:
    """Read the statement; None where the text is anything else."""
    return read_statement(text, _create_like)


def _create_like(cursor: Cursor) -> CreateLike | None:
    if not cursor.take("CREATE", "TABLE"):
        return None
    tolerant = cursor.take("IF", "NOT", "EXISTS")
    target = cursor.name()
    if not cursor.take("LIKE"):
        return None
    source, provider, location = cursor.name(), "paimon", ""
    options: dict[str, str] = {}
    while not cursor.at_end():
        if cursor.take("USING"):
            provider = cursor.identifier()
        elif cursor.take("LOCATION"):
            location = f" LOCATION {literal_text(cursor.string())}"
        elif cursor.take("TBLPROPERTIES"):
            options |= cursor.properties()
        else:
            return None
    return CreateLike(target, source, tolerant, f"USING {quoted((provider,))}{location}\n", options)


def create_text(gateway: Gateway, state: JavaObject, statement: CreateLike) -> str:
    """Return the CREATE TABLE of the same definition.

    Where there is no source, DESCRIBE of it, by which Spark says so.
    """
    head = f"CREATE TABLE {'IF NOT EXISTS ' if statement.tolerant else ''}{quoted(statement.target)} "
    if len(statement.source) == 1 and state.catalog().isTempView(scala_seq(gateway, list(statement.source))):
        view = active_session(gateway).table(quoted(statement.source))
        return f"{head}({_ddl(java_frame(view).schema())}) {statement.clauses}{properties_clause(statement.options)}"
    source = _like_source(gateway, state, statement.source)
    if source is None:
        return f"DESCRIBE TABLE {quoted(statement.source)}"
    proxy = python_object(gateway, source) if is_proxy(gateway, source) else None
    if isinstance(proxy, TableProxy):
        table = proxy.loaded.table
        options = copied_options(dict(shown_properties(table))) | statement.options
        definition = defined_columns(table) + statement.clauses + defined_partitions(table.schema)
        return head + definition + properties_clause(options)
    columns = _ddl(compat.V2_COLUMNS.of(gateway).v2ColumnsToStructType(source.columns()))
    keys = ", ".join(str(transform.describe()) for transform in source.partitioning())
    partitions = f"PARTITIONED BY ({keys})\n" if keys else ""
    return f"{head}({columns}) {statement.clauses}{partitions}{properties_clause(statement.options)}"


def _like_source(gateway: Gateway, state: JavaObject, name: Sequence[str]) -> JavaObject | None:
    """The table of any catalog; None where there is none."""
    try:
        catalog, ident = ident_of(gateway, state, name)
        return catalog.loadTable(ident)
    except CALL_ERRORS:
        return None


def _ddl(struct: JavaObject) -> str:
    return str(struct.toDDL())


class DropPartitionsProxy(SessionProxy):
    """Resolves the partitions of one statement; answers ``java.util.function.Function``, on the driver."""

    caller_unwraps = True

    def apply(self, statement: JavaObject) -> JavaObject:
        """The statement with the partitions that a prefix names.

        Anything else stays as it is, so that Spark says what is wrong with it.

        Raises:
            JavaThrownError: a partition that is named by all columns is not there, and the statement has no IF EXISTS.
        """
        try:
            table = catalog_table(self.gateway, self.state, statement.table())
            parts = None if table is None else self._named(statement, table)
        except CALL_ERRORS:  # an unknown table or column, say
            return statement
        return statement if parts is None else self._existing(statement, table, *parts)

    def _named(self, statement: JavaObject, table: JavaObject) -> tuple[list[JavaObject], list[list[str]]] | None:
        """The partitions, resolved, and the columns that they name; None where Spark resolves them as well."""
        schema = table.partitionSchema()
        columns = list(schema.names())
        resolve = getattr(compat.PARTITION_SPECS.of(self.gateway), compat.PARTITION_SPECS.methods[0])
        specs = java_list(statement.parts())
        resolved = [resolve(table.name(), spec, schema, True) for spec in specs]
        names = [java_list(spec.names()) for spec in resolved]
        if any(own != columns[: len(own)] for own in names) or all(len(own) == len(columns) for own in names):
            return None
        return resolved, names

    def _existing(
        self, statement: JavaObject, table: JavaObject, resolved: list[JavaObject], names: list[list[str]]
    ) -> JavaObject:
        there = [
            len(table.listPartitionIdentifiers(self.gateway.strings(own), spec.ident())) > 0
            for own, spec in zip(names, resolved, strict=True)
        ]
        whole = [len(own) == len(table.partitionSchema().names()) for own in names]
        given = zip(java_list(statement.parts()), there, whole, strict=True)
        missing = [spec.spec() for spec, found, full in given if full and not found]
        if missing and not statement.ifExists():
            _, database, name = table.name().split(".", 2)
            missing_error = compat.NO_SUCH_PARTITIONS(self.gateway, database, name, scala_seq(self.gateway, missing))
            raise thrown(missing_error)
        kept = [spec for spec, found in zip(resolved, there, strict=True) if found]
        return statement.copy(statement.table(), scala_seq(self.gateway, kept), statement.ifExists(), statement.purge())


_CLASS = "PaimonStatementParser"
_CATALOGS = "scala.collection.Map"
_INTERFACE = compat.PARSER_INTERFACE.name
_REFUSAL = compat.PARSE_EXCEPTION.name
_PLAN = compat.LOGICAL_PLAN.name
_DESCRIBE_COLUMN = compat.DESCRIBE_COLUMN.name
_ANALYZE = (compat.ANALYZE_TABLE.name, compat.ANALYZE_COLUMN.name)
_DROP = compat.DROP_PARTITIONS.name
_OF_PARTITION = (  # from Spark 4.3 on the first
    'plan.getClass().getSimpleName().equals("DescribeTablePartition") '
    '|| plan.getClass().getSimpleName().equals("DescribeRelation") '
    '&& text.toUpperCase(java.util.Locale.ROOT).contains("PARTITION")'
)
_LOOKED_AT = ", ".join(
    f'"{name}"'
    for name in (
        *("CreateTableLike", "CreateTableLikeCommand"),
        *("CreateView", "DropView", "ShowViews", "AlterViewAs", "RenameTable", "SetViewProperties"),
        *("UnsetViewProperties", "DescribeRelation", "ShowCreateTable", "ShowTableProperties"),
        "RepairTable",
        *("CreateUserDefinedFunction", "CreateFunction", "DropFunction", "DescribeFunction"),
    )
)
"""Statements that may be about a view of ours, or be of another table format."""
_OF_VIEWS = '"DescribeRelation", "ShowCreateTable", "ShowTableProperties"'
"""Those of them that are Spark's own where no catalog of ours keeps views, for they then mean tables only."""
_LIKE_OF_CATALOGS = (4, 2)
"""The Spark that gives CREATE TABLE … LIKE to catalogs."""


def install_parser(gateway: Gateway, state: JavaObject) -> None:
    """Let the session of a session state understand Paimon's statements about tags. Calling it again does no harm.

    Raises:
        JavaCallError: this Spark's parser has methods that cannot be answered.
        PaimonError: this Spark does not let its parser be replaced.
    """
    parser = state.sqlParser()
    if parser.getClass().getSimpleName() == _CLASS:
        return
    hooked = new_object(
        gateway,
        _CLASS,
        (_INTERFACE, parser),
        (FUNCTION, StatementProxy(gateway, state)),
        (FUNCTION, DropPartitionsProxy(gateway, state)),
        (FUNCTION, DescribePartitionProxy(gateway, state)),
        (_CATALOGS, compat.CATALOGS.get(gateway, state.catalogManager())),
        generated=_source(gateway),
    )
    compat.SQL_PARSER.set(gateway, state, hooked)


class StatementProxy(SessionProxy):
    """Translates a statement that Spark's parser refuses."""

    def apply(self, text: str) -> str | None:
        """Return the CALL statement that does the same, or raises the right error; None where Spark's error stands."""
        cursor = Cursor.of(text)
        if cursor is None:
            return None
        view = parse_view_statement(cursor)
        call = None if view is None else self._view_call(text, view)
        if call is not None:
            return call
        function = parse_function_statement(cursor)
        if function is not None:
            return self._function_call(text, function)
        statement = parse_tag_statement(cursor) or parse_analyze_statement(cursor) or parse_repair_statement(cursor)
        foreign = parse_foreign_statement(cursor)
        like = None if foreign or spark_version(self.gateway) >= _LIKE_OF_CATALOGS else parse_create_like(cursor)
        if like is not None and paimon_catalog_of(self.gateway, self.state, like.target):
            return create_text(self.gateway, self.state, like)
        table = statement.table if statement else foreign.table if foreign else None
        catalog = None if table is None else paimon_catalog_of(self.gateway, self.state, table)
        if is_copy(cursor):
            from paimon_spark.spark.sql.procedures.statement_procedures import copies_out, copy_call

            if catalog is None and copies_out(cursor):  # VALUES, or rows of Spark's
                catalog = self._any_catalog()
            return None if catalog is None else _call(catalog, copy_call(cursor), text)
        if catalog is None:
            return None
        if statement is None:
            return _call(catalog, REFUSE_STATEMENT, text, catalog)
        return _call(catalog, statement.procedure, text)

    def _any_catalog(self) -> str | None:
        """The name of a Paimon catalog of the session."""
        listed = self.state.catalogManager().listCatalogs(self.gateway.jvm.scala.Option.empty())
        names = (str(listed.apply(number)) for number in range(listed.size()))
        found = (paimon_catalog_of(self.gateway, self.state, (name, "")) for name in names)
        return next(filter(None, found), None)

    def _view_call(self, text: str, statement: ViewStatement) -> str | None:
        """Return the CALL of a statement about a view; None where it is not about one of ours."""
        parts = statement.name
        found = named(self.gateway, self.state, parts)
        if found.proxy is None:
            return None
        catalog = found.proxy.catalog
        if not keeps_views(catalog) and statement.action not in ("SHOW", "DROP"):
            return None
        if statement.may_be_of_table and find_view(catalog, ".".join(found.namespace), found.name) is None:
            return None
        if len(parts) == 1 and statement.action not in ("SHOW", "CREATE") and self._is_temporary(parts[0]):
            return None
        from paimon_spark.spark.sql.procedures.statement_procedures import view_call  # imports every procedure

        return _call(found.catalog_name, view_call(statement), text, found.catalog_name)

    def _function_call(self, text: str, statement: FunctionStatement) -> str | None:
        """Return the CALL of a statement about a function; None where it is not about one of ours."""
        parts = statement.name
        if statement.action == "SHOW" or (len(parts) == 1 and is_spark_function(self.gateway, self.state, parts[0])):
            return None
        catalog = paimon_catalog_of(self.gateway, self.state, parts)
        if catalog is None or SYSTEM_DATABASE in parts[:-1]:
            return None
        from paimon_spark.spark.sql.procedures.statement_procedures import function_call

        return _call(catalog, function_call(statement), text, catalog)

    def _is_temporary(self, name: str) -> bool:
        return bool(self.state.catalog().isTempView(scala_seq(self.gateway, [name])))


class DescribePartitionProxy(SessionProxy):
    """Translates DESCRIBE … PARTITION; answers ``java.util.function.Function``, on the driver."""

    def apply(self, plan: JavaObject) -> str | None:
        """Return the CALL statement that describes the partition; None where it is Spark's to answer."""
        try:
            table = tuple(java_list(plan.children().head().multipartIdentifier()))
            given = plan.partitionSpec()
            values = java_map(
                given if given.getClass().getSimpleName().startswith(("Map", "HashMap")) else given.spec()
            )
        except CALL_ERRORS:
            return None
        catalog = paimon_catalog_of(self.gateway, self.state, table) if values else None
        if catalog is None:
            return None
        from paimon_spark.spark.sql.procedures.statement_procedures import DESCRIBE_PARTITION

        return _call(catalog, DESCRIBE_PARTITION, quoted(table), json.dumps(values), bool(plan.isExtended()))


def paimon_catalog_of(gateway: Gateway, state: JavaObject, table: tuple[str, ...]) -> str | None:
    """Return the name of the Paimon catalog that a table's name leads to; None for another catalog."""
    found = named(gateway, state, table)
    return None if found.proxy is None else found.catalog_name


def _call(catalog: str, procedure: str, *arguments: str | bool) -> str:
    """Return the CALL of a procedure of a catalog of ours."""
    return f"CALL {quoted((catalog,))}.{SYSTEM_DATABASE}.{procedure}({', '.join(map(spark_literal, arguments))})"


def _source(gateway: Gateway) -> str:
    """Return the Java source of the parser."""
    declared = gateway.java_class(_INTERFACE).getMethods()
    texts = gateway.jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(declared).mkString("\n")  # in one call
    methods = [_method(text) for text in texts.split("\n") if " static " not in f" {text}"]
    return f"""
    public final class {_CLASS} implements {_INTERFACE} {{
        private static final java.util.List LOOKED_AT = java.util.Arrays.asList(new Object[] {{{_LOOKED_AT}}});
        private static final java.util.List OF_VIEWS = java.util.Arrays.asList(new Object[] {{{_OF_VIEWS}}});
        private final {_INTERFACE} spark;
        private final java.util.function.Function paimon;
        private final java.util.function.Function partitions;
        private final java.util.function.Function descriptions;
        private final {_CATALOGS} catalogs;

        public {_CLASS}(
                {_INTERFACE} spark, java.util.function.Function paimon, java.util.function.Function partitions,
                java.util.function.Function descriptions, {_CATALOGS} catalogs) {{
            this.spark = spark;
            this.paimon = paimon;
            this.partitions = partitions;
            this.descriptions = descriptions;
            this.catalogs = catalogs;
        }}

        private boolean isLookedAt(String name) {{
            if (!LOOKED_AT.contains(name)) {{
                return false;
            }}
            if (!OF_VIEWS.contains(name)) {{
                return true;
            }}
            for (scala.collection.Iterator all = catalogs.valuesIterator(); all.hasNext();) {{
                if (Boolean.TRUE.equals(PaimonProxy.saidBy(all.next(), "{KEEPS_VIEWS}"))) {{
                    return true;
                }}
            }}
            return false;
        }}

        private {_PLAN} resolved({_PLAN} plan, String text) throws {_REFUSAL} {{
            if ({_OF_PARTITION}) {{
                Object call = descriptions.apply(plan);
                return call == null ? plan : spark.parsePlan((String) call);
            }}
            if (plan instanceof {_DESCRIBE_COLUMN} || isLookedAt(plan.getClass().getSimpleName())
                    || plan instanceof {_ANALYZE[0]} || plan instanceof {_ANALYZE[1]}) {{
                Object call = paimon.apply(text);
                return call == null ? plan : spark.parsePlan((String) call);
            }}
            if (!(plan instanceof {_DROP})) {{
                return plan;
            }}
            try {{
                return ({_PLAN}) partitions.apply(plan);
            }} catch (java.lang.reflect.UndeclaredThrowableException error) {{
                org.apache.spark.unsafe.Platform.throwException(error.getCause());
                return plan;
            }}
        }}

        private String translate(String text, {_REFUSAL} refusal) throws {_REFUSAL} {{
            Object call;
            try {{
                call = paimon.apply(text);
            }} catch (RuntimeException error) {{
                throw refusal;
            }}
            if (call == null) {{
                throw refusal;
            }}
            return (String) call;
        }}
        {"".join(methods)}
    }}"""


def _method(text: str) -> str:
    """One method that asks Spark's parser and, where whole statements are parsed, Paimon after it.

    Args:
        text: as Java has it: ``public abstract <type> <class>.<name>(<types>) throws <classes>``.
    """
    called, _, given = text.replace("$", ".").partition("(")
    parameters, _, behind = given.partition(")")
    result, owned = called.split(" ")[-2:]
    name = owned.rpartition(".")[2]
    types = parameters.split(",") if parameters else []
    errors = behind.strip().removeprefix("throws ").split(",") if behind.strip() else []
    arguments = ", ".join(f"a{index}" for index in range(len(types)))
    declared = ", ".join(f"{kind} a{index}" for index, kind in enumerate(types))
    throws = f" throws {', '.join(errors)}" if errors else ""
    head = f"\n        public {result} {name}({declared}){throws}"
    if not name.startswith("parsePlan"):
        return f"{head} {{ return spark.{name}({arguments}); }}"
    return f"""{head} {{
            try {{
                return resolved(spark.{name}({arguments}), a0);
            }} catch ({_REFUSAL} refusal) {{
                return spark.parsePlan(translate(a0, refusal));
            }}
        }}"""
