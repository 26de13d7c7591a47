"""Which external paths belong to one table alone: only there, unreferenced files are its orphans."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paimon_spark.spec.placement import is_root
from paimon_spark.table.paths import TablePaths
from paimon_spark.table.schema_store import SchemaStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)


def own_external_roots(table: FileStoreTable, roots: Sequence[str]) -> list[str]:
    """Return those of the option's external paths that are this table's alone; the log names the others.

    Java: takes all of them, also the files of other tables with the same option.
    """
    found = []
    for root in roots:
        reason = _why_not_own(table, root)
        if reason is None:
            found.append(root)
        else:
            _LOG.warning("%s: files below %s are left alone: %s", table.path, root, reason)
    return found


def _why_not_own(table: FileStoreTable, root: str) -> str | None:
    name = table.path.rpartition("/")[2]
    if name not in root.split("/"):
        return f"its name does not tell that it is this table's alone: it has no part '{name}'"
    if table.file_io.leads_out(root):
        return "it is a whole file system or bucket, or holds the table itself"
    above = root
    while not is_root(above):
        if above != table.path and SchemaStore(table.file_io, TablePaths(above)).ids():
            return f"{above} is another table"
        above = above.rpartition("/")[0]
    return None
