"""Which external paths belong to one table alone: only there, unreferenced files are its orphans."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paimon_spark.storage.confinement import why_not_own

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
        reason = why_not_own(table.file_io, table.path, root)
        if reason is None:
            found.append(root)
        else:
            _LOG.warning("%s: files below %s are left alone: %s", table.path, root, reason)
    return found
