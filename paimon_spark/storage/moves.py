"""Moving a table or branch on a store that cannot rename directories: every object is copied, then the old ones go.

The copy becomes a table with its schema files, which are copied last, and the old one stops being a table with its
schema files, which go first. So at no time half a table is one, and a move that fails before it has copied everything
leaves the old table as it was. Keys are paths in fsspec's own spelling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from paimon_spark.errors import PaimonError
from paimon_spark.storage import deletes
from paimon_spark.storage.directory_markers import NO_DIRECTORIES

_IDENTITY = "schema"
"""Directory of the files without which a directory is no table or branch."""


def move(store: Any, scheme: str, source: str, target: str, threads: int) -> None:
    """Move a directory. Where the store has directories it renames it.

    Args:
        store: fsspec's file system.
        scheme: in fsspec's spelling.
        source: the directory.
        target: a directory that holds nothing.
        threads: how many objects are copied at once.

    Raises:
        FileNotFoundError: nothing is below ``source``.
        PaimonError: something is below ``target``, or others changed what is below ``source``; nothing has moved.
    """
    if scheme not in NO_DIRECTORIES:
        store.mv(source, target, recursive=True)
        return
    source, target = source.rstrip("/"), target.rstrip("/")
    held = _objects(store, target)
    if held:
        raise PaimonError(
            f"'{target}' holds files already, '{next(iter(held))}' among them, of a move that was stopped perhaps: "
            f"delete this directory, or choose another name."
        )
    before = _objects(store, source)
    if not before:
        raise FileNotFoundError(source)
    own = [name for name in before if name.split("/")[0] == _IDENTITY]
    try:
        for names in ([name for name in before if name not in own], own):
            _copy(store, source, target, names, threads)
        if _objects(store, source) != before:
            raise PaimonError(
                f"'{source}' was changed by another job while it was copied to '{target}'. Nothing is moved: rename it "
                f"while nobody writes to it."
            )
    except BaseException:
        deletes.delete_tree(store, target)
        raise
    for name in own:
        store.rm_file(f"{source}/{name}")
    late = [name for name, seen in _objects(store, source).items() if before.get(name) != seen]
    _copy(store, source, target, late, threads)
    deletes.delete_tree(store, source)


def _objects(store: Any, directory: str) -> Mapping[str, tuple[Any, ...]]:
    """What is below a directory, by its name there, with what changes when it is written anew."""
    found = store.find(directory, detail=True)
    return {
        name[len(directory) + 1 :]: (entry.get("size"), str(entry.get("ETag") or entry.get("etag") or ""))
        for name, entry in found.items()
        if name.startswith(f"{directory}/") and name.rstrip("/") != directory
    }


def _copy(store: Any, source: str, target: str, names: Sequence[str], threads: int) -> None:
    with ThreadPoolExecutor(max(1, min(threads, len(names) or 1))) as pool:
        list(pool.map(lambda name: store.cp_file(f"{source}/{name}", f"{target}/{name}"), names))
