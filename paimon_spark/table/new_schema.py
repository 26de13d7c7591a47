"""The first schema of a table, made of columns, keys and options, and checked before anything is written."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.options import Scope, canonical_options, check_new_options, reaching_options, with_scope
from paimon_spark.spec.column_directives import with_directives
from paimon_spark.spec.option_types import with_option_types
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.schema_validation import validate
from paimon_spark.table.support import check_readable, check_stored_branch, check_writable

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema

_LOG = logging.getLogger(__name__)
KEY_OPTIONS = {"primary-key": "primary key", "partition": "partition columns"}
"""Options that name the keys of a new table."""
_LIST = re.compile(r"""\s*\[\s*(['"]).*\1\s*\]\s*""", re.DOTALL)


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
    passing = with_scope(given, Scope.READ, Scope.WRITE) | reaching_options(given)
    kept = {key: value for key, value in given.items() if key not in passing}
    for key in passing:
        _LOG.warning("Option '%s' is one of a read, a write or the store: the table does not keep it.", key)
    check_new_options(kept, columns)
    check_stored_branch(kept)
    for key in KEY_OPTIONS.keys() & kept.keys():
        kept[key] = ",".join(_column_case(name, columns) for name in names_of(kept[key]))
    keys = [_column_case(name, columns) for name in primary_keys]
    partitions = [_column_case(name, columns) for name in partition_keys]
    declared, kept = with_directives(fields, kept)
    schema = create_schema(with_option_types(declared, kept), keys, partitions, kept, comment)
    validate(schema)
    check_writable(schema)
    check_readable(schema)
    return schema


def names_of(text: str) -> tuple[str, ...]:
    """The names of a comma list.

    Raises:
        OptionError: it is a list of Python's or of JSON as text.
    """
    if _LIST.fullmatch(text):
        names = ",".join(part.strip(" '\"") for part in text.strip()[1:-1].split(","))
        raise OptionError(f"{text} is a list as text, but names stand between commas: write '{names}'")
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _column_case(name: str, columns: Sequence[str]) -> str:
    """Return the table's spelling of a column name, if exactly one column differs by case only."""
    found = [column for column in columns if column.lower() == name.lower()]
    return found[0] if len(found) == 1 and name not in columns else name
