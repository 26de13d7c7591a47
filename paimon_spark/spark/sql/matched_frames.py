"""The rows of a DELETE or UPDATE as DataFrames, whose condition and new values are Columns or SQL. On any session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StructField, StructType

from paimon_spark.errors import OptionError, PaimonError, SchemaMismatchError
from paimon_spark.maintain.row_level import live_partitions_of
from paimon_spark.read.metadata_columns import FILE_PATH, ROW_INDEX, metadata_fields, tracked_names
from paimon_spark.spark.columns.types import padded, stored, to_spark_struct
from paimon_spark.spark.jobs.arrow_functions import numbered
from paimon_spark.spark.jobs.located_rows import HIT
from paimon_spark.spark.jobs.snapshot_rows import snapshot_rows
from paimon_spark.spark.session.session_settings import SessionSettings, activate, double_quotes_name, settings_of
from paimon_spark.spark.source.source_options import row_condition
from paimon_spark.spark.sql.column_conditions import condition_parts
from paimon_spark.spark.sql.row_changes import MatchedRows
from paimon_spark.spark.sql.store_assignment import assigned
from paimon_spark.spark.statements.expressions import NOTHING_NAMED, Named
from paimon_spark.spec import data_types as t
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

_Tree = dict[str, Any]
"""New values by name: of a column, or a tree of those of its fields."""

_NUMBER = "_paimon_partition"
_PLAIN = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.VarCharType, t.DateType, t.BooleanType)


@dataclass(frozen=True)
class FrameRows(MatchedRows):
    """Rows that queries over DataFrames match."""

    spark: SparkSession
    table: FileStoreTable
    options: Mapping[str, str]
    """What ``format("paimon")`` needs to open the same table."""
    matching: Callable[[int | None], DataFrame]
    """Gives the matched rows of a snapshot: all columns, and whatever the new values are made of."""
    marking: Callable[[DataFrame], DataFrame]
    """Adds the column `HIT` to rows of the table, and whatever the new values are made of."""
    filtering: Callable[[DataFrame], DataFrame] | None
    """Filters rows that have the partition columns, and none other, by the condition.

    What it gives cannot be analysed where the condition needs other columns. None where there is no condition.
    """
    named: Named = NOTHING_NAMED
    """What the condition names, and what an UPDATE's new values do."""
    values: _Tree = field(default_factory=dict)
    """What an UPDATE assigns, as `assigned_values` gives it."""
    condition: str | Column | None = None
    """The condition: files that hold no row for which it is true are not read."""

    @property
    def matches_all(self) -> bool:
        """Whether the statement has no condition."""
        return self.filtering is None

    def partitions(self, table: FileStoreTable) -> list[dict[str, Any]] | None:
        """The partitions for which the condition is true, evaluated by Spark."""
        if self.filtering is None or _is_about_rows(table, self.named):
            return None
        activate(self.spark)
        found = live_partitions_of(table)
        fields = to_spark_struct(table.schema.partition_fields).fields
        schema = StructType([*fields, StructField(_NUMBER, IntegerType(), nullable=False)])
        numbered = [(*values.values(), number) for number, values in enumerate(found)]
        try:
            chosen = self.filtering(padded(self.spark.createDataFrame(numbered, schema), table.schema.fields))
            return [found[row[0]] for row in chosen.select(_NUMBER).collect()]
        except AnalysisException:
            return None

    def rows(self, snapshot_id: int | None) -> DataFrame:
        """The matched rows, with their new values."""
        if snapshot_id is not None and self._named_metadata:
            return self._hit(self._snapshot_rows(snapshot_id, self._named_metadata))
        rows = self.matching(snapshot_id)
        return _updated(rows, self.table, self.values) if self.values else rows

    @property
    def _named_metadata(self) -> list[str]:
        """The metadata columns that the condition or the new values name."""
        return metadata_named(self.named, self.table.schema)

    def _hit(self, rows: DataFrame) -> DataFrame:
        """The rows for which the condition is true; they have their new values."""
        hit = self.marking(padded(rows, self.table.schema.fields)).where(sf.col(HIT))
        return _updated(hit, self.table, self.values) if self.values else hit

    def paths(self, snapshot_id: int) -> DataFrame:
        """The files of the matched rows."""
        locations = dict.fromkeys((FILE_PATH, *self._named_metadata))
        rows = self._snapshot_rows(snapshot_id, list(locations), self._narrowing(self.columns_read()))
        return self.marking(padded(rows, self.table.schema.fields)).where(sf.col(HIT)).select(FILE_PATH)

    def rows_of_files(self, snapshot_id: int, files: Sequence[str]) -> DataFrame:
        """Return all rows of some files; rows with `HIT` have their new values."""
        locations = dict.fromkeys((FILE_PATH, *tracked_names(self.table.schema), *self._named_metadata))
        rows = self._snapshot_rows(snapshot_id, list(locations), files=files)
        rows_of_files = self.marking(padded(rows, self.table.schema.fields))
        return _updated(rows_of_files, self.table, self.values) if self.values else rows_of_files

    def columns_read(self) -> list[str] | None:
        """The columns that the condition and the new values name; None where they may name all."""
        return named_columns(self.named, self.table.schema.field_names)

    def located(self, snapshot_id: int) -> DataFrame:
        """The matched rows with their locations; they have their new values.

        Of a DELETE and of an UPDATE by columns (data evolution) they have only the columns that these need.
        """
        locations = dict.fromkeys((FILE_PATH, ROW_INDEX, *tracked_names(self.table.schema), *self._named_metadata))
        whole = bool(self.values) and not self.table.options.data_evolution_enabled
        narrowing = self._narrowing(None if whole else self.columns_read())
        return self._hit(self._snapshot_rows(snapshot_id, list(locations), narrowing))

    def _snapshot_rows(
        self,
        snapshot_id: int,
        locations: Sequence[str],
        narrowing: Mapping[str, str] | None = None,
        *,
        files: Sequence[str] | None = None,
    ) -> DataFrame:
        """Rows of the table, which is open, with metadata columns."""
        options = {**self.options, **(narrowing or {})}
        return snapshot_rows(self.spark, options, snapshot_id, files=files, locations=locations, opened=self.table)

    def _narrowing(self, read: Collection[str] | None) -> dict[str, str]:
        """The options of a load by which it reads only the files of matched rows, and these columns; None for all."""
        names, options = self.table.schema.field_names, {}
        if read is not None:
            wanted = {*read, *self.values} or {names[0]}
            options["columns"] = ",".join(quoted_name(name) for name in names if name in wanted)
        parts = [] if self.condition is None else condition_parts(self.condition)
        pieces = list(filter(self._filters_as_spark, parts))
        if pieces:
            options["filter"] = pieces[0] if len(pieces) == 1 else " AND ".join(f"({piece})" for piece in pieces)
        return options

    @cached_property
    def _settings(self) -> SessionSettings:
        return settings_of(self.spark)

    def _filters_as_spark(self, text: str) -> bool:
        """Whether our reader decides a condition as Spark does: where no value is cast, padded or rounded.

        What backslashes mean, and double quotes, is for settings of the session to say.
        """
        named = named_columns(Named.by(text), self.table.schema.field_names)
        if (
            named is None
            or ('"' in text and ('""' in text or double_quotes_name(self.spark)))
            or "\\" in text
            or not all(isinstance(self.table.schema.field(name).type, _PLAIN) for name in named)
        ):
            return False
        try:
            row_condition(text, self.table.schema, self._settings)
        except (PaimonError, ValueError):
            return False
        return True


def named_columns(named: Named, columns: Sequence[str]) -> list[str] | None:
    """Return the columns that expressions name, and maybe some more; None where a star may stand for all."""
    return None if named.has_star else [name for name in columns if named.has(name)]


def metadata_named(named: Named, schema: TableSchema) -> list[str]:
    """Return the metadata columns that expressions may name, and that the table has."""
    own = {name.lower() for name in schema.field_names}
    known = (field.name for field in metadata_fields(schema))
    return [name for name in known if named.has(name) and name.lower() not in own]


def _is_about_rows(table: FileStoreTable, named: Named) -> bool:
    """Return whether a condition may name other columns than partition columns; Spark logs each failed analysis."""
    if metadata_named(named, table.schema):
        return True
    others = (name for name in table.schema.field_names if name not in table.schema.partition_keys)
    return any(named.has_outside_texts(name) for name in others)


def _updated(rows: DataFrame, table: FileStoreTable, trees: _Tree) -> DataFrame:
    """Return the rows with their new values. Of marked rows only those with `HIT` get new values."""
    own = [field for field in table.schema.fields if field.name in rows.columns]
    fields = to_spark_struct(own).fields
    old = stored(rows, [field.name for field in fields])
    known = (HIT, FILE_PATH, ROW_INDEX, *tracked_names(table.schema))
    marks = [name for name in known if name in rows.columns]
    new = [
        assigned_field(column, field, trees[field.name]) if field.name in trees else column
        for column, field in zip(old, fields, strict=True)
    ]
    if marks:  # a value is worked out for the rows that get it, and for none other
        new = [
            sf.when(sf.col(HIT), value) if field.name in trees else value
            for value, field in zip(new, fields, strict=True)
        ]
    count = len(fields)
    both = numbered(rows.select(*new, *old, *marks), *marks)
    ansi = str(rows.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    new_values = both.select(*(str(number) for number in range(count)))
    values = assigned(new_values, fields, [table.path], ansi=ansi, by_name=True)
    if marks:
        values = [
            sf.when(sf.col(HIT), value).otherwise(sf.col(str(number + count))).alias(field.name)
            if field.name in trees
            else value
            for number, (value, field) in enumerate(zip(values, fields, strict=True))
        ]
    return both.select(*values, *marks)


def assigned_values(values: Mapping[tuple[str, ...], Column], columns: Sequence[str]) -> _Tree:
    """The new values by top-level column.

    Args:
        values: by column, or by the names that lead to a field of a struct.
        columns: of the table.

    Raises:
        SchemaMismatchError: there is no such column.
        OptionError: a column is assigned twice.
    """
    trees: _Tree = {}
    for path, value in values.items():
        names = [_own_name(path[0], columns), *path[1:]]
        location = trees
        for name in names[:-1]:
            location = location.setdefault(name, {})
            if not isinstance(location, dict):
                break
        if not isinstance(location, dict) or names[-1] in location:
            raise OptionError(f"{'.'.join(path)} is assigned twice")
        location[names[-1]] = value
    return trees


def assigned_field(old: Column, field: StructField, new: Any) -> Column:
    """Return a column with its new value. Of a struct only the fields that `new` names are replaced."""
    if not isinstance(new, dict):
        value: Column = new
        return value
    if not isinstance(field.dataType, StructType):
        raise SchemaMismatchError(f"{field.name} is no struct, but {', '.join(new)} of it is assigned")
    names = [child.name for child in field.dataType.fields]
    own = {_own_name(name, names): value for name, value in new.items()}
    children = [
        assigned_field(old.getField(child.name), child, own[child.name]) if child.name in own
        else old.getField(child.name)
        for child in field.dataType.fields
    ]  # fmt: skip
    return sf.struct(*(column.alias(name) for column, name in zip(children, names, strict=True)))


def _own_name(name: str, columns: Sequence[str]) -> str:
    found = [own for own in columns if own == name] or [own for own in columns if own.lower() == name.lower()]
    if len(found) != 1:
        raise SchemaMismatchError(f"there is no column {name} to assign: the columns are {', '.join(columns)}")
    return found[0]
