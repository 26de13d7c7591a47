"""Fewer requests to a store than fsspec needs: files whose names say that they never change, and known kinds of paths.

Manifests and their lists have a unique name each: what was read or written once is kept by the process, within a byte
budget, as no other content can have that name. Schemas, snapshots, tags and hints can be other files under the same
name: they are kept too, and used when a listing that was just made names the same version. Keys are paths in fsspec's
own spelling.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import inspect
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa

from paimon_spark.storage.directory_entries import NO_DIRECTORIES, FileStatus
from paimon_spark.storage.read_ahead import FETCHED, SIZED, Fetch, NamedFetch, SizedFile, SizedObject, can_fetch, fetch
from paimon_spark.storage.store_errors import NamedErrorsFile

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEPT_NAME: Final = re.compile(rf"(index-)?manifest-(list-)?{_UUID.pattern}-\d+")
_CHECKED_NAME: Final = re.compile(r"(schema|snapshot)-\d+|tag-.+|LATEST|EARLIEST")
"""Files that are kept for listings that prove them unchanged."""
_MOST_KEPT_BYTES: Final = 64 << 20
_LARGEST_KEPT_BYTES: Final = 8 << 20
_KNOWN_BUCKETS: Final[set[tuple[str, str]]] = set()
"""Stores and buckets that are there."""

_LARGE_DIRECTORIES: Final[set[tuple[str, str]]] = set()
_MOST_LISTED: Final = 300
"""Objects whose listing costs no more than the few requests that it saves."""


def is_unique(path: str) -> bool:
    """Return whether a file's name was made so that no other file has it."""
    return _UUID.search(path.rpartition("/")[2]) is not None


def read_whole(store: Any, scheme: str, key: str) -> bytes:
    """Read an object with one request."""
    return bytes(store.cat_file(key, **_in_one(store, scheme)))


def fetch_whole(store: Any, scheme: str, key: str, path: str, secrets: tuple[str, ...]) -> Fetch | None:
    """Begin to read an object with one request; None where that gains nothing."""
    if scheme not in FETCHED or not can_fetch(store):
        return None
    return NamedFetch(fetch(store, key, **_in_one(store, scheme)), store, path, secrets)


def _in_one(store: Any, scheme: str) -> dict[str, Any]:
    """What lets s3fs not ask for an object's size first, to read large ones in parts."""
    return {"max_concurrency": 1} if scheme == "s3" and _reads_in_parts(cast("Hashable", type(store))) else {}


def open_object(
    store: Any, scheme: str, key: str, size: int | None, path: str, secrets: tuple[str, ...]
) -> pa.NativeFile:
    """Open an object for pyarrow, which itself asks for large ranges: nothing is read ahead but what it foretells.

    Args:
        store: fsspec's file system.
        scheme: in fsspec's spelling.
        key: of the object.
        size: its bytes, where known: then it is not asked for.
        path: of the table's spelling, for messages.
        secrets: what no message may show.
    """
    if size is not None and scheme in SIZED:
        sized = SizedObject(store, key, size, functools.partial(read_whole, store, scheme, key))
        return SizedFile.of(sized, path, secrets)
    file = store.open(key, "rb", cache_type="none")
    return pa.PythonFile(NamedErrorsFile(file, path, secrets), mode="r")


def listed(store: Any, scheme: str, directory: str) -> list[dict[str, Any]]:
    """Return the entries of a directory as fsspec spells them, with one request for a thousand.

    s3fs would look for a file of the name where nothing is below it, adlfs for what else begins with it.
    """
    if scheme != "s3" or "/" not in directory:
        try:
            azure = scheme == "abfs" and "/" in directory
            found: list[dict[str, Any]] = store.entries(directory) if azure else store.ls(directory, detail=True)
        except FileNotFoundError:
            _check_bucket(store, scheme, directory.strip("/").partition("/")[0])
            raise
        return found
    entries: list[dict[str, Any]] = []
    for page in _pages(store, f"{directory}/"):
        entries += _entries(page, directory.partition("/")[0])
    return entries


def _check_bucket(store: Any, scheme: str, bucket: str) -> None:
    """Check, once in a process, that there is a bucket: gcsfs and adlfs take one that is missing for an empty one.

    Raises:
        FileNotFoundError: there is none.
    """
    known = (store._fs_token, bucket)
    if scheme not in ("gs", "abfs") or known in _KNOWN_BUCKETS:
        return
    try:
        there = store.exists(bucket)
    except Exception:  # noqa: BLE001 - whoever may read objects may perhaps not ask for buckets
        there = True
    if not there:
        raise FileNotFoundError("The specified bucket does not exist")
    _KNOWN_BUCKETS.add(known)


def exists(store: Any, scheme: str, key: str) -> bool:
    """Return whether there is an object or something below it, with one request where names are few."""
    if scheme != "s3" or "/" not in key.strip("/"):
        return _is_there(store, scheme, key)
    key = key.rstrip("/")
    try:
        for page in _pages(store, key):
            names = [entry["name"] for entry in _entries(page, key.partition("/")[0])]
            if key in names or f"{key}/" in names:
                return True
            if any(name > f"{key}/" for name in names):  # S3 lists in the order of names
                return False
    except FileNotFoundError:
        return False
    except PermissionError:  # of listing, perhaps only
        return bool(store.exists(key))
    return False


def _is_there(store: Any, scheme: str, key: str) -> bool:
    if scheme != "webhdfs":
        return bool(store.exists(key))
    try:
        store.info(key)
    except FileNotFoundError:  # fsspec's own takes every error for a missing file
        return False
    return True


def _pages(store: Any, prefix: str) -> Iterator[dict[str, Any]]:
    bucket, _, name = prefix.partition("/")
    asked = {"Bucket": bucket, "Prefix": name, "Delimiter": "/", **store.req_kw}
    while True:
        page = store.call_s3("list_objects_v2", **asked)
        yield page
        if not page.get("IsTruncated"):
            return
        asked["ContinuationToken"] = page["NextContinuationToken"]


def files_below(store: Any, scheme: str, directory: str) -> list[str] | None:
    """Return the names of all objects below a directory if they are few and one request lists them, else None.

    A directory that has more is not asked for again by this process.
    """
    known = (store._fs_token, directory)
    if scheme != "s3" or "/" not in directory or known in _LARGE_DIRECTORIES:
        return None
    bucket, _, name = directory.partition("/")
    page = store.call_s3("list_objects_v2", Bucket=bucket, Prefix=f"{name}/", MaxKeys=_MOST_LISTED, **store.req_kw)
    if page.get("IsTruncated"):
        _LARGE_DIRECTORIES.add(known)
        return None
    return [str(one["Key"])[len(name) + 1 :] for one in page.get("Contents", ())]


def sizes_of(store: Any, keys: Sequence[str]) -> dict[str, int]:
    """Return the bytes of those of some objects of one S3 bucket that are there.

    Each request lists the thousand objects from the next wanted one on: what lies between is passed over.

    Args:
        store: s3fs's file system.
        keys: of objects, in the order in which S3 lists them (`listed_in_order`).
    """
    names = [key.partition("/")[2].encode() for key in keys]
    bucket = keys[0].partition("/")[0]
    ends = zip(names[0].decode(), names[-1].decode(), strict=False)
    common = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    asked = {"Bucket": bucket, "Prefix": common, **store.req_kw}
    found: dict[str, int] = {}
    at = 0
    while at < len(names):
        after = names[at].decode()[:-1]
        page = store.call_s3("list_objects_v2", **asked, StartAfter=after)
        listed = page.get("Contents", ())
        found |= {f"{bucket}/{one['Key']}": int(one["Size"]) for one in listed}
        if not page.get("IsTruncated") or not listed:
            break
        at = bisect.bisect_right(names, str(listed[-1]["Key"]).encode(), at + 1)
    return {key: found[key] for key in keys if key in found}


def listed_in_order(scheme: str, keys: Collection[str]) -> list[str]:
    """Return the keys of objects as their store lists them; empty where its listings begin at no key, or have none."""
    ends_unordered = any(key.partition("/")[0].endswith("--x-s3") for key in keys)  # directory buckets
    return [] if scheme != "s3" or ends_unordered else sorted(keys, key=str.encode)


def _entries(page: dict[str, Any], bucket: str) -> list[dict[str, Any]]:
    directories = [{"name": f"{bucket}/{one['Prefix']}", "type": "directory"} for one in page.get("CommonPrefixes", ())]
    files = [
        {"name": f"{bucket}/{one['Key']}", "type": "file", "size": one["Size"], **one}
        for one in page.get("Contents", ())
    ]
    return [*directories, *files]


def is_object(store: Any, scheme: str, key: str) -> bool:
    """Return whether there is an object with one request; fsspec would then look for a directory of the name."""
    if scheme != "s3":
        return _is_there(store, scheme, key)
    bucket, name, _ = store.split_path(key)
    try:
        store.call_s3("head_object", Bucket=bucket, Key=name)
    except FileNotFoundError:
        return False
    return True


class _Kept(NamedTuple):
    data: bytes
    version: str
    """Of a listing, or the MD5 of the data; empty: the name says that it never changes."""


def _is_version(kept: _Kept, entry: FileStatus | None) -> bool:
    if entry is None or not entry.version or len(kept.data) != entry.size:
        return False
    return kept.version in (entry.version, entry.version.partition(" ")[0])


@functools.cache
def _reads_in_parts(kind: Hashable) -> bool:
    return "max_concurrency" in inspect.signature(kind._cat_file).parameters  # type: ignore[attr-defined]


class KeptFiles:
    """Contents of small files, the most recently used ones; shared by all threads.

    Those of manifests never change. Those of others are given only to who holds a listing that names their version.
    """

    def __init__(self, most_bytes: int = _MOST_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._files: OrderedDict[tuple[Hashable, str], _Kept] = OrderedDict()
        self._bytes = 0

    def get(self, owner: Hashable, path: str, entry: FileStatus | None = None) -> bytes | None:
        """Return what is kept of a file that never changes, or is what a listing has just found; else None."""
        with self._lock:
            found = self._files.get((owner, path))
            if found is None or (found.version and not _is_version(found, entry)):
                return None
            self._files.move_to_end((owner, path))
            return found.data

    def put(self, owner: Hashable, scheme: str, path: str, data: bytes, entry: FileStatus | None = None) -> None:
        """Keep a file's content, if its name says that it never changes or is one that listings are asked for.

        Args:
            owner: the store.
            scheme: in fsspec's spelling.
            path: of the file.
            data: what was read, or written.
            entry: what a listing said of it just before it was read; None: it was read, or was written by this process.
        """
        name = path.rpartition("/")[2]
        if scheme not in NO_DIRECTORIES or len(data) > _LARGEST_KEPT_BYTES:
            return
        version = ""
        if not _KEPT_NAME.fullmatch(name):
            if not _CHECKED_NAME.fullmatch(name):
                return
            version = entry.version if entry else hashlib.md5(data, usedforsecurity=False).hexdigest()
            if not version or (entry and entry.size != len(data)):
                return
        with self._lock:
            self._bytes += len(data) - self._pop(owner, path)
            self._files[owner, path] = _Kept(data, version)
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._files.popitem(last=False)[1].data)

    def _pop(self, owner: Hashable, path: str) -> int:
        found = self._files.pop((owner, path), None)
        return 0 if found is None else len(found.data)

    def clear(self) -> None:
        """Forget all files."""
        with self._lock:
            self._files.clear()
            self._bytes = 0

    def drop(self, owner: Hashable, paths: Iterable[str]) -> None:
        """Forget files that are deleted."""
        with self._lock:
            for path in paths:
                self._bytes -= self._pop(owner, path)

    def drop_below(self, owner: Hashable, directory: str) -> None:
        """Forget the files of a directory that is deleted."""
        with self._lock:
            below = [path for other, path in self._files if other == owner and path.startswith(f"{directory}/")]
        self.drop(owner, below)


KEPT: Final = KeptFiles()
"""What this process keeps."""
