"""Directories of stores that have none: an object that stands for a directory while nothing is below it.

So a database without tables is kept. The objects are those of Hadoop's file systems: ``dir/`` without bytes on S3,
Google Cloud Storage and OSS, ``dir`` with the metadata ``hdi_isfolder`` on Azure (a real directory where the account
has a hierarchical namespace). Keys are paths in fsspec's own spelling.
"""

from __future__ import annotations

from typing import Any, Final

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
