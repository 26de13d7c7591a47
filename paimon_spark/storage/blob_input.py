"""BLOB values that a write is given: bytes that are a descriptor stand for what they name, as in Java.

Java: ``Blob.fromBytes``, ``AbstractBlobElementWriter``. The bytes are copied a few megabytes at a time. Runs in tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, DataError
from paimon_spark.storage.blob_descriptor import HEADER, VIEW_HEADER
from paimon_spark.storage.described_files import DescribedFiles, MissingBlobError

_LOG = logging.getLogger(__name__)
_DESCRIPTORS: Final = tuple(bytes([version]) + HEADER[1:] for version in range(HEADER[0] + 1))


@dataclass(frozen=True)
class BlobInput:
    """Gives the bytes that values stand for. Picklable."""

    files: DescribedFiles
    null_if_missing: bool
    """``blob-write-null-on-missing-file``."""
    null_if_failed: bool
    """``blob-write-null-on-fetch-failure``."""

    def concerns(self, values: pa.Array | pa.ChunkedArray) -> bool:
        """Whether any of some values is more than its bytes."""
        return any(pc.any(pc.starts_with(values, mark)).as_py() for mark in (*_DESCRIPTORS, VIEW_HEADER))

    def parts(self, value: pa.Buffer) -> Iterable[Any] | None:
        """The bytes of a value, in parts; None where it is written as null.

        Raises:
            DataError: the file that it names is missing or too short; or it names a value of another table.
            UnsupportedError: the file lies where files are not read.
            StorageError: the file cannot be read.
        """
        head = value[: len(HEADER)].to_pybytes()
        if head == VIEW_HEADER:
            raise DataError(
                "A value names a BLOB of another table, which only columns of option 'blob-view-field' take. Read the "
                "values themselves, without option 'blob-view.resolve.enabled' = 'false'."
            )
        if head not in _DESCRIPTORS:
            return [value]
        described = self.files.parts(value.to_pybytes())
        try:
            return chain([next(described, b"")], described)
        except MissingBlobError as error:
            if not self.null_if_missing:
                raise
            _LOG.warning("A BLOB value is written as NULL: %s", error)
        except (OSError, CorruptTableError) as error:
            if not self.null_if_failed:
                raise
            _LOG.warning("A BLOB value is written as NULL, since it cannot be fetched: %s", error)
        return None

    def whole(self, value: pa.Buffer) -> Any:
        """The bytes of a value at once; None where it is written as null."""
        parts = self.parts(value)
        if parts is None:
            return None
        first, *others = list(parts) or [b""]
        return b"".join([first, *others]) if others else first
