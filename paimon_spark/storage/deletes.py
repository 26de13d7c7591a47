"""Deleting from an fsspec store: what lies below a directory, and many objects at once.

fsspec takes a path with ``*``, ``?`` or ``[`` for a pattern and would delete other files as well; names of tags,
branches and directories may contain them. Keys are paths in fsspec's own spelling.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from paimon_spark.storage import silence
from paimon_spark.storage.directory_markers import NO_DIRECTORIES

BULK: Final = frozenset({"s3", "gs", "oss", "abfs"})
"""Schemes whose stores delete many objects with one request."""

_MOST_IN_BULK: Final = 1000


def is_pattern(path: str) -> bool:
    """Return whether fsspec takes a path for a pattern."""
    return any(character in path for character in "*?[")


def quietly(opened: Callable[[], tuple[Any, str]], scheme: str, *, recursive: bool) -> bool:
    """Delete a file, or a directory with all that is below it; return whether it is gone, one that was missing too."""
    return _is_gone(opened, lambda store, key: _deleted(store, scheme, key, recursive=recursive))


def _deleted(store: Any, scheme: str, key: str, *, recursive: bool) -> bool:
    if recursive:
        delete_tree(store, scheme, key)
    else:
        store.rm_file(key)
    return True


def _is_gone(opened: Callable[[], tuple[Any, str]], delete: Callable[[Any, str], bool]) -> bool:
    """What `delete` answers; False where the store does not answer, or has just not answered."""
    store = None
    try:
        store, key = opened()
        if silence.rests(store):
            return False
        gone = delete(store, key)
    except FileNotFoundError:
        return True
    except Exception as error:  # noqa: BLE001 - libraries of stores raise errors of many kinds
        silence.noticed(store, error, deleting=True)
        return False
    silence.answered(store, deleting=True)
    return gone


def delete_tree(store: Any, scheme: str, key: str) -> None:
    """Delete a directory with all that is below it, whatever its name."""
    if scheme == "abfs":
        _delete_tree_of_blobs(store, key)
        return
    if not is_pattern(key):
        store.rm(key, recursive=True)
        return
    found = store.find(key, withdirs=True, detail=True)
    for name in sorted(found, reverse=True):
        if found[name]["type"] != "directory":
            store.rm_file(name)
        elif scheme not in NO_DIRECTORIES:
            store.rmdir(name)
    if scheme in NO_DIRECTORIES:
        delete_markers(store, key)
        return
    with contextlib.suppress(OSError, NotImplementedError):
        store.rmdir(key)


def _delete_tree_of_blobs(store: Any, key: str) -> None:
    """Delete blobs, then the objects that stand for directories, the deepest first.

    adlfs takes each part of a name for such an object, and stops at the first that is none.
    """
    found = store.find(key, withdirs=True, detail=True)
    found = found if isinstance(found, dict) else {}  # a list, where the key is a file's
    files = [name for name in found if found[name]["type"] != "directory"]
    if left := delete_in_bulk(store, files):
        silent = silence.at_deletes(store)
        if silent is not None:
            raise silent
        store.rm([files[position] for position in left], expand_path=False)
    directories = [name for name in found if found[name]["type"] == "directory"]
    for name in [*sorted(directories, reverse=True), key.rstrip("/")]:
        with contextlib.suppress(FileNotFoundError):  # only a part of names
            store.rm_file(name)


def empty_tree(opened: Callable[[], tuple[Any, str]], scheme: str) -> bool:
    """Delete a directory and those below it where no file is in them; return whether it is gone.

    What is no directory is not touched, so a file that is put there meanwhile stays.
    """
    return _is_gone(opened, lambda store, key: _emptied(store, scheme, key))


def _emptied(store: Any, scheme: str, key: str) -> bool:
    if scheme in NO_DIRECTORIES:
        delete_markers(store, key)
        if scheme == "abfs" and not any(name.rstrip("/") != key.rstrip("/") for name in store.find(key)):
            store.rm_file(key.rstrip("/"))  # its own, which a listing of what is below does not show
    else:
        _delete_directories(store, key)
    return not store.exists(key)


def _delete_directories(store: Any, key: str) -> None:
    found = store.find(key, withdirs=True, detail=True)
    below = [name for name in found if found[name]["type"] == "directory" and name.rstrip("/") != key.rstrip("/")]
    for name in [*sorted(below, reverse=True), key]:
        if not store.ls(name, detail=False):
            store.rmdir(name)


def delete_markers(store: Any, key: str) -> None:
    """Delete the objects that stand for a directory and those below it, where nothing else is below them."""
    found = store.find(key, withdirs=True, detail=True)
    for name in sorted(found, reverse=True):
        if name.endswith("/") or found[name].get("type") == "directory":
            try:
                store.rm_file(name)
            except OSError as error:  # a directory that is only a part of names, or one that holds files
                if silence.says_silence(error):
                    raise


def delete_in_bulk(store: Any, keys: Sequence[str]) -> list[int]:
    """Delete many objects with few requests; return the positions of those that may still be there."""
    left: list[int] = []
    for start in range(0, len(keys), _MOST_IN_BULK):
        positions = range(start, min(start + _MOST_IN_BULK, len(keys)))
        some = [keys[position] for position in positions]
        if any(map(is_pattern, some)) or silence.rests(store):
            left += positions
            continue
        try:
            if hasattr(store, "delete_blobs"):
                left += [positions[number] for number in store.delete_blobs(some)]
            else:
                store.rm(some)
        except Exception as error:  # noqa: BLE001 - one missing or protected object may make the whole request fail
            silence.noticed(store, error, deleting=True)
            left += positions
        else:
            silence.answered(store, deleting=True)
    return left


def each(action: Callable[[str], bool], paths: Sequence[str], threads: int) -> list[str]:
    """Do something with each of many paths, some at once; in their order with one thread.

    Returns:
        The paths for which it failed.
    """
    if threads == 1 or len(paths) < 2:
        return [path for path in paths if not action(path)]
    with ThreadPoolExecutor(min(threads, len(paths))) as pool:
        return [path for path, done in zip(paths, pool.map(action, paths), strict=True) if not done]
