"""Entries of directories, as fsspec's stores spell them; and directories of stores that have none.

There an object stands for a directory while nothing is below it. So a database without tables is kept. The objects are
those of Hadoop's file systems: ``dir/`` without bytes on S3, Google Cloud Storage and OSS, ``dir`` with the metadata
``hdi_isfolder`` on Azure (a real directory where the account has a hierarchical namespace). Keys are paths in fsspec's
own spelling.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple


class FileStatus(NamedTuple):
    """One entry of a directory; `mtime_millis` is 0 where the store does not say."""

    name: str
    size: int
    is_dir: bool
    mtime_millis: int
    version: str = ""
    """What the store says of the content: another file of this name has another version; empty where it says nothing.
    The text before the first space may be the MD5 of the content."""


def status_of(entry: Mapping[str, Any]) -> FileStatus:
    """The entry of one of fsspec's listings."""
    changed = next((entry[key] for key in _CHANGED_KEYS if entry.get(key)), 0)
    name = entry["name"].rstrip("/").rpartition("/")[2]
    is_dir, millis = entry.get("type") == "directory", _millis(changed)
    return FileStatus(name, int(entry.get("size") or 0), is_dir, millis, "" if is_dir else _version(entry, millis))


def _version(entry: Mapping[str, Any], millis: int) -> str:
    tag = str(entry.get("ETag") or entry.get("etag") or "").strip('"')
    if entry.get("md5Hash"):
        tag = f"{b64decode(entry['md5Hash']).hex()} {tag}"
    return f"{tag} {millis}" if tag else ""


_CHANGED_KEYS: Final = ("mtime", "modificationTime", "LastModified", "last_modified", "updated", "created")


def _millis(changed: Any) -> int:
    """Epoch milliseconds of what stores call the time of the last change: datetimes, ISO text, seconds or millis."""
    if isinstance(changed, str):
        try:
            changed = datetime.fromisoformat(changed)
        except ValueError:
            return 0
    if isinstance(changed, datetime):
        return int(changed.timestamp() * 1000)
    if not isinstance(changed, (int, float)):
        return 0
    return int(changed if changed > _SECONDS_END else changed * 1000)


_SECONDS_END: Final = 10**11
"""Numbers above are milliseconds (seconds would be in the year 5138)."""


NO_DIRECTORIES: Final = frozenset({"s3", "gs", "abfs", "oss"})
"""Schemes of stores that have no directories, or none that must be made."""


def make_directory(store: Any, scheme: str, key: str) -> None:
    """Make a directory; nothing changes where one is, or something is below it."""
    if scheme not in NO_DIRECTORIES:
        store.makedirs(key, exist_ok=True)
        return
    key = key.rstrip("/")
    if "/" not in key or store.exists(key):  # a bucket is no directory
        return
    if scheme == "s3":
        bucket, name, _ = store.split_path(key)
        store.call_s3("put_object", Bucket=bucket, Key=f"{name}/", Body=b"")
    elif scheme in ("gs", "oss"):
        store.pipe_file(f"{key}/", b"")
    elif scheme == "abfs":
        with store.open(key, "wb", metadata={"is_directory": "true", "hdi_isfolder": "true"}):
            pass
