"""The system tables by name."""

from __future__ import annotations

from paimon_spark.errors import TableNotFoundError
from paimon_spark.table.system import files, groups, history
from paimon_spark.table.system.definition import SystemTable

SYSTEM_TABLES = {
    each.name: each
    for module in (history, files, groups)
    for each in vars(module).values()
    if isinstance(each, SystemTable)
}
"""Every system table that can be read."""

_WITH_ROWS = ("audit_log", "binlog", "ro", "row_tracking")
"""System tables that show rows of the table, which are read by tasks (`read/row_views.py`)."""


def system_table(name: str, *, of: str) -> SystemTable:
    """The system table of that name, one made from metadata alone.

    Args:
        name: as behind the ``$``; case does not count.
        of: the whole name or path, for messages.

    Raises:
        TableNotFoundError: there is no such system table.
    """
    found = SYSTEM_TABLES.get(name.lower())
    if found is None:
        known = ", ".join(f"${known}" for known in (*SYSTEM_TABLES, *_WITH_ROWS))
        raise TableNotFoundError(f"There is no system table ${name} ('{of}'); there are {known}.")
    return found
