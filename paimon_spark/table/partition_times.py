"""The time that a partition of a table stands for, as the table's options read it.

Equals Java's use of ``PartitionTimeExtractor`` when partitions expire and when they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import DataError
from paimon_spark.options import OPTIONS
from paimon_spark.spec.partition_path import partition_value_text
from paimon_spark.spec.partition_time_extractor import partition_time
from paimon_spark.table.data_layout import DataLayout

if TYPE_CHECKING:
    from datetime import datetime

    from paimon_spark.options import CoreOptions

_PATTERN = OPTIONS["partition.timestamp-pattern"]
_FORMATTER = OPTIONS["partition.timestamp-formatter"]


def partition_texts(layout: DataLayout, partition: bytes) -> dict[str, str]:
    """Return the values of a partition as texts, by column."""
    # Java: dates are numbers of days here and timestamps have a T, so that no such partition is a time
    return {
        name: partition_value_text(value, data_type, legacy=False, default_name=layout.default_partition_name)
        for name, data_type, value in zip(
            layout.partition_keys, layout.partition_types, layout.partition_values(partition), strict=True
        )
    }


def time_of_partition(layout: DataLayout, options: CoreOptions, partition: bytes) -> datetime | None:
    """Return the local time that a partition stands for; None when its values are no time.

    Raises:
        OptionError: `partition.timestamp-formatter` cannot be used.
    """
    pattern = options.get(_PATTERN)
    needed = [
        value
        for name, value in zip(layout.partition_keys, layout.partition_values(partition), strict=True)
        if (f"${name}" in pattern if pattern else name == layout.partition_keys[0])
    ]
    if None in needed:
        return None
    return partition_time(partition_texts(layout, partition), pattern, options.get(_FORMATTER))


def check_partition_time(layout: DataLayout, options: CoreOptions, partition: bytes) -> None:
    """Check that a partition to be written is a time, where `partition.timestamp-format.strict` asks for that.

    As in Java nothing is checked where neither a pattern nor a formatter is given.

    Raises:
        DataError: its values are no time.
        OptionError: `partition.timestamp-formatter` cannot be used.
    """
    if not options.value("partition.timestamp-format.strict") or not layout.partition_keys:
        return
    if options.get(_PATTERN) is None and options.get(_FORMATTER) is None:
        return
    if time_of_partition(layout, options, partition) is None:
        shown = ", ".join(f"{name}={text}" for name, text in partition_texts(layout, partition).items())
        raise DataError(
            f"Partition {shown} does not match the 'partition.timestamp-formatter' or 'partition.timestamp-pattern' "
            "configuration. This might be caused by an incorrectly specified partition field. Please check your "
            "partition configuration, or set 'partition.timestamp-format.strict' to false."
        )
