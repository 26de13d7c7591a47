"""All procedures, by name. A new one is a `Procedure` in a module of this package and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.sql.foreign_statements import REFUSALS
from paimon_spark.spark.sql.procedures.branches import BRANCH_PROCEDURES
from paimon_spark.spark.sql.procedures.compact import COMPACT_PROCEDURES
from paimon_spark.spark.sql.procedures.consumers import CONSUMER_PROCEDURES
from paimon_spark.spark.sql.procedures.expire import EXPIRE_PROCEDURES
from paimon_spark.spark.sql.procedures.orphans import ORPHAN_PROCEDURES
from paimon_spark.spark.sql.procedures.procedure import Procedure, deleting
from paimon_spark.spark.sql.procedures.rollback import ROLLBACK_PROCEDURES
from paimon_spark.spark.sql.procedures.tag_statements import TAG_STATEMENT_PROCEDURES
from paimon_spark.spark.sql.procedures.tags import TAG_PROCEDURES
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
        *TAG_STATEMENT_PROCEDURES,
        *REFUSALS,
    )
}


def procedure_names() -> list[str]:
    """Return the names that a user can call, sorted."""
    return sorted(name for name in PROCEDURES if not name.startswith(HIDDEN_PREFIX))


def find_procedure(name: str, *, namespace: str = SYSTEM_DATABASE) -> Procedure:
    """Return the procedure of a name. Names and namespaces ignore case.

    Raises:
        UnsupportedError: there is none; the message names those there are.
    """
    found = PROCEDURES.get(name.lower()) if namespace.lower() == SYSTEM_DATABASE else None
    if found is None:
        known = ", ".join(procedure_names())
        raise UnsupportedError(
            f"There is no procedure {namespace}.{name}. The procedures, in namespace {SYSTEM_DATABASE}, are: {known}."
        )
    return found
