"""The table that a save goes to: opened, or created where there is none; and what an overwrite replaces.

Everything here runs on the driver, once per job, before the first row moves.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.errors import OptionError, SchemaError, SchemaMismatchError, TableNotFoundError
from paimon_spark.options import Scope, canonical_options, check_new_options, with_scope
from paimon_spark.spark.columns.merge_schema import merge_schema
from paimon_spark.spark.columns.types import saved_columns
from paimon_spark.spark.session.overwrite_mode import is_dynamic_overwrite
from paimon_spark.spark.session.session_options import layered
from paimon_spark.spark.source.source_options import REPLACE_WHERE, refuse_system_table, row_condition
from paimon_spark.spec.column_directives import with_directives
from paimon_spark.spec.option_types import with_option_types
from paimon_spark.spec.predicate import Leaf, Predicate, fields, split_and
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.schema_validation import validate
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.paths import MAIN_BRANCH, parse_table_path, refuse_system_database
from paimon_spark.table.support import check_readable, check_stored_branch, check_writable
from paimon_spark.table.table import FileStoreTable, create_table, load_table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_spark.spark.source.source_options import WriteRequest
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema

_LOG = logging.getLogger(__name__)
_KEY_OPTIONS = {"primary-key": "primary key", "partition": "partition columns"}


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
    name = parse_table_path(request.path)
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
    name = parse_table_path(request.path)
    try:
        return load_table(request.path, options=store, branch=branch)
    except TableNotFoundError:
        if (branch or name.branch) != MAIN_BRANCH:
            raise
    new_schema = new_table_schema(saved_columns(schema), {k: v for k, v in others.items() if not of_one_write(k)})
    try:
        return create_table(name.root, new_schema, file_io=FileIO.for_path(name.root, store))
    except SchemaError:  # another job was faster; then its table is the one to write to
        return load_table(request.path, options=store)


def opened_table(request: WriteRequest) -> FileStoreTable:
    """The table that a save goes to, as it is.

    Raises:
        TableNotFoundError: there is none.
    """
    store, branch, _, _ = _sorted(request)
    return load_table(request.path, options=store, branch=branch)


def _sorted(request: WriteRequest) -> tuple[dict[str, str], str | None, dict[str, str], dict[str, str]]:
    """The options of a save: of the store, the branch, the session's, those of the table."""
    session = dict(request.session_options)
    store = with_scope({**session, **request.options}, Scope.STORE)
    others = {key: value for key, value in request.options.items() if key not in store}
    branch = session.pop("branch", None)
    branch = others.pop("branch", branch)
    return store, branch, {key: value for key, value in session.items() if key not in store}, others


def of_one_write(key: str) -> bool:
    """Tell whether an option of a writer, such as `write.merge-schema`, is not for the table that the writer makes.

    In a statement's TBLPROPERTIES the same key is the table's, as with the official connector.
    """
    return key.lower().startswith("write.merge-schema")


def new_table_schema(
    fields: Sequence[DataField],
    options: Mapping[str, str],
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    comment: str | None = None,
) -> TableSchema:
    """The first schema of a table, checked before anything is written.

    Args:
        fields: the columns.
        options: all options given; those that belong to one read, one write or the store are left out of the schema.
        primary_keys: names of the key columns; or option `primary-key`.
        partition_keys: names of the partition columns; or option `partition`.
        comment: the table's comment.

    Raises:
        SchemaError: keys, columns and options do not fit together.
        OptionError: a key is near one of Paimon's; other unknown keys are kept as they are.
        UnsupportedError: such a table cannot be written yet.
    """
    columns = [field.name for field in fields]
    given = canonical_options(options, columns)
    passing = with_scope(given, Scope.READ, Scope.WRITE, Scope.STORE)
    kept = {key: value for key, value in given.items() if key not in passing}
    for key in passing:
        _LOG.warning("Option '%s' is one of a read, a write or the store: the table does not keep it.", key)
    check_new_options(kept, columns)
    check_stored_branch(kept)
    for key in _KEY_OPTIONS.keys() & kept.keys():
        kept[key] = ",".join(_column_case(name, columns) for name in _names(kept[key]))
    keys = [_column_case(name, columns) for name in primary_keys]
    partitions = [_column_case(name, columns) for name in partition_keys]
    declared, kept = with_directives(fields, kept)
    schema = create_schema(with_option_types(declared, kept), keys, partitions, kept, comment)
    validate(schema)
    check_writable(schema)
    check_readable(schema)
    return schema


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _column_case(name: str, columns: Sequence[str]) -> str:
    """Return the table's spelling of a column name, if exactly one column differs by case only."""
    found = [column for column in columns if column.lower() == name.lower()]
    return found[0] if len(found) == 1 and name not in columns else name


def _with_dynamic_options(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    """The existing table with the options of a save; keys and partitions may be named again, but not changed."""
    dynamic = canonical_options(options, table.schema.field_names)
    for key, noun in _KEY_OPTIONS.items():
        text = dynamic.pop(key, None)
        now = table.schema.primary_keys if key == "primary-key" else table.schema.partition_keys
        if text is not None and [n.lower() for n in _names(text)] != [n.lower() for n in now]:
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
    check_partition_condition(condition, table, f'option {REPLACE_WHERE} "{request.replace_where}"')
    spec = _partition_of(condition)
    return OverwriteSpec.matching(condition) if spec is None else OverwriteSpec.static(spec)


def check_partition_condition(condition: Predicate, table: FileStoreTable, what: str) -> None:
    """Refuse a condition about columns that are no partition columns.

    Raises:
        OptionError: it is about other columns, which the message names after `what`.
    """
    keys = table.schema.partition_keys
    others = sorted(fields(condition) - set(keys))
    if others or not keys:
        raise OptionError(
            f"{what} replaces whole partitions, so it is about partition columns only, as \"dt = '2024-01-31'\" is; "
            f"{', '.join(others) or 'there'} is none ({table.path} is partitioned by: {', '.join(keys) or 'nothing'})"
        )


def _partition_of(condition: Predicate) -> dict[str, Any] | None:
    """The values of one partition (or of all with these values), when the condition says no more than that."""
    values: dict[str, Any] = {}
    for part in split_and(condition):
        if not isinstance(part, Leaf) or part.op not in ("eq", "eq_null_safe", "is_null") or part.field in values:
            return None
        values[part.field] = part.literals[0] if part.literals else None
        if part.op == "eq" and values[part.field] is None:
            return None  # = NULL is never true
    return values or None
