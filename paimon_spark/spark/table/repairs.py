"""The part of a `PaimonTable` that marks partitions and mends metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_spark.maintain.compact.scope import parse_partitions
from paimon_spark.maintain.files import earliest_snapshot, unexisting_files
from paimon_spark.maintain.partition_marks import mark_partitions_done
from paimon_spark.spark.table.handle import TablePart


class Repairs(TablePart):
    """Methods that run on the driver."""

    def mark_partition_done(self, partitions: str | Mapping[str, str] | Sequence[Mapping[str, str]]) -> list[str]:
        """Write a file ``_SUCCESS`` into the directories of partitions; return the paths of these files.

        Java: ``CALL sys.mark_partition_done``.

        Args:
            partitions: as ``{"dt": "2024-01-31"}``, several of these, or a text ``"dt=2024-01-31;dt=…"``.

        Raises:
            OptionError: the table has no partitions, or a column is none of them.
            UnsupportedError: option `partition.mark-done-action` asks for something else.
        """
        given = parse_partitions(partitions) if isinstance(partitions, str) else partitions
        return mark_partitions_done(self.table.load(), [given] if isinstance(given, Mapping) else given)

    def remove_unexisting_files(self, *, dry_run: bool = False, parallelism: int | None = None) -> list[str]:
        """Take data files out of the table that are not there any more; return their paths.

        Their rows are lost: restore the files instead, if that is possible. Java:
        ``CALL sys.remove_unexisting_files``.

        Args:
            dry_run: change nothing, only tell.
            parallelism: how many directories are listed at once.

        Raises:
            CommitConflictError: other commits changed the same files every time; nothing was changed.
        """
        return unexisting_files.remove_unexisting_files(self.table.load(), dry_run=dry_run, parallelism=parallelism)

    def repair_earliest_snapshot(self, snapshot_id: int) -> int:
        """Let the first snapshot behind a gap be the earliest one; return the id of the one before.

        Java: ``CALL sys.repair_earliest_snapshot``.

        Raises:
            OptionError: the snapshot is not the first behind a gap, or one after it is missing.
        """
        return earliest_snapshot.repair_earliest_snapshot(self.table.load(), snapshot_id)
