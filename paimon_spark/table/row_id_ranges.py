"""Manifests by the row ids of their files, in tables where the rows of each file follow each other (data evolution)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.spec.special_fields import ROW_ID

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestFileMeta
    from paimon_spark.spec.predicate import Predicate


def manifests_with_row_ids(manifests: Sequence[ManifestFileMeta], predicate: Predicate) -> list[ManifestFileMeta]:
    """Return the manifests that may hold files of rows whose ids match, in the same order.

    Manifests with common ids stay or go together: files of the same rows, and the DELETE of a file, may lie in either.
    All stay where one does not tell its ids.

    Args:
        manifests: of one snapshot.
        predicate: over the row id.
    """
    ranges = [(meta.min_row_id, meta.max_row_id) for meta in manifests]
    known = np.array([pair for pair in ranges if None not in pair], dtype=np.int64).reshape(-1, 2)
    if len(known) < len(ranges) or not ranges:
        return list(manifests)
    order = np.argsort(known[:, 0], kind="stable")
    low, reach = known[order, 0], np.maximum.accumulate(known[order, 1])
    starts = np.flatnonzero(np.concatenate(([True], low[1:] > reach[:-1])))
    ends = np.concatenate((starts[1:], [len(order)])) - 1
    first, last = low[starts], reach[ends]
    bounds = pa.array(first), pa.array(last), pa.array(np.zeros(len(first), np.int64))
    wanted = prune_stats(predicate, {ROW_ID.name: bounds}, pa.array(last - first + 1))
    kept = np.empty(len(order), np.bool_)
    kept[order] = np.repeat(wanted, ends - starts + 1)
    return [meta for meta, keep in zip(manifests, kept.tolist(), strict=True) if keep]
