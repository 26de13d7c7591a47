"""The parts of a `PaimonTable` that give DataFrames about it: system tables, and changes with their kinds.

Changes are what came between two points of time.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from paimon_spark.errors import OptionError
from paimon_spark.spark.table.handle import TablePart
from paimon_spark.spec.java_text import epoch_millis
from paimon_spark.table.time_travel import INCREMENTAL_KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SystemTables(TablePart):
    """Methods that read ``<table>$<system table>``. Each DataFrame shows what is there when it is first asked."""

    def snapshots(self) -> DataFrame:
        """The living snapshots, oldest first, one row each."""
        return self.table.read_system_table("snapshots", {})

    def history(self) -> DataFrame:
        """The living snapshots, newest first: when which kind of commit added how many records, and by whom."""
        columns = (
            "snapshot_id",
            "commit_time",
            "commit_kind",
            "delta_record_count",
            "total_record_count",
            "schema_id",
            "watermark",
            "commit_user",
        )
        rows = self.table.read_system_table("snapshots", {"columns": ", ".join(columns)})
        return rows.orderBy("snapshot_id", ascending=False)

    def schemas(self) -> DataFrame:
        """The schemas, oldest first; columns, keys and options as JSON."""
        return self.table.read_system_table("schemas", {})

    def options(self) -> DataFrame:
        """The table's options: key and value."""
        return self.table.read_system_table("options", {})

    def tags(self) -> DataFrame:
        """The tags by name, one row each."""
        return self.table.read_system_table("tags", {})

    def branches(self) -> DataFrame:
        """The branches with the time they were made."""
        return self.table.read_system_table("branches", {})

    def consumers(self) -> DataFrame:
        """The consumers with the snapshot that each reads next."""
        return self.table.read_system_table("consumers", {})

    def files(self, /, **options: Any) -> DataFrame:
        """The data files with their sizes, keys and statistics.

        Args:
            options: which snapshot, such as ``scan_tag_name="t"``; the latest one when not given.
        """
        return self.table.read_system_table("files", options)

    def file_key_ranges(self, /, **options: Any) -> DataFrame:
        """The data files with their least and greatest keys, without statistics; `options` as for `files`."""
        return self.table.read_system_table("file_key_ranges", options)

    def file_indexes(self, /, **options: Any) -> DataFrame:
        """The indexes of single data files (bloom filters, bitmaps, ...); `options` as for `files`."""
        return self.table.read_system_table("file_indexes", options)

    def table_indexes(self, /, **options: Any) -> DataFrame:
        """The index files of the table (deletion vectors, hashes of keys, ...); `options` as for `files`."""
        return self.table.read_system_table("table_indexes", options)

    def statistics(self, /, **options: Any) -> DataFrame:
        """What ANALYZE found, one row or none; `options` as for `files`."""
        return self.table.read_system_table("statistics", options)

    def aggregation_fields(self) -> DataFrame:
        """The columns with the functions that aggregate them."""
        return self.table.read_system_table("aggregation_fields", {})

    def read_optimized(self, /, **options: Any) -> DataFrame:
        """The rows of the highest level alone, which nothing is merged for; `options` as for `to_df`.

        What came since the last full compaction is missing.
        """
        return self.table.read_system_table("ro", options)

    def row_tracking(self, /, **options: Any) -> DataFrame:
        """The rows with their ids and sequence numbers (option `row-tracking.enabled`); `options` as for `to_df`."""
        return self.table.read_system_table("row_tracking", options)

    def manifests(self, /, **options: Any) -> DataFrame:
        """The manifests; `options` as for `files`."""
        return self.table.read_system_table("manifests", options)

    def partitions(self, /, **options: Any) -> DataFrame:
        """The partitions with their rows, bytes and files; `options` as for `files`."""
        return self.table.read_system_table("partitions", options)

    def buckets(self, /, **options: Any) -> DataFrame:
        """The buckets with their rows, bytes and files; `options` as for `files`."""
        return self.table.read_system_table("buckets", options)


_BETWEEN, _BETWEEN_TIMESTAMP, _TO_AUTO_TAG = INCREMENTAL_KEYS


class Changes(TablePart):
    """Methods that read what happened to a table."""

    def changes(
        self,
        /,
        from_version: int | str | None = None,
        to_version: int | str | None = None,
        *,
        from_time: datetime | None = None,
        to_time: datetime | None = None,
        to_auto_tag: str | None = None,
        source: Literal["auto", "delta", "changelog", "diff"] = "auto",
        with_kinds: bool = False,
        **options: Any,
    ) -> DataFrame:
        """The changes after one point of time up to another: between two snapshots, two tags or two times.

        Between snapshots and times, rows that were deleted come as ordinary rows, as they were written: so does the
        official connector. `with_kinds`, ``audit_log`` and ``binlog`` tell them apart; ``source="diff"``, and tags,
        give rows that are new or other, and none that are gone.

        Args:
            from_version: the id of the last snapshot whose changes are not wanted (0 for all changes), or a tag.
            to_version: the id of the last snapshot whose changes are wanted, the latest when not given; or a tag.
                Two tags give the difference of the two states.
            from_time: instead of versions: changes after this time, a local one or with its zone.
            to_time: with `from_time`: changes up to this time; now when not given.
            to_auto_tag: instead of both: the difference between this automatic tag and the one before it.
            source: ``delta`` reads rows as they were written, ``changelog`` the changelog files, ``diff`` compares the
                two states; ``auto`` is changelog where the table has one, else delta. Tags are always compared.
            with_kinds: give the kind of each row as first column `rowkind`: +I, -U, +U, -D.
            options: other read options, such as ``columns="a, b"`` or ``filter="dt = '2024-01-31'"``.

        Raises:
            OptionError: not exactly one kind of points is given.
        """
        versions, times = from_version is not None, from_time is not None
        if versions + times + (to_auto_tag is not None) != 1:
            raise OptionError("changes takes exactly one of from_version, from_time and to_auto_tag")
        if (to_version is not None and not versions) or (to_time is not None and not times):
            raise OptionError("changes takes to_version with from_version, and to_time with from_time")
        given = {**options, "incremental-between-scan-mode": source}
        if to_auto_tag is not None:
            given[_TO_AUTO_TAG] = to_auto_tag
        elif from_time is not None:
            given[_BETWEEN_TIMESTAMP] = f"{epoch_millis(from_time)},{epoch_millis(to_time or datetime.now())}"
        else:
            end = to_version if to_version is not None else self.table.load().snapshots.latest_id() or 0
            given[_BETWEEN] = f"{from_version},{end}"
        return self.audit_log(**given) if with_kinds else self.table.to_df(**given)

    def audit_log(self, /, **options: Any) -> DataFrame:
        """The rows with their kind as first column `rowkind`, deletes that are still in the files included.

        Args:
            options: as for `to_df`, such as ``incremental_between="5,10"`` or ``scan_tag_name="t"``.
        """
        return self.table.read_system_table("audit_log", options)

    def binlog(self, /, **options: Any) -> DataFrame:
        """As `audit_log`, but every column is an array: an update of a changelog is one row, with both values.

        Args:
            options: as for `audit_log`.
        """
        return self.table.read_system_table("binlog", options)
