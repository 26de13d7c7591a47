"""Creating an object of an fsspec store so that of several writers exactly one succeeds.

Keys are paths in fsspec's own spelling; paths are the table's, for messages.
"""

from __future__ import annotations

import threading
import uuid
from typing import Any, Final

from paimon_spark.errors import UnsupportedError
from paimon_spark.storage.hdfs import create_if_absent
from paimon_spark.storage.store_options import install_command, redact

UNSAFE_RENAME: Final = "commit.unsafe-rename"
"""The option that lets a store publish by "exists? then write" where it can do nothing better."""

CONDITIONAL_PUT: Final = frozenset({"memory", "s3", "gs", "abfs"})
"""Schemes whose stores put an object on the condition that there is none."""

_PROVEN_ENDPOINTS: Final[set[str]] = set()
_MEMORY_LOCK: Final = threading.Lock()


def create(store: Any, scheme: str, key: str, data: bytes, path: str, endpoint: str, *, unsafe: bool) -> bool:
    """Create an object unless there is one; return whether it was created.

    Raises:
        UnsupportedError: the store cannot do it so that one writer wins, and ``unsafe`` does not say that there is one.
    """
    if scheme in CONDITIONAL_PUT:
        if scheme == "s3" and not unsafe:
            check_conditional_put(store, key, path, endpoint)
        return put_if_absent(store, key, data, path)
    if scheme == "hdfs" and hasattr(store, "client"):
        return create_if_absent(store, key, data)
    if scheme == "oss":
        if not unsafe:
            store.check_exclusive(key)
        return put_if_absent(store, key, data, path)
    if scheme == "webhdfs":
        return rename_if_absent(store, key, data)
    if not unsafe:
        client = f"The installed client of HDFS is not hdfs-native ({install_command(scheme)}): it"
        raise not_exclusive(path, client if scheme == "hdfs" else f"The store '{scheme}:'")
    if store.exists(key):
        return False
    store.pipe_file(key, data)
    return True


def put_if_absent(store: Any, key: str, data: bytes, path: str) -> bool:
    """Put an object unless there is one; return whether it was put.

    Raises:
        UnsupportedError: the installed package cannot do it.
    """
    try:
        if store.protocol == "memory":
            with _MEMORY_LOCK:
                store.pipe_file(key, data, mode="create")
        elif "abfs" in store.protocol:
            store.pipe_file(key, data, overwrite=False)  # of `mode` old versions know nothing, and would overwrite
        elif "s3" in store.protocol:
            with store.open(key, "xb") as file:
                file.write(data)
        else:
            store.pipe_file(key, data, mode="create")
    except FileExistsError:
        return False
    except (NotImplementedError, TypeError, ValueError) as unsupported:
        raise not_exclusive(path, f"The installed {type(store).__module__.split('.')[0]}") from unsupported
    return True


def check_conditional_put(store: Any, key: str, path: str, endpoint: str) -> None:
    """Check a store with S3's protocol, once per process and endpoint: other stores may ignore the condition.

    Raises:
        UnsupportedError: it does.
    """
    if not endpoint or ".amazonaws.com" in endpoint or endpoint in _PROVEN_ENDPOINTS:
        return
    probe = f"{key.rpartition('/')[0]}/.probe-{uuid.uuid4()}"
    put_if_absent(store, probe, b"1", path)
    refused = not put_if_absent(store, probe, b"2", path)
    store.rm_file(probe)
    if not refused:
        raise not_exclusive(path, f"The store at {redact(endpoint)} ignores the condition of a put, so it")
    _PROVEN_ENDPOINTS.add(endpoint)


def rename_if_absent(store: Any, key: str, data: bytes) -> bool:
    """WebHDFS refuses a rename to an existing target without an error: the content of the target tells who won."""
    directory, _, name = key.rpartition("/")
    aside = f"{directory}/.{name}.{uuid.uuid4()}.tmp"
    store.pipe_file(aside, data)
    if store.exists(key):
        store.rm(aside)
        return False
    store.mv(aside, key)
    if store.exists(aside):
        store.rm(aside)
        return False
    return True


def not_exclusive(path: str, what: str) -> UnsupportedError:
    """Return the error of a store that cannot create exclusively."""
    return UnsupportedError(
        f"{what} cannot create '{redact(path)}' so that only one of several writers succeeds: commits could be lost. "
        "If you make sure that only one process at a time commits to this table, "
        f"set the option '{UNSAFE_RENAME}' to 'true'."
    )
