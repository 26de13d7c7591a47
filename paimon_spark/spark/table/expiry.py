"""The part of a `PaimonTable` about expiry, orphan files and consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from paimon_spark.maintain import purge
from paimon_spark.maintain.expire import consumers
from paimon_spark.maintain.expire import partitions as expire_partitions
from paimon_spark.maintain.expire import snapshots as expire_changelogs
from paimon_spark.maintain.expire import snapshots as expire_snapshots
from paimon_spark.maintain.files.lost_snapshot import accept_lost
from paimon_spark.spark.jobs.orphan_job import remove_orphan_files
from paimon_spark.spark.table.handle import TablePart, option_keys
from paimon_spark.table.consumer_store import ConsumerStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from paimon_spark.maintain.files.orphan_files import RemovedFiles


class Expiry(TablePart):
    """Methods that expire and delete. They run on the driver, except where a Spark job is named."""

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: datetime | None = None,
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
            retain_max=retain_max, retain_min=retain_min, older_than=older_than, max_deletes=max_deletes
        )
        return expire_snapshots.expire_snapshots(table, retention)

    def expire_changelogs(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: datetime | None = None,
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
            retain_max=retain_max, retain_min=retain_min, older_than=older_than, max_deletes=max_deletes
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
        return expire_partitions.expire_partitions(self.table.load().with_options(option_keys(options)))

    def remove_orphan_files(
        self,
        *,
        older_than: datetime | None = None,
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
            older_than=older_than,
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
        consumers.reset_consumer(self.table.load(), consumer_id, next_snapshot_id)

    def clear_consumers(self, *, including: str | None = None, excluding: str | None = None) -> list[str]:
        """Delete consumers; return their ids.

        Args:
            including: a regular expression that the whole id matches; all of them when not given.
            excluding: those whose whole id matches this one stay.
        """
        return consumers.clear_consumers(self.table.load(), including=including, excluding=excluding)
