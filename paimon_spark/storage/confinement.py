"""The one module that decides what may be written and deleted: only what is below the table, after links are resolved.

A path counts as what it resolves to: a symbolic link inside a table may lead anywhere. What is deleted is the link
itself, never what is behind it. Reads follow links: whoever can put a link into the directory can also put the rows
there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.placement import is_root, plain_path
from paimon_spark.storage.file_io import FileIO, FileStatus
from paimon_spark.storage.local_files import local_path
from paimon_spark.storage.store_options import redact, scheme_of

_LOG = logging.getLogger(__name__)


def confined(file_io: FileIO, root: str, external: Sequence[str] = ()) -> FileIO:
    """The same store, in which only what lies below a table can be written and deleted.

    Args:
        file_io: the store; one that is confined already gets these places instead of its own.
        root: the table directory.
        external: the places outside the table that its option ``data-file.external-paths`` names. A root of a file
            system, a bucket, and what the table itself lies in are not among the places where files are deleted.
    """
    inner = file_io.inner if isinstance(file_io, ConfinedFileIO) else file_io
    return ConfinedFileIO(inner, root, tuple(path for path in external if not is_root(path) and not _holds(path, root)))


@dataclass(frozen=True, slots=True)
class ConfinedFileIO(FileIO):
    """Passes calls below one of its places on; refuses writes elsewhere, and deletes nothing elsewhere."""

    inner: FileIO
    root: str
    external: tuple[str, ...] = ()

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return self.inner.read_bytes(path)

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The file, seekable."""
        return self.inner.open_input(path, size)

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file; never one behind a link."""
        self._check(path)
        if _is_local(path) and os.path.islink(local_path(path)):
            raise _outside(path, self.root, os.path.realpath(local_path(path)))
        return self.inner.open_output(path)

    def write_bytes(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Write a whole file; a link of this name is replaced, not followed."""
        self._check(path)
        self.inner.write_bytes(path, data, overwrite=overwrite)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create the file unless it exists."""
        self._check(path)
        return self.inner.create_exclusive(path, data)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self.inner.size(path)

    def list_names(self, path: str) -> list[FileStatus]:
        """The entries of a directory."""
        return self.inner.list_names(path)

    def mkdirs(self, path: str) -> None:
        """Make a directory."""
        self._check(path)
        self.inner.mkdirs(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory within the table."""
        self._check(source)
        self._check(target)
        self.inner.rename(source, target)

    def delete_quietly(self, path: str, *, recursive: bool = False) -> bool:
        """Delete what lies below one of the places; anything else is left, and the log says so."""
        if not self._is_inside(path):
            _LOG.warning("%s is not deleted: %s", redact(path), self._where(path))
            return False
        return self.inner.delete_quietly(path, recursive=recursive)

    @property
    def unsafe_rename(self) -> bool:  # type: ignore[override]
        """Whether files may be created without the store's promise."""
        return self.inner.unsafe_rename

    @property
    def threads(self) -> int:
        """How many files are worth working on at once."""
        return self.inner.threads

    def delete_files(self, paths: Sequence[str], *, threads: int | None = None) -> list[str]:
        """Delete many files; those that lie elsewhere are left, and the log names one of them."""
        allowed: dict[str, bool] = {}
        for path in paths:
            directory = path.rpartition("/")[0]
            if directory not in allowed:
                allowed[directory] = self._is_inside(path)
        if all(allowed.values()):
            return self.inner.delete_files(paths, threads=threads)
        outside = [path for path in paths if not allowed[path.rpartition("/")[0]]]
        _LOG.warning("%s files are not deleted, such as %s: %s", len(outside), outside[0], self._where(outside[0]))
        inside = [path for path in paths if allowed[path.rpartition("/")[0]]]
        return [*outside, *self.inner.delete_files(inside, threads=threads)]

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it and it is one of the table."""
        return self._is_inside(path) and self.inner.delete_empty_directory(path)

    def leads_out(self, path: str) -> bool:
        """Whether a directory is a link, or behind one, that leads to none of the places."""
        return not any(_is_below(_resolved(path, whole=True), _resolved(place, whole=True)) for place in self._places)

    @property
    def _places(self) -> tuple[str, ...]:
        return (self.root, *self.external)

    def _is_inside(self, path: str) -> bool:
        """Whether the entry that a path names (a link itself, not what it leads to) is below one of the places."""
        if {".", ".."} & set(path.split("/")):
            return False
        if any(_plain(path) == _plain(place) for place in self._places):
            return True
        resolved = _resolved(path, whole=False)
        return any(_is_below(resolved, _resolved(place, whole=True)) for place in self._places)

    def _check(self, path: str) -> None:
        if not self._is_inside(path):
            raise _outside(path, self.root, _resolved(path, whole=False))

    def _where(self, path: str) -> str:
        return f"it is {redact(_resolved(path, whole=False))}, which is not below the table {redact(self.root)}"


def _outside(path: str, root: str, resolved: str) -> UnsupportedError:
    return UnsupportedError(
        f"{redact(path)} is not written: it is {redact(resolved)}, which is not below the table {redact(root)}. A "
        "symbolic link there leads out of the table: put the directory itself in its place."
    )


def _is_local(path: str) -> bool:
    return scheme_of(path) in ("", "file")


def _plain(path: str) -> str:
    return local_path(path) if _is_local(path) else path.rstrip("/")


def _resolved(path: str, *, whole: bool) -> str:
    """Where a path leads: of a local one without links, the last part's only with ``whole``."""
    if not _is_local(path):
        return path.rstrip("/")
    directory, name = os.path.split(local_path(path))
    return os.path.realpath(local_path(path)) if whole else os.path.join(os.path.realpath(directory), name)


def _is_below(path: str, place: str) -> bool:
    return path == place or plain_path(path).startswith(plain_path(place).rstrip("/") + "/")


def _holds(path: str, root: str) -> bool:
    """Whether a table lies in a place, or is it."""
    return _is_below(_resolved(root, whole=True), _resolved(path, whole=True))
