"""The rows of a compaction to the top level, and their changelog: what became of the rows of that level.

Equals Java's ``FullChangelogMergeTreeCompactRewriter``. Runs in tasks; memory is bounded by
``read.merge.memory-budget``. The options of changelog producers say which compactions have such a changelog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.merge.changelog_rows import inserted, merge_with_changelog, without_deletes
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.stream import aligned_batches, block_bytes
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.record_expiry import RecordExpiry
from paimon_spark.read.sections import runs_of
from paimon_spark.read.split_read import partition_scalars

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.read.split import SplitFile
    from paimon_spark.table.table import FileStoreTable


def ignored_columns(options: CoreOptions) -> frozenset[str] | None:
    """The columns ignored when comparing rows; None where a row that is merged anew counts as changed.

    Java: ``changelog-producer.row-deduplicate`` and ``changelog-producer.row-deduplicate-ignore-fields``.
    """
    if not options.value("changelog-producer.row-deduplicate"):
        return None
    names = options.value("changelog-producer.row-deduplicate-ignore-fields")
    return frozenset(name.strip() for name in str(names or "").split(",") if name.strip())


Pieces = Iterator[tuple[pa.Table, pa.Table | None]]
"""Pieces of merged rows, and of their changelog; both in key order over all pieces."""


def rows_with_changelog(
    table: FileStoreTable, partition: bytes, sections: Sequence[Sequence[SplitFile]], top: int
) -> Pieces:
    """Yield the rows that a compaction to the top level keeps, and what they tell of the rows of that level before.

    Args:
        table: with the schema and options that the new files get.
        partition: serialized partition values.
        sections: groups of files with overlapping key ranges, in key order.
        top: the top level.
    """
    budget = int(table.options.value("read.merge.memory-budget")) * 2 // 3  # the changelog takes its part
    constants = partition_scalars(table, partition)
    ignored = ignored_columns(table.options)
    for section in sections:
        runs = runs_of(section)
        most = block_bytes(budget, len(runs))
        reader = FileRead(
            table,
            tuple(table.schema.fields),
            constants,
            key_value=True,
            batch_bytes=most,
            expiry=RecordExpiry.of(table),
        )
        if len(runs) == 1:
            yield from _unmerged(reader, runs[0], top)
        else:
            yield from _merged(reader, runs, top, budget, ignored)


def _unmerged(reader: FileRead, run: Sequence[SplitFile], top: int) -> Pieces:
    """The rows of one run, whose keys come once: Java gives a single row to no merge function."""
    for batch in reader.run(run, None):
        rows = pa.Table.from_batches([batch])
        yield without_deletes(rows), None if run[0].level == top else inserted(rows)


def _merged(
    reader: FileRead, runs: Sequence[Sequence[SplitFile]], top: int, budget: int, ignored: Collection[str] | None
) -> Pieces:
    engine = merge_engine_for(reader.table.schema)
    has_top = runs[0][0].level == top  # runs come oldest first, each of one level
    streams = [reader.run(run, None) for run in runs]
    for ready in aligned_batches(streams, engine.keys, budget_bytes=budget):
        newer = [batch for run in ready[has_top:] for batch in run]
        if not newer:
            yield pa.Table.from_batches(ready[0]), None
            continue
        rows = pa.Table.from_batches(newer)
        of_top = pa.Table.from_batches(ready[0] if has_top else [], schema=rows.schema)
        yield merge_with_changelog(of_top, rows, engine, ignored=ignored)
