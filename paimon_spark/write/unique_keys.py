"""Whether the rows of a write had each key once, by what its tasks wrote. Runs on the driver; no file is opened.

A bucket's buffer merges rows of equal keys before it writes them: then fewer rows come out than went in. Two flushes of
a bucket may hold the same key only where their key ranges meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.spec.key_order import key_ranks

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataType
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.write.message import TaskMessage


def merged_rows(messages: Sequence[TaskMessage]) -> bool:
    """Whether a buffer merged rows of equal keys: then some key came twice.

    Args:
        messages: of all tasks of a write to a table with keys whose rows of one key come to one bucket.
    """
    written = sum(file.row_count for message in messages for part in message.messages for file in part.new_files)
    return sum(message.rows for message in messages) != written


def overlapping_files(
    schema: TableSchema, messages: Sequence[TaskMessage]
) -> dict[tuple[bytes, int], list[DataFileMeta]]:
    """The new files of each bucket, by partition bytes and bucket, in which the key ranges of two files meet.

    Args:
        schema: of a table with keys.
        messages: of all tasks.
    """
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
    for message in messages:
        for part in message.messages:
            buckets.setdefault((part.partition, part.bucket), []).extend(part.new_files)
    types = [schema.field(name).type for name in schema.trimmed_primary_keys]
    return {bucket: files for bucket, files in buckets.items() if len(files) > 1 and not _are_apart(files, types)}


def _are_apart(files: Sequence[DataFileMeta], types: Sequence[DataType]) -> bool:
    keys = [file.min_key for file in files] + [file.max_key for file in files]
    low, high = np.split(key_ranks(keys, types), 2)
    order = np.argsort(low)
    return bool(np.all(low[order][1:] > high[order][:-1]))
