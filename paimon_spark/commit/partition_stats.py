"""Statistics over the partitions of a manifest's entries.

Equals Java's ``ManifestAvroWriter`` with full statistics per partition column (docs/format.md §13): each entry counts
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.spec.binary_row import decode_rows, encode_rows
from paimon_spark.spec.key_order import column_ranks
from paimon_spark.spec.stats import EMPTY_STATS, SimpleStats

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataType

_ARITY_BYTES = 4


def partition_stats(partitions: Sequence[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Return minimum, maximum and null count of each partition column over ``partitions``.

    Args:
        partitions: partition bytes, one per entry.
        types: types of the partition columns; none for an unpartitioned table.
    """
    if not types or not partitions:
        return EMPTY_STATS
    counts = Counter(partitions)
    entries = pa.array(counts.values(), pa.int64())
    lowest, highest, nulls = [], [], []
    for column in decode_rows(list(counts), types, serialized=True):
        known = column.drop_null()
        ranks = column_ranks(known)
        lowest.append(known.slice(int(ranks.argmin()), 1) if len(known) else pa.nulls(1, column.type))
        highest.append(known.slice(int(ranks.argmax()), 1) if len(known) else pa.nulls(1, column.type))
        nulls.append(sum(entries.filter(column.is_null()).to_pylist()))
    nullable = [data_type.with_nullable(True) for data_type in types]
    arity = len(types).to_bytes(_ARITY_BYTES, "big")
    return SimpleStats(
        arity + encode_rows(lowest, nullable).to_bytes_list()[0],
        arity + encode_rows(highest, nullable).to_bytes_list()[0],
        tuple(nulls),
    )
