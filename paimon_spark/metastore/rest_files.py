"""Files of a table whose REST catalog hands out the keys of the store, which end: they are renewed in time.

Java: ``RESTTokenFileIO``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.metastore.rest_auth import EXPIRY_MARGIN_SECONDS
from paimon_spark.storage.file_io import FileIO, FileStatus
from paimon_spark.storage.read_ahead import Fetch

if TYPE_CHECKING:
    from paimon_spark.metastore.rest_table import ServedTable

_OSS_ENDPOINT = "dlf.oss-endpoint"
_known: dict[ServedTable, tuple[FileIO, float]] = {}
"""The store of each table as the latest token reaches it, and when that ends."""
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class TokenFileIO(FileIO):
    """Passes each call to the store as a token that has not ended reaches it. Picklable, without the token."""

    table: ServedTable

    @property
    def now(self) -> FileIO:
        """The store; a token that ends within an hour is renewed first."""
        with _lock:
            found = _known.get(self.table)
            if found is None or found[1] - time.time() < EXPIRY_MARGIN_SECONDS:
                token, ends = self.table.token()
                options = {**dict(self.table.client.options), **token}
                if options.get(_OSS_ENDPOINT):
                    options["fs.oss.endpoint"] = options[_OSS_ENDPOINT]
                found = _known[self.table] = FileIO.for_path(self.table.path, options), ends
        return found[0]

    @property
    def address(self) -> str:
        """The address of the server, whose paths are its own."""
        return dict(self.table.client.options).get("uri", "")

    @property
    def renews_keys(self) -> bool:
        """They are renewed by `now`."""
        return True

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return self.now.read_bytes(path)

    def read_listed(self, path: str, entry: FileStatus) -> bytes:
        """The whole file that a listing has just found."""
        return self.now.read_listed(path, entry)

    def fetch(self, path: str) -> Fetch | None:
        """Begin to read a whole file."""
        return self.now.fetch(path)

    @property
    def lists_versions(self) -> bool:
        """Whether listings say which version of a file there is."""
        return self.now.lists_versions

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The file, seekable."""
        return self.now.open_input(path, size)

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file."""
        return self.now.open_output(path)

    def write_bytes(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Write a whole file."""
        self.now.write_bytes(path, data, overwrite=overwrite)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create the file unless it exists."""
        return self.now.create_exclusive(path, data)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return self.now.exists(path)

    def file_exists(self, path: str) -> bool:
        """Whether there is a file."""
        return self.now.file_exists(path)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self.now.size(path)

    def sizes(self, paths: Collection[str]) -> dict[str, int]:
        """The bytes of those of these files that are there."""
        return self.now.sizes(paths)

    def list_names(self, path: str) -> list[FileStatus]:
        """The entries of a directory."""
        return self.now.list_names(path)

    def files_below(self, path: str) -> list[str] | None:
        """Names of all files below a directory."""
        return self.now.files_below(path)

    def mkdirs(self, path: str) -> None:
        """Make a directory."""
        self.now.mkdirs(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory."""
        self.now.rename(source, target)

    def finish_rename(self, source: str, target: str) -> bool:
        """Finish a move that was stopped."""
        return self.now.finish_rename(source, target)

    def delete_quietly(self, path: str, *, recursive: bool = False) -> bool:
        """Delete."""
        return self.now.delete_quietly(path, recursive=recursive)

    def delete_files(self, paths: Sequence[str], *, threads: int | None = None) -> list[str]:
        """Delete many files."""
        return self.now.delete_files(paths, threads=threads)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it."""
        return self.now.delete_empty_directory(path)

    def delete_empty_tree(self, path: str) -> bool:
        """Delete directories without files."""
        return self.now.delete_empty_tree(path)

    def check_deletes(self, path: str) -> None:
        """Refuse to go on where the store does not answer what deletes."""
        self.now.check_deletes(path)

    @property
    def unsafe_rename(self) -> bool:  # type: ignore[override]
        """Whether files may be created without the store's promise."""
        return self.now.unsafe_rename

    @property
    def threads(self) -> int:
        """How many files are worth working on at once."""
        return self.now.threads
