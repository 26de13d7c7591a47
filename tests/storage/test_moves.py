"""Moves that copy: stopped at each request, alongside other moves and writers at each request, nothing is ever lost."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paimon_spark.errors import PaimonError
from paimon_spark.storage.directory_entries import make_directory
from paimon_spark.storage.tree_changes import Move

OLD, NEW = "/wh/old", "/wh/new"
FILES = {
    f"{OLD}/{name}": name.encode()
    for name in (
        "schema/schema-0",
        "schema/schema-1",
        "snapshot/snapshot-1",
        "snapshot/LATEST",
        "tag/tag-a",
        "bucket-0/data-2.parquet",
        "manifest/manifest-1",
    )
}
COPIED = {path.replace(OLD, NEW): data for path, data in FILES.items()}


class Killed(BaseException):
    """The process is gone: nothing that it would do afterwards happens."""


class ObjectStore(MemoryFileSystem):
    """Objects of this test alone, with tags that change with them; something can happen before a chosen request."""

    cachable = False
    protocol = "objects"

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]
        self.requests = 0
        self.at: dict[int, Callable[[], None]] = {}
        self._inside = threading.local()

    def request(self, name: str, *given: Any, **options: Any) -> Any:
        self.requests += 1
        happens = self.at.get(self.requests - 1)
        if happens:
            happens()
        return getattr(MemoryFileSystem, name)(self, *given, **options)

    def find(self, path: str, **options: Any) -> Any:  # type: ignore[override]
        found = self.request("find", path, **options)
        for name, entry in found.items():
            if entry["type"] == "file":
                entry["ETag"] = hashlib.md5(self.store[name].getvalue()).hexdigest()
        return found

    def cp_file(self, *given: Any, **options: Any) -> None:
        self.request("cp_file", *given, **options)

    def rm_file(self, *given: Any, **options: Any) -> None:
        self.request("rm_file", *given, **options)

    def cat_file(self, *given: Any, **options: Any) -> Any:
        return self.request("cat_file", *given, **options)

    def create(self, key: str, data: bytes) -> bool:
        try:
            self.request("pipe_file", key, data, mode="create")
        except FileExistsError:
            return False
        return True

    def move(self, source: str = OLD, target: str = NEW) -> Move:
        return Move(self, "s3", source, target, self.create, 1)

    def put(self, key: str, data: bytes) -> None:
        MemoryFileSystem.pipe_file(self, key, data)

    def delete(self, directory: str) -> None:
        for key in [key for key in self.store if key.startswith(f"{directory}/")]:
            del self.store[key]

    def contents(self) -> dict[str, bytes]:
        return {key: file.getvalue() for key, file in self.store.items()}


def filled() -> ObjectStore:
    store = ObjectStore()
    for path, data in FILES.items():
        store.put(path, data)
    return store


def requests_of_a_move() -> int:
    store = filled()
    store.move().run()
    assert store.contents() == COPIED
    return store.requests


REQUESTS = requests_of_a_move()


def is_table(contents: dict[str, bytes], directory: str) -> bool:
    return any(path.startswith(f"{directory}/schema/schema-") for path in contents)


def whole(contents: dict[str, bytes], expected: dict[str, bytes]) -> bool:
    return expected.items() <= contents.items()


@pytest.mark.parametrize("number", range(REQUESTS))
def test_a_move_that_is_killed_is_finished_or_named(number: int) -> None:
    store = filled()

    def killed() -> None:
        store.at = dict.fromkeys(range(number, 10_000), killed)
        raise Killed

    store.at = {number: killed}
    with pytest.raises(Killed):
        store.move().run()
    store.at = {}
    left = store.contents()
    assert whole(left, FILES) or whole(left, COPIED)
    if store.move().finish():
        assert store.contents() == COPIED
        return
    assert whole(left, FILES)
    assert not is_table(left, NEW)  # never half a table
    if any(path.startswith(NEW) for path in left):
        with pytest.raises(PaimonError, match=r"nothing is renamed now.*delete the directory '/wh/new'"):
            store.move().run()
        assert store.contents() == left
        store.delete(NEW)
    store.move().run()
    assert store.contents() == COPIED


@pytest.mark.parametrize("number", range(REQUESTS))
def test_a_request_that_fails_leaves_one_table_or_says_how_to_go_on(number: int) -> None:
    store = filled()

    def fails() -> None:
        raise OSError("slow down")

    store.at = {number: fails}
    message = undone = ""
    try:
        store.move().run()
    except OSError as error:
        undone = str(error)
    except PaimonError as error:
        message = str(error)
    if undone:
        assert store.contents() == FILES
        return
    if message:
        assert "Run the same rename again: it finishes this one" in message
        assert store.move().finish()
    assert store.contents() == COPIED


@pytest.mark.parametrize("other", [("/wh/old", "/wh/else"), ("/wh/third", "/wh/new"), ("/wh/old", "/wh/new")])
def test_of_two_moves_with_one_name_in_common_one_is_done(other: tuple[str, str]) -> None:
    third = {path.replace(OLD, "/wh/third"): b"third" for path in FILES}
    for number in range(REQUESTS):
        store = filled()
        for path, data in third.items():
            store.put(path, data)
        done: list[bool] = []

        def meanwhile(store: ObjectStore = store, done: list[bool] = done) -> None:
            store.at = {}
            try:
                store.move(*other).run()
            except (PaimonError, FileNotFoundError):
                done.append(False)
            else:
                done.append(True)

        store.at = {number: meanwhile}
        try:
            store.move().run()
        except (PaimonError, FileNotFoundError):
            assert done == [True]
        else:
            assert done == [False]
        table = FILES if other[0] == OLD else third
        moved = {path.replace(other[0], other[1]): data for path, data in table.items()}
        rest = third if other[0] == OLD else FILES
        one = {**rest, **moved} if done == [True] else {**third, **COPIED}
        assert store.contents() == one, f"alongside request {number}"


@pytest.mark.parametrize("name", ["snapshot/snapshot-2", "bucket-0/data-late", "tag/tag-b"])
def test_what_is_written_meanwhile_is_kept(name: str) -> None:
    late = {f"{OLD}/{name}": b"late"}
    for number in range(REQUESTS):
        store = filled()
        store.at = {number: lambda store=store: store.put(f"{OLD}/{name}", b"late")}  # type: ignore[misc]
        failed = None
        try:
            store.move().run()
        except PaimonError as error:
            failed = str(error)
        if failed is None:  # before the move looked, or after it had ended
            assert store.contents() in ({**COPIED, f"{NEW}/{name}": b"late"}, {**COPIED, **late})
        elif "Nothing is moved" in failed:
            assert store.contents() == {**FILES, **late}
        else:
            assert f"'{name}' at '{OLD}' is not in the new table and is kept" in failed
            assert store.contents() == {**COPIED, **late}


@pytest.mark.parametrize("name", ["schema/schema-0", "snapshot/snapshot-1", "snapshot/snapshot-2"])
def test_what_a_rival_creates_at_the_new_name_is_kept(name: str) -> None:
    won = 0
    for number in range(REQUESTS):
        store = filled()
        rival: list[bool] = []

        def meanwhile(store: ObjectStore = store, rival: list[bool] = rival) -> None:
            store.at = {}
            rival.append(store.create(f"{NEW}/{name}", b"rival"))

        store.at = {number: meanwhile}
        try:
            store.move().run()
        except PaimonError:
            won += 1
            assert store.contents() == {**FILES, f"{NEW}/{name}": b"rival"}
        else:
            expected = {**COPIED, f"{NEW}/{name}": b"rival"} if rival == [True] else COPIED
            assert store.contents() == expected
            assert rival == [False] or name == "snapshot/snapshot-2"
    assert won


def test_a_table_that_was_used_since_is_not_taken_for_the_copy() -> None:
    store = filled()

    def killed() -> None:
        store.at = dict.fromkeys(range(10_000), killed)
        raise Killed

    def stop_when_both_are_there() -> None:
        contents = store.contents()
        if whole(contents, FILES) and whole(contents, COPIED):
            killed()

    store.at = dict.fromkeys(range(REQUESTS), stop_when_both_are_there)
    with pytest.raises(Killed):
        store.move().run()
    store.at = {}
    store.put(f"{OLD}/snapshot/snapshot-2", b"old")
    store.put(f"{NEW}/snapshot/snapshot-2", b"new")
    before = store.contents()
    with pytest.raises(PaimonError, match=r"Both '/wh/old' and '/wh/new' are tables.*'snapshot/snapshot-2'"):
        store.move().finish()
    assert store.contents() == before
    store.put(f"{OLD}/snapshot/snapshot-2", b"new")
    assert store.move().finish()
    assert store.contents() == {**COPIED, f"{NEW}/snapshot/snapshot-2": b"new"}


def test_the_claim_of_a_move_that_ended_otherwise_is_replaced() -> None:
    store = filled()
    store.put(f"{OLD}/.rename", b'{"id": "1", "source": "/wh/old", "target": "/wh/dropped"}')
    store.move().run()
    assert store.contents() == COPIED
    stale = b'{"id": "1", "source": "/wh/old", "target": "/wh/new"}'  # the old one was dropped and made anew
    store.put(f"{NEW}/.rename", stale)
    store.put(f"{OLD}/schema/schema-0", b"another")
    assert not store.move().finish()
    assert store.contents() == {**COPIED, f"{OLD}/schema/schema-0": b"another"}
    store.put(f"{NEW}/.rename", stale)
    store.delete(OLD)
    store.move(NEW, OLD).run()
    assert store.contents() == FILES


class Oss:
    """What is asked of ossfs to make a directory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def exists(self, key: str) -> bool:
        return key in self.objects or f"{key}/" in self.objects

    def pipe_file(self, key: str, data: bytes) -> None:
        self.objects[key] = data


def test_a_directory_of_oss_is_an_object() -> None:
    store = Oss()
    for _ in range(2):
        make_directory(store, "oss", "bucket/wh/d.db")
    make_directory(store, "oss", "bucket")
    assert store.objects == {"bucket/wh/d.db/": b""}


def test_a_single_object_is_moved() -> None:
    """As the files of a format table are, which an engine wrote."""
    store = ObjectStore()
    store.pipe_file("/wh/t/.staged/part-0.csv", b"1")
    Move(store, "s3", "/wh/t/.staged/part-0.csv", "/wh/t/part-0.csv", store.create, 1).run()
    assert {name: bytes(entry.getvalue()) for name, entry in store.store.items()} == {"/wh/t/part-0.csv": b"1"}
    with pytest.raises(FileNotFoundError):
        Move(store, "s3", "/wh/t/.staged/part-0.csv", "/wh/t/part-1.csv", store.create, 1).run()
