"""Opening a store: which class does it, and with which options."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Hashable, Mapping
from importlib.util import find_spec
from typing import Any, Final, cast

from paimon_spark.errors import PaimonError
from paimon_spark.storage import silence, web_pages
from paimon_spark.storage.azure import AzureFiles, check_account
from paimon_spark.storage.gcs import GcsFiles
from paimon_spark.storage.hdfs import open_hdfs
from paimon_spark.storage.oss import OssFiles
from paimon_spark.storage.s3 import ASSUMED_ROLE, S3Files, session_for
from paimon_spark.storage.store_errors import not_opened
from paimon_spark.storage.store_options import check_known, secret_values

_HOST_OPTIONS: Final = ("host", "port", "username", "password", "user")
_GCS_ENDPOINTS: Final = ("FSSPEC_GCS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST")
"""Variables of the environment that gcsfs takes its endpoint from."""

_OF_ALL_THREADS: Final[dict[str, Any]] = {}
"""File systems of which fsspec itself would make one for each thread, with connections of its own."""
_LOCK: Final = threading.Lock()


def open_store(scheme: str, path: str, storage_options: Mapping[str, Any], *, deleting: bool = False) -> Any:
    """Return fsspec's file system of a path; it keeps one for each scheme and options.

    Args:
        scheme: in fsspec's spelling.
        path: in the store.
        storage_options: arguments of fsspec.
        deleting: it is asked to delete, which a store may not answer though it answers the rest.

    Raises:
        PaimonError: its package is not installed, an option is unknown, or the store cannot be opened.
    """
    import fsspec  # not needed for local disks, and each Python worker would pay for it

    options = dict(storage_options)
    if scheme == "abfs":
        check_account(path, options)
    if scheme == "hdfs" and find_spec("hdfs_native") is not None:
        return _opened_hdfs(path, options)
    if scheme in ("hdfs", "webhdfs", "sftp", "smb", "ftp"):
        options = {**fsspec.utils.infer_storage_options(path), **options}
        options = {k: v for k, v in options.items() if k in _HOST_OPTIONS or k in storage_options}
    try:
        kind = _store_class(fsspec.get_filesystem_class(scheme), storage_options)
        role = options.pop(ASSUMED_ROLE, None)
        check_known(scheme, kind, options if role else storage_options)
        if role:
            options["session"] = session_for(role, options.get("client_kwargs", {}).get("region_name"))
        store = _made(kind, options)
    except PaimonError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries of stores raise errors of many kinds
        raise not_opened(error, scheme, path, secret_values(storage_options.items())) from None
    if scheme == "webhdfs" and web_pages.refuse_of_namenode not in store.session.hooks["response"]:
        store.session.hooks["response"].append(web_pages.refuse_of_namenode)
    if scheme == "s3":
        store.retries = 1  # s3fs would do all of botocore's attempts five times over
    return _as_it_answers(store, scheme, options, deleting=deleting)


def _made(kind: type[Any], options: Mapping[str, Any]) -> Any:
    """Return fsspec's file system; one for all threads where its client allows that, else fsspec decides."""
    if not getattr(kind, "serves_all_threads", False):
        return kind(use_listings_cache=False, **options)
    from fsspec.utils import tokenize

    key = tokenize(kind.__name__, os.getpid(), **options)
    with _LOCK:
        if key not in _OF_ALL_THREADS:
            _OF_ALL_THREADS[key] = kind(use_listings_cache=False, **options)
        return _OF_ALL_THREADS[key]


def _as_it_answers(store: Any, scheme: str, options: Mapping[str, Any], *, deleting: bool) -> Any:
    """A store whose waits are short as long as it is silent."""
    silent = silence.is_silent(store, deleting=deleting)
    if scheme == "s3" and silent:
        waits = {"connect_timeout": silence.CONNECT_SECONDS, "read_timeout": silence.ANSWER_SECONDS}
        bounds = {**options.get("config_kwargs", {}), **waits, "retries": {"mode": "standard", "total_max_attempts": 1}}
        other = type(store)(use_listings_cache=False, **{**options, "config_kwargs": bounds})
        other.retries = 1
        return silence.replace(store, other)
    if hasattr(store, "hurry") and store.hurried is not silent:
        store.hurry(silent)
    return store


def _opened_hdfs(path: str, options: Mapping[str, Any]) -> Any:
    try:
        return open_hdfs(path, options)
    except PaimonError:
        raise
    except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds
        raise not_opened(error, "hdfs", path, ()) from None


def _store_class(kind: type[Any], options: Mapping[str, Any]) -> type[Any]:
    """Return the class that opens a store, where fsspec names ``kind``.

    gcsfs asks for the kind of each bucket by gRPC, for a minute where nothing answers: only Google's own endpoint does.
    """
    if kind.__module__ == "s3fs.core":
        return _with_ours(S3Files, cast("Hashable", kind))
    if kind.__module__ == "ossfs.core":
        return _with_ours(OssFiles, cast("Hashable", kind))
    if kind.__module__ == "gcsfs.extended_gcsfs" and (
        options.get("endpoint_url") or any(map(os.environ.get, _GCS_ENDPOINTS))
    ):
        from gcsfs.core import GCSFileSystem

        kind = GCSFileSystem
    if kind.__module__.startswith("gcsfs."):
        return _with_ours(GcsFiles, cast("Hashable", kind))
    if kind.__module__ == "adlfs.spec":
        return _with_ours(AzureFiles, cast("Hashable", kind))
    return kind


@functools.cache  # fsspec keeps file systems by class
def _with_ours(ours: Hashable, kind: Hashable) -> type[Any]:
    """Return the class of a store with methods of ours before its own."""
    first, base = cast("type[Any]", ours), cast("type[Any]", kind)
    return type(first.__name__, (first, base), {"protocol": base.protocol})
