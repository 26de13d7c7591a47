"""The part of a `PaimonTable` about changes: what came between two points of time, and rows with their kinds."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from paimon_spark.errors import OptionError
from paimon_spark.spark.table.handle import TablePart
from paimon_spark.spec.java_text import epoch_millis
from paimon_spark.table.time_travel import INCREMENTAL_KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
