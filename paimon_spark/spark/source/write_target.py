"""The table that a save goes to: opened, or created where there is none; what an overwrite replaces; how rows look.

Everything here runs on the driver, once per job, before the first row moves. Rows get their form before they are
shuffled: keys that the table stores as equal must be equal.

Option `write.merge-schema`: columns that the rows have and the table lacks are added to the table. With
`write.merge-schema.type-widening` columns take the types of the rows where these are wider; with
`write.merge-schema.explicit-cast` also where values may be lost. Equals Java's ``SchemaEvolutionHelper``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import types as spark
from pyspark.sql.types import NullType, StructType

from paimon_spark.commit.overwrite import OverwriteSpec, overwrite_where
from paimon_spark.errors import OptionError, SchemaError, SchemaMismatchError, TableNotFoundError
from paimon_spark.options import canonical_options, reaching_options
from paimon_spark.spark.columns.types import (
    from_spark_struct,
    from_spark_type,
    saved_columns,
    spark_arrow_schema,
    to_spark_type,
)
from paimon_spark.spark.session.overwrite_mode import is_dynamic_overwrite
from paimon_spark.spark.session.session_options import layered
from paimon_spark.spark.source.source_options import (
    REPLACE_WHERE,
    find_field,
    refuse_system_table,
    row_condition,
    write_request,
)
from paimon_spark.spec.data_types import CharType
from paimon_spark.spec.schema_merge import MergeRules, merge_columns
from paimon_spark.spec.schema_validation import validate
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.storage.store_options import redact
from paimon_spark.table.foreign_folders import store_of_new_table
from paimon_spark.table.new_schema import KEY_OPTIONS, names_of, new_table_schema
from paimon_spark.table.paths import MAIN_BRANCH, TableName, refuse_system_database
from paimon_spark.table.support import check_writable
from paimon_spark.table.table import FileStoreTable, create_table, load_table, table_exists
from paimon_spark.write.rows import map_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spark.source.source_options import WriteRequest
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.schema import TableSchema


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


def check_frame(rows: object, action: str) -> None:
    """Refuse rows that are no DataFrame of Spark's.

    Raises:
        SchemaMismatchError: says how to make one.
    """
    if not hasattr(rows, "sparkSession"):
        kind = f"{type(rows).__module__.partition('.')[0].removeprefix('builtins')} {type(rows).__name__}".strip()
        raise SchemaMismatchError(
            f"{action} takes a DataFrame of Spark, not a {kind}: spark.createDataFrame(rows) makes one "
            "of lists, of Arrow tables and of pandas DataFrames (whose NaN stay NaN and do not become null)"
        )


def saved_table_exists(options: Mapping[str, str]) -> bool:
    """Whether there is a table where a save with these options goes to."""
    request = write_request(options, overwrite=False)
    return table_exists(TableName(request.name.root), options=_sorted(request)[0])


def path_already_exists(path: str) -> AnalysisException:
    """Spark's own error for a save to what is there, in a mode that writes only what is new."""
    message = (
        f'There is a Paimon table at {redact(path)} already. Set mode as "append" to add rows, as "overwrite" to '
        'replace them, or as "ignore" to leave the table as it is.'
    )
    return AnalysisException(message=message, errorClass="PATH_ALREADY_EXISTS", messageParameters={})


def target_table(request: WriteRequest, schema: StructType, opened: FileStoreTable | None = None) -> FileStoreTable:
    """The table to write rows of a Spark schema to, with the options of the save on top of its own.

    Args:
        request: the save.
        schema: of the rows.
        opened: the table, if this statement has opened it already.

    Raises:
        TableNotFoundError: the path names a branch that does not exist.
        OptionError: an option differs from what the table was created with.
        SchemaError: no table can be made of these columns and options.
        UnsupportedError: the table cannot be written yet.
    """
    name = request.name
    refuse_system_table(request.path, name.system_table, "written")
    refuse_system_database(name.root)
    store, branch, session, others = _sorted(request)
    table = opened.as_opened() if opened is not None else _opened_or_created(request, schema, store, branch, others)
    if request.merge_schema is not None:
        table = merge_schema(table, schema, request.merge_schema)
    table = _with_dynamic_options(table, layered(session, others))
    check_writable(table.schema)
    return table


def _opened_or_created(
    request: WriteRequest, schema: StructType, store: dict[str, str], branch: str | None, others: Mapping[str, str]
) -> FileStoreTable:
    name = request.name
    try:
        return load_table(request.name, options=store, branch=branch)
    except TableNotFoundError:
        if (branch or name.branch) != MAIN_BRANCH:
            raise
    new_schema = new_table_schema(saved_columns(schema), {k: v for k, v in others.items() if not of_one_write(k)})
    file_io = store_of_new_table(name.root, store)
    try:
        return create_table(name.root, new_schema, options=store, file_io=file_io)
    except SchemaError:  # another job was faster; then its table is the one to write to
        return load_table(request.name, options=store)


def opened_table(request: WriteRequest) -> FileStoreTable:
    """The table that a save goes to, as it is.

    Raises:
        TableNotFoundError: there is none.
    """
    store, branch, _, _ = _sorted(request)
    return load_table(request.name, options=store, branch=branch)


def _sorted(request: WriteRequest) -> tuple[dict[str, str], str | None, dict[str, str], dict[str, str]]:
    """The options of a save: of the store, the branch, the session's, those of the table."""
    session = dict(request.session_options)
    store = reaching_options({**session, **request.options})
    others = {key: value for key, value in request.options.items() if key not in store}
    branch = session.pop("branch", None)
    branch = others.pop("branch", branch)
    return store, branch, {key: value for key, value in session.items() if key not in store}, others


def of_one_write(key: str) -> bool:
    """Return whether an option of a writer, such as `write.merge-schema`, is not for the table that the writer makes.

    In a statement's TBLPROPERTIES the same key is the table's, as with the official connector.
    """
    return key.lower().startswith("write.merge-schema")


def _with_dynamic_options(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    """The existing table with the options of a save; keys and partitions may be named again, but not changed."""
    dynamic = canonical_options(options, table.schema.field_names)
    for key, noun in KEY_OPTIONS.items():
        text = dynamic.pop(key, None)
        now = table.schema.primary_keys if key == "primary-key" else table.schema.partition_keys
        if text is not None and [n.lower() for n in names_of(text)] != [n.lower() for n in now]:
            raise OptionError(
                f"Cannot change {key} to '{text}': the table {table.path} exists, with the {noun}: "
                f"{', '.join(now) or 'none'}. Leave the option out to write to it"
            )
    return table.with_options(dynamic)


def overwrite_of(request: WriteRequest, table: FileStoreTable) -> OverwriteSpec:
    """What ``mode("overwrite")`` replaces: the table, the partitions in the data, or those that `replaceWhere` names.

    Raises:
        OptionError: `replaceWhere` is no condition over partition columns.
    """
    if request.replace_where is None:
        dynamic = is_dynamic_overwrite(
            request.dynamic_overwrite, request.settings, request.session_options, table.schema.options
        )
        return OverwriteSpec.dynamic() if dynamic else OverwriteSpec.static()
    condition = row_condition(request.replace_where, table.schema, request.settings)
    return overwrite_where(condition, table, f'option {REPLACE_WHERE} "{request.replace_where}"')


_WHOLE_NUMBERS = (spark.ByteType(), spark.ShortType(), spark.IntegerType(), spark.LongType())


def shuffle_columns(schema: TableSchema, struct: spark.StructType) -> list[str] | None:
    """Return the columns of the rows as SQL; those by which rows are shuffled are cast as the table stores them.

    Equal keys must be equal when Spark shuffles: CHAR(n) is padded, as by SQL INSERT, and numbers are widened.

    Returns:
        None where the rows are so already.
    """
    keys = _shuffle_keys(schema)
    shown: list[str] = []
    changed = False
    for column in struct.fields:
        name = quoted_name(column.name)
        field = _matching(schema.fields, column.name)
        text = name
        if field is not None and isinstance(field.type, CharType) and isinstance(column.dataType, spark.StringType):
            length = field.type.length
            text = f"CASE WHEN char_length({name}) < {length} THEN rpad({name}, {length}, ' ') ELSE {name} END"
        elif field is not None and field.name in keys and _widens(column.dataType, to_spark_type(field.type)):
            text = f"CAST({name} AS {to_spark_type(field.type).simpleString()})"
        alias = field.name if field is not None and field.name in keys else column.name
        changed |= text != name or alias != column.name
        shown.append(text if text == quoted_name(alias) else f"{text} AS {quoted_name(alias)}")
    return shown if changed else None


def with_shuffle_columns(schema: TableSchema, rows: DataFrame) -> DataFrame:
    """Return rows with the columns that `shuffle_columns` tells."""
    columns = shuffle_columns(schema, rows.schema)
    return rows if columns is None else rows.selectExpr(*columns)


def has_keys_of(schema: TableSchema, struct: spark.StructType) -> bool:
    """Whether the rows have the columns by which they are assigned, in the types of the table."""
    types = {column.name: column.dataType for column in struct.fields}
    known = {field.name: field.type for field in schema.fields}
    return all(types.get(name) == to_spark_type(known[name]) for name in _shuffle_keys(schema))


def _shuffle_keys(schema: TableSchema) -> set[str]:
    return {*schema.partition_keys, *schema.primary_keys, *schema.bucket_keys}


def _matching(fields: Sequence[DataField], name: str) -> DataField | None:
    try:
        return find_field(fields, name)
    except SchemaMismatchError:  # our writer says so
        return None


def _widens(given: spark.DataType, wanted: spark.DataType) -> bool:
    if given in _WHOLE_NUMBERS and wanted in _WHOLE_NUMBERS:
        return _WHOLE_NUMBERS.index(given) < _WHOLE_NUMBERS.index(wanted)
    return False
