"""Which files an overwrite removes, and in which partitions its new files may be.

Equals Java's ``overwritePartition``, ``OverwriteChangesProvider`` and ``tryUpgrade`` (docs/internals/format.md §8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_spark.errors import CommitError, OptionError, PaimonError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row_decoder import key_ranks
from paimon_spark.spec.casts import cast_array
from paimon_spark.spec.data_types import VarCharType
from paimon_spark.spec.manifest import EMPTY_STATS, FileKind, IndexManifestEntry, ManifestEntry
from paimon_spark.spec.predicate import And, Leaf, Or, Predicate, fields, split_and
from paimon_spark.spec.sql_text import filter_text
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.partitions import range_predicate
from paimon_spark.write.plan import OverwriteMode

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataType
    from paimon_spark.table.table import FileStoreTable


class OutsideChanges(Enum):
    """What an overwrite may add to partitions that it does not replace, with cross-partition updates."""

    NOTHING = "nothing"
    DELETES = "deletes of rows whose keys move to a replaced partition"
    ROWS = "rows whose keys are there already"


@dataclass(frozen=True, slots=True)
class OverwriteSpec:
    """How a commit replaces files."""

    kind: OverwriteMode
    partition: Mapping[str, Any] | None = None
    """Values of some or all partition columns: Python values, or texts that are cast; None (or the default partition's
    name) is null. None or empty takes the whole table. Not for dynamic overwrites."""
    partitions: Sequence[Mapping[str, Any]] = field(default=())
    """More specs, for dropping several partitions at once: a partition that matches any of them is replaced."""
    condition: Predicate | None = None
    """Instead of specs: a condition over partition columns; partitions for which it is true are replaced."""
    outside: OutsideChanges = OutsideChanges.NOTHING
    """What may be added to partitions that are not replaced."""
    exactly: frozenset[bytes] | None = None
    """Instead of specs: the bytes of the partitions that are replaced; may be none at all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", OverwriteMode(self.kind))

    @classmethod
    def static(cls, partition: Mapping[str, Any] | None = None) -> OverwriteSpec:
        """Replace the whole table, or the partitions that match ``partition``."""
        return cls(OverwriteMode.STATIC, partition)

    @classmethod
    def matching(cls, condition: Predicate) -> OverwriteSpec:
        """Replace the partitions for which ``condition``, over partition columns, is true."""
        return cls(OverwriteMode.STATIC, condition=condition)

    @classmethod
    def dynamic(cls) -> OverwriteSpec:
        """Replace the partitions that appear in the new files."""
        return cls(OverwriteMode.DYNAMIC)

    @classmethod
    def truncate(cls, *partitions: Mapping[str, Any]) -> OverwriteSpec:
        """Empty the whole table, or the partitions that match any of ``partitions``."""
        return cls(OverwriteMode.TRUNCATE, None, partitions)


class PartitionScope:
    """The partitions that an overwrite replaces, as a test on partition bytes."""

    def __init__(
        self,
        table: FileStoreTable,
        specs: Sequence[Mapping[str, Any]] | None,
        *,
        exactly: Collection[bytes] | None = None,
        condition: Predicate | None = None,
    ) -> None:
        """Make a scope.

        Args:
            table: whose partitions.
            specs: alternatives of column values; None or one without columns takes everything.
            exactly: instead of specs, these partitions.
            condition: instead of specs, the partitions for which this is true.

        Raises:
            OptionError: a spec or the condition names a column that is no partition column.
        """
        self._manifests = table.manifests
        self.partitions = None if exactly is None else frozenset(exactly)
        self.predicate: Predicate | None = None
        if specs and all(specs):
            self.predicate = Or(tuple(_spec_predicate(spec, DataLayout.of(table.schema)) for spec in specs))
        elif self.partitions is not None:
            self.predicate = range_predicate(table, self.partitions)
        elif condition is not None:
            for name in sorted(fields(condition)):
                _check_partition_column(name, table.schema.partition_keys)
            self.predicate = condition

    def contains(self, partitions: Sequence[bytes]) -> list[bool]:
        """Say for each of the partitions whether it is replaced."""
        if self.partitions is not None:
            return [partition in self.partitions for partition in partitions]
        return self._manifests.partition_filter(self.predicate)(partitions)


def _spec_predicate(spec: Mapping[str, Any], layout: DataLayout) -> Predicate:
    keys = layout.partition_keys
    leaves: list[Predicate] = []
    for name, value in spec.items():
        _check_partition_column(name, keys)
        if value is None or value == layout.default_partition_name:
            leaves.append(Leaf("is_null", name, ()))
        else:
            leaves.append(Leaf("eq", name, (typed_value(name, value, layout.partition_types[keys.index(name)]),)))
    return And(tuple(leaves))


def _check_partition_column(name: str, keys: Sequence[str]) -> None:
    if name not in keys:
        raise OptionError(
            f"'{name}' is no partition column of the table (its partition columns: {', '.join(keys) or 'none'})."
        )


def typed_value(name: str, value: Any, data_type: DataType) -> Any:
    """Return the value of a partition column that a text, or a Python value, means.

    Raises:
        OptionError: it is none of the column's type.
    """
    arrow_type = to_arrow_type(data_type)
    try:
        if isinstance(value, str) and not pa.types.is_string(arrow_type):
            typed = cast_array(pa.array([value], pa.string()), VarCharType(length=VarCharType.MAX), data_type)[0]
        else:
            typed = pa.scalar(value, arrow_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, PaimonError, ValueError, TypeError) as error:
        raise OptionError(f"{value!r} is no value of partition column '{name}' of type {data_type.sql()}.") from error
    if not typed.is_valid:
        raise OptionError(f"{value!r} is no value of partition column '{name}' of type {data_type.sql()}.")
    return typed.as_py()


def overwrite_scope(
    table: FileStoreTable, overwrite: OverwriteSpec, new_files: Sequence[ManifestEntry]
) -> PartitionScope:
    """Return the partitions that ``overwrite`` replaces.

    Raises:
        CommitError: a new file lies in a partition that is not replaced.
        OptionError: a spec names an unknown column or value.
    """
    if overwrite.kind is OverwriteMode.TRUNCATE and new_files:
        raise CommitError("A truncate brings no new files, but this commit has some; overwrite instead.")
    if overwrite.kind is OverwriteMode.DYNAMIC and table.schema.partition_keys:
        return PartitionScope(table, None, exactly={entry.partition for entry in new_files})
    specs = [*([overwrite.partition] if overwrite.partition else ()), *overwrite.partitions]
    scope = PartitionScope(table, specs, exactly=overwrite.exactly, condition=overwrite.condition)
    if overwrite.outside is OutsideChanges.ROWS:
        return scope
    if overwrite.outside is OutsideChanges.DELETES:
        new_files = [entry for entry in new_files if entry.file.delete_row_count != entry.file.row_count]
    changed = list(dict.fromkeys(entry.partition for entry in new_files))
    for partition, inside in zip(changed, scope.contains(changed), strict=True):
        if not inside:
            raise CommitError(
                f"The change in {table.paths.partition_path(partition)} does not belong to this partition: the "
                f"overwrite is of {_spec_text(specs, overwrite.condition)}. Give rows of that partition only, or "
                f"overwrite dynamically."
            )
    return scope


def _spec_text(specs: Iterable[Mapping[str, Any]], condition: Predicate | None) -> str:
    if condition is not None:
        return filter_text(condition)
    return " or ".join(", ".join(f"{name}={value}" for name, value in spec.items()) for spec in specs)


def deleted_entries(live: Iterable[ManifestEntry], *, drop_stats: bool) -> list[ManifestEntry]:
    """Return DELETE entries for files that an overwrite removes.

    Args:
        live: ADD entries.
        drop_stats: leave out the value statistics (``manifest.delete-file-drop-stats``).
    """
    if drop_stats:
        return [
            replace(entry, kind=FileKind.DELETE, file=replace(entry.file, value_stats=EMPTY_STATS, value_stats_cols=()))
            for entry in live
        ]
    return [
        ManifestEntry(FileKind.DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file) for entry in live
    ]


def deleted_index_entries(live: Sequence[IndexManifestEntry], scope: PartitionScope) -> list[IndexManifestEntry]:
    """Return DELETE entries for the index files of replaced partitions."""
    inside = scope.contains([entry.partition for entry in live])
    return [replace(entry, kind=FileKind.DELETE) for entry, gone in zip(live, inside, strict=True) if gone]


def upgraded_files(
    entries: Sequence[ManifestEntry], key_types: Sequence[DataType], *, max_level: int
) -> tuple[ManifestEntry, ...]:
    """Upgrade the files of an overwrite to the highest level where no keys of a bucket overlap (``overwrite-upgrade``).

    Args:
        entries: the new files; all must be at level 0 of real buckets, else nothing is upgraded.
        key_types: types of the trimmed primary key.
        max_level: the highest level of the table.
    """
    if not entries or any(entry.file.level > 0 or entry.bucket < 0 for entry in entries):
        return tuple(entries)
    locations = [(entry.partition, entry.bucket) for entry in entries]
    numbers = {location: number for number, location in enumerate(dict.fromkeys(locations))}
    bucket_numbers = np.asarray([numbers[location] for location in locations], dtype=np.int64)
    keys = [entry.file.min_key for entry in entries] + [entry.file.max_key for entry in entries]
    lowest, highest = np.split(key_ranks(keys, key_types), 2)
    order = np.lexsort((lowest, bucket_numbers))
    left, right = order[:-1], order[1:]
    overlapping = (bucket_numbers[left] == bucket_numbers[right]) & (highest[left] >= lowest[right])
    stays = np.isin(bucket_numbers, bucket_numbers[left][overlapping])
    return tuple(
        entry if stay else replace(entry, file=entry.file.upgraded(max_level))
        for entry, stay in zip(entries, stays.tolist(), strict=True)
    )


def overwrite_where(condition: Predicate, table: FileStoreTable, what: str) -> OverwriteSpec:
    """The overwrite of the partitions for which a condition is true.

    Args:
        condition: over partition columns.
        table: whose partitions.
        what: what gave the condition, for the message.

    Raises:
        OptionError: the condition is about other columns.
    """
    check_partition_condition(condition, table, what)
    spec = _partition_of(condition)
    return OverwriteSpec.matching(condition) if spec is None else OverwriteSpec.static(spec)


def check_partition_condition(condition: Predicate, table: FileStoreTable, what: str) -> None:
    """Refuse a condition about columns that are no partition columns.

    Raises:
        OptionError: it is about other columns, which the message names after `what`.
    """
    keys = table.schema.partition_keys
    others = sorted(fields(condition) - set(keys))
    if others or not keys:
        raise OptionError(
            f"{what} replaces whole partitions, so it is about partition columns only, as \"dt = '2024-01-31'\" is; "
            f"{', '.join(others) or 'there'} is none ({table.path} is partitioned by: {', '.join(keys) or 'nothing'})"
        )


def _partition_of(condition: Predicate) -> dict[str, Any] | None:
    """The values of one partition (or of all with these values), when the condition says no more than that."""
    values: dict[str, Any] = {}
    for part in split_and(condition):
        if not isinstance(part, Leaf) or part.op not in ("eq", "eq_null_safe", "is_null") or part.field in values:
            return None
        values[part.field] = part.literals[0] if part.literals else None
        if part.op == "eq" and values[part.field] is None:
            return None  # = NULL is never true
    return values or None
