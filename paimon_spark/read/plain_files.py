"""Whether the rows of a plan are the rows of its Parquet files: all of them, or the newest one of each key.

Where they are exactly the rows, one file after the other, nothing is merged or cast, only deleted rows are left out,
only partition values are filled in.

The newest row of each key is the merged row of partial-update, too, where newer files have no null in the columns of a
read, as files have that whole rows were written to: values that are not null overwrite older ones. Then merging is what
deduplicate does: older rows are left out. This reads the footers of the files. Runs on the driver.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import MISSING, fields
from functools import cache
from typing import TYPE_CHECKING, Final

from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.partial_update import PartialUpdate
from paimon_spark.read.file_read import passed_over
from paimon_spark.read.row_group_sections import MOST_FILES, null_counts
from paimon_spark.read.sections import sections_with_runs
from paimon_spark.read.split import DataSplit, SplitFile
from paimon_spark.read.split_read import read_split
from paimon_spark.read.stream_split import WrittenSplit, read_streamed
from paimon_spark.spec import data_types as t
from paimon_spark.spec.special_fields import KEY_FIELD_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from paimon_spark.read.sections import Runs
    from paimon_spark.read.table_scan import ReadPlan
    from paimon_spark.table.table import FileStoreTable

PARTITION_TYPES: Final = (
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.CharType,
    t.VarCharType,
    t.DateType,
)
_PLAIN_TYPES: Final = (*PARTITION_TYPES, t.FloatType, t.DoubleType, t.DecimalType, t.BinaryType, t.VarBinaryType)
_MOST_INT64_PRECISION: Final = 6


_SPLIT_DEFAULTS = {field.name: field.default for field in fields(DataSplit) if field.default is not MISSING}
_FILE_DEFAULTS = [
    (SplitFile._fields.index(name), default)
    for name, default in SplitFile._field_defaults.items()
    if name not in ("min_key", "max_key", "row_groups", "file_index", "first_row_id", "created_millis")
]
"""Positions and values. What an index says of rows may be passed over: the filter is applied to the rows. Of files that
need no merging the order does not count.
"""
_VECTOR: Final = SplitFile._fields.index("deletion_vector")


def holds_plain_rows(plan: ReadPlan, *, filtered: bool = False) -> bool:
    """Whether reading the plan's columns by name from its files, row groups and all, gives exactly its rows.

    A plan without files has no such rows. Arguments: those of `plain_splits`.
    """
    is_plain = _test_of(plan, filtered=filtered, overlap=True)
    return bool(plan.splits) and all(map(is_plain, plan.splits))


def plain_splits(plan: ReadPlan, *, filtered: bool = False, overlap: bool = True) -> list[DataSplit]:
    """Return the splits of a plan whose rows are those of their files, as far as columns of the plan are read by name.

    Columns that partition the table are not read from the files, which need not hold them: their values are the
    partition's, in types that every reader treats alike. Of the changes that a stream reads without their kinds, all
    rows of the files are rows, those of deletes too.

    Args:
        plan: of a read.
        filtered: the reader leaves out rows at positions that it gets: those in deletion vectors.
        overlap: and those of files that overlap which `superseded_rows` finds.
    """
    return list(filter(_test_of(plan, filtered=filtered, overlap=overlap), plan.splits))


def may_hold_plain_rows(plan: ReadPlan) -> bool:
    """Whether files of the plan may be such, as far as its columns and the kind of the read tell."""
    return _test_of(plan, filtered=True, overlap=False) is not _never


def _test_of(plan: ReadPlan, *, filtered: bool, overlap: bool) -> Callable[[DataSplit], bool]:
    """What tells plain splits of a plan from others. Schemas of files are looked up for splits that may be plain."""
    if plan.read not in (read_split, read_streamed) or passed_over(plan.table):
        return _never
    keys = set(plan.table.schema.partition_keys)
    if not all(
        isinstance(field.type, PARTITION_TYPES) if field.name in keys else has_one_form(field.type)
        for field in plan.fields
    ):
        return _never
    if plan.table.schema.kind.has_data_evolution and not all(split.raw_convertible for split in plan.splits):
        return _never
    has_keys = plan.table.schema.kind.is_keyed
    merged = filtered and overlap and has_keys and plan.table.options.one_row_wins
    columns = [field for field in plan.fields if field.name not in keys]
    has_columns = cache(lambda schema_id: _same_columns(plan.table, schema_id, columns))
    return lambda split: (
        is_plain_split(split, has_keys=has_keys, filtered=filtered, overlap=merged)
        and all(has_columns(file.schema_id) for file in split.files)
    )


def _never(_split: DataSplit) -> bool:
    return False


def merged_splits(plan: ReadPlan) -> list[DataSplit]:
    """Return the splits of a plan of which `superseded_rows` finds the rows: of tables with keys, not one by one."""
    has_keys = plan.table.schema.kind.is_keyed
    return [split for split in plan.splits if has_keys and type(split) is DataSplit and not split.raw_convertible]


def has_one_form(kind: t.DataType) -> bool:
    """Whether a type has one form in Parquet: not TIMESTAMP(7) and finer (INT96), TIME, VARIANT and nested ones."""
    if isinstance(kind, t.TimestampType | t.LocalZonedTimestampType):
        return kind.precision <= _MOST_INT64_PRECISION
    return isinstance(kind, _PLAIN_TYPES)


def is_plain_split(split: DataSplit, *, has_keys: bool, filtered: bool = False, overlap: bool = False) -> bool:
    """Whether a split is nothing but Parquet files.

    Further fields of splits and files, with values other than their defaults, ask for more than the rows of the files.

    Args:
        split: of a plan.
        has_keys: whether the table has a primary key.
        filtered: deletion vectors do not count.
        overlap: that files of keys overlap does not count.
    """
    as_written = type(split) is WrittenSplit
    if not (as_written or type(split) is DataSplit):
        return False
    if any(getattr(split, name) != value for name, value in _SPLIT_DEFAULTS.items()):
        return False
    plain = [(i, value) for i, value in _FILE_DEFAULTS if not (filtered and i == _VECTOR)]
    if any(file.format != "parquet" or any(file[i] != value for i, value in plain) for file in split.files):
        return False
    if as_written or not has_keys or (overlap and not split.raw_convertible):
        return True
    # old files with keys do not say how many deletes they hold; files of append tables hold none
    return split.raw_convertible and all(file.delete_row_count == 0 for file in split.files)


def _same_columns(table: FileStoreTable, schema_id: int, wanted: Sequence[t.DataField]) -> bool:
    """Whether files of a schema have the columns in the same types under the same names, which no other column has."""
    own = table.schemas.get(schema_id)
    inner = [SEQUENCE_NUMBER.name, VALUE_KIND.name, *(KEY_FIELD_PREFIX + key for key in own.trimmed_primary_keys)]
    names = Counter(name.lower() for name in (*(field.name for field in own.fields), *inner))
    if any(names[field.name.lower()] > 1 for field in wanted):
        return False
    by_id = {field.id: field for field in own.fields}
    found = [by_id.get(field.id) for field in wanted]
    return all(
        there is not None
        and there.name == field.name
        and there.type.with_nullable(True) == field.type.with_nullable(True)
        for there, field in zip(found, wanted, strict=True)
    )


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
