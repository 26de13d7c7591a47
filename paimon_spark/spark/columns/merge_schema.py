"""Option `write.merge-schema`: columns that the rows have and the table lacks are added to the table.

Runs on the driver, once per job, before the write is planned. Equals Java's ``SchemaMergingUtils`` without the widening
of types.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.spark.columns.types import from_spark_struct, spark_arrow_schema
from paimon_spark.spec.schema import assign_field_ids
from paimon_spark.spec.schema_validation import validate
from paimon_spark.table.support import check_writable
from paimon_spark.write.rows import map_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable


def merge_schema(table: FileStoreTable, schema: StructType) -> FileStoreTable:
    """The table with nullable columns added at its end for those that only the rows have; unchanged without such.

    Raises:
        SchemaMismatchError: the rows would not fit the table then either; no column is added.
        UnsupportedError: Paimon has no type for a new column.
    """
    columns = from_spark_struct(schema)
    if with_columns(table.schema, columns) is table.schema:
        return table

    def change(latest: TableSchema) -> TableSchema:
        changed = with_columns(latest, columns)
        if changed is not latest:
            validate(changed)
            check_writable(changed)
            map_columns(changed, spark_arrow_schema(schema))
        return changed

    table.schemas.commit_next(change)
    return table.with_latest_schema()


def with_columns(schema: TableSchema, columns: Sequence[DataField]) -> TableSchema:
    """The next schema, with those of the columns that it lacks; the same one when it has them all (case left aside)."""
    known = {name.lower() for name in schema.field_names}
    new = [replace(c, type=c.type.with_nullable(True)) for c in columns if c.name.lower() not in known]
    if not new:
        return schema
    numbered, highest = assign_field_ids(new, schema.highest_field_id + 1)
    return replace(
        schema,
        id=schema.id + 1,
        fields=(*schema.fields, *numbered),
        highest_field_id=highest,
        time_millis=time.time_ns() // 1_000_000,
    )
