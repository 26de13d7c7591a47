"""Statements of other table formats that users type first: each error names the statement that does the same here.

Only what Spark's own parser does not know, or takes for something else (``DESCRIBE HISTORY t`` is a column to it). A
statement is answered only where the table that it names is one of ours: Delta's own parser, where it is
installed, is asked before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.sql.procedures.procedure import CallContext, Rows, procedure
from paimon_spark.spark.statements.cursor import Cursor, read_statement
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterable

REFUSE_STATEMENT = "__refuse_statement"
"""The procedure that a refused statement becomes; no list shows it."""

_CALL = f"CALL {{catalog}}.{SYSTEM_DATABASE}"
_BEHIND_DESCRIBE: Mapping[str, str] = {
    "HISTORY": "SELECT * FROM {snapshots} shows what each commit did and when, PaimonTable.history() newest first",
    "DETAIL": "DESCRIBE TABLE EXTENDED {table} shows keys, options and size, SELECT * FROM {files} its files",
}
_STATEMENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("VACUUM",),
        f"{_CALL}.expire_snapshots(table => '{{text}}') deletes old snapshots and the files that only they need, "
        f"{_CALL}.remove_orphan_files(table => '{{text}}') the files of writes that failed",
    ),
    (("OPTIMIZE",), f"{_CALL}.compact(table => '{{text}}') joins small files and merges sorted runs"),
    (("REORG", "TABLE"), f"{_CALL}.compact(table => '{{text}}') writes the files anew without deleted rows"),
    (
        ("RESTORE", "TABLE"),
        f"{_CALL}.rollback(table => '{{text}}', version => '<snapshot id or tag>') goes back for good, "
        "SELECT … VERSION AS OF reads an earlier version",
    ),
    (
        ("RESTORE",),
        f"{_CALL}.rollback(table => '{{text}}', version => '<snapshot id or tag>') goes back for good, "
        "SELECT … VERSION AS OF reads an earlier version",
    ),
    (("SHOW", "BRANCHES"), "SELECT * FROM {branches} shows them"),
    (("SHOW", "HISTORY"), _BEHIND_DESCRIBE["HISTORY"]),
)
_COPY_IN = "INSERT INTO {table} SELECT * FROM csv.`<path>` (or json, orc, parquet) loads files"
_COPY_OUT = "INSERT OVERWRITE DIRECTORY '<path>' USING csv SELECT * FROM {table} writes files"
_VIEW = (
    "its catalog keeps no views. CREATE TEMPORARY VIEW {last} AS … lasts as long as the session; on a classic session "
    "CREATE VIEW spark_catalog.default.{last} AS … is kept by Spark, for sessions that know the catalog {catalog}"
)
_LIKE = "option 'file.format' among its TBLPROPERTIES names the format of its files"
_CHANGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("CREATE", "BRANCH"), f"{_CALL}.create_branch(table => '{{text}}', branch => '<name>') makes one"),
    (("DROP", "BRANCH"), f"{_CALL}.delete_branch(table => '{{text}}', branch => '<name>') deletes one"),
    (("DROP", "TAG"), "ALTER TABLE {table} DELETE TAG <name> deletes one"),
    *(
        ((verb, "PARTITION", "FIELD"), "partition columns are given when the table is created: PARTITIONED BY (…)")
        for verb in ("ADD", "DROP", "REPLACE")
    ),
    (("WRITE", "ORDERED", "BY"), "rows of a primary-key table are sorted by their key"),
)


@dataclass(frozen=True, slots=True)
class ForeignStatement:
    """A statement of another table format."""

    name: str
    """Its keywords."""
    table: tuple[str, ...]
    """The parts of the table's name."""
    words: str
    """What does the same here, with placeholders for names."""
    creates: bool = False
    """Whether the table is one that the statement would make."""

    def answer(self, catalog: str) -> UnsupportedError:
        """Return the error, which names the statements to use."""
        *above, last = self.table
        names = {kind: _quoted((*above, f"{last}${kind}")) for kind in ("snapshots", "files", "branches")}
        text = ".".join(self.table).replace("'", "\\'")
        names["last"] = _quoted((last,))
        words = self.words.format(catalog=_quoted((catalog,)), table=_quoted(self.table), text=text, **names)
        return UnsupportedError(f"{self.name} is no statement of Paimon: {words}.")


def parse_foreign_statement(text: str | Cursor) -> ForeignStatement | None:
    """Read a statement of another table format; None where the text is anything else."""
    return read_statement(text, _foreign_statement)


def _foreign_statement(cursor: Cursor) -> ForeignStatement | None:
    for describe in ("DESCRIBE", "DESC"):
        for what, answer in _BEHIND_DESCRIBE.items():
            if cursor.take(describe, what):
                cursor.take("TABLE")
                return ForeignStatement(f"DESCRIBE {what}", cursor.name(), answer)
    for keywords, answer in _STATEMENTS:
        if cursor.take(*keywords):
            return ForeignStatement(" ".join(keywords), cursor.name(), answer)
    if cursor.take("COPY", "INTO"):
        return _copy(cursor)
    if cursor.take("CREATE", "TABLE"):
        return _like(cursor)
    if cursor.take("CREATE", "VIEW") or cursor.take("CREATE", "OR", "REPLACE", "VIEW"):
        cursor.take("IF", "NOT", "EXISTS")
        return ForeignStatement("CREATE VIEW", cursor.name(), _VIEW, creates=True)
    if cursor.take("ALTER", "TABLE"):
        table = cursor.name()
        for keywords, answer in _CHANGES:
            if cursor.take(*keywords):
                return ForeignStatement(f"ALTER TABLE … {' '.join(keywords)}", table, answer)
    return None


def _copy(cursor: Cursor) -> ForeignStatement | None:
    """COPY INTO a table, or into a directory: then the first table that FROM names tells whose statement it is."""
    if cursor.at_name():
        return ForeignStatement("COPY INTO", cursor.name(), _COPY_IN)
    while cursor.skip_past("FROM"):
        if cursor.at_name():
            return ForeignStatement("COPY INTO", cursor.name(), _COPY_OUT)
    return None


def _like(cursor: Cursor) -> ForeignStatement | None:
    """CREATE TABLE … LIKE with a Hive format, which Spark does not hand to a catalog."""
    cursor.take("IF", "NOT", "EXISTS")
    table = cursor.name()
    cursor.expect("LIKE")
    cursor.name()
    hive = cursor.skip_past("STORED", "AS") or cursor.skip_past("ROW", "FORMAT")
    return ForeignStatement("CREATE TABLE … LIKE … STORED AS", table, _LIKE, creates=True) if hive else None


def _quoted(parts: Iterable[str]) -> str:
    """Return a name for a statement, in backquotes where it needs them."""
    return ".".join(part if part.isidentifier() else f"`{part.replace('`', '``')}`" for part in parts)


@procedure("Statements of other table formats.", result=(), name=REFUSE_STATEMENT)
def _refuse(_context: CallContext, statement: str, catalog: str) -> Rows:
    """Only raise: so a statement that the parser hands over gets its answer."""
    found = parse_foreign_statement(statement)
    if found is None:
        raise UnsupportedError(f"This is no statement of Paimon: {statement}")
    raise found.answer(catalog)
