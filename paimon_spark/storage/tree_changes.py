"""Deleting and moving what lies below a directory of an fsspec store, and many objects at once.

Keys are paths in fsspec's own spelling. fsspec takes a path with ``*``, ``?`` or ``[`` for a pattern and would delete
other files as well; names of tags, branches and directories may contain them.

A table or branch on a store that cannot rename directories is moved by copies: every object is copied, then the old
ones go.

1. An object ``.rename`` is created exclusively below the new name, then below the old one: of several moves from or to
   one directory only one goes on.
2. All objects but the schema files are copied. Those whose names a rival could use (snapshots, tags, hints) are created
   exclusively, so that nothing of another is replaced.
3. If nothing has changed below the old name and all copies are there, the schema files are created below the new one,
   the oldest first, of whose name a rival that creates a table makes its own. With it the new name is a table: what
   failed before is undone, what fails later is finished when the move is run again.
4. The old schema files go, oldest first, then the objects that are still as they were copied, snapshots last. What
   another job wrote meanwhile stays, and an error names it.
5. The two ``.rename`` go, first the old name's.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spec.file_names import SCHEMA_PREFIX
from paimon_spark.storage import silence
from paimon_spark.storage.directory_entries import NO_DIRECTORIES

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


_CLAIM: Final = ".rename"
"""Object that says which move works on a directory."""
_IDENTITY: Final = "schema"
"""Directory of the files without which a directory is no table or branch."""
_NUMBERED: Final = frozenset({_IDENTITY, "snapshot", "changelog", "tag", "consumer"})
"""Directories whose files have names that are not unique."""
_HINTS: Final = frozenset({"LATEST", "EARLIEST"})

_Objects = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Move:
    """One move of a directory."""

    store: Any
    """fsspec's file system."""
    scheme: str
    """Its scheme, in fsspec's spelling."""
    source: str
    target: str
    """A directory that holds nothing."""
    create: Callable[[str, bytes], bool]
    """Creates an object unless it exists, and tells whether it did."""
    threads: int
    """How many objects are copied at once."""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def run(self) -> None:
        """Move. A store that has directories renames it; a single object is copied, then the old one goes.

        Raises:
            UnsupportedError: fsspec would take one of the names for a pattern.
            FileNotFoundError: nothing is below ``source``.
            PaimonError: something is below ``target``, another move works on one of both, or others changed what is
                below ``source``: nothing has moved. Or it has, but files are left below ``source``.
        """
        if is_pattern(self.source + self.target):
            raise UnsupportedError(
                f"'{self.source}' cannot be moved to '{self.target}': stores of '{self.scheme}:' take the characters "
                "* ? [ in a name for a pattern. Choose a name without them."
            )
        if self.scheme not in NO_DIRECTORIES:
            self.store.mv(self.source, self.target, recursive=True)
            return
        before = self._objects(self.source)
        if not before:
            if not self.store.isfile(self.source):
                raise FileNotFoundError(self.source)
            self.store.cp_file(self.source, self.target)
            self.store.rm_file(self.source)
            return
        self._claim()
        own = _schemas(before)
        try:
            self._copy([name for name in before if name not in own])
            self._check(before)
            for name in own[:1]:
                self._put(name)
        except BaseException:
            self._withdraw(before)
            raise
        with self._going_on():
            self._copy(own[1:])
            self._clear(before)

    def finish(self) -> bool:
        """Finish an earlier move of the same names that was stopped after the new name became a table.

        Returns:
            Whether there was one.

        Raises:
            PaimonError: there was, and both names are tables with different files: nothing is deleted. Or it is
                finished, but files are left below ``source``.
        """
        if self.scheme not in NO_DIRECTORIES or is_pattern(self.source + self.target):
            return False
        claim = _record(self._read(f"{self.target}/{_CLAIM}")) or {}
        if claim.get("source") != self.source or not _schemas(self._objects(self.target)):
            return False
        old = self._objects(self.source)
        if self._holder(self.source) != claim.get("id"):  # it has ended, but for its last request
            self.store.rm_file(f"{self.target}/{_CLAIM}")
            return not old
        self._copy(_schemas(old))
        copied = self._twins(old)
        if _schemas(old) and len(copied) < len(old):
            raise PaimonError(
                f"Both '{self.source}' and '{self.target}' are tables: a rename was stopped between the two, and since "
                f"then one of them has changed ({_some(set(old) - set(copied))}). Drop the one that is not needed."
            )
        with self._going_on():
            self._clear(copied)
        return True

    def _claim(self) -> None:
        record = {
            "id": self.id,
            "source": self.source,
            "target": self.target,
            "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        }
        data = json.dumps(record).encode()
        if not self.create(f"{self.target}/{_CLAIM}", data):
            raise self._busy(_record(self._read(f"{self.target}/{_CLAIM}")) or {})
        try:
            held = self._objects(self.target)
            if held:
                raise PaimonError(
                    f"'{self.target}' holds files already, '{next(iter(held))}' among them, of a table that was "
                    f"dropped while it was written perhaps: delete this directory, or choose another name."
                )
            if not self.create(f"{self.source}/{_CLAIM}", data):
                self._replace_claim(data)
        except BaseException:
            self.store.rm_file(f"{self.target}/{_CLAIM}")
            raise

    def _replace_claim(self, data: bytes) -> None:
        """Take the place of a move whose claim on the other directory is gone: it has ended."""
        claim = _record(self._read(f"{self.source}/{_CLAIM}")) or {}
        other = claim.get("source") if claim.get("target") == self.source else claim.get("target")
        if other and claim.get("id") == self._holder(other):
            raise self._busy(claim)
        self.store.rm_file(f"{self.source}/{_CLAIM}")
        if not self.create(f"{self.source}/{_CLAIM}", data):
            raise self._busy({})

    def _busy(self, claim: Mapping[str, str]) -> PaimonError:
        source, target = claim.get("source", self.source), claim.get("target", self.target)
        since = claim.get("since", "just now")
        if _schemas(self._objects(target)):
            return PaimonError(
                f"The rename of '{source}' to '{target}' ({since}) has not deleted all old files yet, or was stopped "
                "before it had: nothing is renamed now. If it is not running, run that rename again, which finishes it."
            )
        return PaimonError(
            f"'{source}' is being renamed to '{target}' ({since}), or that was stopped and '{source}' is as it was: "
            f"nothing is renamed now. If it is not running, delete the directory '{target}', which is no table, and "
            "rename again, or choose another name."
        )

    def _holder(self, directory: str) -> str | None:
        claim = _record(self._read(f"{directory}/{_CLAIM}"))
        return None if claim is None else claim.get("id")

    def _check(self, before: _Objects) -> None:
        own = _schemas(before)
        copies = self._objects(self.target)
        if self._objects(self.source) != before:
            raise PaimonError(
                f"'{self.source}' was changed by another job while it was copied to '{self.target}'. Nothing is moved: "
                "rename it while nobody writes to it."
            )
        wrong = [name for name in before if name not in own and copies.get(name, (None,))[0] != before[name][0]]
        if wrong or {self._holder(self.source), self._holder(self.target)} != {self.id}:
            raise PaimonError(
                f"Another job changed '{self.target}' ({_some(wrong) if wrong else _CLAIM}) while '{self.source}' was "
                "copied there. Nothing is moved: rename it again, or choose another name."
            )

    def _withdraw(self, before: _Objects) -> None:
        """Undo what was copied, unless the new name is, or may be, a table with these files."""
        with contextlib.suppress(Exception):  # the reason for withdrawing is what is raised
            if self._holder(self.target) != self.id or any(map(self._is_same, _schemas(before)[:1])):
                return
            copies = self._objects(self.target)
            made = [name for name in before if name in copies and (not _is_numbered(name) or self._is_same(name))]
            self._delete(self.target, made)
            self._release()

    @contextlib.contextmanager
    def _going_on(self) -> Any:
        """Errors after the new name is a table say how the move is finished."""
        try:
            yield
        except PaimonError:
            raise
        except Exception as error:
            raise PaimonError(
                f"'{self.target}' is the table now, but old files are left at '{self.source}', which is no table or an "
                f"old copy ({type(error).__name__}). Run the same rename again: it finishes this one."
            ) from error

    def _clear(self, copied: _Objects) -> None:
        """Delete what was copied and is still as it was, then say what is left."""
        for name in _schemas(copied):
            self._delete(self.source, [name])
        now = self._objects(self.source)
        same = [name for name in copied if now.get(name) == copied[name]]
        self._delete(self.source, sorted(same, key=_is_numbered))
        left = self._objects(self.source)
        kept = [name for name in left if name in same]
        if kept:
            raise PaimonError(
                f"'{self.target}' is the table now, but old files could not be deleted: {_some(kept)} at "
                f"'{self.source}'. See that they may be deleted, then run the same rename again: it finishes this one."
            )
        delete_markers(self.store, self.source)
        self._release()
        if left:
            raise PaimonError(
                f"'{self.source}' is renamed to '{self.target}', but another job wrote to it at the same time: "
                f"{_some(left)} at '{self.source}' is not in the new table and is kept. Run that job again with the "
                "new name, then delete the old directory."
            )

    def _release(self) -> None:
        for directory in (self.source, self.target):
            with contextlib.suppress(FileNotFoundError):
                self.store.rm_file(f"{directory}/{_CLAIM}")

    def _twins(self, old: _Objects) -> _Objects:
        """Which of the old objects are below the new name as well."""
        new = self._objects(self.target)
        found = [name for name in old if name in new and (name.endswith(tuple(_HINTS)) or new[name][0] == old[name][0])]
        numbered = [name for name in found if _is_numbered(name) and name.rpartition("/")[2] not in _HINTS]
        with ThreadPoolExecutor(self.threads) as pool:
            differs = {name for name, same in zip(numbered, pool.map(self._is_same, numbered), strict=True) if not same}
        return {name: old[name] for name in found if name not in differs}

    def _copy(self, names: Sequence[str]) -> None:
        with ThreadPoolExecutor(max(1, min(self.threads, len(names)))) as pool:
            list(pool.map(lambda name: self._put(name) if _is_numbered(name) else self._copy_one(name), names))

    def _copy_one(self, name: str) -> None:
        self.store.cp_file(f"{self.source}/{name}", f"{self.target}/{name}")

    def _put(self, name: str) -> None:
        """Create a small object below the new name; one with the same bytes was created by an earlier attempt."""
        data = self.store.cat_file(f"{self.source}/{name}")
        try:
            created = self.create(f"{self.target}/{name}", data)
        except Exception:
            if self._read(f"{self.target}/{name}") != data:
                raise
            return
        if not created and self._read(f"{self.target}/{name}") != data:
            raise PaimonError(
                f"Another job made '{name}' in '{self.target}' while '{self.source}' was copied there. Rename it to "
                "another name."
            )

    def _is_same(self, name: str) -> bool:
        data = self._read(f"{self.target}/{name}")
        return data is not None and data == self._read(f"{self.source}/{name}")

    def _read(self, key: str) -> bytes | None:
        try:
            return bytes(self.store.cat_file(key))
        except FileNotFoundError:
            return None

    def _delete(self, directory: str, names: Iterable[str]) -> None:
        def gone(key: str) -> bool:
            with contextlib.suppress(FileNotFoundError):
                self.store.rm_file(key)
            return True

        keys = [f"{directory}/{name}" for name in names]
        if self.scheme in BULK and len(keys) > 1:
            keys = [keys[position] for position in delete_in_bulk(self.store, keys)]
        silent = silence.at_deletes(self.store) if keys else None
        if silent is not None:
            raise silent
        each(gone, keys, self.threads)

    def _objects(self, directory: str) -> _Objects:
        """What is below a directory, by its name there: its size, and what changes when it is written anew."""
        found = self.store.find(directory, detail=True)
        names = {name[len(directory) + 1 :]: entry for name, entry in found.items() if name.startswith(f"{directory}/")}
        return {
            name: (entry.get("size"), str(entry.get("ETag") or entry.get("etag") or ""))
            for name, entry in names.items()
            if name not in ("", _CLAIM) and not name.endswith("/")  # an object that stands for a directory
        }


def _is_numbered(name: str) -> bool:
    return not _NUMBERED.isdisjoint(name.split("/")[:-1])


def _schemas(objects: Iterable[str]) -> list[str]:
    """Return the schema files, oldest first."""
    own = [name for name in objects if name.startswith(f"{_IDENTITY}/{SCHEMA_PREFIX}")]
    return sorted(own, key=lambda name: (len(name), name))


def _record(data: bytes | None) -> dict[str, str] | None:
    try:
        found = json.loads(data or b"null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else None


def _some(names: Iterable[str]) -> str:
    first, *others = sorted(names, reverse=True)
    return f"'{first}'" + (f" and {len(others)} more" if others else "")
