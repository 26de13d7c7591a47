"""Local disks for FileIO: atomic writes, exclusive creation by hard link, listings.

Plain operating system calls on absolute paths; nothing here knows of tables.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from paimon_spark.errors import PaimonError

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_READ: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_READ_BYTES: Final = 64 << 20
_THREADS: Final = 4
_FEWEST_IN_THREAD: Final = 100


class NoHardLinksError(OSError):
    """The file system cannot make hard links."""


def local_path(path: str) -> str:
    """The operating system's path of a plain or `file:` path, absolute.

    Raises:
        PaimonError: a `file:` path that names another host.
    """
    if path[:5].lower() == "file:":
        rest = path[5:]
        if rest.startswith("//"):
            host, slash, below = rest[2:].partition("/")
            if host not in ("", "localhost"):
                raise PaimonError(f"The path '{path}' names the host '{host}'. Write local paths as file:///directory.")
            rest = slash + below
        path = rest or "/"
    if path[:1] == os.sep == "/" and "//" not in path and "/." not in path and path[-1] != "/":
        return path  # as nearly all are
    return os.path.abspath(path)


def read_file(path: str) -> bytes:
    """The whole file, with the operating system's own calls: small files are read in half the time of `open`."""
    handle = os.open(path, _READ)
    try:
        size = os.fstat(handle).st_size
        parts = [os.read(handle, size + 1)]
        if len(parts[0]) != size:
            while parts[-1]:
                parts.append(os.read(handle, _READ_BYTES))
    finally:
        os.close(handle)
    return b"".join(parts)


def write_file(path: str, data: bytes, *, overwrite: bool) -> None:
    """Write aside and rename, so that readers see the old file, or all of the new one.

    Raises:
        FileExistsError: the file exists and `overwrite` is false.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "The file exists already", path)
    aside = _write_aside(path, data, sync=False)
    try:
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise


def create_by_link(path: str, data: bytes) -> bool:
    """Create a file with its content unless it exists, exclusively between processes (and NFS clients).

    The content is on disk before the name is: after a power cut there is no empty snapshot.

    Returns:
        True when this call created it.

    Raises:
        NoHardLinksError: the file system cannot do it.
    """
    aside = _write_aside(path, data, sync=True)
    try:
        os.link(aside, path)
    except OSError as error:
        # NFS may repeat a request whose answer was lost: the link count tells whether it had worked.
        if os.stat(aside).st_nlink > 1:
            return True
        if error.errno == errno.EEXIST:
            return False
        if error.errno in _NO_LINKS:
            raise NoHardLinksError(error.errno, error.strerror, path) from error
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
    _sync_directory(os.path.dirname(path))
    return True


def list_directory(path: str) -> Iterator[tuple[str, int, bool, int]]:
    """Entries as (name, bytes, is directory, modified in epoch milliseconds); none when there is no directory."""
    try:
        entries = os.scandir(path)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return
        raise
    with entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat()
                yield entry.name, status.st_size, entry.is_dir(), status.st_mtime_ns // 1_000_000


def delete(path: str, *, recursive: bool) -> bool:
    """Delete a file or, recursively, a directory (never what a symbolic link points to); return whether it is gone."""
    if recursive and os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return not os.path.lexists(path)
    return _is_unlinked(path)


def delete_all(paths: Sequence[str], threads: int | None = None) -> list[str]:
    """Delete files (plain or `file:` paths); return those that are still there.

    Args:
        paths: quickest where files of one directory are together.
        threads: how many threads share the work, one after the other with 1; a few where that pays when not given.
    """
    most = threads or min(_THREADS, os.cpu_count() or 1)
    parts = max(1, min(most, len(paths) // _FEWEST_IN_THREAD))
    if parts == 1:
        return _delete_some(paths)
    ends = [len(paths) * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(parts) as pool:
        left = pool.map(_delete_some, [paths[start:end] for start, end in itertools.pairwise(ends)])
        return [path for some in left for path in some]


def _delete_some(paths: Sequence[str]) -> list[str]:
    if os.unlink not in os.supports_dir_fd:
        return [path for path in paths if not _is_unlinked(local_path(path))]
    left: list[str] = []
    for directory, some in itertools.groupby(paths, key=lambda path: path.rpartition("/")[0]):
        try:
            handle = os.open(local_path(directory or "/"), os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            left += () if error.errno in _NOT_THERE else some
            continue
        skipped = len(directory) + 1
        try:
            left += [path for path in some if not _is_unlinked(path[skipped:], handle)]
        finally:
            os.close(handle)
    return left


def _is_unlinked(path: str, directory: int | None = None) -> bool:
    try:
        os.unlink(path, dir_fd=directory)
    except OSError as error:
        return error.errno in _NOT_THERE
    return True


def delete_empty(path: str) -> bool:
    """Delete a directory if nothing is in it; return whether it was."""
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def delete_empty_tree(path: str) -> bool:
    """Delete a directory and those below it where no file is in them; of a link the link. Return whether it is gone.

    A link below it goes only if it leads to an empty directory.
    """
    try:
        if os.path.islink(path):
            os.unlink(path)
            return True
        with os.scandir(path) as entries:
            directories = [entry for entry in entries if entry.is_dir()]
        below = [entry.path for entry in directories if not (entry.is_symlink() and os.listdir(entry.path))]
    except FileNotFoundError:
        return True
    except OSError:
        return False
    for directory in below:
        delete_empty_tree(directory)
    return delete_empty(path)


def _write_aside(path: str, data: bytes, *, sync: bool) -> str:
    """Write a temporary dot-file alongside `path`, named as Java's; the caller renames or deletes it."""
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.{uuid.uuid4()}.tmp")
    try:
        handle = os.open(aside, _CREATE, 0o666)
    except FileNotFoundError:
        os.makedirs(directory, exist_ok=True)
        handle = os.open(aside, _CREATE, 0o666)
    try:
        try:
            written = os.write(handle, data)
            while written < len(data):
                written += os.write(handle, memoryview(data)[written:])
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise
    return aside


def _sync_directory(directory: str) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
