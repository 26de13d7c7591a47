"""Where a table's bytes live: one small set of operations over local disks and over every fsspec store.

Local paths (plain and `file:`) use the operating system; all other schemes go through fsspec, whose packages are
optional. A FileIO holds a scheme and options only, so it travels to tasks; connections are made when first used.
Paths are full paths as text, in the table's own spelling. Credentials appear in no message and no repr.
"""

from __future__ import annotations

import abc
import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pyarrow as pa

from paimon_spark.errors import PaimonError
from paimon_spark.storage import local_files, silence, store_requests, tree_changes, unanswered
from paimon_spark.storage.directory_entries import NO_DIRECTORIES, make_directory, status_of
from paimon_spark.storage.directory_entries import FileStatus as FileStatus
from paimon_spark.storage.exclusive_creation import UNSAFE_RENAME, create, not_exclusive
from paimon_spark.storage.publisher import Publisher
from paimon_spark.storage.read_ahead import Fetch
from paimon_spark.storage.session_stores import SessionStore, with_session
from paimon_spark.storage.store_errors import NamedErrorsFile, named, says_no_bucket, translated
from paimon_spark.storage.store_opening import open_store
from paimon_spark.storage.store_options import (
    FSSPEC_SCHEME,
    address_of,
    check_default_store,
    fsspec_options,
    is_true,
    redact,
    scheme_of,
    secret_values,
    store_options,
)
from paimon_spark.storage.store_requests import KEPT, is_unique
from paimon_spark.storage.tree_changes import Move


class FileIO(abc.ABC):
    """Reads and writes whole files and lists directories of one store."""

    __slots__ = ()
    unsafe_rename: bool
    """Whether `create_exclusive` may be only a check, as the table's option says."""

    @property
    def renews_keys(self) -> bool:
        """Whether the keys of the store end, so that only who asks this FileIO for each file reaches it for long."""
        return False

    @property
    def address(self) -> str:
        """What tells the store apart from others that have the same path (`store_options.address_of`)."""
        return ""

    @property
    def now(self) -> FileIO:
        """The store itself, as it is reached now."""
        return self

    @property
    def publisher(self) -> Publisher | None:
        """Who is asked when files are published in the table that this FileIO is confined to; None for nobody."""
        return None

    @staticmethod
    def for_path(path: str, options: Mapping[str, str] | None = None) -> FileIO:
        """The FileIO of a path's scheme.

        Args:
            path: Any path in the store: plain, `file:`, `memory:`, or a scheme that fsspec knows (`s3a` is `s3`, ...).
            options: Table or reader options; only those that concern the store are kept.

        Raises:
            PaimonError: nothing installed handles the scheme; the message names what to install.
            OptionError: a store option cannot be used.
        """
        scheme, kept = scheme_of(path), store_options(options or {})
        if scheme in ("", "file"):
            check_default_store({} if scheme else kept)
            return LocalFileIO(is_true(kept, UNSAFE_RENAME))
        known = FSSPEC_SCHEME.get(scheme, scheme)
        session = with_session(known, path, fsspec_options(known, path, kept))
        return FsspecFileIO(known, session.options, is_true(kept, UNSAFE_RENAME), session)

    @abc.abstractmethod
    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises FileNotFoundError when there is none."""

    def read_listed(self, path: str, entry: FileStatus) -> bytes:
        """The whole file that a listing has just found, as ``entry`` says; it may save a request to the store."""
        return self.read_bytes(path)

    def fetch(self, path: str) -> Fetch | None:
        """Begin to read a whole file, without waiting for it; None where that gains nothing, as on a disk."""
        return None

    @property
    def lists_versions(self) -> bool:
        """Whether listings say which version of a file there is: then `read_listed` seldom asks for one again."""
        return False

    @abc.abstractmethod
    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A seekable file for pyarrow. `size`, where known, may save a request to the store."""

    @abc.abstractmethod
    def open_output(self, path: str) -> pa.NativeFile:
        """A new file for pyarrow to write, its directories made; an existing file is replaced."""

    @abc.abstractmethod
    def write_bytes(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Write a whole file, its directories made; readers see all of it or nothing.

        Raises:
            FileExistsError: the file exists and `overwrite` is false (a check, not a promise between processes: to
                publish, use `create_exclusive`).
        """

    @abc.abstractmethod
    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create the file with this content unless it exists: of many processes at once, exactly one gets True.

        Returns:
            True when this call created the file, False when it was there before. After any exception the outcome is
            unknown: read the file back.

        Raises:
            UnsupportedError: the store cannot do this; the message names the option that overrides.
        """

    @abc.abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    def file_exists(self, path: str) -> bool:
        """Whether there is a file, of a path that is no directory's."""
        return self.exists(path)

    @abc.abstractmethod
    def size(self, path: str) -> int:
        """Bytes of a file. Raises FileNotFoundError when there is none."""

    def sizes(self, paths: Collection[str]) -> dict[str, int]:
        """The bytes of those of these files that are there, by path: their directories are listed, several at once."""
        wanted = set(paths)
        directories = list(dict.fromkeys(path.rpartition("/")[0] for path in paths))
        with ThreadPoolExecutor(min(self.threads, len(directories) or 1)) as pool:
            found: dict[str, int] = {}
            for directory, entries in zip(directories, pool.map(self.list_names, directories), strict=True):
                files = ((f"{directory}/{entry.name}", entry.size) for entry in entries if not entry.is_dir)
                found |= {path: size for path, size in files if path in wanted}
            return found

    @abc.abstractmethod
    def list_names(self, path: str) -> list[FileStatus]:
        """The entries of a directory, unordered; empty when there is no such directory."""

    def files_below(self, path: str) -> list[str] | None:
        """Names of all files below a directory, from there on, if the store tells them at once; else None."""
        return None

    @abc.abstractmethod
    def mkdirs(self, path: str) -> None:
        """Make a directory and those above it, which is there though nothing is in it."""

    @abc.abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Move a file or directory; what happens to an existing target depends on the store."""

    def finish_rename(self, source: str, target: str) -> bool:
        """Finish a move of a directory that was stopped late; return whether there was one."""
        return False

    @abc.abstractmethod
    def delete_quietly(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file (a directory with `recursive`); return whether it is gone, one that was missing too."""

    @property
    def threads(self) -> int:
        """How many requests are worth sending at once: many, where each waits for its answer."""
        return 16

    def delete_files(self, paths: Sequence[str], *, threads: int | None = None) -> list[str]:
        """Delete many files, in no order; those that are missing are passed over.

        Args:
            paths: of files; quickest where those of one directory are together.
            threads: how many are deleted at once; with 1 one after the other. As the store is best used when not given.

        Returns:
            Those that could not be deleted.
        """
        return tree_changes.each(self.delete_quietly, paths, threads or self.threads)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it; return whether it was (stores without directories leave it)."""
        return False

    def delete_empty_tree(self, path: str) -> bool:
        """Delete a directory and those below it where no file is in them; return whether it is gone."""
        raise NotImplementedError

    def check_deletes(self, path: str) -> None:  # noqa: B027 - a disk always answers
        """Refuse to go on where what deletes was given up last, as nothing was answered.

        Args:
            path: that could not be deleted.

        Raises:
            StorageError: the store does not answer.
        """

    def leads_out(self, path: str) -> bool:
        """Whether a directory leads out of what may be deleted (`confinement`); never where all may be."""
        return False


@dataclass(frozen=True, slots=True)
class LocalFileIO(FileIO):
    """Local disks: plain paths and `file:`, without fsspec."""

    unsafe_rename: bool = False

    def secrets(self) -> tuple[str, ...]:
        """Nothing of a disk is secret."""
        return ()

    @named
    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return local_files.read_file(local_files.local_path(path))

    @named
    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The file as an operating system file; pyarrow reads it without Python's lock."""
        return pa.OSFile(local_files.local_path(path), "rb")

    @named
    def open_output(self, path: str) -> pa.NativeFile:
        """A new operating system file."""
        target = local_files.local_path(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        return pa.OSFile(target, "wb")

    @named
    def write_bytes(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Write aside, then rename (overwrite) or link (new file)."""
        local_files.write_file(local_files.local_path(path), data, overwrite=overwrite)

    @named
    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Write aside, flush to disk, then `link`, which fails when the target exists."""
        target = local_files.local_path(path)
        try:
            return local_files.create_by_link(target, data)
        except local_files.NoHardLinksError:
            if not self.unsafe_rename:
                raise not_exclusive(path, "This file system has no hard links, so it") from None
        if os.path.exists(target):
            return False
        local_files.write_file(target, data, overwrite=True)
        return True

    @named
    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return os.path.exists(local_files.local_path(path))

    @named
    def size(self, path: str) -> int:
        """Bytes of a file."""
        return os.stat(local_files.local_path(path)).st_size

    def sizes(self, paths: Collection[str]) -> dict[str, int]:
        """The bytes of those of these files that are there, by path."""
        found: dict[str, int] = {}
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                found[path] = self.size(path)
        return found

    @named
    def list_names(self, path: str) -> list[FileStatus]:
        """The entries of a directory; entries that vanish meanwhile are left out."""
        return [FileStatus(*entry) for entry in local_files.list_directory(local_files.local_path(path))]

    @named
    def mkdirs(self, path: str) -> None:
        """Make a directory and those above it."""
        os.makedirs(local_files.local_path(path), exist_ok=True)

    @named
    def rename(self, source: str, target: str) -> None:
        """Move; replaces an existing file."""
        os.rename(local_files.local_path(source), local_files.local_path(target))

    def delete_quietly(self, path: str, *, recursive: bool = False) -> bool:
        """Delete, ignoring errors of the operating system."""
        return local_files.delete(local_files.local_path(path), recursive=recursive)

    @property
    def threads(self) -> int:
        """One: a small file is read sooner than another thread is woken."""
        return 1

    def delete_files(self, paths: Sequence[str], *, threads: int | None = None) -> list[str]:
        """Delete many files; the operating system frees them in several threads at once."""
        return local_files.delete_all(paths, threads)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it; the operating system refuses others."""
        return local_files.delete_empty(local_files.local_path(path))

    def delete_empty_tree(self, path: str) -> bool:
        """Delete directories without files; of a link the link."""
        return local_files.delete_empty_tree(local_files.local_path(path))


@dataclass(frozen=True, slots=True)
class FsspecFileIO(FileIO):
    """Any other store, through fsspec. The file system is made on first use, in whichever process that is."""

    scheme: str
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)
    unsafe_rename: bool = False
    session: SessionStore | None = field(default=None, repr=False, hash=False, compare=False)

    @property
    def address(self) -> str:
        """Its endpoint."""
        return address_of(self.scheme, self.storage_options)

    def filesystem(self, path: str) -> Any:
        """The fsspec file system (fsspec keeps one per scheme and options)."""
        return open_store(self.scheme, path, self.storage_options)

    def _to_delete(self, path: str) -> tuple[Any, str]:
        """The file system as it is asked to delete, and the path as it wants it."""
        key = self._key(path)
        return open_store(self.scheme, path, self.storage_options, deleting=True), key

    def read_bytes(self, path: str) -> bytes:
        """The whole object."""
        return self.read_listed(path)

    def read_listed(self, path: str, entry: FileStatus | None = None) -> bytes:
        """The whole object; what is kept of the version that was listed is not read again."""
        data = KEPT.get(self, path, entry)
        if data is None:
            data = self._read_whole(path)
            KEPT.put(self, self.scheme, path, data, entry)
        return data

    @named
    def _read_whole(self, path: str) -> bytes:
        return store_requests.read_whole(self.filesystem(path), self.scheme, self._key(path))

    @property
    def lists_versions(self) -> bool:
        """Object stores do."""
        return self.scheme in NO_DIRECTORIES

    @named
    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """An object as a seekable file; pyarrow itself asks for large ranges, so fsspec does not read ahead."""
        store, key = self.filesystem(path), self._key(path)
        return store_requests.open_object(store, self.scheme, key, size, path, self.secrets())

    @named
    def fetch(self, path: str) -> Fetch | None:
        """Begin to read an object; None where that gains nothing."""
        return store_requests.fetch_whole(self.filesystem(path), self.scheme, self._key(path), path, self.secrets())

    @named
    def open_output(self, path: str) -> pa.NativeFile:
        """A new object; it appears when the file is closed."""
        self._make_parent(path)
        file = NamedErrorsFile(self.filesystem(path).open(self._key(path), "wb"), path, self.secrets())
        return pa.PythonFile(file, mode="w")

    @named
    def write_bytes(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Write a whole object in one request where the store can."""
        store = self.filesystem(path)
        if not overwrite and not is_unique(path) and store.exists(self._key(path)):
            raise FileExistsError(f"The file exists already: {redact(path)}")
        self._make_parent(path)

        def put() -> bool:
            store.pipe_file(self._key(path), data)
            return True

        self._put(path, data, put)
        KEPT.put(self, self.scheme, path, data)

    @named
    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Conditional put, one request, or a rename that fails on an existing target (WebHDFS)."""
        self._make_parent(path)
        store, key, endpoint = self.filesystem(path), self._key(path), str(self.storage_options.get("endpoint_url", ""))
        unsafe = self.unsafe_rename
        if not self._put(path, data, lambda: create(store, self.scheme, key, data, path, endpoint, unsafe=unsafe)):
            return False
        KEPT.put(self, self.scheme, path, data)
        return True

    def _put(self, path: str, data: bytes, put: Callable[[], bool]) -> bool:
        """Put an object; where an answer was unclear, the same bytes under its name are taken for ours.

        A silent store is not asked more: whoever publishes looks for longer.
        """
        with unanswered.noted() as unclear:
            try:
                done = put()
            except PaimonError:
                raise
            except Exception as error:
                if not unclear or silence.says_silence(error) or not self._holds(path, data):
                    raise
                done = True
        return done or (bool(unclear) and self._holds(path, data))

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self._read_whole(path) == data
        except Exception:  # noqa: BLE001 - what cannot be read is not known to be ours
            return False

    @named
    def exists(self, path: str) -> bool:
        """Whether there is an object or a prefix."""
        return store_requests.exists(self.filesystem(path), self.scheme, self._key(path))

    @named
    def file_exists(self, path: str) -> bool:
        """Whether there is an object."""
        return store_requests.is_object(self.filesystem(path), self.scheme, self._key(path))

    @named
    def size(self, path: str) -> int:
        """Bytes of an object."""
        return int(self.filesystem(path).info(self._key(path))["size"])

    @named
    def list_names(self, path: str) -> list[FileStatus]:
        """The entries directly below a prefix."""
        directory = self._key(path).rstrip("/")
        try:
            entries = store_requests.listed(self.filesystem(path), self.scheme, directory)
        except FileNotFoundError as missing:
            if says_no_bucket(missing):
                raise
            return []
        others = (status_of(entry) for entry in entries if entry["name"].strip("/") != directory.strip("/"))
        return [status for status in others if status.name]

    def sizes(self, paths: Collection[str]) -> dict[str, int]:
        """The bytes of those of these objects that are there; S3 lists many directories with few requests."""
        by_key = {self._key(path): path for path in paths}
        ordered = store_requests.listed_in_order(self.scheme, by_key)
        if not ordered:
            return FileIO.sizes(self, paths)
        parts: list[list[str]] = []
        for _, some in groupby(ordered, lambda key: key.partition("/")[0]):
            keys = list(some)
            directories = len({key.rpartition("/")[0] for key in keys})
            most = -(-len(keys) // min(self.threads, directories))
            parts += [keys[start : start + most] for start in range(0, len(keys), most)]
        with ThreadPoolExecutor(min(self.threads, len(parts))) as pool:
            found = pool.map(lambda keys: self._sizes_in_order(by_key[keys[0]], keys), parts)
            return {by_key[key]: size for sizes in found for key, size in sizes.items()}

    @named
    def _sizes_in_order(self, path: str, keys: Sequence[str]) -> dict[str, int]:
        return store_requests.sizes_of(self.filesystem(path), keys)

    @named
    def files_below(self, path: str) -> list[str] | None:
        """Names of all objects below a prefix, where S3 lists them with one request."""
        return store_requests.files_below(self.filesystem(path), self.scheme, self._key(path).rstrip("/"))

    @named
    def mkdirs(self, path: str) -> None:
        """Make a directory; where the store has none, an object stands for it (`directory_entries`)."""
        make_directory(self.filesystem(path), self.scheme, self._key(path))

    @named
    def rename(self, source: str, target: str) -> None:
        """Move (copy and delete on object stores)."""
        self._move(source, target).run()

    @named
    def finish_rename(self, source: str, target: str) -> bool:
        """Finish a move that copies (`tree_changes`)."""
        return self._move(source, target).finish()

    def _move(self, source: str, target: str) -> Move:
        old, new = (self._key(path).rstrip("/") for path in (source, target))
        return Move(self.filesystem(source), self.scheme, old, new, self.create_exclusive, self.threads)

    def delete_quietly(self, path: str, *, recursive: bool = False) -> bool:
        """Delete, ignoring what the store says."""
        KEPT.drop_below(self, path) if recursive else KEPT.drop(self, [path])
        return tree_changes.quietly(lambda: self._to_delete(path), self.scheme, recursive=recursive)

    def delete_empty_tree(self, path: str) -> bool:
        """Delete directories without files, or the objects that stand for them (`directory_entries`)."""
        KEPT.drop_below(self, path)
        return tree_changes.empty_tree(lambda: self._to_delete(path), self.scheme)

    def delete_files(self, paths: Sequence[str], *, threads: int | None = None) -> list[str]:
        """Delete many objects: hundreds with one request where the store can, else several at once."""
        KEPT.drop(self, paths)
        if self.scheme in tree_changes.BULK and len(paths) > 1 and threads != 1:
            keys = [self._key(path) for path in paths]
            left = tree_changes.delete_in_bulk(self._to_delete(paths[0])[0], keys)
            paths = [paths[position] for position in left]
        return tree_changes.each(self.delete_quietly, paths, threads or self.threads)

    def check_deletes(self, path: str) -> None:
        """Refuse to go on where the store does not answer what deletes (`silence`)."""
        error = silence.at_deletes(self.filesystem(path))
        if isinstance(error, Exception):
            raise translated(error, path, self.secrets()) from None

    def _key(self, path: str) -> str:
        """The path as fsspec's file system wants it: without the scheme, or with the scheme in fsspec's spelling."""
        scheme = scheme_of(path)
        return self.filesystem(path)._strip_protocol(self.scheme + path[len(scheme) :] if scheme else path)  # type: ignore[no-any-return]

    def _make_parent(self, path: str) -> None:
        if self.scheme not in NO_DIRECTORIES:
            self.mkdirs(path.rsplit("/", 1)[0])

    def secrets(self) -> tuple[str, ...]:
        """Texts of the options that no message may show."""
        return secret_values(self.storage_options.items())
