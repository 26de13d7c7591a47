"""The parts of a shredded VARIANT that a read touches: the columns of its paths, and what is not shredded.

A value of these parts alone gives the same at the touched paths as the whole value, and is null where that is.
Elements of arrays are read whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

Paths = Sequence[tuple[str, ...]]

_VALUE, _TYPED, _METADATA = "value", "typed_value", "metadata"
_SEPARATOR: Final = "."
"""Names with it make the paths of a file's columns ambiguous."""


def touched(found: pa.DataType, paths: Paths) -> pa.DataType:
    """Return the type of a column of a file with only those typed columns that are needed for some paths.

    Args:
        found: a VARIANT as the file has it: shredded or not.
        paths: names of fields of objects, from the root; an empty one is the whole value.
    """
    return _touched(found, paths) if pa.types.is_struct(found) and found.get_field_index(_METADATA) >= 0 else found


def has_touched_parts(found: pa.DataType) -> bool:
    """Whether values of such a column may be missing after `touched`: those of files that are not shredded are not."""
    at = found.get_field_index(_VALUE) if pa.types.is_struct(found) else -1
    return at >= 0 and found.get_field_index(_METADATA) >= 0 and bool(found.field(at).nullable)


def _touched(group: pa.StructType, paths: Paths) -> pa.DataType:
    at = group.get_field_index(_TYPED)
    if at < 0 or group.get_field_index(_VALUE) < 0 or any(not path for path in paths):
        return group
    typed = group.field(at)
    if pa.types.is_struct(typed.type) and any(_SEPARATOR in field.name for field in typed.type):
        return group
    kept = []
    if pa.types.is_struct(typed.type):
        for field in typed.type:
            inner = [path[1:] for path in paths if path[0] == field.name]
            if inner:
                kept.append(field.with_type(_touched(field.type, inner)))
    # a typed value that is no object has no fields
    others = [field for field in group if field.name != _TYPED]
    return pa.struct([*others, typed.with_type(pa.struct(kept))] if kept else others)
