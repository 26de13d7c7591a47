"""The part of a `PaimonTable` that counts its rows, marks partitions and mends metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_spark.maintain.after_commit import mark_partitions_done
from paimon_spark.maintain.compact.scope import parse_partitions, scope_of
from paimon_spark.maintain.files import repairs
from paimon_spark.maintain.reassign_row_ids import reassign_row_ids
from paimon_spark.options.keywords import column_names
from paimon_spark.spark.jobs.analyze import analyze
from paimon_spark.spark.jobs.copy_job import copy_table
from paimon_spark.spark.session.session_settings import settings_of, time_zone
from paimon_spark.spark.table.handle import TablePart


class Repairs(TablePart):
    """Methods that run on the driver."""

    def analyze(self, columns: Sequence[str] | str = (), *, all_columns: bool = False) -> int | None:
        """Count the rows, and values of columns, for Spark's optimiser; return the new snapshot's id.

        They stand in the system table `statistics`, and are used by queries of classic sessions with
        ``spark.sql.cbo.enabled``. None is returned for a table without rows. SQL:
        ``ANALYZE TABLE t COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]``.

        Args:
            columns: names of columns, in a list or between commas; without any only rows are counted.
            all_columns: all columns instead.

        Raises:
            OptionError: a column is none of the table's.
            UnsupportedError: a column's type has no statistics.
            CommitConflictError: others committed faster every time; nothing was changed.
        """
        return analyze(self.table.spark, self.table.load(), column_names(columns), all_columns=all_columns)

    def copy(self, path: str, *, where: str | None = None, options: Mapping[str, str] | None = None) -> str:
        """Copy the files of the latest snapshot into another table, which is made if need be; return its path.

        A table that is there must have the same keys, buckets, format and columns; its partitions of the same values
        are replaced, or all of its rows if it has none. Java: ``CALL sys.copy``.

        Args:
            path: the other table's directory.
            where: only some partitions: a condition over the partition columns.
            options: how to reach the other table's store; as this one's when not given.

        Raises:
            SchemaError: the other table does not fit.
            UnsupportedError: rows have ids, or are postponed.
        """
        source = self.table.load()
        zone = None if where is None else time_zone(settings_of(self.table.spark))
        partitions = scope_of(source, where=where, zone=zone).partitions
        given = self.table.options if options is None else options
        return copy_table(self.table.spark, source, path, given, partitions).path

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
            dry_run: change nothing, only report.
            parallelism: how many directories are listed at once.

        Raises:
            CommitConflictError: other commits changed the same files every time; nothing was changed.
        """
        return repairs.remove_unexisting_files(self.table.load(), dry_run=dry_run, parallelism=parallelism)

    def repair_earliest_snapshot(self, snapshot_id: int) -> int:
        """Let the first snapshot behind a gap be the earliest one; return the id of the one before.

        Java: ``CALL sys.repair_earliest_snapshot``.

        Raises:
            OptionError: the snapshot is not the first behind a gap, or one after it is missing.
        """
        return repairs.repair_earliest_snapshot(self.table.load(), snapshot_id)

    def reassign_row_id(self, *, partitions: str | Mapping[str, str] | None = None) -> int | None:
        """Give rows of a table with data evolution new ids, so that those of a partition lie together.

        Return the new snapshot's id, None where they do so already. No data file changes. Java:
        ``CALL sys.reassign_row_id``.

        Args:
            partitions: only these, as ``{"dt": "2024-01-31"}`` or a text ``"dt=2024-01-31;dt=…"``.

        Raises:
            OptionError: the table has no data evolution, or no rows.
            CommitConflictError: others committed faster every time; nothing was changed.
        """
        table = self.table.load()
        given = parse_partitions(partitions) if isinstance(partitions, str) else partitions
        chosen = [given] if isinstance(given, Mapping) else given
        return reassign_row_ids(table, scope_of(table, partitions=chosen).partitions).new_snapshot_id
