"""The one module that decides what may be written and deleted: only what is below the table, after links are resolved.

A path counts as what it resolves to: a symbolic link inside a table may lead anywhere. What is deleted is the link
itself, never what is behind it. Reads follow links: whoever can put a link into the directory can also put the rows
there. Outside the table directory only data files are deleted, and only where they are known to be this table's.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.file_names import BUCKET_PREFIX, is_root, plain_path
from paimon_spark.storage.file_io import FileIO, FileStatus
from paimon_spark.storage.local_files import local_path
from paimon_spark.storage.publisher import Publisher
from paimon_spark.storage.read_ahead import Fetch
from paimon_spark.storage.store_options import redact, scheme_of

_LOG = logging.getLogger(__name__)

ALLOWED: Final = "external-paths.may-delete"
"""Option of a call or session, never of a table: directories outside the table in which its files may be deleted."""
_DATA_FILE: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SCHEMA_PREFIX: Final = "schema-"
_PUBLISHED: Final = re.compile(r"/+(?:branch/branch-([^/]+)/)?(?:snapshot/snapshot-|schema/schema-)[0-9]+")


def confined(
    file_io: FileIO,
    root: str,
    external: Sequence[str] = (),
    allowed: Sequence[str] = (),
    *,
    publisher: Publisher | None = None,
) -> FileIO:
    """The same store, in which only what lies below a table can be written and deleted.

    Args:
        file_io: the store; one that is confined already gets these places instead of its own.
        root: the table directory.
        external: the places outside the table that its option ``data-file.external-paths`` names. A root of a file
            system, a bucket, and what the table itself lies in are not among the places where files are deleted.
        allowed: those of them in which the caller allows to delete files, though their names do not show that they are
            this table's.
        publisher: whose lock is held while a file is published; that of the store when not given.
    """
    inner = file_io.inner if isinstance(file_io, ConfinedFileIO) else file_io
    positions = tuple(path for path in external if not is_root(path) and not _holds(path, root))
    may_delete = tuple(path.rstrip("/") for path in allowed if not is_root(path))
    return ConfinedFileIO(inner, root, positions, may_delete, publisher or file_io.publisher)


def why_not_own(file_io: FileIO, root: str, position: str, allowed: Sequence[str] = ()) -> str | None:
    """Tell why files of a place outside a table are not taken for the table's own; None where they are.

    Args:
        file_io: the store.
        root: the table directory.
        position: a directory that the table's option ``data-file.external-paths`` names.
        allowed: directories whose name need not tell.
    """
    name, resolved = root.rpartition("/")[2], _resolved(position, whole=True)
    named = name in plain_path(resolved).split("/")
    if not named and not any(_is_below(resolved, _resolved(path, whole=True)) for path in allowed):
        return f"its name does not show that it is this table's alone: it has no part '{name}'"
    if is_root(position) or _holds(position, root):
        return "it is a whole file system or bucket, or holds the table itself"
    return _table_above(file_io, root, position)


def _table_above(file_io: FileIO, root: str, directory: str, seen: dict[str, bool] | None = None) -> str | None:
    """Say which other table a directory lies in; partitions and buckets are passed over, as they are no tables."""
    seen = {} if seen is None else seen
    above = directory.rstrip("/")
    while not is_root(above):
        name = above.rpartition("/")[2]
        if "=" not in name and not name.startswith(BUCKET_PREFIX) and above not in seen:
            listed = file_io.list_names(f"{above}/schema")
            seen[above] = any(entry.name.startswith(_SCHEMA_PREFIX) for entry in listed)
        if seen.get(above) and plain_path(above) != plain_path(root):
            return f"{redact(above)} is another table"
        above = above.rpartition("/")[0]
    return None


@dataclass(frozen=True, slots=True)
class ConfinedFileIO(FileIO):
    """Passes calls below one of its places on; refuses writes elsewhere, and deletes nothing elsewhere."""

    inner: FileIO
    root: str
    external: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    asked: Publisher | None = None

    @property
    def address(self) -> str:
        """That of the store."""
        return self.inner.address

    @property
    def publisher(self) -> Publisher | None:
        """The entry of the table in its metastore, whose lock is held while a snapshot or a schema is published."""
        return self.asked

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return self.inner.read_bytes(path)

    def read_listed(self, path: str, entry: FileStatus) -> bytes:
        """The whole file that a listing has just found."""
        return self.inner.read_listed(path, entry)

    def fetch(self, path: str) -> Fetch | None:
        """Begin to read a whole file."""
        return self.inner.fetch(path)

    @property
    def lists_versions(self) -> bool:
        """Whether listings say which version of a file there is."""
        return self.inner.lists_versions

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
        branch = None if self.asked is None else _branch_published(path, self.root)
        if self.asked is None or branch is None:
            return self.inner.create_exclusive(path, data)
        with self.asked.locked(branch):
            return self.inner.create_exclusive(path, data)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return self.inner.exists(path)

    def file_exists(self, path: str) -> bool:
        """Whether there is a file."""
        return self.inner.file_exists(path)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self.inner.size(path)

    def sizes(self, paths: Collection[str]) -> dict[str, int]:
        """The bytes of those of these files that are there."""
        return self.inner.sizes(paths)

    def list_names(self, path: str) -> list[FileStatus]:
        """The entries of a directory."""
        return self.inner.list_names(path)

    def files_below(self, path: str) -> list[str] | None:
        """Names of all files below a directory, if the store tells them at once."""
        return self.inner.files_below(path)

    def mkdirs(self, path: str) -> None:
        """Make a directory."""
        self._check(path)
        self.inner.mkdirs(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory within the table."""
        self._check(source)
        self._check(target)
        self.inner.rename(source, target)

    def finish_rename(self, source: str, target: str) -> bool:
        """Finish a move within the table that was stopped."""
        self._check(source)
        self._check(target)
        return self.inner.finish_rename(source, target)

    def delete_quietly(self, path: str, *, recursive: bool = False) -> bool:
        """Delete what lies below the table, or a data file of its own elsewhere; else the log says why not."""
        kept = "only files are deleted there" if recursive and self._is_outside(path) else self._why_kept(path, {}, {})
        if kept is not None:
            _LOG.warning("%s is not deleted: %s", redact(path), kept)
            return False
        return self.inner.delete_quietly(path, recursive=recursive)

    @property
    def unsafe_rename(self) -> bool:  # type: ignore[override]
        """Whether files may be created without the store's promise."""
        return self.inner.unsafe_rename

    @property
    def renews_keys(self) -> bool:
        """Whether the keys of the store end."""
        return self.inner.renews_keys

    @property
    def now(self) -> FileIO:
        """The store itself, as it is reached now."""
        return self.inner.now

    @property
    def threads(self) -> int:
        """How many files are worth working on at once."""
        return self.inner.threads

    def delete_files(self, paths: Sequence[str], *, threads: int | None = None) -> list[str]:
        """Delete many files; those that lie elsewhere are left, and the log names one of them."""
        inside, outside = dict[str, bool](), dict[str, bool]()
        for path in paths:
            directory = path.rpartition("/")[0]
            if directory not in inside:
                inside[directory] = self._is_inside(path)
                outside[directory] = self._is_outside(path)
        if all(inside.values()) and not any(outside.values()):
            return self.inner.delete_files(paths, threads=threads)
        reasons, tables = dict[str, str | None](), dict[str, bool]()
        kept = {path: self._why_kept(path, reasons, tables) for path in paths}
        left = [path for path in paths if kept[path] is not None]
        if left:
            _LOG.warning("%s files are not deleted, such as %s: %s", len(left), redact(left[0]), kept[left[0]])
        return [*left, *self.inner.delete_files([path for path in paths if kept[path] is None], threads=threads)]

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it and it is one of the table."""
        return self._is_inside(path) and self.inner.delete_empty_directory(path)

    def delete_empty_tree(self, path: str) -> bool:
        """Delete directories without files, inside the table only."""
        return self._is_inside(path) and self.inner.delete_empty_tree(path)

    def check_deletes(self, path: str) -> None:
        """Refuse to go on where the store does not answer what deletes."""
        self.inner.check_deletes(path)

    def leads_out(self, path: str) -> bool:
        """Whether a directory is a link, or behind one, that leads to none of the places."""
        return not any(
            _is_below(_resolved(path, whole=True), _resolved(position, whole=True)) for position in self._positions
        )

    @property
    def _positions(self) -> tuple[str, ...]:
        return (self.root, *self.external)

    def _is_inside(self, path: str) -> bool:
        """Whether the entry that a path names (a link itself, not what it leads to) is below one of the places."""
        if {".", ".."} & set(path.split("/")):
            return False
        if any(_plain(path) == _plain(position) for position in self._positions):
            return True
        if _is_local(path) and _is_straight_below(local_path(path), _plain(self.root)):
            return True
        resolved = _resolved(path, whole=False)
        return any(_is_below(resolved, _resolved(position, whole=True)) for position in self._positions)

    def _is_outside(self, path: str) -> bool:
        """Whether a path is inside, but not below the table itself."""
        return not _is_below(_resolved(path, whole=False), _resolved(self.root, whole=True)) and self._is_inside(path)

    def _why_kept(self, path: str, reasons: dict[str, str | None], tables: dict[str, bool]) -> str | None:
        """Tell why a path is not deleted; None where it is.

        A hostile table may name any directory as its own place outside, and any file there in its manifests.

        Args:
            path: of a file, or of anything below the table.
            reasons: what is known of places.
            tables: what is known of directories: whether they are tables.
        """
        if not self._is_inside(path):
            return self._where(path)
        if not self._is_outside(path):
            return None
        resolved = _resolved(path, whole=False)
        position = next(at for at in self.external if _is_below(resolved, _resolved(at, whole=True)))
        inside = plain_path(resolved)[len(plain_path(_resolved(position, whole=True)).rstrip("/")) :]
        above, bucket, _ = inside.rpartition(f"/{BUCKET_PREFIX}")  # directories of `entropy-inject` may follow
        if not bucket or not _DATA_FILE.search(inside.rpartition("/")[2]):
            return "its name is none of a data file in the directory of a bucket"
        if position not in reasons:
            reasons[position] = why_not_own(self.inner, self.root, position, self.allowed)
        reason = reasons[position]
        if reason is not None:
            return (
                f"{redact(position)} is not known to be this table's alone: {reason}. Option '{ALLOWED}' = "
                f"'{redact(position)}' of the call or session allows it"
            )
        return _table_above(self.inner, self.root, _resolved(position, whole=True).rstrip("/") + above, tables)

    def _check(self, path: str) -> None:
        if not self._is_inside(path):
            raise _outside(path, self.root, _resolved(path, whole=False))

    def _where(self, path: str) -> str:
        return f"it is {redact(_resolved(path, whole=False))}, which is not below the table {redact(self.root)}"


def _branch_published(path: str, root: str) -> str | None:
    """Return the branch whose snapshot or schema a path is, empty for the main one; None for another file."""
    match = _PUBLISHED.fullmatch(path[len(root.rstrip("/")) :]) if path.startswith(root) else None
    return None if match is None else match.group(1) or ""


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


def _is_straight_below(path: str, root: str) -> bool:
    """Whether a local path goes on from the root through directories that are no links: then so does what it leads to.

    Few questions to the system, where `os.path.realpath` asks about each directory above the root too.
    """
    if not path.startswith(root + "/"):
        return False
    end = path.rfind("/")
    while end > len(root):
        if os.path.islink(path[:end]):
            return False
        end = path.rfind("/", 0, end)
    return True


def _is_below(path: str, position: str) -> bool:
    return path == position or plain_path(path).startswith(plain_path(position).rstrip("/") + "/")


def _holds(path: str, root: str) -> bool:
    """Whether a table lies in a place, or is it."""
    return _is_below(_resolved(root, whole=True), _resolved(path, whole=True))
