"""MERGE WITH SCHEMA EVOLUTION over DataFrames, and option `write.merge-schema`: columns of the source that are added.

The statement is analysed over the columns that the table will have before it gets them, so one that Spark refuses
changes nothing. Equals Java's ``MergeSchemaEvolutionHelper``. On any session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from paimon_spark.spark.columns.merge_schema import merge_schema, with_columns
from paimon_spark.spark.columns.types import from_spark_struct, to_spark_struct, to_spark_type
from paimon_spark.spark.session.session_options import merge_rules
from paimon_spark.spark.sql.merge import run_merge
from paimon_spark.spark.sql.merge_frames import GIVEN, FrameMerge
from paimon_spark.spark.sql.merge_rows import MergeRows
from paimon_spark.spark.sql.merge_strategy import Action, strategy_of
from paimon_spark.spark.sql.store_assignment import lacks_fields
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spec.schema_merge import MergeRules
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spark.sql.merge_strategy import MergeStrategy
    from paimon_spark.spec.schema import TableSchema


def rules_of(options: Mapping[str, str], *, evolves_schema: bool) -> MergeRules | None:
    """How the columns of a target change; None where they stay.

    Args:
        options: of the session, for the target.
        evolves_schema: whether the statement says WITH SCHEMA EVOLUTION.
    """
    return merge_rules(options) or (MergeRules(widen=False, explicit=False) if evolves_schema else None)


def run_frame_merge(merge: FrameMerge, rules: MergeRules | None) -> None:
    """Check a MERGE and run it; with rules the table gets the columns that only the source has.

    Raises:
        SchemaChangeError: a type cannot become that of the source.
        PaimonError: as of `run_merge`.
    """
    merge.check()
    merge = merge if rules is None else _widened(merge, rules)
    run_merge(merge.table, merge)


def strategy_of_frame_merge(merge: FrameMerge, rules: MergeRules | None) -> MergeStrategy:
    """Check a MERGE, and tell which way it goes; nothing is changed. Arguments and errors as of `run_frame_merge`."""
    merge.check()
    if rules is None:
        return strategy_of(merge.table, merge.shape())
    evolved, schema = _evolved(merge, rules)[:2]
    known = _as_if(evolved, schema)
    return strategy_of(known.table, known.shape())


def _widened(merge: FrameMerge, rules: MergeRules) -> FrameMerge:
    """The MERGE into the table with its new columns, which it has from now on."""
    evolved, schema, columns, snapshot_id = _evolved(merge, rules)
    if schema is merge.table.schema:
        return evolved
    _analyse(_as_if(evolved, schema).rows(snapshot_id, ()))
    return replace(evolved, table=merge_schema(merge.table, columns, rules))


def _evolved(merge: FrameMerge, rules: MergeRules) -> tuple[FrameMerge, TableSchema, StructType, int | None]:
    """The MERGE of the columns that its source has; the schema that it needs; the columns for it; the snapshot read."""
    latest = merge.table.snapshots.latest_to_follow()
    snapshot_id = None if latest is None else latest.id
    source = merge.source(snapshot_id)
    source = source.select(*(sf.col(quoted_name(name)) for name in source.columns if not name.startswith(GIVEN)))
    columns = _new_columns(merge, source)
    schema = with_columns(merge.table.schema, from_spark_struct(columns), rules)
    evolved = replace(
        merge, star=frozenset(name.lower() for name in source.columns), partly=_partly_given(schema, source)
    )
    return evolved, schema, columns, snapshot_id


def _partly_given(schema: TableSchema, source: DataFrame) -> frozenset[str]:
    """The columns of a table whose STRUCTs lack fields in the source."""
    given = {field.name.lower(): field.dataType for field in source.schema.fields}
    fields = [field for field in to_spark_struct(schema.fields).fields if field.name.lower() in given]
    return frozenset(field.name for field in fields if lacks_fields(given[field.name.lower()], field.dataType))


def _new_columns(merge: FrameMerge, source: DataFrame) -> StructType:
    """The columns of the source that count: all where a clause has a star, else those that are assigned."""
    clauses = [clause for clause in (*merge.matched, *merge.not_matched) if clause.action is not Action.DELETE]
    if any(clause.values is None for clause in clauses):
        return source.schema
    known = merge.table.schema.field_names
    names = {(name if name in known else split_name(name)[0]).lower() for c in clauses for name in c.values or {}}
    return StructType([field for field in source.schema.fields if field.name.lower() in names])


def _as_if(merge: FrameMerge, schema: TableSchema) -> FrameMerge:
    """The MERGE into a table as if it had a schema already."""

    def target(
        snapshot_id: int | None, columns: Sequence[str], locations: Sequence[str], where: str | None
    ) -> DataFrame:
        own = merge.table.schema
        there = [name for name in columns if own.has_field(name)] or [own.field_names[0]]
        rows = merge.target(snapshot_id, there, locations, where)
        for name in columns:
            wanted = to_spark_type(schema.field(name).type)
            if not own.has_field(name):
                rows = rows.withColumn(name, sf.lit(None).cast(wanted))
            elif schema.field(name).type != own.field(name).type:
                rows = rows.withColumn(name, sf.col(quoted_name(name)).cast(wanted))
        return rows

    return replace(merge, table=replace(merge.table, schema=schema), target=target)


def _analyse(rows: MergeRows) -> None:
    """Let Spark refuse conditions that it cannot resolve; values are looked up before."""
    clauses = (*rows.matched, *rows.not_matched, *rows.not_matched_by_source)
    conditions = [clause.condition for clause in clauses if clause.condition is not None]
    joined = rows.target.join(rows.source, rows.on)
    assert joined.select(*(condition.alias(str(at)) for at, condition in enumerate(conditions))).schema is not None
