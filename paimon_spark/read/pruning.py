"""Which files a predicate can rule out: by bucket, by key statistics, by value statistics, by whole buckets.

Equals Java's ``KeyValueFileStoreScan``, ``AppendOnlyFileStoreScan`` and ``BucketSelectConverter``
(docs/internals/format.md §13). Files of a primary-key table overlap, so a value predicate may rule out a file only
where no other file of its bucket can hold the same key; otherwise the bucket goes as a whole or stays as a whole.
Vectorised over all files of a plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import DoubleType, FloatType
from paimon_spark.spec.hashing import bucket_ids
from paimon_spark.spec.predicate import Leaf, Or, Predicate, split_and

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.table.table import FileStoreTable

_MAX_KEYS = 1000
"""Most bucket keys that a predicate is expanded to (Java: ``BucketSelector.MAX_VALUES``)."""

Mask = npt.NDArray[np.bool_]


def bucket_mask(table: FileStoreTable, files: ManifestColumns, predicate: Predicate) -> Mask:
    """Return which files lie in a bucket that may hold rows equal to the bucket keys the predicate names."""
    keep = np.ones(len(files), dtype=bool)
    schema = table.schema
    if not schema.kind.hashes_to_buckets or not schema.bucket_keys:
        return keep
    keys = [schema.field(name) for name in schema.bucket_keys]
    if any(isinstance(key.type, FloatType | DoubleType) for key in keys):
        return keep  # 0.0 and -0.0 are equal, as are all NaN, but their hashes are not
    wanted = [_wanted_values(predicate, key.name) for key in keys]
    if any(values is None for values in wanted):
        return keep
    combinations = list(itertools.islice(itertools.product(*(values or () for values in wanted)), _MAX_KEYS + 1))
    if len(combinations) > _MAX_KEYS:
        return keep
    columns = _key_columns(keys, combinations)
    if columns is None:
        return keep
    totals, buckets = files.total_buckets, files.buckets
    same_types = _schemas_with_same_types(table, files, keys)
    function = table.options.value("bucket-function.type")
    for total in np.unique(totals[totals > 0]).tolist():
        buckets_wanted = bucket_ids(columns, [key.type for key in keys], int(total), function)
        out = (totals == total) & same_types & ~np.isin(buckets, buckets_wanted)
        keep &= ~out
    return keep


def bucket_groups(files: ManifestColumns) -> list[list[int]]:
    """Return positions of the files of each (partition, bucket), in the order in which the buckets appear."""
    groups: dict[tuple[bytes, int], list[int]] = {}
    for i, key in enumerate(zip(files.partitions, files.buckets.tolist(), strict=True)):
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _wanted_values(predicate: Predicate, name: str) -> list[Any] | None:
    """Return the values that column ``name`` may have; None when the predicate does not list them."""
    found: list[Any] | None = None
    for part in split_and(predicate):
        values = _listed_values(part, name)
        if values is not None and (found is None or len(values) < len(found)):
            found = values
    return found


def _listed_values(predicate: Predicate, name: str) -> list[Any] | None:
    match predicate:
        case Leaf() if predicate.field == name and predicate.op in ("eq", "in"):
            return [value for value in predicate.literals if value is not None]
        case Leaf() if predicate.field == name and predicate.op == "eq_null_safe":
            return list(predicate.literals)
        case Leaf() if predicate.field == name and predicate.op == "is_null":
            return [None]
        case Or():
            each = [_listed_values(child, name) for child in predicate.children]
            known = [values for values in each if values is not None]
            return [value for values in known for value in values] if len(known) == len(each) else None
    return None


def _key_columns(keys: Sequence[DataField], rows: Sequence[tuple[Any, ...]]) -> list[pa.Array] | None:
    """Return the key values as columns of the keys' types; None when a value does not fit its type."""
    try:
        return [pa.array([row[i] for row in rows], to_arrow_type(key.type)) for i, key in enumerate(keys)]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _schemas_with_same_types(table: FileStoreTable, files: ManifestColumns, keys: Sequence[DataField]) -> Mask:
    """Return which files hash their bucket keys as the table does now: those whose schema types them the same."""
    same = {}
    for schema_id in np.unique(files.schema_ids).tolist():
        then = {field.id: field.type.with_nullable(True) for field in table.schemas.get(schema_id).fields}
        same[schema_id] = all(then.get(key.id) == key.type.with_nullable(True) for key in keys)
    return np.array([same[schema_id] for schema_id in files.schema_ids.tolist()], dtype=bool)
