"""All procedures, by name. A new one is a `Procedure` in a module of this package and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.sql.foreign_statements import REFUSALS
from paimon_spark.spark.sql.procedures.analyze import ANALYZE_PROCEDURES
from paimon_spark.spark.sql.procedures.compact import COMPACT_PROCEDURES
from paimon_spark.spark.sql.procedures.copies import COPY_PROCEDURES
from paimon_spark.spark.sql.procedures.copy_procedures import COPY_INTO_PROCEDURES
from paimon_spark.spark.sql.procedures.describe_partition import DESCRIBE_PROCEDURES
from paimon_spark.spark.sql.procedures.expire import EXPIRE_PROCEDURES
from paimon_spark.spark.sql.procedures.procedure import Procedure, deleting
from paimon_spark.spark.sql.procedures.repairs import CONSUMER_PROCEDURES, ORPHAN_PROCEDURES, REPAIR_PROCEDURES
from paimon_spark.spark.sql.procedures.tag_statements import TAG_STATEMENT_PROCEDURES
from paimon_spark.spark.sql.procedures.tags import BRANCH_PROCEDURES, ROLLBACK_PROCEDURES, TAG_PROCEDURES
from paimon_spark.spark.sql.procedures.view_procedures import FUNCTION_PROCEDURES, VIEW_PROCEDURES
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE

HIDDEN_PREFIX = "__"
"""Names that stand for statements of another grammar; no list shows them."""

_DELETING = frozenset(
    {
        *("expire_snapshots", "expire_changelogs", "remove_orphan_files", "purge_files", "delete_tag", "expire_tags"),
        *("delete_branch", "fast_forward", "rollback", "rollback_to_timestamp", "rollback_to_watermark"),
    }
)
PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: deleting(procedure) if procedure.name in _DELETING else procedure
    for procedure in (
        *TAG_PROCEDURES,
        *BRANCH_PROCEDURES,
        *ROLLBACK_PROCEDURES,
        *EXPIRE_PROCEDURES,
        *ORPHAN_PROCEDURES,
        *COMPACT_PROCEDURES,
        *CONSUMER_PROCEDURES,
        *REPAIR_PROCEDURES,
        *COPY_PROCEDURES,
        *TAG_STATEMENT_PROCEDURES,
        *ANALYZE_PROCEDURES,
        *DESCRIBE_PROCEDURES,
        *VIEW_PROCEDURES,
        *FUNCTION_PROCEDURES,
        *COPY_INTO_PROCEDURES,
        *REFUSALS,
    )
}
_FUNCTIONS = (
    "functions here are those of SQL: CREATE FUNCTION … RETURN … and DROP FUNCTION in a catalog with 'metastore' = "
    "'rest', CREATE TEMPORARY FUNCTION or spark.udf.register for a session"
)
_GLOBAL_INDEX = (
    "global indexes are not built here: a file index (option file-index.bloom-filter.columns, then CALL "
    f"{SYSTEM_DATABASE}.rewrite_file_index) lets reads skip files"
)
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("create_function", "alter_function", "drop_function"), _FUNCTIONS),
    **dict.fromkeys(("create_global_index", "drop_global_index"), _GLOBAL_INDEX),
    "compact_chain_table": (
        f"chain tables are not supported: CALL {SYSTEM_DATABASE}.compact compacts each of the tables of a chain"
    ),
}
"""Procedures of the official connector that are not there, and why."""


def procedure_names() -> list[str]:
    """Return the names that a user can call, sorted."""
    return sorted(name for name in PROCEDURES if not name.startswith(HIDDEN_PREFIX))


def find_procedure(name: str, *, namespace: str = SYSTEM_DATABASE) -> Procedure:
    """Return the procedure of a name. Names and namespaces ignore case.

    Raises:
        UnsupportedError: there is none; the message names those there are, or says why this one is not there.
    """
    ours = namespace.lower() == SYSTEM_DATABASE
    if ours and name.lower() in REFUSED:
        raise UnsupportedError(f"Procedure {namespace}.{name} is not supported: {REFUSED[name.lower()]}.")
    found = PROCEDURES.get(name.lower()) if ours else None
    if found is None:
        known = ", ".join(procedure_names())
        raise UnsupportedError(
            f"There is no procedure {namespace}.{name}. The procedures, in namespace {SYSTEM_DATABASE}, are: {known}."
        )
    return found
