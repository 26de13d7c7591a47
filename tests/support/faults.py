"""A store that fails on purpose: at one chosen call, or from that call on, before or after the deed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from paimon_spark.storage.file_io import FileIO, FileStatus

Result = TypeVar("Result")
IMPATIENT = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "1 ms"}
"""Options of a table on such a store: a commit that hears nothing would wait a second for it to come back."""


class FaultyFileIO(FileIO):
    """Passes every call on to another FileIO and counts them; the call number ``fail_at`` raises.

    Args:
        inner: the store that works.
        fail_at: number of the call that fails, from 0; None never fails.
        after: the call does its deed and then raises (its answer is lost); else it does nothing.
        forever: every later call fails too, without its deed (the process is as good as dead).
        only: names of the calls that count; None counts all.
    """

    __slots__ = ("after", "calls", "fail_at", "forever", "inner", "only", "seen")

    def __init__(
        self,
        inner: FileIO,
        fail_at: int | None = None,
        *,
        after: bool = False,
        forever: bool = False,
        only: tuple[str, ...] | None = None,
    ) -> None:
        self.inner = inner
        self.fail_at = fail_at
        self.after = after
        self.forever = forever
        self.only = only
        self.calls = 0
        self.seen: list[str] = []

    @property
    def unsafe_rename(self) -> bool:  # type: ignore[override]
        return self.inner.unsafe_rename

    def _call(self, name: str, deed: Callable[[], Result]) -> Result:
        if self.only is not None and name not in self.only:
            return deed()
        number = self.calls
        self.calls += 1
        self.seen.append(name)
        if self.fail_at is None or number < self.fail_at or (number > self.fail_at and not self.forever):
            return deed()
        if number == self.fail_at and self.after:
            deed()
        raise OSError(f"injected fault at call {number} ({name})")

    def read_bytes(self, path: str) -> bytes:
        return self._call("read_bytes", lambda: self.inner.read_bytes(path))

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        return self._call("open_input", lambda: self.inner.open_input(path, size))

    def open_output(self, path: str) -> pa.NativeFile:
        return self._call("open_output", lambda: self.inner.open_output(path))

    def write_bytes(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._call("write_bytes", lambda: self.inner.write_bytes(path, data, overwrite=overwrite))

    def create_exclusive(self, path: str, data: bytes) -> bool:
        return self._call("create_exclusive", lambda: self.inner.create_exclusive(path, data))

    def exists(self, path: str) -> bool:
        return self._call("exists", lambda: self.inner.exists(path))

    def size(self, path: str) -> int:
        return self._call("size", lambda: self.inner.size(path))

    def list_names(self, path: str) -> list[FileStatus]:
        return self._call("list_names", lambda: self.inner.list_names(path))

    def mkdirs(self, path: str) -> None:
        self._call("mkdirs", lambda: self.inner.mkdirs(path))

    def rename(self, source: str, target: str) -> None:
        self._call("rename", lambda: self.inner.rename(source, target))

    def delete_quietly(self, path: str, **options: Any) -> bool:
        return self._call("delete_quietly", lambda: self.inner.delete_quietly(path, **options))

    def delete_empty_directory(self, path: str) -> bool:
        return self._call("delete_empty_directory", lambda: self.inner.delete_empty_directory(path))

    def delete_empty_tree(self, path: str) -> bool:
        return self._call("delete_empty_tree", lambda: self.inner.delete_empty_tree(path))
