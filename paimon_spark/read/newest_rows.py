"""Where the newest row of each key is the merged row, though the merge engine is partial-update.

Values that are not null overwrite older ones. So where newer files have no null in the columns of a read, as files have
that whole rows were written to, merging is what deduplicate does: older rows are left out. Runs on the driver, which
reads the footers of the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.partial_update import PartialUpdate
from paimon_spark.read.footer_facts import MOST_FILES, null_counts
from paimon_spark.read.plain_files import merged_splits
from paimon_spark.read.sections import sections_with_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.read.sections import Runs
    from paimon_spark.read.split import SplitFile
    from paimon_spark.read.table_scan import ReadPlan
    from paimon_spark.table.table import FileStoreTable


def may_be_newest_rows(table: FileStoreTable) -> bool:
    """Whether `newest_row_wins` may be true of a read of some columns of the table."""
    return bool(_overwritten_columns(table))


def _overwritten_columns(table: FileStoreTable) -> frozenset[str]:
    if table.options.merge_engine != "partial-update" or table.options.needs_lookup or not table.schema.primary_keys:
        return frozenset()
    engine = merge_engine_for(table.schema)
    assert isinstance(engine, PartialUpdate)
    return engine.overwritten_columns


def newest_row_wins(plan: ReadPlan) -> bool:
    """Return whether a merged row of the plan's columns is the newest row of its key, of each key that comes twice.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    table = plan.table
    splits = merged_splits(plan)
    overwritten = _overwritten_columns(table)
    if not splits or not overwritten:
        return False
    keys = {*table.schema.primary_keys, *table.schema.partition_keys}
    columns = tuple(field.name for field in plan.fields if field.name not in keys)
    if not overwritten.issuperset(columns):
        return False
    if any(file.format != "parquet" or file.delete_row_count != 0 for split in splits for file in split.files):
        return False
    if not columns:
        return True
    newer = [
        file for split in splits for runs in sections_with_runs(table, split.files) for file in _newer(table, runs)
    ]
    if len(newer) > MOST_FILES:
        return False
    found = null_counts(table, newer, columns)
    return all(count == 0 for counts in found.values() for count in counts.values())


def _newer(table: FileStoreTable, runs: Runs) -> Iterator[SplitFile]:
    """The files of a section whose rows may have to overwrite others."""
    if len(runs) < 2:
        return
    if table.options.sequence_fields or max(file.max_seq for file in runs[0]) >= min(
        file.min_seq for run in runs[1:] for file in run
    ):
        yield from runs[0]
    for run in runs[1:]:
        yield from run
