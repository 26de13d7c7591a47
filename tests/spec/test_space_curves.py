"""Curves through several columns: bits are interleaved, and neighbours on Hilbert's curve are neighbours."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.maintain.compact.row_order import Curve, can_be_ordered, curve_keys


def ranks(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    return np.array(numbers, np.uint16)


def test_z_order_interleaves_bits() -> None:
    pairs = [(0b1011, 0b0110), (0, 65535), (65535, 0), (40_000, 3)]
    keys = curve_keys([ranks(*(x for x, _ in pairs)), ranks(*(y for _, y in pairs))], Curve.ZORDER).to_pylist()
    for key, (left, right) in zip(keys, pairs, strict=True):
        expected = 0
        for bit in range(15, -1, -1):
            for value in (left, right):
                expected = expected << 1 | (value >> bit & 1)
        assert int.from_bytes(key, "big") == expected


@pytest.mark.parametrize(("dimensions", "side"), [(2, 16), (3, 8), (4, 4)])
def test_hilbert_goes_from_neighbour_to_neighbour(dimensions: int, side: int) -> None:
    """Through a cube at the origin, whose side is a power of two, every step is to a neighbour."""
    grid = np.stack(np.meshgrid(*[np.arange(side)] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)
    keys = curve_keys([grid[:, axis].astype(np.uint16) for axis in range(dimensions)], Curve.HILBERT).to_pylist()
    assert len(set(keys)) == len(keys)
    walk = grid[sorted(range(len(keys)), key=lambda at: keys[at])]
    assert (np.abs(np.diff(walk, axis=0)).sum(axis=1) == 1).all()


@pytest.mark.parametrize("curve", [Curve.ZORDER, Curve.HILBERT])
def test_many_rows_and_none(curve: Curve) -> None:
    numbers = np.random.default_rng(1).integers(0, 1 << 16, (2, 70_000)).astype(np.uint16)
    keys = curve_keys(list(numbers), curve).to_pylist()
    some = [0, 65_535, 65_536, 69_999]
    assert [keys[at] for at in some] == curve_keys([column[some] for column in numbers], curve).to_pylist()
    assert curve_keys([ranks(), ranks()], curve).to_pylist() == []


def test_what_has_an_order() -> None:
    ordered = [pa.int8(), pa.float32(), pa.decimal128(9, 2), pa.timestamp("ns"), pa.bool_(), pa.binary(3), pa.string()]
    assert all(map(can_be_ordered, ordered))
    assert not any(map(can_be_ordered, [pa.list_(pa.int8()), pa.struct([]), pa.map_(pa.int8(), pa.int8())]))
