"""Row kinds as single values and as columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.spec.special_fields import RowKind, is_add, is_retract, short_strings, without_retracts

ALL = np.arange(4, dtype=np.int8)


def test_numbers_and_short_strings_are_those_of_java() -> None:
    assert [(kind.value, kind.short_string) for kind in RowKind] == [(0, "+I"), (1, "-U"), (2, "+U"), (3, "-D")]
    assert short_strings().to_pylist() == ["+I", "-U", "+U", "-D"]


def test_masks_of_columns() -> None:
    assert is_retract(ALL).tolist() == [False, True, False, True]
    assert is_add(ALL).tolist() == [True, False, True, False]
    for kind in RowKind:
        assert kind.mask(ALL).tolist() == [kind == other for other in range(4)]
    assert {mask.dtype for mask in (is_retract(ALL), is_add(ALL), RowKind.DELETE.mask(ALL))} == {np.dtype(bool)}


def test_retracts_are_dropped() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(list("abcd")), pa.array(ALL)], names=["k", "_VALUE_KIND"])
    assert without_retracts(batch).column("_VALUE_KIND").to_pylist() == [0, 2]
