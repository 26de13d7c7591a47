"""The kind of a row: what happened to it (Java: ``RowKind``), as one value and for whole columns.

Columns of kinds are int8 arrays (``_VALUE_KIND``). Compare them with the functions here: numpy widens an int8 array to
int64 before it compares it with a member of an ``IntEnum``.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.special_fields import VALUE_KIND

if TYPE_CHECKING:
    import numpy.typing as npt

    Kinds = npt.NDArray[np.int8]
    Mask = npt.NDArray[np.bool_]

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
