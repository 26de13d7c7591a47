"""Who keeps rows of tables in this process, and hears when a table has other rows. Runs on the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

WATCHERS: Final[dict[Hashable, Callable[[FileStoreTable], None]]] = {}
"""By who watches: it is informed of a table whose latest snapshot is another one, by this process."""
_LOG = logging.getLogger(__name__)


def changed(table: FileStoreTable) -> None:
    """Tell those who keep rows of a table that they are others; an error of theirs is logged, since it is done."""
    for watcher in [*WATCHERS.values()]:
        try:
            watcher(table)
        except Exception as error:  # noqa: BLE001 - what was committed stays committed
            _LOG.warning("Rows of %s that are cached may be old: %s", table.path, error)
