"""Avro blocks into columns without a Python object per value: many blocks are walked in step (`spec/avro_walk.py`).

Schemas with arrays or maps, and files of few blocks, are fastavro's (`supported`, `pays`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec.avro_walk import FIXED_BYTES, BlockWalk, Path, Positions

FEWEST_LANES: Final = 16
"""Below this many records per step, fastavro is faster."""


def supported(plain: Any) -> bool:
    """Whether a schema (as `avro_file_schema.Decoded.plain`) has only records and atoms."""
    if isinstance(plain, list):
        return all(supported(part) for part in plain)
    if isinstance(plain, dict):
        return plain["type"] == "record" and all(supported(field["type"]) for field in plain["fields"])
    return True


def pays(counts: Sequence[int]) -> bool:
    """Whether blocks with these numbers of records are many and even enough to be walked in step."""
    longest, rows = max(counts, default=0), sum(counts)
    return longest * FEWEST_LANES <= rows and longest * len(counts) <= 4 * rows


def decode_blocks(
    plain: Any, storage: pa.StructType, names: Sequence[str], blocks: Sequence[tuple[int, bytes]]
) -> list[pa.Array]:
    """Columns of all records of some blocks, in order.

    Args:
        plain: The top-level record's schema (see `supported`), or its union with null.
        storage: Its Arrow type.
        names: The wanted columns.
        blocks: Number of records and bytes of each block.

    Raises:
        ValueError: the bytes are no such records.
    """
    wanted = set(names)
    walk = BlockWalk(plain, blocks, lambda path: not path or path[0] in wanted)
    if walk.root.null_tag is not None and (walk.starts(()) < 0).any():
        raise ValueError("a record is null")
    return [_column(walk, (name,), storage.field(name).type) for name in names]


def _column(walk: BlockWalk, path: Path, storage: pa.DataType) -> pa.Array:
    starts = walk.starts(path)
    null = starts < 0
    nulls = null if null.any() else None
    if isinstance(storage, pa.StructType):
        children = [_column(walk, (*path, child.name), child.type) for child in storage]
        mask = None if nulls is None else pa.array(nulls)
        return pa.StructArray.from_arrays(children, fields=list(storage), mask=mask)
    if storage in (pa.binary(), pa.large_binary(), pa.string()):
        return _texts(starts, walk.lengths(path), nulls, walk.data, storage)
    at = starts if nulls is None else np.where(null, len(walk.data) - FIXED_BYTES["double"], starts)
    if pa.types.is_boolean(storage):
        return pa.array(walk.bytes[at] == 1, mask=nulls)
    if pa.types.is_floating(storage):
        width = storage.bit_width // 8
        raw = walk.bytes[at[:, None] + np.arange(width)]
        return pa.array(raw.view("<f4" if width == 4 else "<f8")[:, 0], mask=nulls, from_pandas=False)
    return pa.array(walk.longs_at(starts), pa.int64(), mask=nulls).cast(storage)


def _texts(
    starts: Positions, lengths: Positions, nulls: npt.NDArray[np.bool_] | None, buffer: bytes, storage: pa.DataType
) -> pa.Array:
    """Slices of a buffer as an array: values and gaps between them are one array, and every second is taken."""
    rows = len(starts)
    ends = starts + lengths
    if nulls is not None:
        ends = np.maximum.accumulate(np.where(nulls, 0, ends))
        starts = np.where(nulls, ends, starts)
    offsets = np.empty(2 * rows, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    pieces = pa.Array.from_buffers(
        pa.binary(), max(2 * rows - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    taken = pieces.take(pa.array(np.arange(0, 2 * rows, 2), mask=nulls))
    return taken if storage == pa.binary() else taken.cast(storage)


def groups_of_blocks(blocks: Iterator[tuple[int, bytes]], most_bytes: int) -> Iterator[list[tuple[int, bytes]]]:
    """Consecutive blocks together, up to some bytes (at least one block)."""
    group: list[tuple[int, bytes]] = []
    held = 0
    for block in blocks:
        if group and held + len(block[1]) > most_bytes:
            yield group
            group, held = [], 0
        group.append(block)
        held += len(block[1])
    if group:
        yield group
