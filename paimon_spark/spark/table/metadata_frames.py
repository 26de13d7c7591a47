"""The system tables of a `PaimonTable` as DataFrames: its snapshots, schemas, tags, branches, files, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.spark.table.handle import TablePart

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
