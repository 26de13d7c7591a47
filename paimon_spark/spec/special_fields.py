"""Columns that Paimon adds to files and system tables, ids of fields without their own, and the kinds of rows.

Java: ``SpecialFields``, ``RowKind``. Columns of kinds are int8 arrays (``_VALUE_KIND``). Compare them with the
functions here: numpy widens an int8 array to int64 before it compares it with a member of an ``IntEnum``.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.data_types import BigIntType, DataField, IntType, TinyIntType, VarCharType

if TYPE_CHECKING:
    import numpy.typing as npt

    Kinds = npt.NDArray[np.int8]
    Mask = npt.NDArray[np.bool_]

_MAX_INT = 2_147_483_647

STRUCTURED_TYPE_FIELD_ID_BASE: Final = _MAX_INT // 4
"""Java: ``SpecialFields.STRUCTURED_TYPE_FIELD_ID_BASE``."""
STRUCTURED_TYPE_FIELD_DEPTH_LIMIT: Final = 1 << 10
"""Java: ``SpecialFields.STRUCTURED_TYPE_FIELD_DEPTH_LIMIT``."""

SYSTEM_FIELD_ID_START = _MAX_INT // 2
"""Ids from here on belong to system fields."""

KEY_FIELD_PREFIX = "_KEY_"
"""What the names of key columns in the files of primary-key tables start with."""

SEQUENCE_NUMBER = DataField(_MAX_INT - 1, "_SEQUENCE_NUMBER", BigIntType(nullable=False))
"""Sequence number of a key-value row."""

VALUE_KIND = DataField(_MAX_INT - 2, "_VALUE_KIND", TinyIntType(nullable=False))
"""Row kind of a key-value row: 0 +I, 1 -U, 2 +U, 3 -D."""

LEVEL = DataField(_MAX_INT - 3, "_LEVEL", IntType(nullable=False))
"""Level of a key-value row in the LSM tree."""

ROW_KIND = DataField(_MAX_INT - 4, "rowkind", VarCharType(VarCharType.MAX))
"""Row kind as text in the audit log."""

ROW_ID = DataField(_MAX_INT - 5, "_ROW_ID", BigIntType(nullable=False))
"""Id of a row in tables with row tracking."""

TRACKED_FIELDS = (ROW_ID, replace(SEQUENCE_NUMBER, type=BigIntType()))
"""What files of tables with row tracking hold besides when rows are written again.

A row whose sequence number is null was changed by the snapshot that wrote it (``rowTypeWithRowTracking``).
"""

SYSTEM_FIELD_NAMES = frozenset(f.name for f in (SEQUENCE_NUMBER, VALUE_KIND, LEVEL, ROW_KIND, ROW_ID))
"""Names that no column of a table may have (besides those that start with `KEY_FIELD_PREFIX`)."""


def is_system_field(name: str) -> bool:
    """Whether a column of this name is one that Paimon adds."""
    return name.startswith(KEY_FIELD_PREFIX) or name in SYSTEM_FIELD_NAMES


def key_field(data_field: DataField) -> DataField:
    """The key column that stands for a column of the table in files: `_KEY_` before its name, its id moved up."""
    return replace(
        data_field, id=data_field.id + SYSTEM_FIELD_ID_START, name=KEY_FIELD_PREFIX + data_field.name, description=None
    )


def element_id(field_id: int, depth: int) -> int:
    """Id of an array's element or a map's value (Java ints: they wrap)."""
    return _java_int(STRUCTURED_TYPE_FIELD_ID_BASE + field_id * STRUCTURED_TYPE_FIELD_DEPTH_LIMIT + depth)


def key_id(field_id: int, depth: int) -> int:
    """Id of a map's key."""
    return _java_int(STRUCTURED_TYPE_FIELD_ID_BASE - field_id * STRUCTURED_TYPE_FIELD_DEPTH_LIMIT - depth)


def _java_int(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


_RETRACT_BIT = 1


class RowKind(IntEnum):
    """The kind of a row; the number is what files and manifests hold."""

    INSERT = 0
    UPDATE_BEFORE = 1
    """The row as it was before an update. It retracts."""
    UPDATE_AFTER = 2
    """The row as it is after an update."""
    DELETE = 3
    """The row as it was before it was deleted. It retracts."""

    @property
    def short_string(self) -> str:
        """``+I``, ``-U``, ``+U`` or ``-D``, as in Java."""
        return ("+I", "-U", "+U", "-D")[self]

    def mask(self, kinds: Kinds) -> Mask:
        """Say which of these kinds are this one."""
        found: Mask = kinds == self.value
        return found


def is_retract(kinds: Kinds) -> Mask:
    """Say which of these kinds retract a row: -U and -D (Java: ``RowKind.isRetract``)."""
    return (kinds & _RETRACT_BIT).astype(np.bool_)


def is_add(kinds: Kinds) -> Mask:
    """Say which of these kinds add a row: +I and +U (Java: ``RowKind.isAdd``)."""
    found: Mask = (kinds & _RETRACT_BIT) == 0
    return found


def without_retracts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the rows whose column ``_VALUE_KIND`` says -U or -D."""
    kinds = batch.column(VALUE_KIND.name)
    retracts = pc.bit_wise_and(kinds, pa.scalar(_RETRACT_BIT, pa.int8()))
    return batch.filter(pc.equal(retracts, pa.scalar(0, pa.int8())))


@cache
def short_strings() -> pa.Array:
    """The short strings by number; made on first use, since ``pa.array`` of a list imports pandas."""
    return pa.array([kind.short_string for kind in RowKind])
