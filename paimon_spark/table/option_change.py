"""Which options of a table may change once it has data.

Equals Java's ``SchemaManager.checkAlterTableOption`` and ``checkResetTableOption``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import SchemaChangeError
from paimon_spark.options import find_option

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_KEYS = {"primary-key": "primary_keys", "partition": "partition_keys"}
_ONE_WAY = ("ignore-delete", "ignore-update-before")
_DELETION_VECTORS = "deletion-vectors.enabled"


def check_option_change(schema: TableSchema, key: str, value: str, *, has_snapshots: bool) -> bool:
    """Whether setting an option changes anything.

    Raises:
        SchemaChangeError: the option cannot change, or not in this way.
    """
    options = schema.options
    if key in _KEYS:
        now = getattr(schema, _KEYS[key])
        if tuple(name.strip() for name in value.split(",") if name.strip()) == now:
            return False
        raise SchemaChangeError(f"Change '{key}' is not supported yet: the table has {key} {','.join(now) or 'none'}.")
    if key in ("path", "location"):
        raise SchemaChangeError(
            "Change path is not supported yet. ALTER TABLE ... SET LOCATION is not supported for Paimon tables."
        )
    if options.get(key) == value:
        return False
    if key == "type" and value.lower() != options.get(key, "table").lower():
        raise SchemaChangeError("Change 'type' is not supported yet.")
    if has_snapshots:
        _check_with_data(schema, key, value)
    return True


def check_option_removal(schema: TableSchema, key: str, *, has_snapshots: bool) -> None:
    """Check that an option may go back to its default.

    Raises:
        SchemaChangeError: it may not.
    """
    if key == "type" or key in _KEYS:
        raise SchemaChangeError(f"Change '{key}' is not supported yet.")
    if not has_snapshots or key not in schema.options:
        return
    option = find_option(key)
    if option is not None and option.immutable:
        raise SchemaChangeError(f"Change '{key}' is not supported yet.")
    if key == "bucket":
        raise SchemaChangeError("Cannot reset bucket.")
    if key == _DELETION_VECTORS:
        _check_with_data(schema, key, "false")


def _check_with_data(schema: TableSchema, key: str, value: str) -> None:
    option = find_option(key)
    if option is None:
        return
    if option.immutable:
        raise SchemaChangeError(f"Change '{key}' is not supported yet: the files of the table depend on it.")
    before, after = schema.core_options.get(option), option.parse(value)
    if key == "bucket" and before != after:
        if before == -1:
            raise SchemaChangeError("Cannot change bucket when it is -1.")
        if after == -1:
            raise SchemaChangeError("Cannot change bucket to -1.")
    if key == _DELETION_VECTORS and before != after and not schema.core_options.value("deletion-vectors.modifiable"):
        raise SchemaChangeError(
            f"Cannot change deletion vectors mode from {str(before).lower()} to {str(after).lower()}. If modifying "
            "table deletion-vectors mode without full-compaction, this may result in data duplication. If you are "
            "confident, you can set table option 'deletion-vectors.modifiable' = 'true' to allow deletion vectors "
            "modification."
        )
    if key in _ONE_WAY and before and not after:
        raise SchemaChangeError(f"Cannot change {key} from true to false.")
    if key == "clustering.columns" and "pk-clustering-override" in schema.options:
        raise SchemaChangeError(f"Cannot change {key} when pk-clustering-override enabled.")
