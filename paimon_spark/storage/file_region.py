"""A part of a file, read as if it were a file of its own."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

from paimon_spark.spec.file_names import FileRegion
from paimon_spark.storage.data_file import Source


class RegionIO:
    """Opens one region of a file, whatever path is asked for (`data_file.Source`)."""

    def __init__(self, file_io: Source, region: FileRegion) -> None:
        self._file_io = file_io
        self._region = region

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The region as a seekable file."""
        return pa.PythonFile(_Region(self._file_io.open_input(self._region.path), self._region), mode="r")

    def read_bytes(self, path: str) -> bytes:
        """The bytes of the region."""
        with self._file_io.open_input(self._region.path) as file:
            file.seek(self._region.offset)
            return bytes(file.read(self._region.length))


class _Region(io.RawIOBase):
    def __init__(self, file: pa.NativeFile, region: FileRegion) -> None:
        super().__init__()
        self._file = file
        self._start = region.offset
        self._length = max(0, min(region.length, file.size() - region.offset))
        self._at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._length - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        self._file.seek(self._start + self._at)
        found = bytes(self._file.read(wanted))
        self._at += len(found)
        return found

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
