"""Which merge engine a table has (``merge-engine``; docs/internals/format.md §10)."""

from __future__ import annotations

from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.merge.aggregation import aggregation_for
from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.partial_update import partial_update_for
from paimon_spark.merge.winning_rows import Deduplicate, FirstRow
from paimon_spark.spec.option_validation import validate_merge_engine, validate_sequence_field
from paimon_spark.spec.schema import TableSchema

__all__ = ["KeyLayout", "MergeEngine", "merge_engine_for"]


def merge_engine_for(schema: TableSchema) -> MergeEngine:
    """The merge engine of a primary-key table; driver and task.

    Raises:
        SchemaError: The table has no primary key.
        OptionError: Options of the merge engine contradict each other or the columns.
        UnsupportedError: The engine or an aggregate function is not supported.
    """
    if not schema.kind.is_keyed:
        raise SchemaError("Only a table with a primary key has a merge engine; this one has none.")
    validate_sequence_field(schema)
    validate_merge_engine(schema)
    options = schema.core_options
    layout = KeyLayout(schema.trimmed_primary_keys, options.sequence_fields, options.sequence_descending)
    match options.merge_engine:
        case "deduplicate":
            return Deduplicate(layout, options.ignore_delete)
        case "partial-update":
            return partial_update_for(schema, layout)
        case "aggregation":
            return aggregation_for(schema, layout)
        case "first-row":
            return FirstRow(layout, options.ignore_delete)
    raise UnsupportedError(f"Merge engine '{options.merge_engine}' is not supported.")
