"""Reading many small files of one table: several at once from a remote store, and decoded together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, tee
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import RecordedFile
    from paimon_spark.storage.file_io import FileIO

_Decoded = TypeVar("_Decoded")
_FILES_AT_ONCE = 1024
_BYTES_AT_ONCE = 8 << 20


def read_ahead(file_io: FileIO, paths: Iterator[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield each path with the file's bytes, None for missing files; several requests run at once on a remote store."""

    def if_there(path: str) -> bytes | None:
        try:
            return file_io.read_bytes(path)
        except FileNotFoundError:
            return None

    if file_io.threads == 1:
        yield from ((path, if_there(path)) for path in paths)
        return
    with ThreadPoolExecutor(file_io.threads) as pool:
        while some := list(islice(paths, file_io.threads)):
            yield from zip(some, pool.map(if_there, some), strict=True)


def decode_ahead(
    file_io: FileIO,
    files: Iterable[tuple[str, RecordedFile]],
    check: Callable[[str, bytes, int | None], None],
    decode: Callable[[Sequence[tuple[str, bytes]]], Sequence[_Decoded]],
) -> Iterator[_Decoded | None]:
    """Yield what each of many files holds, None for those that are missing.

    Args:
        file_io: where they are.
        files: the path of each and what is recorded of it.
        check: gets path, bytes and recorded size of a file that is there.
        decode: gets path and bytes of some files.
    """
    pending: list[tuple[str, bytes | None]] = []
    size = 0
    wanted, recorded = tee(files)
    found = read_ahead(file_io, (path for path, _ in wanted))
    for (path, data), (_, each) in zip(found, recorded, strict=True):
        if data is not None:
            check(path, data, each.size)
        pending.append((path, data))
        size += len(data or b"")
        if len(pending) == _FILES_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield from _decode_some(pending, decode)
            pending, size = [], 0
    yield from _decode_some(pending, decode)


def _decode_some(
    files: Sequence[tuple[str, bytes | None]], decode: Callable[[Sequence[tuple[str, bytes]]], Sequence[_Decoded]]
) -> Iterator[_Decoded | None]:
    """Decode the files that are there together; None for each that is missing."""
    decoded = iter(decode([(path, data) for path, data in files if data is not None]))
    for _, data in files:
        yield None if data is None else next(decoded)
