"""`paimon_spark.sql`: one statement that may name Paimon tables, on any session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pyspark.errors import AnalysisException

from paimon_spark.errors import OptionError, PaimonError, UnsupportedError
from paimon_spark.spark.register import register
from paimon_spark.spark.session.connect_plans import keep_view, kept_views
from paimon_spark.spark.session.session_settings import check_session, following, is_connect
from paimon_spark.spark.source.source_options import read_request, refused_spark_table
from paimon_spark.spark.source.table_read import TableRead, scans_text
from paimon_spark.spark.sql.copy_into import LOADED, WRITTEN, copy_into_location, copy_into_table
from paimon_spark.spark.sql.foreign_statements import parse_foreign_statement
from paimon_spark.spark.sql.warehouses import (
    DEFAULT_CATALOG,
    add_warehouse,
    resolve,
    table_not_found,
    use,
    warehouses_of,
)
from paimon_spark.spark.statements.cursor import Cursor, Token, backslashes_kept
from paimon_spark.spark.statements.table_statements import CopyIntoLocation, is_copy, read_copy
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.spark.text import databases, descriptions
from paimon_spark.spark.text.alter_table import run_alter_table, run_comment, truncate
from paimon_spark.spark.text.calls import rows_frame, run_analyze, run_call, run_repair, run_tags
from paimon_spark.spark.text.catalog_objects import drop_made, with_functions
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.databases import FUNCTION_WORDS, VIEW_WORDS, run_function, run_view
from paimon_spark.spark.text.definitions import run_create_table, run_drop_table
from paimon_spark.spark.text.merges import explain_merge_into, run_merge_into
from paimon_spark.spark.text.queries import Scans, names_ours, run_query, with_temporary_views, write_options
from paimon_spark.spark.text.row_statements import empty, run_delete, run_insert, run_update, target, written_table
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.catalog_cache import forget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE", "DROP", "CALL")
"""Statements that are over when this engine returns, on Connect too."""
_MERGE_WITH_SCHEMA_EVOLUTION = ("MERGE", "WITH", "SCHEMA", "EVOLUTION", "INTO")
_Run = Callable[[Context, Cursor], "DataFrame | None"]
_BACKSLASHES_KEPT = "spark.sql.parser.escapedStringLiterals"
_registered: WeakSet[Any] = WeakSet()


def sql(
    spark: SparkSession,
    statement: str,
    *,
    warehouse: str | None = None,
    catalog: str | None = None,
    database: str | None = None,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    **options: Any,
) -> DataFrame:
    """Run one SQL statement that may name Paimon tables: for Spark Connect, where no catalog can be registered.

    ``paimon_spark.sql(spark, "SELECT * FROM paimon.db.t VERSION AS OF 'x'", warehouse="/wh")``. What a call says of
    warehouse, catalog and database the session remembers, as USE does, so that later calls need no more than the
    statement. A name of Paimon's is ``<catalog>.<database>.<table>``, ``<database>.<table>``, ``<table>`` or
    ``paimon.`/path/of/a/table` ``; `` `t$snapshots` `` and `` `t$branch_b` `` name system tables and branches. A
    name without the catalog is Spark's where the warehouse has no such table; CTEs and temporary views come first.

    Queries (with VERSION AS OF, TIMESTAMP AS OF, ``WITH ('k' = 'v')``), INSERT INTO and OVERWRITE, DELETE,
    UPDATE, CREATE, REPLACE, ALTER, DROP and TRUNCATE TABLE, databases, SHOW, DESCRIBE, USE, CALL, ANALYZE TABLE and
    the statements about tags are understood. A statement that names no Paimon table goes to ``spark.sql`` as it is.
    Nothing is left in the session: a query carries its tables in its own plan. As every DataFrame of Spark Connect, it
    is planned anew by each action, and so sees later writes; name a version to stay on one. Functions that a catalog
    keeps are the exception: for a query that calls one, a session of Connect keeps a temporary function.

    It works on a classic session too and does the same there; `register_catalog` gives those more: ``spark.sql``
    itself, ``spark.table`` and ``saveAsTable``, filters of every kind, limits and counts pushed down.

    Args:
        spark: a Connect or a classic session.
        statement: one statement.
        warehouse: directory of the databases, made known as `catalog`; needed once.
        catalog: the name of the warehouse in statements, and the current catalog from now on; at first ``paimon``.
        database: the current database from now on; at first ``default``.
        args: values of the statement's parameters, as for ``spark.sql``: a mapping for ``:name``, a sequence for ``?``.
        options: options of the store, with `warehouse` (``**{"s3.endpoint": …}``).

    Returns:
        The rows; of INSERT, DELETE, UPDATE and MERGE one row with Delta's counts (`RowCounts`); of a statement without
        any a DataFrame without columns.

    Raises:
        AnalysisException: as Spark's own: a table is not there, columns do not fit.
        ParseException: the statement is no SQL.
        UnsupportedError: what Paimon or this function does not know; the message names what to use.
        PaimonError: of the table, as the methods of `PaimonTable` raise it.
    """
    check_session(spark, "paimon_spark.sql(spark, statement)")
    if not isinstance(statement, str):
        raise OptionError(f"A statement is text, such as 'SELECT 1', and not {statement!r}")
    if spark not in _registered:
        register(spark)
        _registered.add(spark)
    if warehouse is not None:
        add_warehouse(spark, catalog or DEFAULT_CATALOG, str(warehouse), {k: str(v) for k, v in options.items()})
    elif options:
        raise UnsupportedError(f"options of the store ({', '.join(options)}) come with the warehouse: give both")
    if catalog is not None or database is not None:
        known = warehouses_of(spark)
        use(spark, catalog or known.catalog, database)
    try:
        return run_statement(Context(spark, warehouses_of(spark), args), statement)
    except (PaimonError, AnalysisException) as error:
        raise error.with_traceback(None) from None  # the sentence says all, the frames of the engine nothing


def run_statement(context: Context, statement: str) -> DataFrame:
    """Run one statement: by this engine where it names a Paimon table, else by Spark."""
    spark = context.spark
    kept = "\\" in statement and str(spark.conf.get(_BACKSLASHES_KEPT, "false")).lower() == "true"
    context, is_planned_later = replace(context, made=[]), False
    try:
        with backslashes_kept(kept):
            cursor = Cursor.of(statement)
            found = None if cursor is None else _about_kept(context, cursor)
            if cursor is not None and found is None:
                is_planned_later = _is_planned_later(spark, cursor.tokens[0])
                statement = with_functions(context, statement, with_temporary_views)
                cursor = cursor if statement == cursor.text else Cursor.of(statement)
                found = None if cursor is None else _run(context, cursor)
        return context.spark_sql(statement) if found is None else found
    finally:
        if not is_planned_later:
            drop_made(context)


def _is_planned_later(spark: SparkSession, first: Token) -> bool:
    """Whether Spark looks again at the functions in a statement: in a query of Connect, in a temporary view."""
    return first.is_word("CREATE", "CACHE") or (is_connect(spark) and not first.is_word(*_CHANGES))


def _about_kept(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a statement about a view or a function that stays in a catalog; None for another."""
    if cursor.tokens[0].is_word(*VIEW_WORDS) and (found := run_view(context, cursor)) is not None:
        return found
    return run_function(context, cursor) if cursor.tokens[0].is_word(*FUNCTION_WORDS) else None


def _run(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a statement; None where it names no Paimon table."""
    if is_copy(cursor):  # Databricks has another one, which is refused
        return run_copy(context, cursor)
    _refuse_foreign(context, cursor)
    if cursor.at_query():
        return _query_or_insert(context, cursor)
    if cursor.sees("INSERT"):
        return run_insert(context, cursor)
    if cursor.sees("CALL"):
        return run_call(context, cursor)
    if cursor.sees("CREATE") or cursor.sees("REPLACE", "TABLE"):
        return _create(context, cursor)
    if cursor.take("EXPLAIN"):
        return _explain(context, cursor)
    for words, run in _STATEMENTS:
        if cursor.take(*words):
            return run(context, cursor)
    return None


def _refuse_foreign(context: Context, cursor: Cursor) -> None:
    """Refuse a statement of another table format about a Paimon table; the message names the statement to use."""
    foreign = parse_foreign_statement(cursor)
    name = None if foreign is None or foreign.creates else target(context, foreign.table)
    if foreign is not None and name is not None:
        raise foreign.answer(name.catalog_name)


def _query_or_insert(context: Context, cursor: Cursor) -> DataFrame:
    """Run a query, a statement behind a WITH clause, or an INSERT behind FROM."""
    first = cursor.tokens[0]
    if first.is_word("WITH") and (found := _change_behind_ctes(context, cursor.again())):
        return found
    before = cursor.until("INSERT")
    if cursor.at_end():
        cursor.at = 0
        return run_query(context, cursor, whole=cursor.text)
    if first.is_word("WITH"):
        return run_insert(context, cursor.rest(), ctes=before.source() + "\n")
    whole = cursor.again()
    if names_ours(context, whole):
        raise UnsupportedError("FROM … INSERT is not supported for Paimon tables: write INSERT INTO … SELECT … FROM …")
    return context.spark_sql(cursor.text)


def _change_behind_ctes(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a DELETE or UPDATE behind a WITH clause; None for another statement, or a table of Spark's."""
    ctes = cursor.until("DELETE", "UPDATE", "MERGE", "SELECT", "INSERT", "FROM")
    if not ctes.tokens or not ctes.tokens[-1].is_sign(")"):
        return None
    if cursor.take("DELETE", "FROM"):
        return run_delete(context, cursor.rest(), ctes=ctes.source() + " ")
    if cursor.take("MERGE", "INTO"):
        return run_merge_into(context, cursor.rest(), ctes=ctes.source() + " ")
    if cursor.take(*_MERGE_WITH_SCHEMA_EVOLUTION):
        return run_merge_into(context, cursor.rest(), ctes=ctes.source() + " ", evolves_schema=True)
    return run_update(context, cursor.rest(), ctes=ctes.source() + " ") if cursor.take("UPDATE") else None


def _before(rest: Cursor) -> str:
    return rest.text[: rest.tokens[0].start]


def _explain(context: Context, cursor: Cursor) -> DataFrame | None:
    cursor.take_any("EXTENDED", "CODEGEN", "COST", "FORMATTED")
    if cursor.at_query():
        return _explain_query(context, cursor.rest(), cursor.text)
    for words, evolves_schema in ((("MERGE", "INTO"), False), (_MERGE_WITH_SCHEMA_EVOLUTION, True)):
        if cursor.take(*words):
            return explain_merge_into(context, cursor.rest(), evolves_schema=evolves_schema)
    if names_ours(context, cursor.rest()):
        raise UnsupportedError(
            "EXPLAIN is for queries and MERGE where Paimon tables are named: explain the query alone"
        )
    return None


def _explain_query(context: Context, cursor: Cursor, whole: str) -> DataFrame:
    """Run EXPLAIN of a query; on Connect a line behind Spark's plan says what is read of each table."""
    scans: Scans = []
    plan = run_query(context, cursor, before=_before(cursor), whole=whole, scans=scans)
    if not scans or not is_connect(context.spark):
        return plan
    lines = []
    for name, table, options in scans:
        read = TableRead.of(read_request({**name.options, **options, "path": name.path}), table)
        lines.append(f"{'.'.join(name.parts)} {read.describe()}")
    text = f"{str(plan.collect()[0][0]).rstrip()}\n\n{scans_text(lines)}"
    return context.spark.createDataFrame([(text,)], "plan STRING")


def _create(context: Context, cursor: Cursor) -> DataFrame | None:
    start = cursor.at
    cursor.take_any("CREATE")
    replaces = cursor.take("OR", "REPLACE")
    if cursor.sees("TABLE") or cursor.sees("REPLACE", "TABLE"):
        cursor.at = start
        found = run_create_table(context, cursor)
        return found if found is not None else _spark_table(context, cursor.again())
    if cursor.take_any(*databases.DATABASE_WORDS):
        return databases.run_create_database(context, cursor)
    is_global = cursor.take("GLOBAL")
    if cursor.take_any("TEMPORARY", "TEMP") and cursor.take("VIEW"):
        return _create_view(context, cursor, replaces=replaces, is_global=is_global)
    if cursor.sees("VIEW"):
        _refuse_view(context, cursor)
    if cursor.sees("VIEW") and names_ours(context, cursor.rest()):
        raise UnsupportedError(
            "a view that stays cannot read Paimon tables by this session's names: CREATE TEMPORARY VIEW can"
        )
    return None


def _refuse_view(context: Context, cursor: Cursor) -> None:
    """Refuse a view that is to stay in a catalog of ours."""
    foreign = parse_foreign_statement(cursor)
    name = None if foreign is None else resolve(context.known, foreign.table)
    if foreign is not None and name is not None:
        raise foreign.answer(name.catalog_name)


def _spark_table(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run CREATE TABLE of a table of Spark's, whose query may read Paimon tables.

    Raises:
        UnsupportedError: the table is to be one of Paimon's.
    """
    head = cursor.until("AS")
    words = [token.text.strip("`").lower() for token in head.tokens]
    if ("using", "paimon") in pairwise(words):
        raise refused_spark_table()
    if cursor.at_end():
        return None
    cursor.take("AS")
    return run_query(context, cursor.rest(), before=head.source() + " AS ", whole=cursor.text)


def _create_view(context: Context, cursor: Cursor, *, replaces: bool, is_global: bool) -> DataFrame | None:
    """Run CREATE TEMPORARY VIEW. The view keeps a plan, since Spark would not find Paimon tables in a view's text."""
    name = cursor.name()
    columns = [piece.identifier() for piece in cursor.group().split()] if cursor.sees("(") else None
    if cursor.take("COMMENT"):
        cursor.string()
    if len(name) != 1 or (not cursor.sees("AS") and columns is not None):
        return None
    if not cursor.take("AS"):
        return _loaded_view(context, cursor, name[0], is_global=is_global)
    if not names_ours(context, query := cursor.rest()):
        if not is_connect(context.spark) or not kept_views(context.spark.client):
            return None
        done, frame = context.spark_sql(cursor.text), context.spark_sql(query.source())
        keep_view(frame if columns is None else frame.toDF(*columns), name[0], is_global=is_global)
        return done
    frame = run_query(context, query)
    frame = frame if columns is None else frame.toDF(*columns)
    if is_global:
        (frame.createOrReplaceGlobalTempView if replaces else frame.createGlobalTempView)(quoted_name(name[0]))
    else:
        (frame.createOrReplaceTempView if replaces else frame.createTempView)(quoted_name(name[0]))
    return empty(context)


def _loaded_view(context: Context, cursor: Cursor, name: str, *, is_global: bool) -> DataFrame | None:
    """Run CREATE TEMPORARY VIEW … USING paimon on Connect; None for another one."""
    if not is_connect(context.spark) or not (cursor.take("USING") and cursor.identifier().lower() == "paimon"):
        return None
    options = cursor.properties() if cursor.take("OPTIONS") else {}
    done = context.spark_sql(cursor.text)
    rows = following(context.spark.read.format("paimon").options(**options)).load()
    keep_view(rows, name, is_global=is_global, takes_rows=True)
    return done


def _truncate(context: Context, cursor: Cursor) -> DataFrame | None:
    name = target(context, cursor.name())
    if name is None:
        return None
    spec = cursor.group() if cursor.take("PARTITION") else None
    cursor.finish()
    write_options(context, name)
    truncate(context, name.load(), spec)
    return empty(context)


def _refresh(context: Context, cursor: Cursor) -> DataFrame | None:
    name = target(context, cursor.name())
    if name is None:
        return None
    forget(name.named.root)
    return empty(context)


def _cache(context: Context, cursor: Cursor) -> DataFrame | None:
    if names_ours(context, cursor.rest()):
        raise UnsupportedError("CACHE TABLE does not know Paimon tables here: paimon_spark.sql(…).cache() does it")
    return None


def _describe(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run DESCRIBE of a table or of a query."""
    asks = cursor.take("QUERY")
    if asks or (cursor.at_query() and not cursor.sees("TABLE")):
        rest = cursor.rest()
        return run_query(context, rest, before=_before(rest), whole=cursor.text)
    return descriptions.run_describe(context, cursor)


_STATEMENTS: list[tuple[tuple[str, ...], _Run]] = [
    (("ALTER", "TABLE"), run_alter_table),
    *((("ALTER", word), databases.run_alter_database) for word in databases.DATABASE_WORDS),
    (("DROP", "TABLE"), run_drop_table),
    *((("DROP", word), databases.run_drop_database) for word in databases.DATABASE_WORDS),
    (("TRUNCATE", "TABLE"), _truncate),
    (("COMMENT", "ON", "TABLE"), run_comment),
    (("USE",), databases.run_use),
    (("SET", "CATALOG"), databases.run_use),
    (("SHOW", "TAGS"), lambda context, cursor: run_tags(context, cursor.again())),
    (("SHOW", "CURRENT"), lambda context, _: databases.show_current(context)),
    *((("SHOW", f"{word}S"), databases.run_show_databases) for word in databases.DATABASE_WORDS),
    (("SHOW", "TABLES"), databases.run_show_tables),
    (("SHOW", "TBLPROPERTIES"), descriptions.run_show_properties),
    (("SHOW", "COLUMNS"), descriptions.run_show_columns),
    (("SHOW", "PARTITIONS"), descriptions.run_show_partitions),
    (("SHOW", "CREATE", "TABLE"), descriptions.run_show_create_table),
    *(
        ((describe, word), databases.run_describe_database)
        for describe in ("DESCRIBE", "DESC")
        for word in databases.DATABASE_WORDS
    ),
    *(((word, "FUNCTION"), lambda _context, _cursor: None) for word in ("DESCRIBE", "DESC")),
    (("DESCRIBE",), _describe),
    (("DESC",), _describe),
    (("ANALYZE", "TABLE"), run_analyze),
    (("MSCK", "REPAIR", "TABLE"), run_repair),
    (("REPAIR", "TABLE"), run_repair),
    (("REFRESH", "TABLE"), _refresh),
    (("CACHE",), _cache),
    (("DELETE", "FROM"), run_delete),
    (("UPDATE",), run_update),
    (("MERGE", "INTO"), run_merge_into),
    (_MERGE_WITH_SCHEMA_EVOLUTION, partial(run_merge_into, evolves_schema=True)),
]


def run_copy(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a COPY INTO (see `is_copy`); None for a table of Spark's."""
    statement = read_copy(cursor)
    if isinstance(statement, CopyIntoLocation):
        rows = run_query(context, Cursor.of_query(statement.query))
        return rows_frame(context, WRITTEN, copy_into_location(rows, statement))
    name = target(context, statement.table)
    if name is None and context.known.current is not None:
        raise table_not_found(statement.table)  # the statement is none of Spark's, which would not understand it
    if name is None:
        return None
    table = written_table(context, name)
    paimon = PaimonTable.for_path(context.spark, name.path, **name.options)
    return rows_frame(context, LOADED, copy_into_table(context.spark, table, statement, paimon.append))
