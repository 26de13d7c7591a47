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


def has_each_key_once(schema: TableSchema, messages: Sequence[TaskMessage]) -> bool:
    """Whether no key came twice; False also where that cannot be reported.

    Args:
        schema: of a table with keys whose rows of one key come to one bucket.
        messages: of all tasks.
    """
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
    for message in messages:
        for part in message.messages:
            buckets.setdefault((part.partition, part.bucket), []).extend(part.new_files)
    if sum(message.rows for message in messages) != sum(f.row_count for files in buckets.values() for f in files):
        return False
    types = [schema.field(name).type for name in schema.trimmed_primary_keys]
    return all(len(files) < 2 or _are_apart(files, types) for files in buckets.values())


def _are_apart(files: Sequence[DataFileMeta], types: Sequence[DataType]) -> bool:
    keys = [file.min_key for file in files] + [file.max_key for file in files]
    low, high = np.split(key_ranks(keys, types), 2)
    order = np.argsort(low)
    return bool(np.all(low[order][1:] > high[order][:-1]))
