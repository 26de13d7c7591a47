"""Option `write.merge-schema`: columns that the rows have and the table lacks are added to the table.

With `write.merge-schema.type-widening` columns take the types of the rows where these are wider; with
`write.merge-schema.explicit-cast` also where values may be lost. Runs on the driver, once per job, before the write is
planned. Equals Java's ``SchemaEvolutionHelper``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import NullType, StructType

from paimon_spark.spark.columns.types import from_spark_struct, from_spark_type, spark_arrow_schema, to_spark_type
from paimon_spark.spec.schema_merge import MergeRules, merge_columns
from paimon_spark.spec.schema_validation import validate
from paimon_spark.table.support import check_writable
from paimon_spark.write.rows import map_columns

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable


def merge_schema(table: FileStoreTable, schema: StructType, rules: MergeRules) -> FileStoreTable:
    """The table with the columns of the rows; unchanged where they bring nothing new.

    Raises:
        SchemaMismatchError: the rows would not fit the table then either; no column is changed.
        SchemaChangeError: a type cannot become that of the rows.
        UnsupportedError: Paimon has no type for a new column.
    """
    columns = from_spark_struct(schema)
    if with_columns(table.schema, columns, rules) is table.schema:
        return table

    def change(latest: TableSchema) -> TableSchema:
        changed = with_columns(latest, columns, rules)
        if changed is not latest:
            validate(changed)
            check_writable(changed)
            map_columns(changed, spark_arrow_schema(schema))
        return changed

    table.schemas.commit_next(change)
    return table.with_latest_schema()


def typed_columns(columns: StructType, schema: TableSchema) -> StructType:
    """Return the columns of rows but for NULLs in place of columns that the table has: these have no type."""
    known = {name.lower() for name in schema.field_names}
    fields = columns.fields
    return StructType([f for f in fields if not (isinstance(f.dataType, NullType) and f.name.lower() in known)])


def with_columns(schema: TableSchema, columns: Sequence[DataField], rules: MergeRules) -> TableSchema:
    """The next schema, with the columns of rows; the same one where they bring nothing new.

    Raises:
        SchemaChangeError: a type cannot become that of the rows.
    """
    return merge_columns(schema, columns, rules, shown_as=_as_spark_shows)


def _as_spark_shows(data_type: DataType) -> DataType:
    """The type that a column of a table becomes when it is read by Spark and written again."""
    return from_spark_type(to_spark_type(data_type), nullable=data_type.nullable, where="")
