"""The part of a `PaimonTable` that compacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from paimon_spark.commit.metadata_commit import compact_manifests
from paimon_spark.maintain.compact.materialize import materialize_deletion_vectors
from paimon_spark.maintain.compact.row_order import asked_order
from paimon_spark.maintain.compact.scope import parse_partitions, scope_of
from paimon_spark.options.option import parse_duration
from paimon_spark.spark.jobs.compact_job import compactable, executor_of, is_full, rewrite_indexes
from paimon_spark.spark.jobs.rescale import rescale
from paimon_spark.spark.jobs.table_compaction import compact_table
from paimon_spark.spark.session.session_settings import settings_of, time_zone
from paimon_spark.spark.table.handle import TablePart, option_keys

if TYPE_CHECKING:
    pass


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
        table = compactable(self.table.load(), option_keys(options))
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
        table = self.table.load().with_options(option_keys(options))
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
        return compact_manifests(self.table.load().with_options(option_keys(options)), dry_run=dry_run)

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
        table = compactable(self.table.load(), option_keys(options))
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
        table = self.table.load().with_options(option_keys(options))
        scope = scope_of(table, where=where, zone=None if where is None else time_zone(settings_of(self.table.spark)))
        return rewrite_indexes(self.table.spark, table, scope.partitions).snapshot_id
