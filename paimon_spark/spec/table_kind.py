"""The kinds of tables, and what read, write, commit and compaction do differently for each of them.

The kind follows from the primary key, the partition key and the options `bucket` and `data-evolution.enabled` (Java:
``BucketMode``, and whether a table is an ``AppendOnlyFileStoreTable`` or a ``PrimaryKeyFileStoreTable``). Who needs to
know asks `TableSchema.kind`; nobody looks at keys and options again. A further kind is one more value here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class BucketMode(Enum):
    """How rows find their bucket (Java ``BucketMode``)."""

    HASH_FIXED = "fixed number of buckets by hash"
    HASH_DYNAMIC = "primary-key table, buckets grow with the keys"
    KEY_DYNAMIC = "primary-key table with cross-partition updates"
    BUCKET_UNAWARE = "append table without buckets"
    POSTPONE_MODE = "primary-key table whose rows are postponed until a compaction gives them a bucket"


@dataclass(frozen=True, slots=True)
class TableKind:
    """One kind of table. What is not said of an attribute holds for the kinds that lack it the other way round.

    Attributes:
        name: as users read it.
        bucket_mode: how rows find their bucket.
        is_keyed: rows with equal primary keys are one row. Files are sorted runs with levels; reads merge them, with
            pruning by keys only; writers sort, number and merge rows, and take row kinds; commits check that key ranges
            of a level do not overlap; compaction picks sorted runs. Else rows are appended, and compaction joins files.
        has_data_evolution: files may hold some columns of rows that other files hold, too. Reads join them by position;
            updates write columns; commits check ranges of row ids; compaction takes ranges of row ids.
    """

    name: str
    bucket_mode: BucketMode
    is_keyed: bool = False
    has_data_evolution: bool = False

    @property
    def has_buckets(self) -> bool:
        """Whether a bucket is a unit: one task writes it and numbers its rows, and it is compacted by itself."""
        return self.bucket_mode is not BucketMode.BUCKET_UNAWARE

    @property
    def hashes_to_buckets(self) -> bool:
        """Whether the bucket follows from a row's bucket key, so that a condition on the key prunes buckets."""
        return self.bucket_mode is BucketMode.HASH_FIXED

    @property
    def assigns_buckets(self) -> bool:
        """Whether a key keeps the bucket that it was first assigned to, which a hash index in its partition records."""
        return self.bucket_mode is BucketMode.HASH_DYNAMIC

    @property
    def updates_across_partitions(self) -> bool:
        """Whether a key may leave its partition: a write looks for it in all of them, and deletes it where it was."""
        return self.bucket_mode is BucketMode.KEY_DYNAMIC

    @property
    def postpones_buckets(self) -> bool:
        """Whether rows get their bucket from a compaction: until then reads do not see them, and nothing is checked."""
        return self.bucket_mode is BucketMode.POSTPONE_MODE


APPEND: Final = TableKind("append", BucketMode.BUCKET_UNAWARE)
DATA_EVOLUTION: Final = TableKind("append with data evolution", BucketMode.BUCKET_UNAWARE, has_data_evolution=True)
APPEND_BUCKETED: Final = TableKind("append with buckets", BucketMode.HASH_FIXED)
KEYED_FIXED: Final = TableKind("primary key, fixed buckets", BucketMode.HASH_FIXED, is_keyed=True)
KEYED_DYNAMIC: Final = TableKind("primary key, dynamic buckets", BucketMode.HASH_DYNAMIC, is_keyed=True)
CROSS_PARTITION: Final = TableKind("primary key across partitions", BucketMode.KEY_DYNAMIC, is_keyed=True)
POSTPONED: Final = TableKind("primary key, postponed buckets", BucketMode.POSTPONE_MODE, is_keyed=True)

_DYNAMIC = -1
_POSTPONED = -2


def table_kind(*, is_keyed: bool, crosses_partitions: bool, bucket: int, data_evolution: bool) -> TableKind:
    """Return the kind of a table.

    Args:
        is_keyed: whether it has a primary key.
        crosses_partitions: whether the primary key lacks a partition column.
        bucket: the option.
        data_evolution: the option.
    """
    if not is_keyed:
        appended = DATA_EVOLUTION if data_evolution else APPEND
        return appended if bucket == _DYNAMIC else APPEND_BUCKETED
    if bucket == _POSTPONED:
        return POSTPONED
    if bucket == _DYNAMIC:
        return CROSS_PARTITION if crosses_partitions else KEYED_DYNAMIC
    return KEYED_FIXED
