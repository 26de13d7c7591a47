"""The parts of a `PaimonTable` about upkeep: compaction, expiry, orphan files, consumers, counts and repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from paimon_spark.commit.metadata_commit import compact_manifests
from paimon_spark.maintain import purge
from paimon_spark.maintain.after_commit import mark_partitions_done
from paimon_spark.maintain.compact.compaction import materialize_deletion_vectors
from paimon_spark.maintain.compact.row_order import asked_order
from paimon_spark.maintain.compact.scope import parse_partitions, scope_of
from paimon_spark.maintain.expire import partitions as expire_partitions
from paimon_spark.maintain.expire import snapshots as expire_changelogs
from paimon_spark.maintain.expire import snapshots as expire_snapshots
from paimon_spark.maintain.files import repairs
from paimon_spark.maintain.files.repairs import accept_lost
from paimon_spark.maintain.reassign_row_ids import reassign_row_ids
from paimon_spark.maintain.refs.tags import moment
from paimon_spark.options.option import parse_duration
from paimon_spark.options.registry import column_names
from paimon_spark.spark.jobs.analyze import analyze
from paimon_spark.spark.jobs.bucket_numbers import rescale
from paimon_spark.spark.jobs.compact_job import compactable, executor_of, is_full, rewrite_indexes
from paimon_spark.spark.jobs.copies import copy_table
from paimon_spark.spark.jobs.orphan_job import remove_orphan_files
from paimon_spark.spark.jobs.table_compaction import compact_table
from paimon_spark.spark.session.session_settings import settings_of, time_zone
from paimon_spark.spark.table.handle import TablePart, dynamic_options
from paimon_spark.table import consumer_store
from paimon_spark.table.consumer_store import ConsumerStore

if TYPE_CHECKING:
    from datetime import datetime

    from paimon_spark.maintain.files.orphan_files import RemovedFiles


_COMPACT_ARGUMENTS = (
    *("partitions", "where", "buckets", "compact_strategy"),
    *("order_strategy", "order_by", "partition_idle_time"),
)


class Expiry(TablePart):
    """Methods that expire and delete. They run on the driver, except where a Spark job is named."""

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: datetime | str | None = None,
        max_deletes: int | None = None,
        options: Mapping[str, str] | None = None,
        accept_lost_snapshot: bool = False,
    ) -> int:
        """Expire the oldest snapshots and the files that nothing else needs; return the number of snapshots.

        Args:
            retain_max: most that stay; option `snapshot.num-retained.max` when not given.
            retain_min: fewest that stay; option `snapshot.num-retained.min` when not given.
            older_than: only snapshots followed by one from before this time (a local one, or with its zone); when not
                given, as old as option `snapshot.time-retained` says.
            max_deletes: most that go at once; option `snapshot.expire.limit` when not given.
            options: dynamic options of this call.
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.

        Raises:
            OptionError: ``retain_max`` is less than ``retain_min``.
            PaimonError: what something else needs cannot be read; nothing has been deleted.
        """
        table = accept_lost(self.table.load(), accept_lost_snapshot).with_options(options or {})
        retention = expire_snapshots.Retention.of_snapshots(table.options).with_arguments(
            retain_max=retain_max, retain_min=retain_min, older_than=moment(older_than), max_deletes=max_deletes
        )
        return expire_snapshots.expire_snapshots(table, retention)

    def expire_changelogs(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: datetime | str | None = None,
        max_deletes: int | None = None,
        delete_all: bool = False,
        accept_lost_snapshot: bool = False,
    ) -> int:
        """Expire the oldest long-lived changelogs; return their number.

        Args:
            retain_max: most that stay; option `changelog.num-retained.max` when not given.
            retain_min: fewest that stay; option `changelog.num-retained.min` when not given.
            older_than: only changelogs from before this time, a local one or with its zone; when not given, as old as
                option `changelog.time-retained` says.
            max_deletes: most that go at once; option `snapshot.expire.limit` when not given.
            delete_all: let all of them go.
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.

        Raises:
            OptionError: ``retain_max`` is less than ``retain_min``.
        """
        table = accept_lost(self.table.load(), accept_lost_snapshot)
        if delete_all:
            return expire_changelogs.expire_all_changelogs(table)
        retention = expire_snapshots.Retention.of_changelogs(table.options).with_arguments(
            retain_max=retain_max, retain_min=retain_min, older_than=moment(older_than), max_deletes=max_deletes
        )
        return expire_changelogs.expire_changelogs(table, retention)

    def expire_partitions(self, /, **options: Any) -> list[dict[str, str]]:
        """Drop the partitions that are too old; return their values as texts by column.

        Args:
            options: instead of those of the table: ``partition_expiration_time="7 d"``,
                ``partition_expiration_strategy="update-time"``, ``partition_timestamp_formatter="yyyyMMdd"``,
                ``partition_timestamp_pattern="$dt"``, ``partition_expiration_max_num=10``.

        Raises:
            OptionError: there is no `partition.expiration-time`, or the table has no partitions.
            CommitConflictError: rivals won too often.
        """
        return expire_partitions.expire_partitions(self.table.load().with_options(dynamic_options(options)))

    def remove_orphan_files(
        self,
        *,
        older_than: datetime | str | None = None,
        dry_run: bool = False,
        mode: Literal["local", "distributed"] = "local",
        parallelism: int | None = None,
        accept_lost_snapshot: bool = False,
    ) -> RemovedFiles:
        """Delete the files in the table's directories that no snapshot, tag, branch or changelog names.

        Args:
            older_than: only files changed before this time, a local one or with its zone; a day ago when not given. A
                write that takes longer loses its files.
            dry_run: delete nothing, only report.
            mode: on the driver, or as a Spark job for tables of very many files.
            parallelism: tasks of the job; the session's shuffle partitions when not given.
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.

        Returns:
            The number of files and their bytes.

        Raises:
            OptionError: ``older_than`` is not in the past, or ``mode`` is another word.
            PaimonError: a branch has no schema, or a metadata file cannot be read; nothing has been deleted.
        """
        return remove_orphan_files(
            self.table.spark,
            accept_lost(self.table.load(), accept_lost_snapshot),
            older_than=moment(older_than),
            dry_run=dry_run,
            mode=mode,
            parallelism=parallelism,
        )

    def purge_files(self, *, accept_lost_snapshot: bool = False) -> None:
        """Delete all rows, all history, branches, tags and consumers, with every file; the columns stay.

        Nobody may write to the table meanwhile.

        Args:
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.
        """
        purge.purge_files(accept_lost(self.table.load(), accept_lost_snapshot))

    def consumer_ids(self) -> dict[str, int]:
        """The snapshot that each consumer reads next, by the consumer's id."""
        table = self.table.load()
        return ConsumerStore(table.file_io, table.paths).list()

    def reset_consumer(self, consumer_id: str, next_snapshot_id: int | None = None) -> None:
        """Let a consumer, a new one if need be, read a snapshot next; without a snapshot it is deleted.

        Raises:
            SnapshotNotFoundError: there is no such snapshot.
        """
        consumer_store.reset_consumer(self.table.load(), consumer_id, next_snapshot_id)

    def clear_consumers(self, *, including: str | None = None, excluding: str | None = None) -> list[str]:
        """Delete consumers; return their ids.

        Args:
            including: a regular expression that the whole id matches; all of them when not given.
            excluding: those whose whole id matches this one stay.
        """
        return consumer_store.clear_consumers(self.table.load(), including=including, excluding=excluding)


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
        """Mark partitions as `partition.mark-done-action` says; return the paths of files ``_SUCCESS`` that it wrote.

        Java: ``CALL sys.mark_partition_done``.

        Args:
            partitions: as ``{"dt": "2024-01-31"}``, several of these, or a text ``"dt=2024-01-31;dt=…"``.

        Raises:
            OptionError: the table has no partitions, or a column is none of them.
            UnsupportedError: option `partition.mark-done-action` asks for what the catalog cannot do.
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


class Compaction(TablePart):
    """Compaction, as a Spark job where there is much to do."""

    def compact(
        self,
        /,
        *,
        partitions: str | Mapping[str, str | None] | Sequence[Mapping[str, str | None]] | None = None,
        where: str | None = None,
        buckets: str | Sequence[int] | None = None,
        compact_strategy: Literal["full", "minor"] | None = None,
        order_strategy: Literal["none", "order", "zorder", "hilbert"] = "none",
        order_by: str | Sequence[str] = (),
        partition_idle_time: timedelta | str | None = None,
        **options: Any,
    ) -> int | None:
        """Rewrite the files of the table so that there are fewer of them; return the new snapshot's id.

        Rows do not change. With a primary key, rows of equal key are merged and deleted rows go. None is returned when
        there is nothing to compact. Appends may go on meanwhile.

        Args:
            partitions: only these, as ``{"dt": "2024-01-31"}``, several of these, or a text ``"dt=2024-01-31;dt=…"``.
            where: instead of ``partitions``, a condition over the partition columns.
            buckets: only these buckets of a table with a fixed number of them, such as ``[0, 1]`` or ``"0,3-5"``.
            compact_strategy: ``full`` makes each bucket of a primary-key table one sorted run; ``minor`` compacts what
                a writer would by itself. Without it a compaction is full, but minor where the table has
                ``clustering.incremental``.
            order_strategy: of a table without keys and buckets, how the rows of each partition are put in order, so
                that statistics leave out more files: by the columns (``order``), or along a curve through several of
                them (``zorder``, ``hilbert``).
            order_by: columns to order by, such as ``["city", "day"]`` or ``"city,day"``.
            partition_idle_time: only partitions into which nothing was written for so long, such as ``"1 h"``.
            options: dynamic options, such as ``target_file_size="256 mb"``.

        Raises:
            UnsupportedError: the table has a feature with which it cannot be compacted yet.
            OptionError: an argument names what the table does not have.
            CommitConflictError: others overwrote or compacted the same files; nothing was changed.
        """
        table = compactable(self.table.load(), dynamic_options(options, *_COMPACT_ARGUMENTS))
        order = asked_order(
            table,
            order_strategy,
            order_by,
            buckets=buckets is not None,
            idle_time=partition_idle_time is not None,
        )
        named = parse_partitions(partitions) if isinstance(partitions, str) else partitions
        scope = scope_of(
            table,
            partitions=[named] if isinstance(named, Mapping) else named,
            where=where,
            buckets=buckets,
            idle_time=parse_duration(partition_idle_time)
            if isinstance(partition_idle_time, str)
            else partition_idle_time,
            zone=None if where is None else time_zone(settings_of(self.table.spark)),
        )
        full = is_full(compact_strategy, table)
        return compact_table(self.table.spark, table, scope, full=full, order=order)

    def rescale(
        self,
        /,
        bucket_num: int | None = None,
        *,
        partitions: str | Mapping[str, str | None] | Sequence[Mapping[str, str | None]] | None = None,
        where: str | None = None,
        **options: Any,
    ) -> int | None:
        """Write the rows of the table into another number of buckets; return the new snapshot's id.

        New partitions get the number of option ``bucket``, and a table without partitions is not written while its
        files have another number: set it with ``ALTER TABLE`` first. Java: ``CALL sys.rescale``.

        Args:
            bucket_num: the number of buckets; the table's own option without.
            partitions: only these, as for `compact`.
            where: instead of ``partitions``, a condition over the partition columns.
            options: dynamic options.

        Raises:
            UnsupportedError: the table has no fixed number of buckets.
            OptionError: the table is empty, or an argument names what it does not have.
            CommitConflictError: others changed the same partitions every time; nothing was changed.
        """
        table = self.table.load().with_options(dynamic_options(options))
        named = parse_partitions(partitions) if isinstance(partitions, str) else partitions
        zone = None if where is None else time_zone(settings_of(self.table.spark))
        chosen = [named] if isinstance(named, Mapping) else named
        scope = scope_of(table, partitions=chosen, where=where, zone=zone)
        return rescale(self.table.spark, table, bucket_num, scope.partitions)

    def compact_manifest(self, /, *, dry_run: bool = False, **options: Any) -> int | None:
        """Merge the manifests of the table, so that plans read fewer files; return the new snapshot's id.

        No row and no data file changes. None is returned when there is nothing to merge. Java:
        ``CALL sys.compact_manifest``.

        Args:
            dry_run: only log what there is to merge.
            options: dynamic options, such as ``manifest_target_file_size="16 mb"``.

        Raises:
            CommitConflictError: others committed faster every time; nothing was changed.
        """
        return compact_manifests(self.table.load().with_options(dynamic_options(options)), dry_run=dry_run)

    def materialize_deletion_vectors(
        self, /, *, partitions: str | Mapping[str, str | None] | None = None, where: str | None = None, **options: Any
    ) -> int | None:
        """Write the rows of a table with data evolution anew that deletion vectors leave; return the snapshot's id.

        These rows get new ids. None is returned where no row is marked. Java:
        ``CALL sys.materialize_deletion_vectors``.

        Args:
            partitions: only these, as for `compact`.
            where: instead of ``partitions``, a condition over the partition columns.
            options: dynamic options.

        Raises:
            UnsupportedError: the table has no data evolution or no deletion vectors, or BLOB or VECTOR files.
            CommitConflictError: others changed the same rows every time; nothing was changed.
        """
        table = compactable(self.table.load(), dynamic_options(options))
        named = parse_partitions(partitions) if isinstance(partitions, str) else partitions
        zone = None if where is None else time_zone(settings_of(self.table.spark))
        chosen = [named] if isinstance(named, Mapping) else named
        scope = scope_of(table, partitions=chosen, where=where, zone=zone)
        return materialize_deletion_vectors(table, scope.partitions, execute=executor_of(self.table.spark))

    def rewrite_file_index(self, /, *, where: str | None = None, **options: Any) -> int | None:
        """Build the indexes of the data files anew, as the ``file-index`` options say; return the new snapshot's id.

        Rows and data files do not change: files that were written before the options were set get their indexes, and
        indexes that are no longer asked for go. None is returned when there is nothing to do. Java:
        ``CALL sys.rewrite_file_index``.

        Args:
            where: only these partitions: a condition over the partition columns.
            options: dynamic options.

        Raises:
            OptionError: an option asks for an index that cannot be, or the condition is over other columns.
            CommitConflictError: others overwrote or compacted the same files; nothing was changed.
        """
        table = self.table.load().with_options(dynamic_options(options))
        scope = scope_of(table, where=where, zone=None if where is None else time_zone(settings_of(self.table.spark)))
        return rewrite_indexes(self.table.spark, table, scope.partitions).snapshot_id
