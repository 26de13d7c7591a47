"""Whether the statistics of the latest snapshot still hold for the next one.

Equals the rule of Java's ``FileStoreCommitImpl``: statistics are inherited as long as the schema stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError
from paimon_spark.table.statistics import statistics_of

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


def inherited_statistics(table: FileStoreTable, latest: Snapshot | None, schema_id: int) -> str | None:
    """Return the name of the statistics file for the snapshot after ``latest``, None without one.

    Java fails when the file cannot be read. Here the statistics are dropped: they are no reason to refuse rows.

    Args:
        table: where the statistics are.
        latest: the latest snapshot.
        schema_id: schema of the new snapshot.
    """
    try:
        known = statistics_of(table, latest)
    except (OSError, PaimonError):
        return None
    return latest.statistics if latest and known and known.schema_id == schema_id else None
