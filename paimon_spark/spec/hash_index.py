"""HASH index files of dynamic buckets: the key hashes of one bucket as big-endian int32 (Java: ``HashIndexFile``)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError


def encode_hash_index(hashes: npt.NDArray[np.int32]) -> bytes:
    """Return the file's bytes; `IndexManifestEntry.row_count` is the number of hashes."""
    return hashes.astype(">i4").tobytes()


def decode_hash_index(data: bytes, *, path: str | None = None) -> npt.NDArray[np.int32]:
    """Return the key hashes of a bucket, in the file's order.

    Raises:
        CorruptTableError: the file is not a whole number of hashes.
    """
    if len(data) % 4:
        raise CorruptTableError(f"A hash index must be a multiple of 4 bytes long, but has {len(data)}.", path=path)
    return np.frombuffer(data, dtype=">i4").astype(np.int32)
